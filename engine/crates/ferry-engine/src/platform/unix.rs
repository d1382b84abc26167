//! Files and processes on Unix.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use super::directory_of;
use crate::report::ProcessUsage;

/// The granularity of a poll's time-out: a waiter polls until its deadline less this and sleeps the rest. mio rounds up to whole
/// milliseconds.
pub const POLL_GRANULARITY: Duration = Duration::from_millis(1);

/// The mode of a file while it is written.
pub const OWNER_ONLY: u32 = 0o600;

/// Entries of 8 bytes for 500 users and groups.
#[cfg(target_os = "linux")]
const MOST_LIST_BYTES: usize = 4096;

/// All but the wall time, which the caller knows better.
#[must_use]
pub fn process_usage() -> ProcessUsage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel fills the whole structure or returns an error; zeroes are a valid value of it.
    let (result, usage) = unsafe {
        let result = libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        (result, usage.assume_init())
    };
    if result != 0 {
        return ProcessUsage::default();
    }
    #[allow(clippy::unnecessary_cast, reason = "their types differ between systems")]
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    // Apple counts bytes, the others KiB.
    let unit = if cfg!(target_vendor = "apple") { 1 } else { 1024 };
    ProcessUsage {
        wall_s: 0.0,
        cpu_user_s: seconds(usage.ru_utime),
        cpu_system_s: seconds(usage.ru_stime),
        max_rss_bytes: u64::try_from(usage.ru_maxrss).ok().map(|size| size * unit),
    }
}

