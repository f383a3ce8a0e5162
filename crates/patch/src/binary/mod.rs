//! `GIT binary patch`: content that is no text, packed with zlib and written in base 85. Format: git's diff.c, base85.c and patch-delta.c.

mod delta;
mod digits;
mod literal;
mod unpack;

pub use delta::DeltaFault;
pub use digits::DigitFault;
pub use unpack::UnpackFault;

pub(crate) use delta::Delta;
pub(crate) use digits::decode_line;
pub(crate) use literal::literal;
pub(crate) use unpack::unpack;
