//! The table of system calls through the real filter: every number of every group, allowed or refused, by argument where arguments decide, and
//! every number that is not in it. What an allowed call answers is compared with what the kernel answers outside.

use std::collections::BTreeSet;
use std::path::PathBuf;

use ringfence_isolation::FilterSpec;

use crate::support::{Outcome, Place, User, outcome};

/// The filter's own data, read as it is written.
#[path = "../../../isolation/src/seccomp/table.rs"]
mod table;

/// A condition on an argument, as the table writes it.
#[derive(Debug, Clone, Copy)]
struct Test {
    argument: u32,
    mask: u32,
    value: u32,
}

/// An answer, as the table writes it.
#[derive(Debug, Clone)]
enum Answer {
    Allow,
    AllowIf(Vec<Vec<Test>>),
    RefuseIf(Vec<Vec<Test>>),
    Refuse,
    Absent,
}

/// A call with its arguments.
type Call = [i64; 7];

const EPERM: i32 = 1;
const ENOSYS: i32 = 38;
/// Beyond every number that a kernel knows, and the numbers of x32.
const UNKNOWN: [i64; 4] = [511, 1000, 0x4000_0001, 0x4000_0027];
/// `uretprobe` and `uprobe`: the kernel lets its own probes past every filter, and answers them itself.
const PAST_EVERY_FILTER: [i64; 2] = [335, 336];

/// Calls with the answer that each must get.
#[derive(Default)]
struct Wanted {
    reach: Vec<Call>,
    refused: Vec<Call>,
    absent: Vec<Call>,
}

impl Wanted {
    fn of(spec: &FilterSpec) -> Self {
        let (rules, mut wanted) = (table::rules(spec), Self::default());
        for (number, answer) in &rules {
            match answer {
                Answer::Allow => wanted.reach.push(call(*number, [-1; 6])),
                Answer::Refuse => wanted.refused.push(call(*number, [-1; 6])),
                Answer::Absent => wanted.absent.push(call(*number, [-1; 6])),
                Answer::AllowIf(alternatives) => {
                    wanted.reach.extend(alternatives.iter().map(|tests| call(*number, meeting(tests))));
                    wanted.refused.push(call(*number, meeting_none(alternatives)));
                }
                Answer::RefuseIf(alternatives) => {
                    wanted.refused.extend(alternatives.iter().map(|tests| call(*number, meeting(tests))));
                    wanted.reach.push(call(*number, meeting_none(alternatives)));
                }
            }
        }
        let named: BTreeSet<i64> = rules.iter().map(|(number, _)| *number).chain(PAST_EVERY_FILTER).collect();
        wanted.absent.extend((0..480).chain(UNKNOWN).filter(|number| !named.contains(number)).map(|number| call(number, [-1; 6])));
        wanted
    }
}

fn call(number: i64, arguments: [i64; 6]) -> Call {
    let [a, b, c, d, e, f] = arguments;
    [number, a, b, c, d, e, f]
}

fn meeting(tests: &[Test]) -> [i64; 6] {
    let mut arguments = [0; 6];
    for test in tests {
        arguments[test.argument as usize] = i64::from(test.value & test.mask);
    }
    arguments
}

fn meeting_none(alternatives: &[Vec<Test>]) -> [i64; 6] {
    let meets =
        |arguments: &[i64; 6], tests: &[Test]| tests.iter().all(|t| arguments[t.argument as usize] as u32 & t.mask == t.value & t.mask);
    let choices = [[0; 6], [-1; 6], [0x7fff_ffff; 6]];
    choices.into_iter().find(|arguments| !alternatives.iter().any(|tests| meets(arguments, tests))).unwrap()
}

/// The default profile, and one in which programs may look into each other.
fn profiles(place: &Place) -> [String; 2] {
    let default = place.ringfence(&["profile", "show", "data-analysis"]).stdout;
    let debug = default.replace("kernel = \"default\"", "kernel = \"debug\"").replace("name = \"data-analysis\"", "name = \"debug\"");
    ["data-analysis".into(), place.write("debug.toml", debug).display().to_string()]
}

/// The filter of a run in a profile.
fn spec(place: &Place, profile: &str) -> FilterSpec {
    let explained = place.ringfence(&["run", "--explain", "--json", "--profile", profile, "--", "true"]).stdout;
    let explained: serde_json::Value = serde_json::from_str(&explained).unwrap();
    let spec: FilterSpec = serde_json::from_value(explained["plan"]["filter"].clone()).unwrap();
    assert_eq!(spec.debug, profile != "data-analysis");
    spec
}

/// The small program that makes the calls.
fn program(place: &Place) -> PathBuf {
    place.write("calls.c", include_str!("../data/calls.c"));
    let built = outcome(place.command("/usr/bin/cc").args(["-O1", "-o", "calls", "calls.c"]).output().unwrap());
    assert_eq!(built.status, 0, "{built:?}");
    place.path("calls")
}

fn words(calls: &[Call]) -> Vec<String> {
    calls.iter().map(|call| call.map(|part| part.to_string()).join(",")).collect()
}

fn inside(place: &Place, profile: &str, words: &[String]) -> Outcome {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let script = "cp /inputs/calls . && chmod +x calls && exec ./calls \"$@\"";
    place.ringfence(
        &[&["run", "--quiet", "--profile", profile, "--input", "calls", "--", "bash", "-c", script, "bash"], words.as_slice()].concat(),
    )
}

/// What each call answered.
fn answers(outcome: &Outcome, calls: &[Call]) -> Vec<i32> {
    let answers: Vec<i32> = outcome.stdout.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(answers.len(), calls.len(), "{outcome:?}");
    answers
}

#[test]
fn refused_calls_answer_eperm_and_those_not_in_the_table_enosys() {
    for place in Place::each() {
        program(&place);
        for profile in profiles(&place) {
            let wanted = Wanted::of(&spec(&place, &profile));
            for (calls, answer) in [(&wanted.refused, EPERM), (&wanted.absent, ENOSYS)] {
                let got = answers(&inside(&place, &profile, &words(calls)), calls);
                let wrong: Vec<_> = calls.iter().zip(&got).filter(|(_, got)| **got != answer).collect();
                assert!(wrong.is_empty(), "{profile} as {:?}, not {answer}: {wrong:?}", place.user);
            }
        }
    }
}

/// No more is asked than that the kernel is reached: an allowed call with senseless arguments fails there as it does outside.
#[test]
fn allowed_calls_reach_the_kernel() {
    for place in Place::each() {
        program(&place);
        let ordinary = Place::new(User::Ordinary);
        let outside = program(&ordinary);
        for profile in profiles(&place) {
            let wanted = Wanted::of(&spec(&place, &profile)).reach;
            let outside = answers(&outcome(ordinary.command(&outside).args(words(&wanted)).output().unwrap()), &wanted);
            let inside = answers(&inside(&place, &profile, &words(&wanted)), &wanted);
            let pairs = wanted.iter().zip(inside.into_iter().zip(outside));
            let wrong: Vec<_> = pairs.filter(|(_, (inside, outside))| [EPERM, ENOSYS].contains(inside) && inside != outside).collect();
            assert!(wrong.is_empty(), "{profile} as {:?}, (inside, outside): {wrong:?}", place.user);
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_call_by_the_door_of_another_architecture_kills() {
    for place in Place::each() {
        let program = program(&place);
        assert_eq!(
            outcome(place.command(program).arg("foreign").output().unwrap()).status,
            0,
            "the kernel has no such door: nothing is shown here"
        );
        assert_eq!(inside(&place, "data-analysis", &["foreign".into()]).status, 128 + 31, "{:?}", place.user);
    }
}
