//! Systems other than Linux: facts of a TCP connection that only Linux reports are unknown, and its settings are replaced by the nearest.

use std::io;
use std::time::Duration;

use super::PathFigures;

use socket2::SockRef;

/// Unknown: these systems do not report the content of the send buffer.
#[must_use]
pub fn unsent_bytes(_socket: &SockRef<'_>) -> Option<u64> {
    None
}

/// Unknown: these systems do not report the peer's acknowledgements.
#[must_use]
pub fn unacknowledged_bytes(_socket: &SockRef<'_>) -> Option<u64> {
    None
}

/// Unknown: these systems do not report the peer's acknowledgements.
#[must_use]
pub fn acknowledged_bytes(_socket: &SockRef<'_>) -> Option<u64> {
    None
}

#[must_use]
pub fn held_by_send_buffer(_socket: &SockRef<'_>) -> Option<Duration> {
    None
}

/// Lets the peer have about `bytes` on its way.
pub fn hold_window(socket: &SockRef<'_>, bytes: usize) {
    let _ = socket.set_recv_buffer_size(bytes);
}

/// Only Linux lets a program choose.
pub fn set_congestion(_socket: &SockRef<'_>, _name: &str) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// # Errors
/// Always: only Linux lets a program choose.
pub fn check_congestion(_name: &str) -> Result<(), String> {
    Err("only Linux lets a program choose".to_owned())
}

/// # Errors
/// Always: only Linux tells the delay of a connection closely enough.
pub fn check_background() -> Result<(), String> {
    Err("only Linux tells enough about a connection".to_owned())
}

/// Unknown: these systems do not report it.
#[must_use]
pub fn path_figures(_socket: &SockRef<'_>, _sends: bool) -> Option<PathFigures> {
    None
}

/// Left as it is.
pub fn clamp_window(_socket: &SockRef<'_>, _bytes: usize) {}

/// Acknowledgements go by rules of the system's own.
pub fn acknowledge(_socket: &SockRef<'_>) {}

/// fsync does all of it.
pub fn start_writing(_file: &std::fs::File) {}
