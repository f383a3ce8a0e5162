//! States: put, found, read, swept, and whole at any moment.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use ringfence_store::{Home, StateAbout, StateKind, StateQuota, StateRow, States, StoreError, Viewer};

fn home() -> (tempfile::TempDir, Home, States) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::open(&folder.path().join("home")).unwrap();
    let states = States::of(&home);
    (folder, home, states)
}

fn about(kind: StateKind, name: Option<&str>, tenant: Option<&str>) -> StateAbout {
    StateAbout {
        kind,
        name: name.map(str::to_owned),
        tenant: tenant.map(str::to_owned),
        agent: "me".into(),
        profile: "base".into(),
        run: "01kbdz9xk3v8p5r0q2n7m4t6w1".into(),
        parent: None,
        metadata: BTreeMap::from([("user".into(), "42".into())]),
        about: serde_json::json!({ "port": 8080 }),
    }
}

fn put(states: &States, content: &[u8], about: StateAbout) -> StateRow {
    let mut draft = states.draft().unwrap();
    draft.write_all(content).unwrap();
    draft.put(about).unwrap()
}

fn put_named(states: &States, content: &[u8]) -> StateRow {
    put(states, content, about(StateKind::Named, Some("notes"), None))
}

fn read(states: &States, state: &StateRow) -> Result<Vec<u8>, StoreError> {
    let (mut content, mut bytes) = (states.open(state)?, Vec::new());
    content.read_to_end(&mut bytes).unwrap();
    content.finish().map(|()| bytes)
}

fn everybody() -> Viewer {
    Viewer { tenant: "default".into(), sees_the_command_line: true }
}

#[test]
fn a_state_is_read_as_it_was_put() {
    let (_folder, home, states) = home();
    assert_eq!((states.named(None, "notes").unwrap(), states.list(&everybody()).unwrap()), (None, Vec::new()));
    let first = put_named(&states, b"one");
    assert_eq!(states.named(None, "notes").unwrap(), Some(first.clone()));
    assert_eq!((first.bytes, first.generation, read(&states, &first).unwrap()), (3, 0, b"one".to_vec()));
    let open = states.open(&first).unwrap();
    let second = put(&states, b"two", StateAbout { parent: Some(first.id.clone()), ..about(StateKind::Named, Some("notes"), None) });
    open.finish().unwrap(); // whoever has the old one open reads on
    let found = states.named(None, "notes").unwrap().unwrap();
    assert_eq!((&found.id, found.generation, read(&states, &found).unwrap()), (&second.id, 1, b"two".to_vec()));
    assert!(states.get(&first.id, &everybody()).unwrap().is_none() && states.open(&first).is_err());
    let snapshot = put(&states, b"", about(StateKind::Snapshot, None, None));
    let listed: Vec<_> = states.list(&everybody()).unwrap().into_iter().map(|state| state.id).collect();
    assert_eq!(listed, [second.id.clone(), snapshot.id.clone()]);
    assert_eq!(states.get(&snapshot.id, &everybody()).unwrap(), Some(snapshot.clone()));
    let place = home.states().join("named/notes").join(second.id.as_str());
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        [mode(&home.states()), mode(&place), mode(&place.join("files.tar")), mode(&place.join("state.json"))],
        [0o700, 0o700, 0o600, 0o600]
    );
    states.remove(&second).unwrap();
    states.remove(&second).unwrap();
    assert_eq!(states.named(None, "notes").unwrap(), None);
}

