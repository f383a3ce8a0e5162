//! State on the real kernel: what one run leaves and another one begins with.
#![allow(clippy::unwrap_used, reason = "a test may stop")]

use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ringfence_control::{
    About, Attachments, CommandEvent, CommandRequest, OutputTo, Progress, ReplayError, ReplayRequest, RunReport, RunRequest, Runner,
    Session, SessionError, SessionRequest, Sessions, Settings, find_profile,
};
use ringfence_evidence::{ClosedBy, Event, RunEnd, read_chain};
use ringfence_isolation::OsText;
use ringfence_policy::{AgentId, Layer};
use ringfence_store::{Home, StateKind, StateRow, Viewer};

struct Place {
    _folder: tempfile::TempDir,
    home: Home,
    runner: Runner,
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::open(&folder.path().join("home")).unwrap();
    let settings = Settings::load(&home.settings(), true).unwrap();
    let runner = Runner::open(home.clone(), settings).unwrap();
    Place { _folder: folder, home, runner }
}

struct Heard(Vec<String>);

impl Progress for Heard {
    fn tell(&mut self, _: &str, _: u64) {}

    fn warn(&mut self, text: &str) {
        self.0.push(text.into());
    }
}

impl Place {
    fn request(&self, profile: &str, state: Option<&str>, script: &str) -> RunRequest {
        let argv = ["bash", "-c", script].map(OsText::from).to_vec();
        let mut request = RunRequest::bare(find_profile(&self.home, profile).unwrap(), AgentId::local(), argv);
        request.state = state.map(|name| name.parse().unwrap());
        request
    }

    fn run(&self, request: &RunRequest) -> RunReport {
        let mut heard = Heard(Vec::new());
        let attachments = Attachments { output: OutputTo::Report, progress: &mut heard, cancel: None };
        let report = self.runner.run(request, attachments).unwrap();
        assert_eq!(heard.0, report.warnings);
        report
    }

    /// A run of the state `notes`: what it said, how it ended, and its status.
    fn notes(&self, script: &str) -> (String, RunEnd, i32) {
        let report = self.run(&self.request("data-analysis", Some("notes"), script));
        (report.stdout.unwrap_or_default(), report.end, report.exit_status)
    }

    fn events(&self, run: &str) -> Vec<Event> {
        let path: &Path = &self.home.runs().join(run).join("events.jsonl");
        read_chain(&std::fs::read(path).unwrap()).unwrap().into_iter().map(|line| line.event).collect()
    }

    fn state(&self) -> Option<StateRow> {
        self.runner.states().named(None, "notes").unwrap()
    }

    fn file(&self, state: &StateRow, name: &str) -> std::path::PathBuf {
        self.home.states().join("named/notes").join(state.id.as_str()).join(name)
    }
}

const DONE: RunEnd = RunEnd::Exited { code: 0 };

fn at(events: &[Event], is: fn(&Event) -> bool) -> Vec<usize> {
    events.iter().enumerate().filter(|(_, event)| is(event)).map(|(at, _)| at).collect()
}

#[test]
fn a_run_begins_with_what_the_last_one_of_the_name_left() {
    let place = place();
    assert_eq!(place.notes("ls -A /workspace /tmp; echo one > note; echo t > /tmp/t; exit 3").2, 3, "a command that fails is kept as well");
    let first = place.state().unwrap();
    let report = place.run(&place.request("data-analysis", Some("notes"), "cat note /tmp/t; echo two >> note"));
    assert_eq!((report.stdout.as_deref(), &report.end), (Some("one\nt\n"), &DONE));
    let second = place.state().unwrap();
    assert_eq!((second.said.parent.as_ref(), &second.said.run, second.said.kind), (Some(&first.id), &report.run, StateKind::Named));
    let told = report.state.unwrap();
    assert_eq!((told.name.as_deref(), told.restored.unwrap().id), (Some("notes"), first.id.to_string()));
    assert_eq!(told.saved.iter().map(|kept| kept.id.as_str()).collect::<Vec<_>>(), [second.id.as_str()]);
    let events = place.events(&report.run);
    let [restored, started, dead, saved, ended] = [
        |e: &Event| matches!(e, Event::StateRestored { .. }),
        |e: &Event| matches!(e, Event::CommandStarting { .. }),
        |e: &Event| matches!(e, Event::SandboxEnded { .. }),
        |e: &Event| matches!(e, Event::StateSaved { .. }),
        |e: &Event| matches!(e, Event::RunEnded { .. }),
    ]
    .map(|is| at(&events, is));
    assert!(restored < started && started < dead && dead < saved && saved < ended && ended.len() == 1, "{events:?}");
    assert_eq!(place.notes("cat note").0, "one\ntwo\n");
    let mut heard = Heard(Vec::new());
    let attachments = Attachments { output: OutputTo::Report, progress: &mut heard, cancel: None };
    let again = place.runner.replay(&report.run.parse().unwrap(), &ReplayRequest::default(), attachments).unwrap_err();
    assert!(matches!(&again, ReplayError::NotRun { cause, .. } if cause.contains("files of an earlier run")), "{again}");
    // A run that names no state has none.
    let report = place.run(&place.request("data-analysis", None, "ls -A"));
    assert_eq!((report.stdout.as_deref(), report.state), (Some(""), None));
}

