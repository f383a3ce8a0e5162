//! The program that becomes init: carried in our own data, put into a sealed memory file once, executed from there.

use std::ffi::CStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;

/// What the build script made of `crates/init`.
const PROGRAM: &[u8] = include_bytes!(env!("RINGFENCE_INIT"));

/// Nobody can change it any more, this process included.
const SEALS: SealFlags = SealFlags::WRITE.union(SealFlags::GROW).union(SealFlags::SHRINK).union(SealFlags::SEAL);

/// The program as a file that can be executed.
pub(crate) fn init_program() -> Result<BorrowedFd<'static>, Errno> {
    static FILE: OnceLock<OwnedFd> = OnceLock::new();
    sealed_once(&FILE, c"ringfence-init", PROGRAM)
}

/// The sealed file of a program, made at first use.
pub(crate) fn sealed_once(kept: &'static OnceLock<OwnedFd>, name: &CStr, program: &[u8]) -> Result<BorrowedFd<'static>, Errno> {
    match kept.get() {
        Some(file) => Ok(file.as_fd()),
        None => {
            let file = sealed(name, program)?;
            Ok(kept.get_or_init(|| file).as_fd())
        }
    }
}

/// A file in memory that holds a program and can be executed.
fn sealed(name: &CStr, program: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let made = match memfd_create(name, flags | MemfdFlags::EXEC) {
        Err(Errno::INVAL) => memfd_create(name, flags), // before Linux 6.3 every memory file can be executed
        made => made,
    };
    let mut file = File::from(made?);
    file.write_all(program).map_err(crate::step::errno)?;
    fcntl_add_seals(&file, SEALS)?;
    Ok(file.into())
}
