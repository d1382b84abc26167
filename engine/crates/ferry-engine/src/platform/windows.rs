//! Windows: sockets, files and processes. The constants that windows-sys lacks are derived beside their names.

use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::io;
use std::mem::MaybeUninit;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::fs::{FileExt, OpenOptionsExt};
use std::os::windows::io::{AsHandle, AsRawHandle, AsRawSocket, FromRawHandle, OwnedHandle};
use std::path::Path;
use std::ptr;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::{Duration, Instant};

use socket2::SockRef;
use windows_sys::Win32::Foundation::{
    ERROR_DISK_FULL, ERROR_DISK_QUOTA_EXCEEDED, ERROR_FILE_TOO_LARGE, ERROR_HANDLE_DISK_FULL, ERROR_SHARING_VIOLATION,
    FILETIME, HANDLE,
};
use windows_sys::Win32::Networking::WinSock::{
    SIO_TCP_INFO, SIO_TCP_INITIAL_RTO, SOCKET, TCP_INFO_v0, TCP_INITIAL_RTO_PARAMETERS, TCPSTATE_CLOSE_WAIT,
    WSAGetLastError, WSAIoctl,
};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_SHARE_DELETE, FILE_SHARE_READ, MOVEFILE_REPLACE_EXISTING, MOVEFILE_WRITE_THROUGH, MoveFileExW,
    REPLACEFILE_IGNORE_MERGE_ERRORS, ReplaceFileW,
};
use windows_sys::Win32::System::ProcessStatus::{K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
use windows_sys::Win32::System::Threading::{
    CREATE_WAITABLE_TIMER_HIGH_RESOLUTION, CreateEventW, CreateWaitableTimerExW, GetCurrentProcess, GetProcessTimes,
    INFINITE, SetEvent, SetWaitableTimer, TIMER_ALL_ACCESS, WaitForMultipleObjects,
};

use super::alarm::{Alarm, Sleeper};
use crate::report::{ProcessUsage, TcpSample};

/// The granularity of a poll's time-out: a waiter polls until its deadline less this and sleeps the rest. The system's tick is
/// 15.6 ms.
pub const POLL_GRANULARITY: Duration = Duration::from_millis(16);

/// `_IOR('t', 123, ULONG)` of winsock2.h: `IOC_OUT` | 4 << 16 | 't' << 8 | 123.
const SIO_IDEAL_SEND_BACKLOG_QUERY: u32 = 0x4004_747B;

/// `TCP_INITIAL_RTO_NO_SYN_RETRANSMISSIONS` of mstcpip.h: `((UCHAR) -2)`. windows-sys declares a wider type.
const NO_SYN_RETRANSMISSIONS: u8 = u8::MAX - 1;

/// One control call. Returns how many bytes of `output` were filled.
fn call<I: Copy, O: Copy>(
    socket: &SockRef<'_>,
    code: u32,
    input: Option<&I>,
    output: Option<&mut MaybeUninit<O>>,
) -> io::Result<usize> {
    let mut returned = 0_u32;
    let (from, from_size) = match input {
        Some(input) => (ptr::from_ref(input).cast::<c_void>(), size_of::<I>()),
        None => (ptr::null(), 0),
    };
    let (to, to_size) = match output {
        Some(output) => (output.as_mut_ptr().cast::<c_void>(), size_of::<O>()),
        None => (ptr::null_mut(), 0),
    };
    let width = |size: usize| u32::try_from(size).map_err(|_| io::ErrorKind::InvalidInput);
    let handle = SOCKET::try_from(socket.as_raw_socket()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let (from_size, to_size) = (width(from_size)?, width(to_size)?);
    // SAFETY: the socket is open as long as the SockRef is borrowed; both sizes are those of the objects pointed to, which outlive the
    // call, since without an OVERLAPPED it is done when it returns.
    let result = unsafe {
        WSAIoctl(
            handle,
            code,
            from,
            from_size,
            to,
            to_size,
            &raw mut returned,
            ptr::null_mut(),
            None,
        )
    };
    if result != 0 {
        // SAFETY: reads this thread's last socket error; takes nothing.
        return Err(io::Error::from_raw_os_error(unsafe { WSAGetLastError() }));
    }
    usize::try_from(returned).map_err(io::Error::other)
}

/// A call that answers.
fn control<I: Copy, O: Copy>(socket: &SockRef<'_>, code: u32, input: Option<&I>) -> io::Result<O> {
    let mut output = MaybeUninit::<O>::zeroed();
    if call(socket, code, input, Some(&mut output))? < size_of::<O>() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    // SAFETY: the call has filled all of it, with integers (and a BOOLEAN of 0 or 1) of which every value is valid.
    Ok(unsafe { output.assume_init() })
}

/// A call that only sets.
fn order<I: Copy>(socket: &SockRef<'_>, code: u32, input: &I) -> io::Result<()> {
    call::<I, u8>(socket, code, Some(input), None).map(|_| ())
}

/// Version 0: Windows 10 1703 and later. What version 1 adds (how long which side was the limit) has no counterpart in `TcpSample`.
fn tcp_info(socket: &SockRef<'_>) -> Option<TCP_INFO_v0> {
    control(socket, SIO_TCP_INFO, Some(&0_u32)).ok()
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

/// True once the peer has ended its side of the connection. This is known without reading, so also while earlier data is unread.
#[must_use]
pub fn peer_has_ended(socket: &SockRef<'_>) -> Option<bool> {
    tcp_info(socket).map(|info| info.State == TCPSTATE_CLOSE_WAIT)
}

/// std's sleep takes a high-resolution timer by itself.
pub fn precise_timers() {}

/// In an event loop: until the deadline. tokio's timers come with the system's tick, 15.6 ms; this wait is a high-resolution timer's, on a
/// thread of its own (some 0.5 ms late).
pub async fn until(deadline: Instant) {
    static ALARM: OnceLock<Option<Arc<Alarm<WaitableTimer>>>> = OnceLock::new();
    let alarm = ALARM.get_or_init(|| Alarm::start(WaitableTimer::new()?).ok());
    let Some(alarm) = alarm else {
        return tokio::time::sleep_until(deadline.into()).await;
    };
    let mut set = false;
    std::future::poll_fn(|context| {
        if Instant::now() >= deadline {
            return Poll::Ready(());
        }
        // Once: a task that is polled again for another reason is still the same task. A second waker would only wake it twice.
        if !std::mem::replace(&mut set, true) {
            alarm.wake_at(deadline, context.waker().clone());
        }
        Poll::Pending
    })
    .await;
}

/// A timer and an event, waited for together.
struct WaitableTimer {
    timer: OwnedHandle,
    event: OwnedHandle,
}

impl WaitableTimer {
    fn new() -> Option<Self> {
        let owned = |handle: HANDLE| {
            // SAFETY: not null, so a handle that was just made and has no other owner.
            (!handle.is_null()).then(|| unsafe { OwnedHandle::from_raw_handle(handle) })
        };
        // SAFETY: no attributes, no name. Windows before 10 1803 does not know the flag; then an ordinary timer has to do.
        let timer = unsafe {
            let precise = CREATE_WAITABLE_TIMER_HIGH_RESOLUTION;
            let timer = CreateWaitableTimerExW(ptr::null(), ptr::null(), precise, TIMER_ALL_ACCESS);
            if timer.is_null() {
                CreateWaitableTimerExW(ptr::null(), ptr::null(), 0, TIMER_ALL_ACCESS)
            } else {
                timer
            }
        };
        // SAFETY: no attributes, no name; it resets itself when a wait ends, and begins unset.
        let event = unsafe { CreateEventW(ptr::null(), 0, 0, ptr::null()) };
        Some(Self {
            timer: owned(timer)?,
            event: owned(event)?,
        })
    }
}

impl Sleeper for WaitableTimer {
    fn wait(&self, until: Option<Instant>) {
        let (timer, event) = (self.timer.as_raw_handle(), self.event.as_raw_handle());
        let mut handles = [event, timer];
        let mut count = 1;
        if let Some(at) = until {
            // In 100 ns; negative is from now. Rounded up, so that the deadline has passed when it ends.
            let left = at.saturating_duration_since(Instant::now()).as_nanos().div_ceil(100);
            let due = i64::try_from(left).unwrap_or(i64::MAX).saturating_neg();
            // SAFETY: a timer of ours; the time is read before the call returns; no completion routine.
            let set = unsafe { SetWaitableTimer(timer, &raw const due, 0, None, ptr::null(), 0) };
            if set == 0 {
                std::thread::sleep(at.saturating_duration_since(Instant::now()));
                return;
            }
            count = 2;
        }
        // SAFETY: both handles are ours and open as long as `self` is; `count` is at most how many there are.
        let _ = unsafe { WaitForMultipleObjects(count, handles.as_mut_ptr(), 0, INFINITE) };
    }

    fn disturb(&self) {
        // SAFETY: an event of ours, open as long as `self` is.
        let _ = unsafe { SetEvent(self.event.as_raw_handle()) };
    }
}

/// True where ferry has to ask for the ideal size of a send buffer: Windows tunes those of blocking sockets only.
pub const ASKS_FOR_SEND_BACKLOG: bool = true;

/// The number of bytes in flight that would keep the path full, 0 to 16 MiB. The socket must be connected.
#[must_use]
pub fn ideal_send_backlog(socket: &SockRef<'_>) -> Option<io::Result<u64>> {
    Some(control::<u32, u32>(socket, SIO_IDEAL_SEND_BACKLOG_QUERY, None).map(u64::from))
}

/// Before connecting: the SYN is sent once. Windows repeats a SYN also when it was refused, half a second later and again, so that a
/// closed port takes two seconds to say so. False where the system does not take it.
#[must_use]
pub fn no_syn_repeats(socket: &SockRef<'_>) -> bool {
    let once = TCP_INITIAL_RTO_PARAMETERS {
        // TCP_INITIAL_RTO_UNSPECIFIED_RTT: the usual one.
        Rtt: u16::MAX,
        MaxSynRetransmissions: NO_SYN_RETRANSMISSIONS,
    };
    order(socket, SIO_TCP_INITIAL_RTO, &once).is_ok()
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

/// Nothing is inherited.
#[must_use]
pub fn is_ignored(_signal: i32) -> bool {
    false
}

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

/// True for any regular file: its directory alone decides who may write in it.
#[must_use]
pub fn is_own(_path: &Path, found: &std::fs::Metadata) -> bool {
    found.is_file()
}

/// A new empty file, whose directory decides on the right to read it. A file that a killed run or another user has left there is
/// removed first, and never written to.
///
/// # Errors
/// The system's own.
pub fn create_private(path: &Path) -> io::Result<File> {
    File::create_new(path).or_else(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => std::fs::remove_file(path).and_then(|()| File::create_new(path)),
        _ => Err(error),
    })
}

/// # Errors
/// The system's own.
pub fn replace(from: &Path, to: &Path) -> io::Result<()> {
    let (old, new) = (wide(from)?, wide(to)?);
    // By itself, because ReplaceFileW, which keeps it too, seldom works here. A failure changes nothing of the content.
    let _ = super::access::copy(&new, &old);
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
    // ReplaceFileW keeps the attributes, the times and the streams of the file that it replaces. It needs a file to replace, a
    // file system that can, and a replacement that is not open: it opens the replacement without sharing, so it fails while the
    // caller's own handle holds the lock (limits.md). After ERROR_UNABLE_TO_MOVE_REPLACEMENT (1176) the replaced file is gone and
    // the replacement has its old name; after any other error both have theirs. In each case a plain rename finishes the job.
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

/// Appends at most `most` bytes from an offset of the file, wherever the file's own position is.
///
/// # Errors
/// The system's own.
pub fn append_at(file: &File, out: &mut Vec<u8>, most: usize, offset: u64) -> io::Result<usize> {
    let begin = out.len();
    out.resize(begin + most, 0);
    let read = file.seek_read(out.get_mut(begin..).unwrap_or_default(), offset);
    out.truncate(begin + read.as_ref().map_or(0, |count| *count));
    read
}

/// All of it, wherever the file's own position is.
///
/// # Errors
/// The system's own.
pub fn write_at(file: &File, mut data: &[u8], mut offset: u64) -> io::Result<()> {
    while !data.is_empty() {
        match file.seek_write(data, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                data = data.get(count..).unwrap_or_default();
                offset += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
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

/// Nothing: no mode tells.
#[must_use]
pub fn open_to_others(_found: &std::fs::Metadata) -> Option<u32> {
    None
}

/// Nothing, for the same reason as `open_to_others`.
#[must_use]
pub fn own_and_open_to_others(found: &std::fs::Metadata) -> Option<u32> {
    open_to_others(found)
}
