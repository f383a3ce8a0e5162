//! Modes in a patch: two of them are files, and every other is refused by what it would make.

use super::error::{Fault, ModeFault};
use crate::mode::Mode;
use crate::visible::shown;

/// Reads a mode as git writes it; `verb` is what the line does with what has that mode.
pub(super) fn mode(text: &[u8], verb: &'static str) -> Result<Mode, Fault> {
    match text {
        b"100644" => Ok(Mode::Plain),
        b"100755" => Ok(Mode::Executable),
        b"120000" => Err(Fault::Mode(ModeFault::Link(verb))),
        b"160000" => Err(Fault::Mode(ModeFault::Gitlink(verb))),
        b"040000" | b"40000" => Err(Fault::Mode(ModeFault::Folder(verb))),
        other => Err(Fault::Mode(ModeFault::Other(shown(other)))),
    }
}