/// A write beyond `RLIMIT_FSIZE` is to fail as any other (EFBIG), with a line that says so, instead of killing the process.
pub fn ignore_file_size_signal() {
    // SAFETY: SIG_IGN runs no code of ours; nothing else in this process has an opinion about this signal.
    let _ = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// True if this process ignores the signal because its parent arranged that: `nohup`, a background job of a script.
#[must_use]
pub fn is_ignored(signal: i32) -> bool {
    let mut current = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: with a null pointer for the new action nothing changes; the old one is written to memory that is large enough.
    let known = unsafe { libc::sigaction(signal, std::ptr::null(), current.as_mut_ptr()) } == 0;
    // SAFETY: all zeros are a valid value of this struct of integers, and the call has written one if it succeeded.
    known && unsafe { current.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// Opens for writing, creating it if it is not there, such that no other ferry has it open this way. Its content stays. Only its owner may use it.
///
/// # Errors
/// `ResourceBusy` when another has it; `PermissionDenied` when another user has put it there; the system's own otherwise.
pub fn open_exclusive(path: &Path) -> io::Result<File> {
    loop {
        // In a shared directory another user may have put a link there, which is not followed, or a pipe, which would block.
        let mut options = OpenOptions::new();
        options
            .write(true)
            .mode(OWNER_ONLY)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        let (file, is_new) = match options.create_new(true).open(path) {
            Ok(file) => (file, true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                match options.create_new(false).open(path) {
                    Ok(file) => (file, false),
                    // Published or taken away in between.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                }
            }
            Err(error) => return Err(error),
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::ResourceBusy.into()),
            // Some network and user-space file systems have no locks; without one it works for all who run one ferry at a time.
            Err(TryLockError::Error(error))
                if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::ENOTSUP | libc::ENOLCK)) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // Between open and lock its owner may have published it or taken it away: then this is no longer the file of that name, and
        // writing to it would destroy what is complete.
        let ours = file.metadata()?;
        match fs::symlink_metadata(path) {
            Ok(named) if (named.dev(), named.ino()) == (ours.dev(), ours.ino()) => {}
            Ok(_) => continue,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        }
        if !is_new {
            if !is_own(path, &ours) {
                let why = "it belongs to another user, or has a second name; remove it, or choose another directory";
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
            }
            // An older ferry made it as the umask says. Some file systems have no modes.
            if ours.mode() & 0o077 != 0 {
                let _ = file.set_permissions(fs::Permissions::from_mode(OWNER_ONLY));
            }
        }
        return Ok(file);
    }
}

/// True for a file with one name only that belongs to this user, to root, or to the directory's owner. By a second name, or as
/// the owner, another user could read the content; root and the directory's owner can do so anyway.
#[must_use]
pub fn is_own(path: &Path, found: &fs::Metadata) -> bool {
    let by = |uid: u32| found.uid() == uid;
    found.is_file()
        && found.nlink() <= 1
        && (by(0)
            || by(rustix::process::geteuid().as_raw())
            || fs::metadata(directory_of(path)).is_ok_and(|directory| by(directory.uid())))
}

/// A new empty file that only this user may use: a URL may carry a token. A file that a killed run or another user has left there
/// is removed first, and never written to.
///
/// # Errors
/// The system's own.
pub fn create_private(path: &Path) -> io::Result<File> {
    let create = || {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(OWNER_ONLY)
            .open(path)
    };
    create().or_else(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => fs::remove_file(path).and_then(|()| create()),
        _ => Err(error),
    })
}

/// The mode that `open` would give a file that asks for this mode in this directory: without the bits of the umask, or, where the
/// directory has a default access list, limited to the bits of that list.
#[must_use]
pub fn mode_of_new(directory: &Path, mode: u32) -> u32 {
    default_list_mode(directory, mode).unwrap_or_else(|| mode & !umask())
}

/// The umask, asked for once: the system returns it only in exchange for another one, which is the strictest meanwhile.
fn umask() -> u32 {
    static UMASK: OnceLock<u32> = OnceLock::new();
    *UMASK.get_or_init(|| {
        // SAFETY: the call touches no memory and cannot fail.
        let mask = unsafe {
            let mask = libc::umask(0o077);
            libc::umask(mask);
            mask
        };
        #[allow(clippy::useless_conversion, reason = "its type differs between systems")]
        u32::from(mask)
    })
}

#[cfg(not(target_os = "linux"))]
fn default_list_mode(_directory: &Path, _mode: u32) -> Option<u32> {
    None
}

/// By the directory's default access list, as the kernel computes it (`posix_acl_create_masq`); none without one.
#[cfg(target_os = "linux")]
fn default_list_mode(directory: &Path, mode: u32) -> Option<u32> {
    let path = c_path(directory).ok()?;
    let mut list = [0; MOST_LIST_BYTES];
    // SAFETY: both strings have their NUL and live through the call, which writes at most as many bytes as `list` has.
    let length = unsafe {
        libc::getxattr(
            path.as_ptr(),
            c"system.posix_acl_default".as_ptr(),
            list.as_mut_ptr().cast(),
            list.len(),
        )
    };
    list_mode(list.get(..usize::try_from(length).ok()?)?, mode)
}

/// A list is a version, then entries of tag, bits and user or group (`linux/posix_acl_xattr.h`), little endian.
#[cfg(target_os = "linux")]
fn list_mode(list: &[u8], mode: u32) -> Option<u32> {
    const OWNER: u16 = 0x01;
    const GROUP: u16 = 0x04;
    const MASK: u16 = 0x10;
    const OTHERS: u16 = 0x20;
    let entries = list.strip_prefix(&2_u32.to_le_bytes())?;
    let bits = |wanted: u16| {
        entries.chunks_exact(8).find_map(|entry| match entry {
            [tag0, tag1, bits0, bits1, ..] if u16::from_le_bytes([*tag0, *tag1]) == wanted => {
                Some(u32::from(u16::from_le_bytes([*bits0, *bits1])) & 7)
            }
            _ => None,
        })
    };
    let group = bits(MASK).or_else(|| bits(GROUP))?;
    Some(mode & (bits(OWNER)? << 6 | group << 3 | bits(OTHERS)?))
}

/// # Errors
/// The system's own.
pub fn replace(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

/// Gives `from` the name `to` if nothing has that name.
///
/// # Errors
/// `AlreadyExists` when something has; the system's own otherwise.
pub fn publish_new(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        let (old, new) = (c_path(from)?, c_path(to)?);
        // SAFETY: both are strings with their NUL that live through the call.
        let result = unsafe {
            libc::renameat2(
                libc::AT_FDCWD,
                old.as_ptr(),
                libc::AT_FDCWD,
                new.as_ptr(),
                libc::RENAME_NOREPLACE,
            )
        };
        if result == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        // Not every file system has the flag.
        if !matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS | libc::ENOTSUP)) {
            return Err(error);
        }
    }
    link_new(from, to)
}

/// A link fails where the name is taken, as a rename does not.
fn link_new(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => fs::remove_file(from),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // FAT and the like know no links either. The only way is to look before: a file that takes the name in between is lost.
        Err(_) if fs::symlink_metadata(to).is_err() => fs::rename(from, to),
        Err(_) => Err(io::ErrorKind::AlreadyExists.into()),
    }
}

