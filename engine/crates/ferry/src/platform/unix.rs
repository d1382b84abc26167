//! Files and processes on Unix.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use crate::report::ProcessUsage;

/// How coarse a poll's time-out is: a waiter polls until its deadline less this and sleeps the rest. mio rounds up to whole milliseconds.
pub const POLL_GRANULARITY: Duration = Duration::from_millis(1);

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

/// A write beyond RLIMIT_FSIZE is to fail as any other (EFBIG), with a line that says so, instead of killing the process.
pub fn ignore_file_size_signal() {
    // SAFETY: SIG_IGN runs no code of ours; nothing else in this process has an opinion about this signal.
    let _ = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Opens for writing, creating it if it is not there, such that no other ferry has it open this way. Its content stays.
///
/// # Errors
/// `ResourceBusy` when another has it; the system's own otherwise.
pub fn open_exclusive(path: &Path) -> io::Result<File> {
    todo!()
}

/// A new empty file that only this user may read: a URL may carry a token.
///
/// # Errors
/// The system's own.
pub fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
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
    todo!()
}

/// # Errors
/// The system's own.
pub fn sync_directory(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Whether files may be made in a directory, without making one.
///
/// # Errors
/// The system's refusal.
pub fn may_create_in(dir: &Path) -> io::Result<()> {
    todo!()
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
