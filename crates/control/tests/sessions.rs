//! Sessions on the real kernel: commands, their words, their ends, and what stands on record.
#![allow(clippy::unwrap_used, reason = "a test may stop")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringfence_control::{
    About, CommandEvent, CommandRequest, ListenFrom, RunRequest, Runner, Session, SessionError, SessionRequest, Sessions, Settings,
    Subscription, Which, find_profile,
};
use ringfence_evidence::{ClosedBy, Event, RunEnd, read_chain};
use ringfence_isolation::OsText;
use ringfence_policy::AgentId;
use ringfence_store::Home;

struct Place {
    _folder: tempfile::TempDir,
    home: Home,
    sessions: Arc<Sessions>,
}

fn place(most: usize) -> Place {
    pooled(most, 0)
}

/// A place with sandboxes made ahead.
fn pooled(most: usize, ahead: usize) -> Place {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::open(&folder.path().join("home")).unwrap();
    let settings = Settings::load(&home.settings(), true).unwrap();
    let runner = Runner::open(home.clone(), settings).unwrap().with_pool(ahead).unwrap();
    Place { _folder: folder, home, sessions: Arc::new(Sessions::of(Arc::new(runner), most)) }
}

fn request(home: &Home, profile: &str) -> SessionRequest {
    let run = RunRequest::bare(find_profile(home, profile).unwrap(), AgentId::local(), Vec::new());
    SessionRequest { run, time: None, about: About::default() }
}

fn bash(script: &str) -> CommandRequest {
    CommandRequest { argv: ["bash", "-c", script].map(OsText::from).to_vec(), ..CommandRequest::default() }
}

async fn all(mut listening: Subscription) -> (String, String, Option<RunEnd>) {
    let (mut out, mut err, mut end) = (Vec::new(), Vec::new(), None);
    while let Some((_, event)) = tokio::time::timeout(Duration::from_secs(20), listening.next()).await.unwrap() {
        match event {
            CommandEvent::Started { .. } => {}
            CommandEvent::Stdout(bytes) => out.extend(bytes),
            CommandEvent::Stderr(bytes) => err.extend(bytes),
            CommandEvent::Ended(ended) => {
                end = Some(ended.end);
                break;
            }
        }
    }
    (String::from_utf8_lossy(&out).into_owned(), String::from_utf8_lossy(&err).into_owned(), end)
}

async fn run(session: &Session, script: &str) -> (String, String, Option<RunEnd>) {
    all(session.start(bash(script)).await.unwrap().1).await
}

const DONE: Option<RunEnd> = Some(RunEnd::Exited { code: 0 });

