//! The receive window of a limited HTTP/1.1 download: the most bytes that its sender may have on their way.

use std::time::Duration;

use ferry_pacing::Rate;
use socket2::SockRef;

use crate::platform;

/// The lateness of this side's wake-up that the window covers, so that the sender does not run dry.
const SLACK: Duration = Duration::from_millis(20);
/// A TLS record: less than a whole one in hand is nothing in hand.
const RECORD: u64 = 16 * 1024;
const LEAST: u64 = 2 * RECORD;
/// Above this the system's own choice is no larger, and setting it would only switch its tuning off.
const MOST: u64 = 4 << 20;
/// The window in the first packet of a connection, unless the system is told otherwise.
const USUAL_FIRST: u64 = 64 * 1024;

fn bytes(rate: Rate, time: Duration) -> u64 {
    rate.bytes_in(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// The window to begin with, where 64 KiB would be a burst with a silence behind it. It stays as it is for the whole connection: windows
/// beyond 64 KiB are agreed upon in the handshake (RFC 7323, section 2.2), so one that began small cannot grow.
pub fn first(rate: Rate) -> Option<usize> {
    let small = bytes(rate, Duration::from_millis(30)) + RECORD / 2;
    (small < USUAL_FIRST).then(|| usize::try_from(small).unwrap_or(usize::MAX))
}

/// True if `first` keeps a sender at this distance going.
pub fn first_is_enough(rate: Rate, rtt: Duration) -> bool {
    bytes(rate, rtt.mul_f64(1.5) + SLACK) + RECORD / 4 <= bytes(rate, Duration::from_millis(30)) + RECORD / 2
}

/// Sets the window of a connection that began without a chosen one.
pub fn set(socket: &SockRef<'_>, rate: Rate, rtt: Duration) {
    let wanted = bytes(rate, rtt.mul_f64(1.5) + SLACK).saturating_add(RECORD);
    if wanted < MOST {
        let wanted = usize::try_from(wanted.max(LEAST)).unwrap_or(usize::MAX);
        platform::hold_window(socket, wanted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_begun_small_only_where_the_usual_one_would_be_a_burst() {
        let rate = |byte_s| Rate::new(byte_s).unwrap();
        assert_eq!(first(rate(500_000)), Some(15_000 + 8192));
        assert_eq!(first(rate(5_000_000)), None);
        assert!(first_is_enough(rate(500_000), Duration::from_micros(300)));
        assert!(!first_is_enough(rate(500_000), Duration::from_millis(30)));
    }
}
