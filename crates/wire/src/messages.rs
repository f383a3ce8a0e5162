//! Orders and reports.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Deserializer, Serialize};

/// The descriptor on which init finds its socket.
pub const CONTROL_FD: i32 = 0;

/// From the supervisor to init.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Make the namespaces and the process that is init in them. With descriptors: a cgroup's folder to be born in, or files of cgroups into which a
    /// thread writes `0` to move itself there.
    Begin {
        /// Which of the two.
        is_born_in_group: bool,
        /// Who init is.
        maps: Maps,
    },
    /// Build the sandbox and give up what that needed: the [`Blueprint`](crate::Blueprint) in a memory file, then the opened sources.
    Build,
    /// Run a command: its [`Execution`] in a memory file, then stdout, stderr and, where it has one, stdin (no streams where it gets a terminal); the
    /// program last, where it is sent.
    Execute {
        /// Named by the supervisor.
        id: u32,
        /// Whether the sandbox ends with it: then init kills what is left, waits for all of it, reports, and ends.
        is_last: bool,
    },
    /// Send a signal to a command and the processes of its group.
    Signal {
        /// Which command.
        id: u32,
        /// The signal's number.
        signal: i32,
    },
    /// Let the wall clock begin anew.
    Clock {
        /// Milliseconds from now.
        wall_ms: u64,
    },
    /// Make a TCP socket in the sandbox's network, not connected, and hand it out.
    Socket,
}

/// How ids in the new user namespace stand for ids of the host, as user_namespaces(7) has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Maps {
    /// Lines of `uid_map`.
    pub users: String,
    /// Lines of `gid_map`.
    pub groups: String,
    /// Whether groups can be set inside.
    pub may_set_groups: bool,
    /// Ids that init takes, where it is not somebody by the maps alone.
    pub ids: Option<(u32, u32)>,
}

/// From init to the supervisor.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// A step failed; init ends.
    Failed(Failed),
    /// Init exists; with a descriptor of its process. Its parent is the supervisor; the process that says so ends.
    Born {
        /// Its id, as the supervisor sees it.
        pid: i32,
    },
    /// The sandbox stands, confined, and commands may come; with descriptors of the folders that are handed out, then of the doors.
    Standing,
    /// A command that is not the last runs its program.
    Started {
        /// Which.
        id: u32,
        /// The id of its process, as it is inside.
        pid: i32,
    },
    /// The terminal of a command, before it runs; with the descriptor of its master side.
    Terminal {
        /// Which.
        id: u32,
    },
    /// A socket, as it was asked for; without a descriptor if none can be had.
    Socket,
    /// A command could not be started.
    NotStarted {
        /// Which.
        id: u32,
        /// Why.
        failed: Failed,
    },
    /// A command ended. Of the last one this is said once every other process is dead.
    Ended {
        /// Which.
        id: u32,
        /// As wait(2) says it.
        status: i32,
    },
    /// Every process but init is dead, as the order for the last command asked.
    Empty {
        /// Processor time of all of them, microseconds.
        cpu_us: u64,
        /// Most resident memory that one of them had, bytes.
        memory_peak_bytes: u64,
    },
    /// Init's own clock says that the time is up; init ends.
    TimeUp,
}

/// What failed, and the kernel's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// What was tried.
    pub act: Cow<'static, str>,
    /// Which one, where there are several.
    pub item: Option<u32>,
    /// The error number: one that the kernel can have, since any other would stop the supervisor where it becomes one.
    #[serde(deserialize_with = "error_number")]
    pub errno: i32,
}

fn error_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
    match i32::deserialize(deserializer)? {
        number @ 1..=4095 => Ok(number),
        _ => Err(serde::de::Error::custom("no error number")),
    }
}

/// A command as init needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    /// Whether what is executed is sent along, the last of the descriptors: our own probe, which is on no path of the sandbox.
    pub is_sent: bool,
    /// What is executed otherwise: the first of these paths that is there.
    pub candidates: Vec<Vec<u8>>,
    /// Arguments, the program's name first.
    pub argv: Vec<Vec<u8>>,
    /// Variables, as `NAME=VALUE`.
    pub environment: Vec<Vec<u8>>,
    /// Where it starts.
    pub folder: Vec<u8>,
    /// The terminal that it gets in place of streams.
    pub terminal: Option<Window>,
}

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Lines.
    pub rows: u16,
    /// Characters of a line.
    pub columns: u16,
}

/// A value as bytes (postcard). `None` only if memory is exhausted.
pub fn encode(value: &impl Serialize) -> Option<Vec<u8>> {
    postcard::to_allocvec(value).ok()
}

/// A value from all of the bytes; `None` if they are not one.
pub fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Some(value),
        Ok(_) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Zero stopped the supervisor: it has no place among the errors.
    #[test]
    fn init_cannot_report_an_error_that_is_none() {
        let report = |errno| Report::Failed(Failed { act: "x".into(), item: None, errno });
        let is_read = |errno| encode(&report(errno)).and_then(|bytes| decode::<Report>(&bytes)).is_some();
        assert_eq!([-1, 0, 1, 4095, 4096].map(is_read), [false, false, true, true, false]);
    }

    #[test]
    fn what_follows_a_message_makes_it_none() {
        let mut bytes = encode(&Report::Standing).unwrap_or_default();
        assert_eq!(decode::<Report>(&bytes), Some(Report::Standing));
        bytes.push(0);
        assert_eq!(decode::<Report>(&bytes), None);
    }
}
