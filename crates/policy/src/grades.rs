//! The least grades at which limits may be held.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::choices::Grade;

/// The least grade at which a limit may be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grades {
    /// For memory.
    pub memory: Grade,
    /// For processor time.
    pub cpu: Grade,
    /// For bytes and files on disk. (In memory they are always held by the kernel.)
    #[serde(default = "Grades::least_for_disk", skip_serializing_if = "Grades::is_least_for_disk")]
    pub disk: Grade,
}

impl Grades {
    /// What a record from before there was storage on disk means.
    pub(crate) fn least_for_disk() -> Grade {
        Grade::Watched
    }

    pub(crate) fn is_least_for_disk(grade: &Grade) -> bool {
        *grade == Self::least_for_disk()
    }

    pub(crate) fn all(grade: Grade) -> Self {
        Self { memory: grade, cpu: grade, disk: grade }
    }

    pub(crate) fn meet(self, other: Self) -> Self {
        Self { memory: self.memory.max(other.memory), cpu: self.cpu.max(other.cpu), disk: self.disk.max(other.disk) }
    }
}

impl fmt::Display for Grades {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "memory {}, cpu {}, disk {}", self.memory, self.cpu, self.disk)
    }
}
