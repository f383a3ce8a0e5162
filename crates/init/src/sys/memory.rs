//! Memory: an allocator for a program that allocates little and ends soon, and the copies that the compiler calls by name.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::ptr::null_mut;

use super::raw::syscall;

/// Bytes that are asked of the kernel at once, at least.
const CHUNK: usize = 64 << 10;

/// Hands out memory in a row, and takes back only what was handed out last.
struct Row {
    next: Cell<usize>,
    end: Cell<usize>,
}

// SAFETY: this program has one thread.
unsafe impl Sync for Row {}

#[global_allocator]
static MEMORY: Row = Row { next: Cell::new(0), end: Cell::new(0) };

// SAFETY: every block lies in memory that the kernel gave for this alone, is aligned as asked, and overlaps no other living one: `next` only goes
// back over a block that its owner has just returned.
unsafe impl GlobalAlloc for Row {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let start = self.next.get().next_multiple_of(layout.align());
        let Some(end) = start.checked_add(layout.size()) else { return null_mut() };
        if start != 0 && end <= self.end.get() {
            self.next.set(end);
            return start as *mut u8;
        }
        let room = layout.size().saturating_add(layout.align()).max(CHUNK);
        let Some(chunk) = ask_for(room) else { return null_mut() };
        self.next.set(chunk);
        self.end.set(chunk + room);
        // SAFETY: as the caller promised; the new chunk is large enough.
        unsafe { self.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if block as usize + layout.size() == self.next.get() {
            self.next.set(block as usize);
        }
    }
}

/// New memory of the kernel's, filled with zeros.
fn ask_for(bytes: usize) -> Option<usize> {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new private mapping, at an address of the kernel's choice, touches nothing that exists.
    unsafe { syscall(libc::SYS_mmap, [0, bytes, protection as usize, flags as usize, usize::MAX, 0]) }.ok()
}

/// Copies; the two must not overlap.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, length: usize) -> *mut u8 {
    // SAFETY: as the caller promised.
    unsafe { copy_up(to, from, length) };
    to
}

/// Copies; the two may overlap.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, length: usize) -> *mut u8 {
    // SAFETY: as the caller promised; the direction is the one in which no byte is overwritten before it is read.
    unsafe {
        match (to as usize).wrapping_sub(from as usize) >= length {
            true => copy_up(to, from, length),
            false => copy_down(to, from, length),
        }
    }
    to
}

/// Fills with one byte.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, length: usize) -> *mut u8 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as the caller promised. By name of the instruction, since a loop would be turned into a call of this function.
    unsafe {
        core::arch::asm!("rep stosb", inout("rcx") length => _, inout("rdi") to => _, in("al") byte as u8, options(nostack));
    }
    #[cfg(not(target_arch = "x86_64"))]
    for at in 0..length {
        // SAFETY: as the caller promised.
        unsafe { to.add(at).write_volatile(byte as u8) };
    }
    to
}

/// Compares byte by byte.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, length: usize) -> i32 {
    for at in 0..length {
        // SAFETY: as the caller promised.
        let (a, b) = unsafe { (a.add(at).read_volatile(), b.add(at).read_volatile()) };
        if a != b {
            return i32::from(a) - i32::from(b);
        }
    }
    0
}

/// Compares for equality.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, length: usize) -> i32 {
    // SAFETY: as the caller promised.
    unsafe { memcmp(a, b, length) }
}

/// Counts the bytes before a NUL.
#[unsafe(no_mangle)]
unsafe extern "C" fn strlen(text: *const u8) -> usize {
    let mut length = 0;
    // SAFETY: as the caller promised.
    while unsafe { text.add(length).read_volatile() } != 0 {
        length += 1;
    }
    length
}

unsafe fn copy_up(to: *mut u8, from: *const u8, length: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as the caller promised.
    unsafe {
        core::arch::asm!("rep movsb", inout("rcx") length => _, inout("rdi") to => _, inout("rsi") from => _, options(nostack));
    }
    #[cfg(not(target_arch = "x86_64"))]
    for at in 0..length {
        // SAFETY: as the caller promised.
        unsafe { to.add(at).write_volatile(from.add(at).read_volatile()) };
    }
}

unsafe fn copy_down(to: *mut u8, from: *const u8, length: usize) {
    for at in (0..length).rev() {
        // SAFETY: as the caller promised.
        unsafe { to.add(at).write_volatile(from.add(at).read_volatile()) };
    }
}