/// Room for 16 MiB in 100 files: what is kept of it has less than 18 MiB.
fn small(request: &mut RunRequest) {
    request.limits.parse_and_set("disk=16MiB").unwrap();
    request.limits.parse_and_set("files=100").unwrap();
}

#[test]
fn what_was_cut_short_or_does_not_fit_is_not_kept() {
    let place = place();
    place.notes("echo good > note");
    let kept = place.state().unwrap();
    let mut request = place.request("data-analysis", Some("notes"), "echo bad > note; sleep 60");
    request.limits.parse_and_set("wall=1s").unwrap();
    let report = place.run(&request);
    assert_eq!(
        (report.exit_status, report.warnings.as_slice()),
        (124, &["state `notes` stays as it was: the run met its wall limit".to_owned()][..])
    );
    assert_eq!(at(&place.events(&report.run), |e| matches!(e, Event::StateNotSaved { .. })).len(), 1);
    let mut request = place.request("data-analysis", Some("notes"), "echo bad > note; truncate -s 12M a b");
    small(&mut request);
    let report = place.run(&request);
    assert_eq!((report.exit_status, &report.end), (123, &DONE));
    assert!(report.warnings[0].contains("`workspace/b` does not fit"), "{:?}", report.warnings);
    assert_eq!(place.state().unwrap().id, kept.id);
    assert_eq!(place.notes("cat note").0, "good\n");
    assert!(!std::fs::read_dir(place.home.states()).unwrap().any(|e| e.unwrap().file_name().to_string_lossy().starts_with("draft-")));
}

#[test]
fn a_state_has_one_run_at_a_time() {
    let place = place();
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| place.notes("echo slow > note; sleep 2"));
        while place.runner.states().lock(None, "notes", "a look").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(100)); // until its name is written
        let (_, end, status) = place.notes("echo quick > note");
        let RunEnd::Refused { rule, .. } = end else { unreachable!("{end:?}") };
        assert!(rule.starts_with("state `notes` is in use by run 0") && status == 125, "{rule}");
        let mut other = place.request("data-analysis", Some("notes"), "ls");
        other.tenant = Some("acme".parse().unwrap());
        assert_eq!(place.run(&other).end, DONE, "another tenant's state is another one");
        assert_eq!(slow.join().unwrap().2, 0);
    });
    assert_eq!(place.notes("cat note").0, "slow\n");
}

#[test]
fn who_may_not_have_it_is_refused() {
    let place = place();
    let refused = |request: &RunRequest| {
        let report = place.run(request);
        let RunEnd::Refused { rule, layer, .. } = report.end else { unreachable!("{:?}", report.end) };
        (rule, layer)
    };
    let scratch = refused(&place.request("scratch", Some("notes"), "true"));
    assert!(scratch.0.contains("state `notes` is not allowed") && scratch.1 == Layer::Profile, "{scratch:?}");
    let mut project = place.request("data-analysis", Some("notes"), "true");
    let folder = tempfile::tempdir().unwrap();
    project.project = Some(folder.path().into());
    assert_eq!(refused(&project).1, Layer::Request);
    place.notes("echo x > note");
    let state = place.state().unwrap();
    let document = place.file(&state, "state.json");
    let text = std::fs::read_to_string(&document).unwrap();
    std::fs::write(&document, text.replace("\"agent\": \"me\"", "\"agent\": \"other\"")).unwrap();
    let theirs = refused(&place.request("data-analysis", Some("notes"), "true"));
    assert!(theirs.0.contains("is agent `other`'s"), "{theirs:?}");
    let mut both = place.request("data-analysis", Some("notes"), "true");
    both.from = Some(state.id);
    assert_eq!(refused(&both).1, Layer::Request);
}