fn c_path(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

/// # Errors
/// The system's own.
pub fn sync_directory(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Checks that files may be made in a directory, without making one.
///
/// # Errors
/// The system's refusal.
pub fn may_create_in(dir: &Path) -> io::Result<()> {
    let dir = c_path(dir)?;
    // SAFETY: a string with its NUL that lives through the call. AT_EACCESS: as whom files are opened, not as who started us.
    let result = unsafe { libc::faccessat(libc::AT_FDCWD, dir.as_ptr(), libc::W_OK | libc::X_OK, libc::AT_EACCESS) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[must_use]
pub fn is_disk_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG))
}

/// Reads at an offset; the file's own position plays no part.
///
/// # Errors
/// The system's own.
pub fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(buffer, offset)
}

/// Appends at most `most` bytes from an offset of the file, wherever the file's own position is. The memory for them is not cleared first,
/// which every piece of an upload would pay for.
///
/// # Errors
/// The system's own.
pub fn append_at(file: &File, out: &mut Vec<u8>, most: usize, offset: u64) -> io::Result<usize> {
    let Ok(at) = libc::off_t::try_from(offset) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    out.reserve(most);
    let spare = out.spare_capacity_mut();
    let most = most.min(spare.len());
    // SAFETY: `spare` has room for `most` bytes, which the call writes and does not read.
    let count = unsafe { libc::pread(file.as_raw_fd(), spare.as_mut_ptr().cast(), most, at) };
    let Ok(count) = usize::try_from(count) else {
        return Err(io::Error::last_os_error());
    };
    // SAFETY: the call has written so many bytes behind the length, at most as many as the capacity has room for.
    unsafe { out.set_len(out.len() + count) };
    Ok(count)
}

/// All of it, wherever the file's own position is.
///
/// # Errors
/// The system's own.
pub fn write_at(file: &File, data: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(data, offset)
}

/// Without the line buffer of std.
///
/// # Errors
/// The system's own.
pub fn standard_output() -> io::Result<File> {
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

/// Without the buffer of std.
///
/// # Errors
/// The system's own.
pub fn standard_input() -> io::Result<File> {
    Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?))
}

/// The mode of a regular file that other users may use.
#[must_use]
pub fn open_to_others(found: &fs::Metadata) -> Option<u32> {
    let mode = found.mode() & 0o777;
    (found.is_file() && mode & 0o077 != 0).then_some(mode)
}

