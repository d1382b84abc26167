//! Permission bits, where the system has them: read, write and execute for owner, group and others. Never setuid, setgid and sticky.

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;

/// The bits that count.
const BITS: u32 = 0o777;

/// Of a `st_mode`, here or from a server.
#[must_use]
pub fn bits(mode: u32) -> u32 {
    mode & BITS
}

/// `None` where the system has none.
#[cfg(unix)]
#[must_use]
pub fn of(found: &Metadata) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt;
    Some(bits(found.permissions().mode()))
}

#[cfg(not(unix))]
#[must_use]
pub fn of(_found: &Metadata) -> Option<u32> {
    None
}

/// Does nothing where the system has none.
#[cfg(unix)]
pub fn set(file: &File, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(std::fs::Permissions::from_mode(bits(mode)))
}

#[cfg(not(unix))]
pub fn set(_file: &File, _mode: u32) -> io::Result<()> {
    Ok(())
}

/// Of what has this name; a symbolic link is followed.
#[cfg(unix)]
pub fn set_path(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(bits(mode)))
}

#[cfg(not(unix))]
pub fn set_path(_path: &Path, _mode: u32) -> io::Result<()> {
    Ok(())
}