#[test]
fn what_was_changed_is_not_read() {
    let (_folder, home, states) = home();
    let state = put_named(&states, &[7; 100_000]);
    let place = home.states().join("named/notes").join(state.id.as_str());
    for (length, at) in [(100_000, Some(99_999)), (99_999, None), (100_001, None), (0, None)] {
        let mut bytes = vec![7; length];
        at.into_iter().for_each(|at: usize| bytes[at] = 8);
        std::fs::write(place.join("files.tar"), &bytes).unwrap();
        let error = read(&states, &state).unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }) && error.to_string().contains("its digest is"), "{error}");
    }
    for text in
        ["", "{}", &std::fs::read_to_string(place.join("state.json")).unwrap().replace(state.id.as_str(), "01kbdz9xk3v8p5r0q2n7m4t6w1")]
    {
        std::fs::write(place.join("state.json"), text).unwrap();
        assert!(matches!(states.named(None, "notes"), Err(StoreError::Damaged { .. })), "{text}");
        assert!(states.list(&everybody()).is_err());
    }
}

#[test]
fn a_name_is_used_by_one_at_a_time() {
    let (_folder, home, states) = home();
    let lock = states.lock(None, "notes", "run 1").unwrap();
    let refused = states.lock(None, "notes", "run 2").unwrap_err();
    assert_eq!(refused.to_string(), "state `notes` is in use by run 1");
    assert!(refused.hint().contains("name another"));
    // Another tenant's is another one.
    let other = states.lock(Some("acme"), "notes", "run 3").unwrap();
    let state = put_named(&states, b"x");
    assert!(!states.remove_unless_used(&state).unwrap());
    assert_eq!(states.remove_unused(&everybody(), Duration::ZERO).unwrap(), []);
    home.sweep().unwrap();
    assert!(lock.path().exists() && other.path().exists(), "what is used is not swept");
    drop((lock, other));
    assert!(states.remove_unless_used(&state).unwrap());
    home.sweep().unwrap();
    assert_eq!(std::fs::read_dir(home.states().join("locks")).unwrap().count(), 0);
    states.lock(None, "notes", "run 4").unwrap();
    for bad in ["", "..", "a/b", "a:b", ".x", "A"] {
        assert!(states.lock(None, bad, "x").is_err() && states.named(Some(bad), "x").is_err(), "{bad}");
    }
}

#[test]
fn a_tenant_sees_its_own() {
    let (_folder, _home, states) = home();
    for tenant in [None, Some("default"), Some("acme"), Some("other")] {
        put(&states, b"x", about(StateKind::Named, Some("notes"), tenant));
        put(&states, b"x", about(StateKind::Paused, None, tenant));
    }
    let seen = |tenant: &str, sees_the_command_line| {
        let viewer = Viewer { tenant: tenant.into(), sees_the_command_line };
        let rows = states.list(&viewer).unwrap();
        assert!(rows.iter().all(|row| states.get(&row.id, &viewer).unwrap().is_some()));
        let others = states.list(&everybody()).unwrap();
        let stranger = Viewer { tenant: "stranger".into(), sees_the_command_line: false };
        assert!(others.iter().all(|row| states.get(&row.id, &stranger).unwrap().is_none()));
        rows.into_iter().map(|row| row.said.tenant).collect::<Vec<_>>()
    };
    assert_eq!(seen("acme", false), [Some("acme".into()), Some("acme".into())]);
    assert_eq!(seen("default", true), [None, None, Some("default".into()), Some("default".into())]);
    assert_eq!(seen("stranger", false), []);
}

#[test]
fn what_was_not_put_leaves_nothing_and_the_unused_go_when_asked() {
    let (_folder, home, states) = home();
    let count = || {
        std::fs::read_dir(home.states())
            .unwrap()
            .filter(|e| e.as_ref().unwrap().file_name().to_str().unwrap().starts_with("draft-"))
            .count()
    };
    let mut draft = states.draft().unwrap();
    draft.write_all(b"x").unwrap();
    home.sweep().unwrap();
    assert_eq!(count(), 1, "this process lives");
    drop(draft);
    assert_eq!(count(), 0);
    std::fs::create_dir(home.states().join("draft-999999999-0")).unwrap();
    home.sweep().unwrap();
    assert_eq!(count(), 0);
    let old = put_named(&states, b"x");
    let young = put(&states, b"y", about(StateKind::Snapshot, None, None));
    let document = home.states().join("named/notes").join(old.id.as_str()).join("state.json");
    let text = std::fs::read_to_string(&document).unwrap().replace(&old.created_at, "2020-01-01T00:00:00.000Z");
    std::fs::write(&document, text).unwrap();
    let day = Duration::from_secs(24 * 3600);
    read(&states, &states.named(None, "notes").unwrap().unwrap()).unwrap();
    assert_eq!(states.remove_unused(&everybody(), day).unwrap(), [], "it was used a moment ago");
    std::fs::remove_file(document.with_file_name("used")).unwrap();
    let removed: Vec<_> = states.remove_unused(&everybody(), day).unwrap().into_iter().map(|state| state.id).collect();
    assert_eq!(removed, [old.id]);
    assert_eq!(states.list(&everybody()).unwrap(), [young]);
}