/// The same as `open_to_others`, but only for a file that this user owns. OpenSSH refuses such a key, and takes one that another
/// user owns (root's, shared with a group): `sshkey_perm_ok` in authfile.c.
#[must_use]
pub fn own_and_open_to_others(found: &fs::Metadata) -> Option<u32> {
    open_to_others(found).filter(|_| found.uid() == rustix::process::geteuid().as_raw())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn usage_counts_up() {
        let before = process_usage();
        let mut sum = 0_u64;
        while process_usage().cpu_user_s <= before.cpu_user_s {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
        }
        assert!(process_usage().max_rss_bytes.is_some_and(|size| size > 1 << 20));
    }

    #[test]
    fn publish_new_never_replaces() {
        type Publish = fn(&Path, &Path) -> io::Result<()>;
        for publish in [publish_new as Publish, link_new as Publish] {
            let dir = tempfile::tempdir().unwrap();
            let (from, to) = (dir.path().join("from"), dir.path().join("to"));
            fs::write(&from, "new").unwrap();
            fs::write(&to, "old").unwrap();
            assert_eq!(publish(&from, &to).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(fs::read(&to).unwrap(), b"old");
            fs::remove_file(&to).unwrap();
            std::os::unix::fs::symlink("nowhere", &to).unwrap();
            assert_eq!(publish(&from, &to).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            fs::remove_file(&to).unwrap();
            publish(&from, &to).unwrap();
            assert_eq!(fs::read(&to).unwrap(), b"new");
            assert!(!from.exists());
        }
    }

    #[test]
    fn replace_replaces() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::write(&from, "new").unwrap();
        fs::write(&to, "old").unwrap();
        replace(&from, &to).unwrap();
        sync_directory(dir.path()).unwrap();
        assert_eq!(fs::read(&to).unwrap(), b"new");
        fs::write(&from, "newer").unwrap();
        fs::remove_file(&to).unwrap();
        replace(&from, &to).unwrap();
        assert_eq!(fs::read(&to).unwrap(), b"newer");
    }

    #[test]
    fn an_exclusive_file_has_one_writer_and_follows_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let (path, published) = (dir.path().join("partial"), dir.path().join("whole"));
        let first = open_exclusive(&path).unwrap();
        assert_eq!(open_exclusive(&path).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        publish_new(&path, &published).unwrap();
        // Another file has the name now.
        let second = open_exclusive(&path).unwrap();
        assert_ne!(first.metadata().unwrap().ino(), second.metadata().unwrap().ino());
        drop(second);
        open_exclusive(&path).unwrap();
    }

    #[test]
    fn a_link_in_the_place_of_a_partial_file_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, victim) = (dir.path().join("partial"), dir.path().join("victim"));
        fs::write(&victim, "mine").unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        assert!(open_exclusive(&path).is_err());
        // Removed, and a file of our own in its place.
        create_private(&path).unwrap().write_all(b"ours").unwrap();
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
        assert_eq!(fs::read(&victim).unwrap(), b"mine");
    }

    #[test]
    fn what_others_may_read_is_never_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let (path, victim) = (dir.path().join("partial"), dir.path().join("victim"));
        let refused = || {
            let error = open_exclusive(&path).unwrap_err();
            (error.kind(), error.to_string())
        };
        fs::write(&victim, "mine").unwrap();
        fs::hard_link(&victim, &path).unwrap();
        assert_eq!(refused().0, io::ErrorKind::PermissionDenied);
        // The same file must lose nothing under its other name.
        create_private(&path).unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"mine");
        fs::remove_file(&path).unwrap();
        let pipe = c_path(&path).unwrap();
        // SAFETY: a string with its NUL that lives through the call.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o666) }, 0);
        assert!(open_exclusive(&path).is_err(), "a pipe is not waited for");
        fs::remove_file(&path).unwrap();
        if rustix::process::geteuid().is_root() {
            fs::write(&path, "planted").unwrap();
            std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
            assert!(refused().1.contains("another user"), "{}", refused().1);
            // The owner of a directory can read everything in it.
            std::os::unix::fs::chown(dir.path(), Some(65534), None).unwrap();
            assert!(open_exclusive(&path).is_ok());
        }
    }

    #[test]
    fn only_the_owner_may_use_an_exclusive_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("partial");
        let mode = || fs::metadata(&path).unwrap().mode() & 0o777;
        drop(open_exclusive(&path).unwrap());
        assert_eq!(mode(), 0o600);
        // The mode of a file that an older ferry has left.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        drop(open_exclusive(&path).unwrap());
        assert_eq!(mode(), 0o600);
    }

    #[test]
    fn a_new_file_has_the_mode_that_open_gives_it() {
        let dir = tempfile::tempdir().unwrap();
        for mode in [0o666, 0o600, 0o755, 0o640] {
            let path = dir.path().join(format!("{mode:o}"));
            let made = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
            let made = made.unwrap().metadata().unwrap().mode() & 0o777;
            assert_eq!(mode_of_new(dir.path(), mode), made, "{mode:o}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_default_access_list_counts_in_place_of_the_umask() {
        let list = |entries: &[(u16, u16)]| {
            let mut list = 2_u32.to_le_bytes().to_vec();
            for (tag, bits) in entries {
                list.extend(tag.to_le_bytes());
                list.extend(bits.to_le_bytes());
                list.extend(u32::MAX.to_le_bytes());
            }
            list
        };
        let shared = list(&[(0x01, 7), (0x04, 5), (0x08, 7), (0x10, 7), (0x20, 0)]);
        assert_eq!(list_mode(&shared, 0o666), Some(0o660));
        assert_eq!(list_mode(&list(&[(0x01, 7), (0x04, 5), (0x20, 4)]), 0o777), Some(0o754));
        assert_eq!(list_mode(&list(&[(0x01, 7), (0x20, 4)]), 0o777), None);
        assert_eq!(list_mode(&[], 0o777), None);
        assert_eq!(list_mode(&[3, 0, 0, 0, 1, 0, 7], 0o777), None);
    }

    #[test]
    fn full_is_full() {
        for code in [libc::ENOSPC, libc::EDQUOT, libc::EFBIG] {
            assert!(is_disk_full(&io::Error::from_raw_os_error(code)));
        }
        assert!(!is_disk_full(&io::Error::from_raw_os_error(libc::EACCES)));
        assert!(!is_disk_full(&io::ErrorKind::WriteZero.into()));
    }
}
