//! Where the program starts, and where it ends.

use super::process::exit_now;

/// The entry point: makes the stack straight and goes on in Rust. Nothing of arguments or environment is looked at.
#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn _start() -> ! {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!("xor ebp, ebp", "and rsp, -16", "call {begin}", "ud2", begin = sym begin);
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!("mov x29, #0", "mov x30, #0", "b {begin}", begin = sym begin);
}

extern "C" fn begin() -> ! {
    exit_now(crate::live())
}

/// A fault of our own ends init, and with it the sandbox; the supervisor sees that it ended.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    exit_now(101)
}

/// Named by code of the compiler's own libraries, which was made for programs that unwind. Nothing here does: a panic ends the program.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() -> ! {
    exit_now(102)
}

/// As above.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() -> ! {
    exit_now(102)
}
