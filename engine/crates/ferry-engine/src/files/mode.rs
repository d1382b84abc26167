//! Permission bits, where the system has them: read, write and execute for owner, group and others. Never setuid, setgid and sticky.

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;

#[cfg(unix)]
use crate::platform;

/// The bits that count.
const BITS: u32 = 0o777;
/// The usual bits of a new file.
const USUAL: u32 = 0o666;
/// The owner of a file can read it and write it again.
const OWNER: u32 = 0o600;
#[cfg(unix)]
const OWNER_OF_DIRECTORY: u32 = 0o700;

/// The bits of a file once it is complete. Until then only its owner may use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Complete {
    /// These bits, regardless of the umask.
    Exactly(u32),
    /// The bits of the file that it replaces; a new file has these bits as far as the umask allows.
    AsNew(u32),
}

impl Default for Complete {
    fn default() -> Self {
        Self::AsNew(USUAL)
    }
}

impl Complete {
    /// Returns the bits for a file with this `st_mode` on the server, as scp, sftp and rsync set them without `-p`. Some servers
    /// report no bits.
    #[must_use]
    pub fn like(mode: Option<u32>) -> Self {
        mode.map(bits)
            .filter(|bits| *bits != 0)
            .map_or_else(Self::default, |bits| Self::AsNew(bits | OWNER))
    }
}

/// Gives a file its bits before it gets the name `target`.
///
/// # Errors
/// The system's own, for bits that must be exact. Where the file system has none, the others stay as they are.
#[cfg(unix)]
pub fn complete(file: &File, target: &Path, wanted: Complete) -> io::Result<()> {
    match wanted {
        Complete::Exactly(mode) => set(file, mode),
        Complete::AsNew(mode) => {
            let _ = match std::fs::metadata(target) {
                Ok(old) => file.set_permissions(old.permissions()),
                Err(_) => set(file, platform::mode_of_new(platform::directory_of(target), bits(mode))),
            };
            Ok(())
        }
    }
}

/// Windows keeps access lists where it replaces a file.
#[cfg(not(unix))]
pub fn complete(_file: &File, _target: &Path, _wanted: Complete) -> io::Result<()> {
    Ok(())
}

/// Gives a file back to its owner alone, because it does not get its name yet.
pub fn withdraw(file: &File) {
    let _ = set(file, OWNER);
}

/// Returns the permission bits of an `st_mode`, local or from a server.
#[must_use]
pub fn bits(mode: u32) -> u32 {
    mode & BITS
}

/// Returns the permission bits; `None` where the system has none.
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

/// Sets the permission bits; does nothing where the system has none.
#[cfg(unix)]
pub fn set(file: &File, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(std::fs::Permissions::from_mode(bits(mode)))
}

#[cfg(not(unix))]
pub fn set(_file: &File, _mode: u32) -> io::Result<()> {
    Ok(())
}

/// Sets the permission bits of the file or directory with this name; a symbolic link is followed.
#[cfg(unix)]
pub fn set_path(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(bits(mode)))
}

#[cfg(not(unix))]
pub fn set_path(_path: &Path, _mode: u32) -> io::Result<()> {
    Ok(())
}

/// Makes a directory with the bits of an `st_mode` as far as the umask allows, and open to its owner.
#[cfg(unix)]
pub fn make_directory(path: &Path, mode: Option<u32>) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let mut builder = std::fs::DirBuilder::new();
    if let Some(mode) = mode.map(bits).filter(|bits| *bits != 0) {
        builder.mode(mode | OWNER_OF_DIRECTORY);
    }
    builder.create(path)
}

#[cfg(not(unix))]
pub fn make_directory(path: &Path, _mode: Option<u32>) -> io::Result<()> {
    std::fs::create_dir(path)
}
