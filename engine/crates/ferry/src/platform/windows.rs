//! Windows: sockets, files and processes. The constants that windows-sys lacks are derived beside their names.

use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::io;
use std::mem::MaybeUninit;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::fs::{FileExt, OpenOptionsExt};
use std::os::windows::io::{AsHandle, AsRawSocket};
use std::path::Path;
use std::ptr;
use std::time::{Duration, Instant};

use socket2::SockRef;
use windows_sys::Win32::Foundation::{
    ERROR_DISK_FULL, ERROR_DISK_QUOTA_EXCEEDED, ERROR_FILE_TOO_LARGE, ERROR_HANDLE_DISK_FULL, ERROR_SHARING_VIOLATION,
    FILETIME,
};
use windows_sys::Win32::Networking::WinSock::{SIO_TCP_INFO, SOCKET, TCP_INFO_v0, WSAIoctl};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_SHARE_DELETE, FILE_SHARE_READ, MOVEFILE_REPLACE_EXISTING, MOVEFILE_WRITE_THROUGH, MoveFileExW,
    REPLACEFILE_IGNORE_MERGE_ERRORS, ReplaceFileW,
};
use windows_sys::Win32::System::ProcessStatus::{K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, GetProcessTimes};

use crate::report::{ProcessUsage, TcpSample};

/// How coarse a poll's time-out is: a waiter polls until its deadline less this and sleeps the rest. The system's tick is 15.6 ms.
pub const POLL_GRANULARITY: Duration = Duration::from_millis(16);

/// `_IOR('t', 123, ULONG)` of winsock2.h: `IOC_OUT` | 4 << 16 | 't' << 8 | 123.
const SIO_IDEAL_SEND_BACKLOG_QUERY: u32 = 0x4004_747B;

/// One control call with an input and an output of fixed size. None when it fails or fills less than the whole output.
fn control<I: Copy, O: Copy>(socket: &SockRef<'_>, code: u32, input: Option<&I>) -> Option<O> {
    let mut output = MaybeUninit::<O>::zeroed();
    let mut returned = 0_u32;
    let (address, size) = match input {
        Some(input) => (ptr::from_ref(input).cast::<c_void>(), size_of::<I>()),
        None => (ptr::null(), 0),
    };
    // SAFETY: the socket is open as long as the SockRef is borrowed; both sizes are those of the objects pointed to, which outlive the
    // call, since without an OVERLAPPED it is done when it returns.
    let result = unsafe {
        WSAIoctl(
            SOCKET::try_from(socket.as_raw_socket()).ok()?,
            code,
            address,
            u32::try_from(size).ok()?,
            output.as_mut_ptr().cast(),
            u32::try_from(size_of::<O>()).ok()?,
            &raw mut returned,
            ptr::null_mut(),
            None,
        )
    };
    if result != 0 || usize::try_from(returned).ok()? < size_of::<O>() {
        return None;
    }
    // SAFETY: the call has filled all of it, with integers (and a BOOLEAN of 0 or 1) of which every value is valid.
    Some(unsafe { output.assume_init() })
}

/// Version 0: Windows 10 1703 and later.
fn tcp_info(socket: &SockRef<'_>) -> Option<TCP_INFO_v0> {
    control(socket, SIO_TCP_INFO, Some(&0_u32))
}

#[must_use]
pub fn tcp_sample(socket: &SockRef<'_>, t_s: f64) -> Option<TcpSample> {
    let info = tcp_info(socket)?;
    Some(TcpSample {
        t_s,
        rtt_us: Some(info.RttUs).filter(|&us| us > 0),
        min_rtt_us: Some(info.MinRttUs).filter(|&us| us != u32::MAX),
        cwnd_bytes: Some(info.Cwnd.into()),
        bytes_in_flight: Some(info.BytesInFlight.into()),
        bytes_retransmitted: Some(info.BytesRetrans.into()),
        unsent_bytes: None,
        bytes_acked: None,
        bytes_received: Some(info.BytesIn),
        receive_window_bytes: Some(info.RcvWnd.into()),
        send_window_bytes: Some(info.SndWnd.into()),
    })
}

