//! The same command, alone and with `--server`: the same words and the same exit status. And sessions, which only a server has.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::serve::Serving;
use crate::support::{Outcome, Place, User, binary, outcome};

/// A server of a place, and the command line that asks it.
struct Remote<'a> {
    place: &'a Place,
    serving: Serving,
    url: String,
}

impl<'a> Remote<'a> {
    fn of(place: &'a Place) -> Self {
        let serving = Serving::start(place, &["--drain", "300ms"]);
        let url = format!("http://{}", serving.address);
        Self { place, serving, url }
    }

    fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = self.place.command(binary());
        command.env("RINGFENCE_API_KEY", &self.serving.key).args(["--server", &self.url]).args(arguments);
        command
    }

    fn ask(&self, arguments: &[&str]) -> Outcome {
        outcome(self.command(arguments).output().unwrap())
    }

    fn stop(self) {
        assert_eq!(self.serving.signal(rustix::process::Signal::TERM), Some(0));
    }
}

/// Words in which names of runs, digests and times stand for any.
fn plain(text: &str) -> String {
    let plain = |word: &str| {
        let bare = word.trim_matches([':', ';', '"', ',']);
        let is_name = bare.len() == 26 && bare.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let is_time = bare.parse::<f64>().is_ok() && bare.contains('.');
        if is_name || is_time || bare.starts_with("sha256:") { word.replace(bare, "_") } else { word.to_owned() }
    };
    text.split('\n').map(|line| line.split(' ').map(plain).collect::<Vec<_>>().join(" ")).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_run_is_told_of_in_the_same_words() {
    for place in Place::each() {
        place.write("data.csv", "a\nb\n");
        let remote = Remote::of(&place);
        for (arguments, status) in [
            (vec!["run", "--", "sh", "-c", "echo out; echo err >&2"], 0),
            (vec!["run", "--", "sh", "-c", "printf '\\377\\0'; exit 3"], 3),
            (vec!["run", "--", "sh", "-c", "kill -SEGV $$"], 139),
            (vec!["run", "--limit", "wall=200ms", "--", "sleep", "9"], 124),
            (vec!["run", "--profile", "scratch", "--", "true"], 125),
            (vec!["run", "--allow", "example.com:443", "--", "true"], 125),
            (vec!["run", "--", "no-such-program"], 127),
            (vec!["run", "--export", "missing", "--", "true"], 123),
            (vec!["run", "--quiet", "--env", "A=b c", "--input", "data.csv=x", "--", "sh", "-c", "cat /inputs/x; echo \"$A\""], 0),
            (vec!["run", "--limit", "memory=lots", "--", "true"], 125),
        ] {
            let (alone, asked) = (place.ringfence(&arguments), remote.ask(&arguments));
            assert_eq!((alone.status, asked.status), (status, status), "{arguments:?} {alone:?} {asked:?}");
            assert_eq!((&asked.stdout, plain(&asked.stderr)), (&alone.stdout, plain(&alone.stderr)), "{arguments:?}");
        }
        let mut piped = remote.command(&["run", "--quiet", "--stdin", "--", "wc", "-c"]);
        let data = std::fs::File::open(place.path("data.csv")).unwrap();
        assert_eq!(outcome(piped.stdin(Stdio::from(data)).output().unwrap()).stdout.trim(), "4");
        remote.stop();
        place.assert_clean();
    }
}

#[test]
fn a_report_of_a_server_is_the_report() {
    let place = Place::new(User::Ordinary);
    let remote = Remote::of(&place);
    let arguments = ["run", "--json", "--export", "r", "--", "sh", "-c", "echo r > r; chmod +x r; echo out; exit 4"];
    let read = |outcome: Outcome| (serde_json::from_str::<Value>(&outcome.stdout).unwrap(), outcome.status);
    let ((alone, _), (asked, status)) = (read(place.ringfence(&arguments)), read(remote.ask(&arguments)));
    let fields = |report: &Value| report.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!((fields(&alone), 4), (fields(&asked), status));
    for field in ["end", "exit_status", "artifacts", "stdout", "profile", "agent", "grades", "refusals"] {
        assert_eq!(alone[field], asked[field], "{field}");
    }
    remote.stop();
}

#[test]
fn what_leaves_a_run_is_fetched_and_its_record_holds() {
    for place in Place::each() {
        let remote = Remote::of(&place);
        let run = |out: &'static str| {
            [
                "run",
                "--export",
                "a/*",
                "--out",
                out,
                "--",
                "sh",
                "-c",
                "mkdir a; echo one > a/report.md; echo two > a/tool; chmod +x a/tool",
            ]
        };
        let (alone, asked) = (place.ringfence(&run("alone")), remote.ask(&run("asked")));
        assert_eq!((asked.status, plain(&asked.stderr)), (0, plain(&alone.stderr)), "{asked:?}");
        for name in ["a/report.md", "a/tool"] {
            let read = |folder: &str| {
                let path = place.path(folder).join(name);
                (std::fs::read_to_string(&path).unwrap(), std::os::unix::fs::MetadataExt::mode(&path.metadata().unwrap()))
            };
            assert_eq!(read("alone"), read("asked"));
        }
        let again = remote.ask(&run("asked"));
        assert!(again.status == 123 && again.stderr.contains("is there already in the --out folder"), "{again:?}");

        let name = asked.stderr.split(' ').nth(2).unwrap().trim_end_matches(':').to_owned();
        let key = place.home().join("keys/evidence.pub");
        let key = key.to_str().unwrap();
        for arguments in [
            vec!["evidence", "verify", &name, "--key", key],
            vec!["evidence", "show", &name],
            vec!["evidence", "show", &name, "--json"],
            vec!["artifact", "ls", &name],
            vec!["artifact", "ls", &name, "--json"],
        ] {
            let (alone, asked) = (place.ringfence(&arguments), remote.ask(&arguments));
            assert_eq!((&asked.stdout, &asked.stderr, asked.status), (&alone.stdout, &alone.stderr, 0), "{arguments:?}");
        }
        let told = remote.ask(&["evidence", "verify", &name]);
        assert!(told.status == 0 && told.stderr.contains("the key is the server's own word"), "{told:?}");
        let fetched = remote.ask(&["artifact", "get", &format!("{name}/a/report.md")]);
        assert_eq!((fetched.stdout.as_str(), fetched.status), ("one\n", 0), "{fetched:?}");

        // A record that was changed on the server is found here, whatever the server says.
        let events = place.home().join("runs").join(&name).join("events.jsonl");
        let text = std::fs::read_to_string(&events).unwrap();
        std::fs::write(&events, text.replacen("report.md", "tampered", 1)).unwrap();
        let broken = remote.ask(&["evidence", "verify", &name, "--key", key]);
        assert_eq!(broken.status, 1, "{broken:?}");
        remote.stop();
    }
}

