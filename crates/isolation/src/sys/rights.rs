//! The rights of one thread over files, apart from those of its process.

use std::marker::PhantomData;

use rustix::io::Errno;

use super::checked;

/// For as long as this lives, the thread that made it has the file rights of another user, who is in no other group, and none of root's. It does not
/// leave the thread.
#[derive(Debug)]
pub(crate) struct FileRights {
    groups: Vec<u32>,
    _stays_here: PhantomData<*const ()>,
}

impl FileRights {
    /// Takes on the rights of a user; only root can.
    pub(crate) fn of(uid: u32, gid: u32) -> Result<Self, Errno> {
        let groups = rustix::process::getgroups()?.into_iter().map(rustix::fs::Gid::as_raw).collect();
        let taken = Self { groups, _stays_here: PhantomData };
        set_groups(&[])?;
        set_file_ids(uid, gid)?; // on failure what was taken is given back
        Ok(taken)
    }
}

impl Drop for FileRights {
    /// A thread that cannot have its own rights back must not go on: whatever it did next would be done as somebody else.
    fn drop(&mut self) {
        if set_file_ids(0, 0).and_then(|()| set_groups(&self.groups)).is_err() {
            std::process::abort();
        }
    }
}

/// The kernel's own call changes this thread alone; the C library's would change all of them.
fn set_groups(groups: &[u32]) -> Result<(), Errno> {
    // SAFETY: the kernel reads `len` numbers from a slice that outlives the call.
    checked(unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) }).map(drop)
}

/// These calls do not fail; what is in force afterwards says whether they did what was asked.
fn set_file_ids(uid: u32, gid: u32) -> Result<(), Errno> {
    for (call, id) in [(libc::SYS_setfsgid, gid), (libc::SYS_setfsuid, uid)] {
        // SAFETY: plain integers; an id that does not exist changes nothing and answers with the one in force.
        let in_force = unsafe {
            libc::syscall(call, id);
            libc::syscall(call, u32::MAX)
        };
        if in_force as u32 != id {
            return Err(Errno::PERM);
        }
    }
    Ok(())
}
