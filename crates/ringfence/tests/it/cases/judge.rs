//! The check words of the cases.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::Case;
use super::play::Played;
use super::rig::Rig;
use crate::support::binary;

/// The checks that do not hold.
pub(super) fn faults(case: &Case, rig: &Rig, played: &Played) -> Option<Vec<String>> {
    let faults: Vec<String> = case.checks.iter().filter(|check| !holds(check, rig, played)).map(|check| format!("{check:?}")).collect();
    let faults = if case.checks.is_empty() { vec!["there is nothing to judge by".into()] } else { faults };
    (!faults.is_empty()).then_some(faults)
}

fn holds(check: &[Value], rig: &Rig, played: &Played) -> bool {
    let text = |at: usize| check[at].as_str().unwrap();
    let number = |at: usize| check[at].as_f64().unwrap();
    match text(0) {
        "lacks" => !played.text.contains(&rig.filled(text(1))),
        "has" => played.text.contains(&rig.filled(text(1))),
        "rc" => f64::from(played.status) == number(1),
        "rc_ne" => f64::from(played.status) != number(1),
        "rc_in" => check[1].as_array().unwrap().contains(&played.status.into()),
        "victim" => fs::read_to_string(rig.path("outside/victim.txt")).unwrap() == "ORIGINAL",
        "absent" => Path::new(&rig.path(text(1))).symlink_metadata().is_err(),
        "content" => fs::read_to_string(rig.path(text(1))).unwrap() == text(2),
        "noproc" => no_marked_process(&rig.mark),
        "hostproc" => rig.neighbour.as_ref().is_some_and(|neighbour| is_alive(neighbour.0.id())),
        "secs_max" => played.lasted.as_secs_f64() <= number(1),
        "num_max" => counted(&played.text, text(1)).map_or(played.status == 137, |count| count <= number(2)),
        "codes" => has_only_codes(&played.stdout, check[1].as_array().unwrap()),
        "udp0" => played.datagrams == 0,
        "out_max" => (played.stdout.len() as f64) <= number(1),
        "bytes" => holds_bytes(&played.stdout, text(1)),
        "during_ok" => played.during == Some(0),
        "hosts_same" => !fs::read_to_string("/etc/hosts").unwrap().contains("1.2.3.4 evil"),
        "ws_only" => fs::read_dir(&rig.workspace).unwrap().next().is_none(), // nothing is written back
        "tmp_clean" => fs::read_dir(rig.path("tmp")).unwrap().next().is_none(),
        "tool_same" => fs::read(binary()).unwrap() == fs::read(env!("CARGO_BIN_EXE_ringfence")).unwrap(),
        other => panic!("no such check word: {other}"),
    }
}

/// Nothing that the case started is left a second after its end.
fn no_marked_process(mark: &str) -> bool {
    thread::sleep(Duration::from_secs(1));
    let wanted = format!("3{mark}");
    let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut lines = pids.filter_map(|pid| fs::read(format!("/proc/{pid}/cmdline")).ok());
    !lines.any(|line| String::from_utf8_lossy(&line).contains(&wanted))
}

fn is_alive(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Every word of three digits is one of those codes, and there is one.
fn has_only_codes(output: &[u8], codes: &[Value]) -> bool {
    let text = String::from_utf8_lossy(output);
    let mut found = text.split_whitespace().filter(|word| word.len() == 3 && word.bytes().all(|b| b.is_ascii_digit())).peekable();
    found.peek().is_some() && found.all(|code| codes.contains(&code.into()))
}

/// `KEY=NUMBER` in the output.
fn counted(text: &str, key: &str) -> Option<f64> {
    let rest = text.split(&format!("{key}=")).nth(1)?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn holds_bytes(output: &[u8], hex: &str) -> bool {
    let wanted: Vec<u8> = hex.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    output.windows(wanted.len()).any(|window| window == wanted)
}