#[test]
fn nothing_starts_with_what_is_damaged() {
    let place = place();
    place.notes("head -c 3M /dev/zero > big; echo x > zz");
    let state = place.state().unwrap();
    let mut tar = std::fs::File::options().read(true).write(true).open(place.file(&state, "files.tar")).unwrap();
    let mut byte = [0];
    tar.seek(SeekFrom::Start(1 << 20)).unwrap();
    tar.read_exact(&mut byte).unwrap();
    tar.seek(SeekFrom::Start(1 << 20)).unwrap();
    tar.write_all(&[byte[0] ^ 1]).unwrap();
    let report = place.run(&place.request("data-analysis", Some("notes"), "echo started"));
    let RunEnd::Failed { step, cause: Some(cause) } = &report.end else { unreachable!("{:?}", report.end) };
    assert!(step == "restore the state" && cause.contains("its digest is") && report.exit_status == 125, "{step}: {cause}");
    assert!(at(&place.events(&report.run), |e| matches!(e, Event::CommandStarting { .. })).is_empty());
    assert_eq!(place.state().unwrap().id, state.id);
}

fn sessions(place: Place) -> (Place, Sessions, Arc<Runner>) {
    let settings = Settings::load(&place.home.settings(), true).unwrap();
    let runner = Arc::new(Runner::open(place.home.clone(), settings).unwrap());
    let sessions = Sessions::of(runner.clone(), 8);
    (place, sessions, runner)
}

fn session_request(place: &Place, from: Option<&StateRow>) -> SessionRequest {
    let mut run = RunRequest::bare(find_profile(&place.home, "base").unwrap(), AgentId::local(), Vec::new());
    run.tenant = Some("acme".parse().unwrap());
    run.from = from.map(|state| state.id.clone());
    let metadata = [("user".to_owned(), "42".to_owned())].into();
    SessionRequest { run, time: None, about: About { tenant: "acme".into(), agent: "me".into(), profile: "base".into(), metadata } }
}

