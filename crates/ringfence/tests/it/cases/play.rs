//! Plays one case: starts ringfence as its caller would, does to it what the rig says, and keeps all that came of it.

use std::io::Read;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::rig::Rig;
use super::{Case, RigWords};
use crate::support::binary;

/// What came of a command.
#[derive(Debug)]
pub(super) struct Played {
    pub(super) status: i32,
    pub(super) stdout: Vec<u8>,
    /// Output and messages together, as text.
    pub(super) text: String,
    pub(super) lasted: Duration,
    /// Status of what was done on the host meanwhile.
    pub(super) during: Option<i32>,
    pub(super) datagrams: u64,
}

const LIMITS: [(&str, &str); 6] =
    [("wall", "20s"), ("memory", "256MiB"), ("processes", "64"), ("disk", "128MiB"), ("files", "5000"), ("output", "1MiB")];

/// A call that does not come back is ended, and its case wrong.
const PATIENCE: Duration = Duration::from_secs(40);

pub(super) fn play(case: &Case, rig: &Rig) -> Played {
    if let Some(first) = &case.first_command {
        watched(start(case, rig, first), case, rig);
    }
    let played = watched(start(case, rig, &case.command), case, rig);
    if let Some(after) = &case.rig.after {
        rig.on_the_host(&rig.filled(after));
    }
    played
}

/// The same without a fence, to see whether the case can be told at all.
pub(super) fn play_outside(case: &Case, rig: &Rig) -> Played {
    let mut command = rig.place.command("/bin/bash");
    command.args(["-c", &rig.filled(&case.command)]).current_dir(&rig.workspace).stdout(Stdio::piped()).stderr(Stdio::piped());
    watched(rig.careless(case, command).spawn().unwrap(), case, rig)
}

fn start(case: &Case, rig: &Rig, script: &str) -> Child {
    let mut words = around(&case.rig, rig);
    words.push(binary().display().to_string());
    if case.policy_fields.contains_key("net") {
        let settings = rig.place.write("settings.toml", "[ceiling.network]\nwildcards = \"any\"\n");
        words.extend(["--config".into(), settings.display().to_string()]);
    }
    words.push("run".into());
    words.extend(options(case, rig));
    words.extend(["--".into(), "bash".into(), "-c".into(), rig.filled_inside(script)]);
    let mut command = rig.place.command(words.remove(0));
    command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
    if case.rig.stdin.as_deref() == Some("open") {
        command.stdin(Stdio::piped());
    }
    rig.careless(case, command).spawn().unwrap()
}

/// What the policy of the case is as options.
fn options(case: &Case, rig: &Rig) -> Vec<String> {
    let field = |name: &str| case.policy_fields.get(name);
    let workspace = field("ws").map_or_else(|| rig.workspace.display().to_string(), |ws| rig.filled(ws.as_str().unwrap()));
    let mut options = vec!["--project".into(), workspace, "--input".into(), format!("{}=in", rig.path("inputs"))];
    for (name, default) in LIMITS.into_iter().chain(field("cpu").map(|_| ("cpu", ""))) {
        options.extend(["--limit".into(), format!("{name}={}", field(name).map_or(default.to_owned(), |value| limit(name, value)))]);
    }
    if let Some(hosts) = field("net").and_then(Value::as_array) {
        options.extend(["--profile".into(), with_network(hosts, rig)]);
    }
    if let Some(policy) = &case.rig.raw_policy {
        options.extend(["--profile".into(), profile(policy, rig)]);
    }
    options
}

fn limit(name: &str, value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if ["wall", "cpu"].contains(&name) { format!("{text}s") } else { text }
}

/// The default profile with a list of hosts; one that names no port has the two of the web.
fn with_network(hosts: &[Value], rig: &Rig) -> String {
    let rules = hosts.iter().flat_map(|host| {
        let host = rig.filled(host.as_str().unwrap());
        if host.contains(':') { vec![format!("http://{host}")] } else { vec![format!("http://{host}:80"), format!("https://{host}:443")] }
    });
    let rules: Vec<String> = rules.map(|rule| format!("\"{rule}\"")).collect();
    let shown = rig.place.ringfence(&["profile", "show", "data-analysis"]).stdout.replace("name = \"data-analysis\"", "name = \"net\"");
    let limits = "[limits]\nnetwork-bytes = \"64MiB\"\nnetwork-requests = 1000\n";
    let text = shown.replace("[limits]\n", &format!("[network]\nallow = [{}]\n\n{limits}", rules.join(", ")));
    rig.place.write("net.toml", text).display().to_string()
}

