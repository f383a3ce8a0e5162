//! The one way into the kernel that is not the kept crate's.

use rustix::io::Errno;

/// Makes a system call with up to six arguments.
///
/// # Safety
///
/// As the call with that number demands of its arguments.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn syscall(number: libc::c_long, a: [usize; 6]) -> Result<usize, Errno> {
    let returned: isize;
    // SAFETY: the kernel's calling convention of this architecture; what the call does is the caller's promise.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => returned,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    checked(returned)
}

/// Makes a system call with up to six arguments.
///
/// # Safety
///
/// As the call with that number demands of its arguments.
#[cfg(target_arch = "aarch64")]
pub(super) unsafe fn syscall(number: libc::c_long, a: [usize; 6]) -> Result<usize, Errno> {
    let returned: isize;
    // SAFETY: the kernel's calling convention of this architecture; what the call does is the caller's promise.
    unsafe {
        core::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a[0] as isize => returned,
            in("x1") a[1], in("x2") a[2], in("x3") a[3], in("x4") a[4], in("x5") a[5],
            options(nostack),
        );
    }
    checked(returned)
}

/// Small negative numbers are errors.
fn checked(returned: isize) -> Result<usize, Errno> {
    match returned {
        -4095..=-1 => Err(Errno::from_raw_os_error(-returned as i32)),
        value => Ok(value as usize),
    }
}
