//! What of Landlock the kernel has. Reference: Documentation/userspace-api/landlock.rst.

/// The version, 0 where there is none.
pub(crate) fn version() -> u32 {
    const LANDLOCK_CREATE_RULESET_VERSION: libc::c_uint = 1;
    // SAFETY: a NULL attribute of size 0 with this flag only asks for the version.
    let returned = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<libc::c_void>(), 0usize, LANDLOCK_CREATE_RULESET_VERSION)
    };
    super::checked(returned).map_or(0, |version| version as u32)
}