#[test]
fn what_there_is_is_listed_in_the_same_words() {
    for place in Place::each() {
        let remote = Remote::of(&place);
        let kept = remote.ask(&["run", "--profile", "base", "--state", "notes", "--", "sh", "-c", "echo kept > kept"]);
        assert_eq!(kept.status, 0, "{kept:?}");
        for arguments in [
            vec!["profile", "ls"],
            vec!["profile", "show", "data-analysis"],
            vec!["matrix"],
            vec!["matrix", "--format", "md", "--profile", "scratch", "--profile", "base"],
            vec!["matrix", "--format", "json"],
            vec!["agent", "ls"],
            vec!["agent", "ls", "--json"],
            vec!["promotion", "ls"],
            vec!["approval", "ls"],
            vec!["approval", "ls", "--json"],
        ] {
            let (alone, asked) = (place.ringfence(&arguments), remote.ask(&arguments));
            assert_eq!((&asked.stdout, asked.status), (&alone.stdout, alone.status), "{arguments:?} {asked:?}");
        }
        let states = remote.ask(&["state", "ls"]);
        assert!(states.stdout.contains("notes") && states.stdout.contains("named"), "{states:?}");
        let gone = remote.ask(&["state", "rm", "notes"]);
        assert!(gone.status == 0 && gone.stdout.starts_with("state `notes` is gone: "), "{gone:?}");
        assert!(remote.ask(&["state", "rm", "notes"]).stderr.contains("there is no state `notes` here"));
        remote.stop();
    }
}

