//! The only place that calls the operating system beyond std, mio and socket2. Every function exists on every system; what cannot be
//! known somewhere is `None` there.

#![allow(unsafe_code, reason = "one system call each, which no crate of the tree wraps")]

#[cfg(windows)]
mod access;
#[cfg(any(windows, test))]
mod alarm;
mod common;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod non_linux;
#[cfg(not(windows))]
mod non_windows;
#[cfg(not(any(target_os = "linux", windows)))]
mod other;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(target_os = "linux")]
use linux as tcp;
#[cfg(not(any(target_os = "linux", windows)))]
use other as tcp;
#[cfg(unix)]
use unix as os;
#[cfg(unix)]
pub use unix::mode_of_new;
#[cfg(windows)]
use windows as os;
#[cfg(windows)]
use windows as tcp;

pub use common::{WindowsName, directory_of, is_reserved_name, sleep_until, windows_name};
#[cfg(not(target_os = "linux"))]
pub use non_linux::{
    acknowledge, acknowledged_bytes, check_background, check_congestion, clamp_window, held_by_send_buffer,
    hold_window, path_figures, set_congestion, start_writing, unacknowledged_bytes, unsent_bytes,
};
#[cfg(not(windows))]
pub use non_windows::{ASKS_FOR_SEND_BACKLOG, ideal_send_backlog, no_syn_repeats, until};
pub use os::{
    POLL_GRANULARITY, append_at, create_private, ignore_file_size_signal, is_disk_full, is_ignored, is_own,
    may_create_in, open_exclusive, open_to_others, own_and_open_to_others, process_usage, publish_new, read_at,
    replace, standard_input, standard_output, sync_directory, write_at,
};
#[cfg(windows)]
pub use tcp::{ASKS_FOR_SEND_BACKLOG, ideal_send_backlog, no_syn_repeats, until};
#[cfg(target_os = "linux")]
pub use tcp::{
    acknowledge, acknowledged_bytes, check_background, check_congestion, clamp_window, held_by_send_buffer,
    hold_window, path_figures, set_congestion, start_writing, unacknowledged_bytes, unsent_bytes,
};
pub use tcp::{peer_has_ended, precise_timers, rtt, tcp_sample};

/// TCP's figures for the path of one connection.
#[derive(Copy, Clone, Debug)]
pub struct PathFigures {
    /// Smoothed.
    pub round_trip: std::time::Duration,
    /// Bytes that arrived, since the connection began: here without a gap before them, at the peer all that it has acknowledged.
    pub in_order: u64,
    /// Segments that arrived here, those behind a gap too, and the size of a full one. An old kernel does not count them.
    pub segments: Option<u32>,
    pub segment_bytes: u32,
}

/// The piece that a limited transfer moves at once, as the time in which it is due: longer than the usual delay of a wake-up.
pub const PACING_STEP_NS: u64 = if cfg!(windows) { 8_000_000 } else { 3_000_000 };

/// True if a resolver has answered that the name does not exist or has no address: asking again changes nothing.
#[must_use]
pub fn is_no_such_name(error: &std::io::Error) -> bool {
    #[cfg(unix)]
    return {
        // std keeps getaddrinfo's code only as its text.
        let said = error.to_string();
        NO_SUCH_NAME.iter().any(|code| {
            // SAFETY: gai_strerror returns a string that lives as long as the program, for any code.
            let text = unsafe { std::ffi::CStr::from_ptr(libc::gai_strerror(*code)) };
            text.to_str().is_ok_and(|text| !text.is_empty() && said.ends_with(text))
        })
    };
    // WSAHOST_NOT_FOUND, WSANO_DATA.
    #[cfg(windows)]
    return matches!(error.raw_os_error(), Some(11001 | 11004));
}

#[cfg(target_os = "linux")]
const NO_SUCH_NAME: [libc::c_int; 2] = [libc::EAI_NONAME, libc::EAI_NODATA];
#[cfg(all(unix, not(target_os = "linux")))]
const NO_SUCH_NAME: [libc::c_int; 1] = [libc::EAI_NONAME];

/// True if the error says that a non-blocking connection attempt is under way: EINPROGRESS, or `WouldBlock` on Windows.
#[must_use]
pub fn is_connecting(error: &std::io::Error) -> bool {
    #[cfg(unix)]
    return error.raw_os_error() == Some(libc::EINPROGRESS);
    #[cfg(not(unix))]
    return error.kind() == std::io::ErrorKind::WouldBlock;
}