#[must_use]
pub fn rtt(socket: &SockRef<'_>) -> Option<Duration> {
    tcp_info(socket)
        .filter(|info| info.RttUs > 0)
        .map(|info| Duration::from_micros(info.RttUs.into()))
}

/// Windows does not tell what lies in a send buffer.
#[must_use]
pub fn unsent_bytes(_socket: &SockRef<'_>) -> Option<u64> {
    None
}

/// Lets the peer have about `bytes` on its way.
pub fn hold_window(socket: &SockRef<'_>, bytes: usize) {
    let _ = socket.set_recv_buffer_size(bytes);
}

#[must_use]
pub fn held_by_send_buffer(_socket: &SockRef<'_>) -> Option<Duration> {
    None
}

/// Not told.
#[must_use]
pub fn peer_has_ended(_socket: &SockRef<'_>) -> Option<bool> {
    None
}

/// Windows and others acknowledge by rules of their own.
pub fn acknowledge(_socket: &SockRef<'_>) {}

/// std's sleep takes a high-resolution timer by itself.
pub fn precise_timers() {}

/// The send buffer follows what the system finds ideal for the path.
///
/// A non-blocking socket stays at its first size, some 64 KiB per round trip, unless its owner asks and sets. Grow only: shrinking would
/// block sends that fitted a moment ago.
#[derive(Debug, Default)]
pub struct SendBacklog {
    begin: Option<Instant>,
    next: Option<Instant>,
    /// What the socket has.
    bytes: usize,
}

impl SendBacklog {
    /// Slow start doubles per round trip: ask often while it lasts, seldom afterwards (a call costs a system call).
    const BEGINNING: Duration = Duration::from_secs(2);
    const OFTEN: Duration = Duration::from_millis(100);
    const SELDOM: Duration = Duration::from_secs(1);

    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    pub fn poll(&mut self, socket: &SockRef<'_>, now: Instant) {
        if self.next.is_some_and(|next| now < next) {
            return;
        }
        let begin = *self.begin.get_or_insert_with(|| {
            self.bytes = socket.send_buffer_size().unwrap_or(0);
            now
        });
        let young = now.saturating_duration_since(begin) < Self::BEGINNING;
        self.next = Some(now + if young { Self::OFTEN } else { Self::SELDOM });
        // Fails before the connection is made (WSAENOTCONN); the next turn asks again.
        let Some(ideal) = control::<u32, u32>(socket, SIO_IDEAL_SEND_BACKLOG_QUERY, None) else {
            return;
        };
        let ideal = usize::try_from(ideal).unwrap_or(usize::MAX);
        if ideal > self.bytes && socket.set_send_buffer_size(ideal).is_ok() {
            self.bytes = ideal;
        }
    }
}

fn seconds(time: FILETIME) -> f64 {
    // Units of 100 ns.
    (u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime)) as f64 / 1e7
}

/// All but the wall time, which the caller knows better.
#[must_use]
pub fn process_usage() -> ProcessUsage {
    let mut usage = ProcessUsage::default();
    let zero = FILETIME {
        dwLowDateTime: 0,
        dwHighDateTime: 0,
    };
    let (mut created, mut exited, mut kernel, mut user) = (zero, zero, zero, zero);
    // SAFETY: the pseudo handle of this process needs no closing; the call fills four structures that outlive it.
    let timed = unsafe {
        GetProcessTimes(
            GetCurrentProcess(),
            &raw mut created,
            &raw mut exited,
            &raw mut kernel,
            &raw mut user,
        )
    };
    if timed != 0 {
        usage.cpu_user_s = seconds(user);
        usage.cpu_system_s = seconds(kernel);
    }
    let mut memory = PROCESS_MEMORY_COUNTERS::default();
    let size = u32::try_from(size_of::<PROCESS_MEMORY_COUNTERS>()).unwrap_or(0);
    memory.cb = size;
    // SAFETY: as above; `size` is the structure's.
    let measured = unsafe { K32GetProcessMemoryInfo(GetCurrentProcess(), &raw mut memory, size) };
    if measured != 0 {
        usage.max_rss_bytes = u64::try_from(memory.PeakWorkingSetSize).ok();
    }
    usage
}

/// There is no such signal here.
pub fn ignore_file_size_signal() {}