#[test]
fn an_audit_of_a_server_is_the_audit() {
    let place = Place::new(User::Ordinary);
    let remote = Remote::of(&place);
    let arguments = ["audit", "--profile", "base", "--format", "md"];
    let (alone, asked) = (place.ringfence(&arguments), remote.ask(&arguments));
    assert_eq!((asked.status, plain(&asked.stderr)), (0, plain(&alone.stderr)), "{asked:?}");
    let lines =
        |outcome: &Outcome| outcome.stdout.lines().map(|line| line.split('|').nth(2).unwrap_or(line).to_owned()).collect::<Vec<_>>();
    assert_eq!(lines(&asked), lines(&alone));
    remote.stop();
}

#[test]
fn what_is_about_this_host_is_refused_with_what_to_do() {
    let place = Place::new(User::Ordinary);
    place.write("folder/file", "x");
    place.write("mine.toml", "x");
    let remote = Remote::of(&place);
    for (arguments, word) in [
        (vec!["run", "--project", ".", "--", "true"], "--project: a server cannot see folders of this host"),
        (vec!["run", "--explain", "--", "true"], "--explain"),
        (vec!["run", "--input", "folder", "--", "true"], "is no file, and a server cannot see this host"),
        (vec!["run", "--profile", "./mine.toml", "--", "true"], "--profile: "),
        (vec!["run", "--profile", "nobody", "--", "true"], "there is no profile `nobody`"),
        (vec!["doctor"], "`ringfence doctor` is about this host alone"),
        (vec!["serve"], "`ringfence serve` is about this host alone"),
        (vec!["key", "ls"], "`ringfence key` is about this host alone"),
        (vec!["evidence", "ls"], "`ringfence evidence ls` is about this host alone"),
        (vec!["evidence", "verify", "01m8nacmbpwz99k06grw4mmbh8"], "there is no run"),
        (vec!["profile", "show", "../keys"], "there is no"),
        (vec!["approval", "approve", "01m8nacmbpwz99k06grw4mmbh8"], "`ringfence approval approve` is about this host alone"),
        (vec!["artifact", "ls"], "a server lists what left one run"),
    ] {
        let refused = remote.ask(&arguments);
        assert!(refused.status == 125 && refused.stderr.contains(word) && refused.stderr.contains("\nhint: "), "{arguments:?} {refused:?}");
    }
    assert_eq!(remote.ask(&["schema", "report"]).status, 0);
    remote.stop();
}

#[test]
fn a_key_is_needed_and_goes_nowhere_in_the_clear() {
    let place = Place::new(User::Ordinary);
    let remote = Remote::of(&place);
    let ask = |server: &str, key: Option<&str>| {
        let mut command = place.command(binary());
        command.env("RINGFENCE_SERVER", server).args(["profile", "ls"]);
        key.map(|key| command.env("RINGFENCE_API_KEY", key));
        outcome(command.output().unwrap())
    };
    let own = remote.serving.key.as_str();
    assert_eq!(ask(&remote.url, Some(own)).status, 0);
    for (server, key, word) in [
        (remote.url.as_str(), None, "there is no key for"),
        (remote.url.as_str(), Some("rf_0000"), "hint: "),
        (remote.url.as_str(), Some("a\u{1}b"), "holds something that is no key"),
        ("http://fence.example.com", Some(own), "would send the key in the clear"),
        ("http://127.0.0.1:1", Some(own), "see that the server runs"),
    ] {
        let refused = ask(server, key);
        assert!(refused.status == 125 && refused.stderr.contains(word), "{server} {refused:?}");
        assert!(!refused.stderr.contains(own), "{refused:?}");
    }
    let none = place.ringfence(&["session", "ls"]);
    assert!(none.status == 125 && none.stderr.contains("sessions stand on a server"), "{none:?}");
    remote.stop();
}