const HOME: &str = "RINGFENCE_TEST_STATES";

#[test]
#[ignore = "another test starts and kills it"]
fn saves_for_ever() {
    let home = Home::open(std::path::Path::new(&std::env::var_os(HOME).unwrap())).unwrap();
    let states = States::of(&home);
    let _lock = states.lock(None, "notes", "a victim").unwrap();
    for number in 0u8.. {
        put_named(&states, &vec![number; 1 << 20]);
        println!("saved");
        std::io::stdout().flush().unwrap();
    }
}

#[test]
fn a_kill_at_any_moment_leaves_one_whole_state() {
    let (_folder, home, states) = home();
    let mut generation = 0;
    for round in 0..8u64 {
        let mut victim = Command::new(std::env::current_exe().unwrap());
        victim.args(["states::saves_for_ever", "--exact", "--ignored", "--nocapture"]).env(HOME, home.root());
        let mut victim = victim.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut said = std::io::BufReader::new(victim.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("saved") {
            line.clear();
            assert!(std::io::BufRead::read_line(&mut said, &mut line).unwrap() > 0);
        }
        std::thread::sleep(Duration::from_micros(1700 * round));
        victim.kill().unwrap();
        victim.wait().unwrap();
        let state = states.named(None, "notes").unwrap().unwrap();
        let content = read(&states, &state).unwrap();
        assert!(content.len() == 1 << 20 && content.iter().all(|byte| *byte == content[0]));
        assert!(state.generation >= generation, "an older one than was there before");
        generation = state.generation + 1;
        home.sweep().unwrap();
        let left: Vec<_> = std::fs::read_dir(home.states()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(!left.iter().any(|name| name.to_string_lossy().starts_with("draft-")), "{left:?}");
        assert_eq!(std::fs::read_dir(home.states().join("named/notes")).unwrap().count(), 1);
        states.lock(None, "notes", "whoever comes next").unwrap();
    }
}

#[test]
fn of_several_who_keep_at_once_no_more_is_kept_than_may_be() {
    let (_folder, _home, states) = home();
    let states = states.bounded(StateQuota { count: 3, bytes: 10_000 });
    let keep = |tenant: Option<&str>, bytes: usize| {
        let mut draft = states.draft().unwrap();
        draft.write_all(&vec![0; bytes]).unwrap();
        draft.put(about(StateKind::Snapshot, None, tenant))
    };
    let kept = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..12).map(|_| scope.spawn(|| keep(Some("acme"), 100))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).filter(Result::is_ok).count()
    });
    assert_eq!(kept, 3);
    assert!(matches!(states.room(Some("acme"), None), Err(StoreError::StatesFull { count: 3, bytes: 300, .. })));
    assert_eq!(states.room(Some("other"), None).unwrap(), 10_000);
    assert!(matches!(keep(Some("other"), 10_001), Err(StoreError::StatesFull { count: 0, .. })));
    keep(Some("other"), 10_000).unwrap();
    // The operator's own are not counted.
    for _ in 0..5 {
        keep(None, 10_001).unwrap();
    }
    assert_eq!(states.room(None, None).unwrap(), u64::MAX);
}
