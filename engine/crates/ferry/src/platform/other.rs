//! Systems of which no TCP figures are known here: everything is `None` or does nothing.

use std::io;
use std::time::{Duration, Instant};

use socket2::SockRef;

use crate::report::TcpSample;

#[must_use]
pub fn tcp_sample(_socket: &SockRef<'_>, _t_s: f64) -> Option<TcpSample> {
    None
}

#[must_use]
pub fn rtt(_socket: &SockRef<'_>) -> Option<Duration> {
    None
}

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

pub fn precise_timers() {}

/// In an event loop: until the deadline, within the millisecond that tokio's timers have.
pub async fn until(deadline: Instant) {
    tokio::time::sleep_until(deadline.into()).await;
}

/// Whether the send buffer has to be asked for: no other system than Windows has the question.
pub const ASKS_FOR_SEND_BACKLOG: bool = false;

#[must_use]
pub fn ideal_send_backlog(_socket: &SockRef<'_>) -> Option<io::Result<u64>> {
    None
}

/// Not needed: a refused SYN is not repeated here.
#[must_use]
pub fn no_syn_repeats(_socket: &SockRef<'_>) -> bool {
    false
}