#[test]
fn a_session_is_made_used_kept_and_ended() {
    for place in Place::each() {
        let file = place.write("data.bin", [0xff, 0, 1, 2]);
        let remote = Remote::of(&place);
        let made = remote.ask(&["session", "new", "--profile", "base", "--timeout", "10m", "--env", "MODE=fast", "--export", "out.txt"]);
        assert_eq!(made.status, 0, "{made:?}");
        let session = made.stdout.trim();
        let exec =
            |options: &[&str], script: &str| remote.ask(&[&["session", "exec", session], options, &["--", "sh", "-c", script]].concat());

        let ran = exec(&[], "echo $MODE; pwd; echo no >&2; exit 5");
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str(), ran.status), ("fast\n/home/user\n", "no\n", 5));
        assert_eq!(exec(&["--cwd", "/tmp"], "pwd").stdout, "/tmp\n");
        assert_eq!(exec(&["--timeout", "1s"], "sleep 60").status, 124);
        assert_eq!(exec(&[], "kill -9 $$").status, 137);

        let put = remote.ask(&["session", "put", session, file.to_str().unwrap(), "sub/data.bin"]);
        assert!(put.status == 0 && put.stderr.contains("sub/data.bin (4 B, sha256:"), "{put:?}");
        assert_eq!(remote.ask(&["session", "get", session, "sub/data.bin", "back.bin"]).status, 0);
        assert_eq!(std::fs::read(place.path("back.bin")).unwrap(), [0xff, 0, 1, 2]);
        let taken = remote.ask(&["session", "get", session, "sub/data.bin", "back.bin"]);
        assert!(taken.status == 125 && taken.stderr.contains("name a file that is not there yet"), "{taken:?}");
        assert_eq!(remote.ask(&["session", "get", session, "nothing", "nothing.bin"]).status, 125);
        assert!(!place.path("nothing.bin").exists());

        let listed: Value = serde_json::from_str(&remote.ask(&["session", "ls", "--json"]).stdout).unwrap();
        assert_eq!((&listed[0]["session"], &listed[0]["user"], listed[0].get("port_token")), (&json!(session), &json!("user"), None));
        let kept = remote.ask(&["session", "snapshot", session]);
        assert_eq!(kept.status, 0, "{kept:?}");
        exec(&[], "echo left > out.txt");
        let ended = remote.ask(&["session", "end", session]);
        assert!(ended.status == 0 && ended.stderr.contains("closed by") && ended.stderr.contains("artifacts: out.txt"), "{ended:?}");

        let next = remote.ask(&["session", "new", "--quiet", "--from", kept.stdout.trim()]).stdout;
        let paused = remote.ask(&["session", "pause", "--quiet", next.trim()]);
        assert!(paused.status == 0 && paused.stdout.trim().len() == 26, "{paused:?}");
        let last = remote.ask(&["session", "new", "--from", paused.stdout.trim()]).stdout;
        let read = remote.ask(&["session", "exec", last.trim(), "--", "wc", "-c", "sub/data.bin"]);
        assert_eq!((read.stdout.as_str(), read.status), ("4 sub/data.bin\n", 0), "{read:?}");
        remote.stop();
        place.assert_clean();
    }
}

/// Output comes as it is written, input goes in as it is given, and a signal reaches the command.
#[test]
fn a_command_of_a_session_is_as_near_as_one_of_this_host() {
    use std::io::{BufRead, BufReader, Write};
    let place = Place::new(User::Ordinary);
    let remote = Remote::of(&place);
    let session = remote.ask(&["session", "new"]).stdout;
    let script = "read a; echo got $a; read b; echo got $b; trap 'echo asked; exit 9' INT; while :; do sleep 0.05; done";
    let mut command = remote.command(&["session", "exec", "--stdin", session.trim(), "--", "bash", "-c", script]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    for word in ["one", "two"] {
        writeln!(stdin, "{word}").unwrap();
        assert_eq!(lines.next(), Some(format!("got {word}")));
    }
    std::thread::sleep(std::time::Duration::from_millis(200));
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT).unwrap();
    assert_eq!(lines.next(), Some("asked".to_owned()));
    assert_eq!(child.wait().unwrap().code(), Some(9));
    remote.stop();
}

/// Whoever asks the command line to stop has stopped the run.
#[test]
fn a_run_of_a_server_is_stopped_from_here() {
    let place = Place::new(User::Ordinary);
    let remote = Remote::of(&place);
    let child = remote.command(&["run", "--", "sleep", "60"]).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    crate::support::eventually("the run", || {
        let (_, runs) = remote.serving.ask(&remote.serving.key, "GET", "/v1/runs?state=running", "");
        runs["runs"].as_array().is_some_and(|runs| !runs.is_empty())
    });
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM).unwrap();
    let stopped = outcome(child.wait_with_output().unwrap());
    assert!(stopped.status == 143 && stopped.stderr.contains("failed at `interrupted`"), "{stopped:?}");
    remote.stop();
}