/// The policy as a profile with the same misspelt keys, and otherwise right.
fn profile(policy: &Value, rig: &Rig) -> String {
    let mut text = String::from("name = \"x\"\nexecution = \"commands\"\n");
    for (table, keys) in policy.as_object().unwrap() {
        text.push_str(&format!("[{table}]\n"));
        text.extend(keys.as_object().unwrap().iter().map(|(key, value)| format!("{key} = {value}\n")));
    }
    rig.place.write("policy.toml", rig.filled(&text)).display().to_string()
}

/// Words before the command that make its caller what the rig says.
fn around(words: &RigWords, rig: &Rig) -> Vec<String> {
    let shell = |script: &str| vec!["/bin/bash".to_owned(), "-c".into(), format!("{script} exec \"$@\""), "bash".into()];
    let python = |script: &str| vec!["/usr/bin/python3".to_owned(), "-c".into(), script.into()];
    match words {
        RigWords { nested: true, .. } => {
            [vec!["/usr/bin/unshare".into(), "-Ur".into()], shell("echo 0 > /proc/sys/user/max_user_namespaces;")].concat()
        }
        RigWords { pty: true, .. } => python(ON_A_TERMINAL),
        RigWords { sigchld: true, .. } => python(DEAF_TO_CHILDREN),
        RigWords { passfd: Some(_), .. } => shell(&format!("exec 9<>/dev/tcp/127.0.0.1/{} 200<&9;", rig.shared.http)),
        RigWords { stdin: Some(stdin), .. } if stdin == "closed" => shell("exec <&-;"),
        _ => Vec::new(),
    }
}

const DEAF_TO_CHILDREN: &str = "import os, signal, sys\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nos.execv(sys.argv[1], sys.argv[1:])";

/// A session with a terminal of its own as standard input; what came to be typed or shown there is printed at the end.
const ON_A_TERMINAL: &str = "import fcntl, os, sys, termios\n\
    master, terminal = os.openpty()\n\
    if os.fork() == 0:\n\
    \x20os.setsid(); os.dup2(terminal, 0); fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])\n\
    status = os.waitstatus_to_exitcode(os.wait()[1])\n\
    os.set_blocking(master, False)\n\
    try: os.write(1, os.read(master, 9999))\n\
    except OSError: pass\n\
    sys.exit(status)";

/// Waits for the call and its pipes, while the rig's clock does what it says.
fn watched(mut child: Child, case: &Case, rig: &Rig) -> Played {
    let (begun, pid, words) = (Instant::now(), Pid::from_child(&child), &case.rig);
    let datagrams = rig.shared.datagrams();
    let silent = child.stdin.take();
    let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    thread::scope(|scope| {
        let (stdout, stderr) = (scope.spawn(|| whole(stdout)), scope.spawn(|| whole(stderr)));
        let during =
            words.during.as_ref().map(|script| scope.spawn(|| at(words.during_at, || rig.on_the_host(&rig.filled(script)).status)));
        for (when, signal) in [(words.kill9_at, Signal::KILL), (words.int_at, Signal::INT)] {
            when.map(|when| scope.spawn(move || at(when, || kill_process(pid, signal).unwrap())));
        }
        let status = patiently(&mut child);
        let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
        drop(silent);
        let text = [String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)].concat();
        let (lasted, during) = (begun.elapsed(), during.map(|status| status.join().unwrap()));
        Played { status, stdout, text, lasted, during, datagrams: rig.shared.datagrams() - datagrams }
    })
}

fn whole(mut stream: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

fn at<T>(seconds: f64, act: impl FnOnce() -> T) -> T {
    thread::sleep(Duration::from_secs_f64(seconds));
    act()
}

/// The status of a child that ends, or is ended.
fn patiently(child: &mut Child) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    let begun = Instant::now();
    loop {
        match child.try_wait().unwrap() {
            Some(status) => return status.code().or(status.signal().map(|signal| 128 + signal)).unwrap(),
            None if begun.elapsed() > PATIENCE => child.kill().unwrap(),
            None => thread::sleep(Duration::from_millis(5)),
        }
    }
}
