//! Acts that fail: which one, and the kernel's answer.

use alloc::borrow::Cow;

use ringfence_wire::Failed;
use rustix::io::Errno;

/// An act that failed.
#[derive(Debug)]
pub(crate) struct Failure {
    act: &'static str,
    item: Option<u32>,
    errno: Errno,
}

impl Failure {
    pub(crate) fn new(act: &'static str, errno: Errno) -> Self {
        Self { act, item: None, errno }
    }

    pub(crate) fn into_wire(self) -> Failed {
        Failed { act: Cow::Borrowed(self.act), item: self.item, errno: self.errno.raw_os_error() }
    }
}

/// Names the act of an error number.
pub(crate) trait At<T> {
    fn at(self, act: &'static str) -> Result<T, Failure>;
    /// The act number `item` of its kind.
    fn at_item(self, act: &'static str, item: usize) -> Result<T, Failure>;
}

impl<T> At<T> for Result<T, Errno> {
    fn at(self, act: &'static str) -> Result<T, Failure> {
        self.map_err(|errno| Failure::new(act, errno))
    }

    fn at_item(self, act: &'static str, item: usize) -> Result<T, Failure> {
        self.map_err(|errno| Failure { act, item: u32::try_from(item).ok(), errno })
    }
}