fn events(home: &Home, run: &str) -> Vec<Event> {
    let path: &Path = &home.runs().join(run).join("events.jsonl");
    read_chain(&std::fs::read(path).unwrap()).unwrap().into_iter().map(|line| line.event).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_a_run_with_many_commands() {
    let place = place(4);
    let session = place.sessions.create(request(&place.home, "base")).await.unwrap();
    assert_eq!(
        run(&session, "pwd; id -un; echo $HOME; echo x > kept; echo oh >&2").await,
        ("/home/user\nuser\n/home/user\n".into(), "oh\n".into(), DONE)
    );
    assert_eq!(run(&session, "cat kept; exit 3").await, ("x\n".into(), String::new(), Some(RunEnd::Exited { code: 3 })));
    let mut missing = bash("true");
    missing.folder = Some("/nowhere".into());
    let (_, _, end) = all(session.start(missing).await.unwrap().1).await;
    assert!(matches!(&end, Some(RunEnd::Failed { step, .. }) if step == "enter the folder"), "{end:?}");
    let run = session.run.to_string();
    let report = session.close(ClosedBy::Request).await.unwrap();
    assert_eq!(report.end, RunEnd::Closed { by: ClosedBy::Request });
    assert!(place.sessions.find(&run).is_none() && session.is_over());
    assert!(matches!(session.start(bash("true")).await, Err(SessionError::Gone)));
    let events = events(&place.home, &run);
    let started = events.iter().filter(|e| matches!(e, Event::CommandStarting { .. })).count();
    let ended = events.iter().filter(|e| matches!(e, Event::CommandEnded { .. })).count();
    assert_eq!((started, ended), (3, 3));
    assert_eq!(events.last(), Some(&Event::RunEnded { end: report.end.clone() }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_that_goes_away_ends_nothing_and_one_that_comes_later_hears_the_rest() {
    let place = place(4);
    let session = place.sessions.create(request(&place.home, "base")).await.unwrap();
    let reading = CommandRequest { has_stdin: true, ..bash("echo one; read line; echo got $line; read line; echo end $line") };
    let (command, mut first) = session.start(reading).await.unwrap();
    let Some((0, CommandEvent::Started { pid })) = first.next().await else { unreachable!() };
    drop(first);
    let found = session.find(&Which::Pid(pid)).unwrap();
    assert_eq!(found.number, command.number);
    session.feed(&command, b"a\n".to_vec()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let late = found.listen(ListenFrom::Now);
    let whole = found.listen(ListenFrom::Number(0));
    session.feed(&command, b"b\n".to_vec()).await.unwrap();
    assert_eq!(all(late).await, ("end b\n".into(), String::new(), DONE));
    assert_eq!(all(whole).await.0, "one\ngot a\nend b\n");
    assert_eq!(all(found.listen(ListenFrom::Now)).await, (String::new(), String::new(), DONE), "who comes too late hears the end");
    session.close(ClosedBy::Request).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn time_ends_commands_and_sessions() {
    let place = place(4);
    let session = place.sessions.create(request(&place.home, "base")).await.unwrap();
    let begun = Instant::now();
    let (command, listening) = session.start(CommandRequest { wall: Some(Duration::from_millis(300)), ..bash("sleep 83") }).await.unwrap();
    assert_eq!(all(listening).await.2, Some(RunEnd::Signaled { signal: "SIGKILL".into() }));
    assert!(command.end().unwrap().is_out_of_time && begun.elapsed() < Duration::from_secs(5));
    session.set_left(Duration::from_millis(300)).unwrap();
    let report = session.sealed().await.unwrap();
    assert_eq!(report.end, RunEnd::Closed { by: ClosedBy::Timeout });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_had_is_refused() {
    let place = place(1);
    let refused = place.sessions.create(request(&place.home, "no-code")).await.unwrap_err();
    assert!(matches!(&refused, SessionError::Refused(refusal) if refusal.rule.contains("no execution surface")), "{refused}");
    let narrow = place.home.root().join("narrow.toml");
    std::fs::write(
        &narrow,
        include_str!("../../../profiles/data-analysis.toml")
            .replace("\"data-analysis\"", "\"narrow\"")
            .replace("allow = [\"*\"]", "allow = [\"MODE\"]"),
    )
    .unwrap();
    let session = place.sessions.create(request(&place.home, narrow.to_str().unwrap())).await.unwrap();
    let busy = place.sessions.create(request(&place.home, "base")).await.unwrap_err();
    assert!(matches!(busy, SessionError::Busy { most: 1 }), "{busy}");
    let variable = CommandRequest { environment: vec![("LD_PRELOAD".parse().unwrap(), "x".into())], ..bash("true") };
    let refused = session.start(variable).await.unwrap_err();
    assert!(matches!(&refused, SessionError::Refused(_)), "{refused}");
    assert_eq!(run(&session, "pwd").await.0, "/workspace\n");
    place.sessions.close_all(ClosedBy::Shutdown).await;
    assert_eq!(session.sealed().await.unwrap().end, RunEnd::Closed { by: ClosedBy::Shutdown });
    assert!(std::fs::read_dir(place.home.live()).unwrap().next().is_none(), "nothing is left to sweep");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_listener_loses_nothing() {
    let place = place(1);
    let session = place.sessions.create(request(&place.home, "base")).await.unwrap();
    let (_, mut listening) = session.start(bash("for n in $(seq 300000); do echo line $n; done")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut text = Vec::new();
    while let Some((_, event)) = listening.next().await {
        match event {
            CommandEvent::Stdout(bytes) => text.extend(bytes),
            CommandEvent::Ended(_) => break,
            _ => {}
        }
    }
    let text = String::from_utf8(text).unwrap();
    assert_eq!((text.lines().count(), text.lines().last()), (300_000, Some("line 300000")));
    session.close(ClosedBy::Request).await.unwrap();
}

/// Names in the folder of marks.
fn marks(home: &Home) -> Vec<String> {
    std::fs::read_dir(home.live()).unwrap().flatten().map(|entry| entry.file_name().into_string().unwrap()).collect()
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..400 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    assert!(is_so(), "{what}");
}

/// What was made ahead is a sandbox like any other: fresh, with its own time and its own record; and nothing of it is left at the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sandboxes_made_ahead_are_had_by_one_session_each() {
    let place = pooled(8, 2);
    let first = place.sessions.create(request(&place.home, "base")).await.unwrap();
    until("two are made ahead", || marks(&place.home).len() == 3).await;
    let ahead: Vec<String> = marks(&place.home).into_iter().filter(|name| *name != first.run.as_str()).collect();
    assert_eq!(run(&first, "echo mine > /tmp/x; echo mine > x; sleep 83 & echo").await.2, DONE);
    let second = place.sessions.create(request(&place.home, "base")).await.unwrap();
    let trace = std::fs::read_to_string(place.home.live().join(second.run.as_str())).unwrap();
    assert!(ahead.iter().any(|name| trace.contains(name.as_str())), "it has one of those that were made ahead: {trace}");
    assert_eq!(run(&second, "ls -A /tmp . ; pgrep sleep; pwd; id -un").await.0, ".:\n\n/tmp:\n/home/user\nuser\n");
    let mut other = request(&place.home, "base");
    other.run.limits.parse_and_set("memory=300MiB").unwrap();
    let third = place.sessions.create(other).await.unwrap();
    let trace = std::fs::read_to_string(place.home.live().join(third.run.as_str())).unwrap();
    assert!(!trace.contains("\"name\""), "another plan has another sandbox: {trace}");
    let (_, listening) = second.start(CommandRequest { wall: Some(Duration::from_millis(200)), ..bash("sleep 83") }).await.unwrap();
    assert_eq!(all(listening).await.2, Some(RunEnd::Signaled { signal: "SIGKILL".into() }));
    let report = second.close(ClosedBy::Request).await.unwrap();
    assert!(report.usage.wall_ms < 60_000 && report.warning.is_none(), "{report:?}");
    place.sessions.close_all(ClosedBy::Shutdown).await;
    let Place { _folder, home, sessions } = place;
    drop(sessions);
    until("nothing is left", || marks(&home).is_empty()).await;
}