async fn said(session: &Session, script: &str) -> String {
    let request = CommandRequest { argv: ["bash", "-c", script].map(OsText::from).to_vec(), ..CommandRequest::default() };
    let (_, mut listening) = session.start(request).await.unwrap();
    let mut out = Vec::new();
    while let Some((_, event)) = tokio::time::timeout(Duration::from_secs(20), listening.next()).await.unwrap() {
        match event {
            CommandEvent::Stdout(bytes) => out.extend(bytes),
            CommandEvent::Ended(_) => break,
            CommandEvent::Started { .. } | CommandEvent::Stderr(_) => {}
        }
    }
    String::from_utf8(out).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_kept_while_it_goes_on_and_others_begin_with_it() {
    let (place, sessions, runner) = sessions(place());
    let session = sessions.create(session_request(&place, None)).await.unwrap();
    said(&session, "echo one > note; echo t > /tmp/t").await;
    let snapshot = sessions.snapshot(&session, serde_json::json!({ "port": 8080 })).await.unwrap();
    said(&session, "echo two > note").await;
    assert_eq!(
        (snapshot.said.kind, snapshot.said.metadata["user"].as_str(), &snapshot.said.about["port"]),
        (StateKind::Snapshot, "42", &8080.into())
    );
    for _ in 0..2 {
        let fork = sessions.create(session_request(&place, Some(&snapshot))).await.unwrap();
        assert_eq!(said(&fork, "cat note /tmp/t; echo fork > note").await, "one\nt\n");
        let events = place.events(fork.run.as_str());
        assert!(events.iter().any(|e| matches!(e, Event::StateRestored { state, .. } if state == snapshot.id.as_str())));
        fork.close(ClosedBy::Request).await.unwrap();
    }
    assert_eq!(said(&session, "cat note").await, "two\n");
    let run = session.run.to_string();
    session.close(ClosedBy::Request).await.unwrap();
    assert!(place.events(&run).iter().any(|e| matches!(e, Event::StateSaved { kind, .. } if kind == "snapshot")));
    assert!(sessions.snapshot(&session, serde_json::Value::Null).await.is_err(), "it has ended");
    // Another tenant's is not there.
    let mut stranger = session_request(&place, Some(&snapshot));
    stranger.run.tenant = Some("other".parse().unwrap());
    let refused = sessions.create(stranger).await.unwrap_err();
    assert!(matches!(&refused, SessionError::Refused(refusal) if refusal.rule.contains("there is no state")), "{refused}");
    let listed = runner.states().list(&Viewer { tenant: "acme".into(), sees_the_command_line: false }).unwrap();
    assert_eq!(listed.iter().map(|state| (&state.id, state.used_at > state.created_at)).collect::<Vec<_>>(), [(&snapshot.id, true)]);
}

/// One at a time: the end waits for a snapshot that is under way, which then stands on record too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_paused_while_it_is_saved_is_kept_twice() {
    let (place, sessions, _runner) = sessions(place());
    let sessions = Arc::new(sessions);
    let session = sessions.create(session_request(&place, None)).await.unwrap();
    said(&session, "head -c 40M /dev/urandom > big; echo x > shut; chmod 000 shut").await;
    let (saving, saved) = (sessions.clone(), session.clone());
    let saving = tokio::spawn(async move { saving.snapshot(&saved, serde_json::Value::Null).await });
    let is_under_way = || {
        let names = std::fs::read_dir(place.home.root().join("states")).unwrap().flatten();
        names.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().starts_with("draft-"))
    };
    while !is_under_way() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let report = session.pause(serde_json::Value::Null).await.unwrap().unwrap();
    assert_eq!(report.end, RunEnd::Closed { by: ClosedBy::Pause });
    assert!(saving.is_finished(), "it ended before what was saved of it was whole");
    saving.await.unwrap().unwrap();
    let kinds: Vec<String> = place
        .events(session.run.as_str())
        .into_iter()
        .filter_map(|event| if let Event::StateSaved { kind, .. } = event { Some(kind) } else { None })
        .collect();
    assert_eq!(kinds, ["snapshot", "paused"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_session_goes_on_in_another_run() {
    let (place, sessions, runner) = sessions(place());
    let session = sessions.create(session_request(&place, None)).await.unwrap();
    said(&session, "echo kept > note").await;
    let report = session.pause(serde_json::json!({ "template": "base" })).await.unwrap().unwrap();
    assert_eq!(report.end, RunEnd::Closed { by: ClosedBy::Pause });
    let kept = &report.state.as_ref().unwrap().saved[0];
    let viewer = Viewer { tenant: "acme".into(), sees_the_command_line: false };
    // As a server that was started again finds it.
    let row = runner.states().get(&kept.id.parse().unwrap(), &viewer).unwrap().unwrap();
    assert_eq!((row.said.kind, row.said.about["template"].as_str(), row.said.profile.as_str()), (StateKind::Paused, Some("base"), "base"));
    let events = place.events(&report.run);
    assert!(at(&events, |e| matches!(e, Event::StateSaved { .. })) > at(&events, |e| matches!(e, Event::SandboxEnded { .. })));
    let mut request = session_request(&place, Some(&row));
    small(&mut request.run);
    let resumed = sessions.create(request).await.unwrap();
    assert_eq!(said(&resumed, "cat note; truncate -s 12M a b; ls").await, "kept\na\nb\nnote\n");
    // What cannot be kept is no pause.
    let report = resumed.pause(serde_json::Value::Null).await.unwrap().unwrap();
    let RunEnd::Failed { step, cause: Some(cause) } = &report.end else { unreachable!("{:?}", report.end) };
    assert!(step == "keep the files of the session" && cause.contains("does not fit"), "{step}: {cause}");
    assert_eq!(runner.states().list(&viewer).unwrap().len(), 1);
    let fleeting = SessionRequest {
        run: RunRequest::bare(find_profile(&place.home, "code-change").unwrap(), AgentId::local(), Vec::new()),
        time: None,
        about: About::default(),
    };
    let session = sessions.create(fleeting).await.unwrap();
    assert!(matches!(session.pause(serde_json::Value::Null).await, Err(SessionError::Refused(_))));
    assert!(matches!(sessions.snapshot(&session, serde_json::Value::Null).await, Err(SessionError::Refused(_))));
    session.close(ClosedBy::Request).await.unwrap();
}
