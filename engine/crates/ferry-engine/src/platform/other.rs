//! Systems of which no TCP figures are known here: everything is `None` or does nothing.

use std::time::Duration;

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

/// Unknown: these systems do not report it.
#[must_use]
pub fn peer_has_ended(_socket: &SockRef<'_>) -> Option<bool> {
    None
}

pub fn precise_timers() {}
