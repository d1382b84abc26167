//! Systems of which no TCP figures are known here: everything is `None` or does nothing.

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

#[must_use]
pub fn unacked_bytes(_socket: &SockRef<'_>) -> Option<u64> {
    None
}

/// Lets the peer have about `bytes` on its way.
pub fn hold_window(socket: &SockRef<'_>, bytes: usize) {
    let _ = socket.set_recv_buffer_size(bytes);
}

pub fn set_not_sent_lowat(_socket: &SockRef<'_>, _bytes: u32) {}

#[must_use]
pub fn max_send_buffer() -> Option<u64> {
    None
}

#[must_use]
pub fn max_receive_buffer() -> Option<u64> {
    None
}

pub fn precise_timers() {}

#[derive(Debug, Default)]
pub struct SendBacklog;

impl SendBacklog {
    #[must_use]
    pub fn new() -> Self {
        Self
    }

    #[allow(clippy::unused_self, reason = "on Windows it is used")]
    pub fn poll(&mut self, _socket: &SockRef<'_>, _now: Instant) {}
}
