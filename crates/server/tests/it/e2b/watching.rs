//! Folders that are watched, by those who listen and by those who ask.

use serde_json::{Value, json};

use super::wire::Sandbox;
use crate::rig::Rig;

fn create(sandbox: &Sandbox<'_>, body: &Value) -> String {
    let made = sandbox.call("filesystem.Filesystem/CreateWatcher", body).json();
    made["watcherId"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
}

fn events(sandbox: &Sandbox<'_>, id: &str) -> Vec<(String, String)> {
    let told = sandbox.call("filesystem.Filesystem/GetWatcherEvents", &json!({"watcherId": id})).json();
    told["events"].as_array().unwrap_or_else(|| panic!("{told}")).iter().map(word).collect()
}

fn word(event: &Value) -> (String, String) {
    (event["type"].as_str().unwrap().trim_start_matches("EVENT_TYPE_").to_owned(), event["name"].as_str().unwrap().to_owned())
}

fn words(words: &[(&str, &str)]) -> Vec<(String, String)> {
    words.iter().map(|(kind, name)| ((*kind).to_owned(), (*name).to_owned())).collect()
}

#[test]
fn who_asks_is_told_each_change_once() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    sandbox.write("w/old/f", "x");
    let (flat, deep) = (create(&sandbox, &json!({"path": "w"})), create(&sandbox, &json!({"path": "w", "recursive": true})));
    sandbox.write("w/a", "x");
    let three = words(&[("CREATE", "a"), ("CHMOD", "a"), ("WRITE", "a")]);
    assert_eq!((events(&sandbox, &flat), events(&sandbox, &flat), events(&sandbox, &deep)), (three.clone(), vec![], three));
    sandbox.write("w/old/g", "x");
    assert_eq!((events(&sandbox, &flat), events(&sandbox, &deep).len()), (vec![], 3));
    sandbox.write("w/new/deep/h", "x");
    let told = events(&sandbox, &deep);
    assert_eq!(
        told,
        words(&[("CREATE", "new"), ("CREATE", "new/deep"), ("CREATE", "new/deep/h"), ("WRITE", "new/deep/h")]),
        "what came before it was watched"
    );
    sandbox.write("w/new/deep/h", "y");
    assert!(events(&sandbox, &deep).contains(&("WRITE".into(), "new/deep/h".into())), "and it is watched from then on");
    sandbox.call("filesystem.Filesystem/Move", &json!({"source": "w/a", "destination": "w/b"}));
    assert_eq!(events(&sandbox, &flat)[1..], words(&[("RENAME", "a"), ("CREATE", "b")]));
    sandbox.call("filesystem.Filesystem/Remove", &json!({"path": "w/b"}));
    assert_eq!(events(&sandbox, &flat), words(&[("REMOVE", "b")]));
    assert_eq!(sandbox.call("filesystem.Filesystem/RemoveWatcher", &json!({"watcherId": flat})).json(), json!({}));
    assert_eq!(sandbox.call("filesystem.Filesystem/RemoveWatcher", &json!({"watcherId": flat})).status, 404);
}

#[test]
fn who_listens_is_told_as_it_happens() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    sandbox.write("w/f", "x");
    let body = json!({"path": "w", "recursive": true, "includeEntry": true});
    let mut stream = sandbox.stream("filesystem.Filesystem/WatchDir", "Keepalive-Ping-Interval: 1\r\n", &body);
    assert_eq!(stream.next(), Some((false, json!({"start": {}}))));
    assert_eq!(stream.next(), Some((false, json!({"keepalive": {}}))));
    sandbox.write("w/n/g", "x");
    let mut seen = Vec::new();
    while !seen.contains(&("WRITE".to_owned(), "n/g".to_owned())) {
        let (_, message) = stream.next().unwrap();
        if let Some(event) = message.get("filesystem") {
            assert_eq!(event["entry"]["path"], format!("/home/user/w/{}", event["name"].as_str().unwrap()), "{event}");
            seen.push(word(event));
        }
    }
    assert!(seen.contains(&("CREATE".into(), "n".into())), "{seen:?}");
}

#[test]
fn only_folders_that_are_there_are_watched() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    sandbox.write("f", "x");
    for (path, code, status) in [("none", "not_found", 404), ("f", "invalid_argument", 400), ("/proc", "invalid_argument", 400)] {
        assert_eq!(sandbox.stream("filesystem.Filesystem/WatchDir", "", &json!({"path": path})).error(), code, "{path}");
        assert_eq!(sandbox.call("filesystem.Filesystem/CreateWatcher", &json!({"path": path})).status, status, "{path}");
    }
    for _ in 0..64 {
        create(&sandbox, &json!({"path": "."}));
    }
    assert_eq!(sandbox.call("filesystem.Filesystem/CreateWatcher", &json!({"path": "."})).status, 429);
}

#[test]
fn folders_that_come_and_go_do_not_use_a_watch_up() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    sandbox.write("w/f", "x");
    let watcher = create(&sandbox, &json!({"path": "w", "recursive": true}));
    // More than one watch covers at once, but never at once.
    for _ in 0..3 {
        sandbox.bash("cd w && mkdir $(seq 3000)").heard();
        assert!(events(&sandbox, &watcher).len() >= 3000);
        sandbox.bash("cd w && rmdir $(seq 3000)").heard();
        assert!(events(&sandbox, &watcher).len() >= 3000);
    }
}
