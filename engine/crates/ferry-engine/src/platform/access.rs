//! Windows: who may open a file.

use std::io;
use std::ptr;

use windows_sys::Win32::Security::{
    DACL_SECURITY_INFORMATION, GetFileSecurityW, GetSecurityDescriptorControl, PSECURITY_DESCRIPTOR,
    SE_DACL_AUTO_INHERIT_REQ, SE_DACL_AUTO_INHERITED, SetFileSecurityW, SetSecurityDescriptorControl,
};

/// Gives the file `to` the access list of the file `from`, entry by entry; both are names with their NUL.
///
/// `SetNamedSecurityInfoW` would mix it with what the directory above hands down.
///
/// # Errors
/// The system's own: no such file, a file system without lists, no permission.
pub(super) fn copy(from: &[u16], to: &[u16]) -> io::Result<()> {
    let mut size = 0_u32;
    // SAFETY: the name has its NUL, and lives through the call; with no room it only tells how much is needed.
    unsafe {
        GetFileSecurityW(
            from.as_ptr(),
            DACL_SECURITY_INFORMATION,
            ptr::null_mut(),
            0,
            &raw mut size,
        )
    };
    // Words of 8 bytes, because a descriptor has to be aligned.
    let mut room = vec![0_u64; usize::try_from(size).unwrap_or(0).div_ceil(size_of::<u64>())];
    let descriptor: PSECURITY_DESCRIPTOR = room.as_mut_ptr().cast();
    // SAFETY: as above; there is room for `size` bytes.
    success(unsafe {
        GetFileSecurityW(
            from.as_ptr(),
            DACL_SECURITY_INFORMATION,
            descriptor,
            size,
            &raw mut size,
        )
    })?;
    let (mut control, mut revision) = (0_u16, 0_u32);
    // SAFETY: the call above has written a descriptor. That entries came from the directory above is kept only where it is asked for.
    unsafe {
        if GetSecurityDescriptorControl(descriptor, &raw mut control, &raw mut revision) != 0
            && control & SE_DACL_AUTO_INHERITED != 0
        {
            SetSecurityDescriptorControl(descriptor, SE_DACL_AUTO_INHERIT_REQ, SE_DACL_AUTO_INHERIT_REQ);
        }
    }
    // SAFETY: as above.
    success(unsafe { SetFileSecurityW(to.as_ptr(), DACL_SECURITY_INFORMATION, descriptor) })
}

fn success(result: i32) -> io::Result<()> {
    if result == 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
