//! How a run ended, in words, and the exit status that says the same.

use ringfence_evidence::RunEnd;
use ringfence_isolation::End;
use ringfence_policy::{Layer, Refusal};

/// The end of a command in the words of the evidence.
pub(crate) fn of(end: &End) -> RunEnd {
    match end {
        End::Exited { code } => RunEnd::Exited { code: *code },
        End::Signaled { signal } => RunEnd::Signaled { signal: signal_name(*signal) },
        End::Limit { limit } => RunEnd::Limit { limit: limit.name().to_owned() },
        End::Failed { step, errno } => RunEnd::Failed { step: step.clone(), cause: cause(*errno) },
        End::Interrupted { signal } => RunEnd::Failed { step: "interrupted".into(), cause: Some(signal_name(*signal)) },
    }
}

fn cause(errno: i32) -> Option<String> {
    (errno != 0).then(|| std::io::Error::from_raw_os_error(errno).to_string())
}

pub(crate) fn refused(refusal: &Refusal) -> RunEnd {
    RunEnd::Refused { rule: refusal.rule.clone(), layer: refusal.layer, hint: refusal.hint.clone() }
}

pub(crate) fn host_refusal(rule: String, hint: String) -> Refusal {
    Refusal { rule, layer: Layer::Host, hint }
}

/// The exit status of a command's end.
pub(crate) fn exit_status(end: &End) -> i32 {
    const ENOENT: i32 = 2;
    match end {
        End::Exited { code } => *code,
        End::Signaled { signal } | End::Interrupted { signal } => 128 + signal,
        End::Limit { limit } => limit_status(limit.name()),
        End::Failed { step, errno } if step == "exec" => {
            if *errno == ENOENT {
                127
            } else {
                126
            }
        }
        End::Failed { .. } => REFUSED,
    }
}

/// The exit status of a session's end.
pub(crate) fn status_of(end: &RunEnd) -> i32 {
    match end {
        RunEnd::Closed { .. } => 0,
        RunEnd::Limit { limit } => limit_status(limit),
        RunEnd::Exited { code } => *code,
        RunEnd::Signaled { .. } | RunEnd::Refused { .. } | RunEnd::Failed { .. } => REFUSED,
    }
}

/// Refused, or could not be set up.
pub(crate) const REFUSED: i32 = 125;
/// The program ended well but something that was named did not leave.
pub(crate) const INCOMPLETE: i32 = 123;

fn limit_status(limit: &str) -> i32 {
    if limit == "memory" { 137 } else { 124 }
}

/// The name of a signal of Linux.
pub(crate) fn signal_name(number: i32) -> String {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM", "STKFLT",
        "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    usize::try_from(number - 1).ok().and_then(|at| NAMES.get(at)).map_or_else(|| format!("SIG{number}"), |name| format!("SIG{name}"))
}
