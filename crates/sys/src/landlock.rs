//! Detects whether the kernel supports Landlock, which lets a process restrict itself.

use std::io;

/// The flag that requests the version instead of a new rule set.
const VERSION: libc::c_uint = 1;

/// Returns the Landlock version that the kernel enforces. `None` if Landlock is missing or
/// disabled.
pub fn abi() -> io::Result<Option<u32>> {
    #[expect(unsafe_code, reason = "rustix has no call for Landlock")]
    // SAFETY: with this flag, the kernel requires a null pointer and size zero, and reads no
    // memory.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, VERSION)
    };
    if version >= 0 {
        return u32::try_from(version).map(Some).map_err(io::Error::other);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ENOSYS | libc::EOPNOTSUPP) => Ok(None),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_matches_the_kernel() {
        let modules = std::fs::read_to_string("/sys/kernel/security/lsm").unwrap_or_default();
        let listed = modules.trim().split(',').any(|name| name == "landlock");
        let abi = abi().unwrap();
        assert!(!listed || abi.is_some_and(|abi| abi >= 1), "{abi:?}");
        assert!(abi != Some(0));
    }
}