/// Opens for writing, creating it if it is not there, such that no other ferry has it open this way. Its content stays.
///
/// Not a lock but the sharing mode: a lock would keep other handles of this process from reading it too. Renaming stays possible.
///
/// # Errors
/// `ResourceBusy` when another has it; the system's own otherwise.
pub fn open_exclusive(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .share_mode(FILE_SHARE_READ | FILE_SHARE_DELETE)
        .open(path)
        .map_err(|error| match code(&error) {
            Some(ERROR_SHARING_VIOLATION) => io::ErrorKind::ResourceBusy.into(),
            _ => error,
        })
}

/// A new empty file. Who may read it follows from its directory.
///
/// # Errors
/// The system's own.
pub fn create_private(path: &Path) -> io::Result<File> {
    File::create(path)
}

/// # Errors
/// The system's own.
pub fn replace(from: &Path, to: &Path) -> io::Result<()> {
    let (old, new) = (wide(from)?, wide(to)?);
    // SAFETY: both are strings with their NUL that live through the call; no backup, nothing reserved.
    let replaced = unsafe {
        ReplaceFileW(
            new.as_ptr(),
            old.as_ptr(),
            ptr::null(),
            REPLACEFILE_IGNORE_MERGE_ERRORS,
            ptr::null(),
            ptr::null(),
        )
    };
    if replaced != 0 {
        return Ok(());
    }
    // It keeps the attributes of what it replaces, but wants it to be there, and a file system that can. Without a backup name both
    // files still have theirs after a failure.
    rename(from, to, MOVEFILE_REPLACE_EXISTING)
}

/// Gives `from` the name `to` if nothing has that name.
///
/// # Errors
/// `AlreadyExists` when something has; the system's own otherwise.
pub fn publish_new(from: &Path, to: &Path) -> io::Result<()> {
    rename(from, to, 0)
}

fn rename(from: &Path, to: &Path, flags: u32) -> io::Result<()> {
    let (from, to) = (wide(from)?, wide(to)?);
    // SAFETY: both are strings with their NUL that live through the call.
    let moved = unsafe { MoveFileExW(from.as_ptr(), to.as_ptr(), flags | MOVEFILE_WRITE_THROUGH) };
    if moved == 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// For a call that wants UTF-16 with a NUL. Beyond 260 units the prefix of a verbatim path is needed.
fn wide(path: &Path) -> io::Result<Vec<u16>> {
    let path = std::path::absolute(path)?;
    let mut units: Vec<u16> = path.as_os_str().encode_wide().collect();
    if units.contains(&0) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let has_drive = units.get(1) == Some(&u16::from(b':'));
    if units.len() > 240 && has_drive {
        units.splice(0..0, r"\\?\".encode_utf16());
    }
    units.push(0);
    Ok(units)
}

/// A directory cannot be flushed here; the rename was written through.
///
/// # Errors
/// Never.
pub fn sync_directory(_dir: &Path) -> io::Result<()> {
    Ok(())
}

/// Only trying tells, so the first file made says it.
///
/// # Errors
/// Never.
pub fn may_create_in(_dir: &Path) -> io::Result<()> {
    Ok(())
}

fn code(error: &io::Error) -> Option<u32> {
    error.raw_os_error().map(i32::cast_unsigned)
}

#[must_use]
pub fn is_disk_full(error: &io::Error) -> bool {
    matches!(
        code(error),
        Some(ERROR_DISK_FULL | ERROR_HANDLE_DISK_FULL | ERROR_DISK_QUOTA_EXCEEDED | ERROR_FILE_TOO_LARGE)
    )
}

/// Reads at an offset. The file's own position moves with it: it is used for nothing else.
///
/// # Errors
/// The system's own.
pub fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek_read(buffer, offset)
}

/// Without the line buffer of std.
///
/// # Errors
/// The system's own.
pub fn standard_output() -> io::Result<File> {
    Ok(File::from(io::stdout().as_handle().try_clone_to_owned()?))
}

/// Without the buffer of std.
///
/// # Errors
/// The system's own.
pub fn standard_input() -> io::Result<File> {
    Ok(File::from(io::stdin().as_handle().try_clone_to_owned()?))
}
