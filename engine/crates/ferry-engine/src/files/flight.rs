//! Parts of a file that are on their way, and the choice of the one that an idle connection relieves when nothing else is left to
//! be asked for.
//!
//! One connection that loses packets can hold up the whole file. An idle connection asks for the end of the slow one's remainder,
//! and both go on: bytes that come twice are the same, and the file is complete with the first copy of each. So a relief that is
//! slow itself costs nothing but its bytes.

use std::ops::Range;
use std::time::{Duration, Instant};

/// The last bytes of a part are not shared: a relief takes them all.
const CRUMB: u64 = 64 << 10;
/// A relief costs bytes that come twice, so it must save at least this, and a round trip: a scheduler that was late for one look is no reason.
const LEAST_GAIN: Duration = Duration::from_millis(250);

/// A part that was handed out.
#[derive(Debug)]
pub struct Flight {
    /// The offset up to which the bytes are on the disk.
    pub written: u64,
    /// The offset of the next byte to come.
    pub at: u64,
    /// The offset from which on another connection brings the part too.
    pub own_end: u64,
    /// The end of the part as it was asked for.
    pub end: u64,
    start: u64,
    /// When the server was asked for it; `None` while its task waits for a connection.
    asked: Option<Instant>,
    /// The time at which the part's last bytes came, or the server was asked.
    last: Option<Instant>,
}

impl Flight {
    pub fn new(range: &Range<u64>) -> Self {
        Self {
            written: range.start,
            at: range.start,
            own_end: range.end,
            end: range.end,
            start: range.start,
            asked: None,
            last: None,
        }
    }

    /// The server has been asked.
    pub fn asked(&mut self, now: Instant) {
        self.asked = Some(now);
        self.last = Some(now);
    }

    /// Counts `bytes` that have come.
    pub fn moved(&mut self, bytes: u64, now: Instant) {
        self.at += bytes;
        self.last = Some(now);
    }

    /// Bytes per second so far. A part that has only begun is not slow yet: it counts as the average at least.
    fn byte_s(&self, pace: &Pace, age: Duration) -> f64 {
        let own = (self.at - self.start) as f64 / age.as_secs_f64().max(1e-3);
        if age < (4 * pace.rtt).max(LEAST_GAIN) {
            return own.max(pace.byte_s);
        }
        own
    }

    /// Seconds until the part has brought the bytes that only it brings. `None` if the server has not been asked yet: asking
    /// sooner than planned gains nothing.
    fn rest_s(&self, pace: &Pace, now: Instant) -> Option<f64> {
        let age = now.saturating_duration_since(self.asked?);
        let silent = now.saturating_duration_since(self.last?);
        let silent_s = if silent > 2 * pace.rtt.max(LEAST_GAIN / 2) {
            silent.as_secs_f64()
        } else {
            0.0
        };
        let rest = self.own_end.saturating_sub(self.at) as f64;
        Some(rest / self.byte_s(pace, age).max(1.0) + silent_s)
    }
}

/// The average speed of connections so far, and their round trip.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// The average rate of one connection, in bytes per second.
    pub byte_s: f64,
    pub rtt: Duration,
}

/// The part that would be over last, as far as an idle connection helps it: cut so that both are expected to end at the same time.
/// `None` when that saves less than a round trip or [`LEAST_GAIN`].
pub fn relieve<'a>(flights: impl Iterator<Item = &'a mut Flight>, pace: &Pace, now: Instant) -> Option<Range<u64>> {
    if pace.byte_s < 1.0 {
        // Nothing has come yet that would show a slow part.
        return None;
    }
    let slowest = flights
        // A part whose bytes have all come but are not yet written needs no connection.
        .filter(|flight| flight.written < flight.own_end && flight.at < flight.end)
        .filter_map(|flight| flight.rest_s(pace, now).map(|rest_s| (rest_s, flight)))
        .max_by(|(one, _), (other, _)| one.total_cmp(other));
    let (rest_s, flight) = slowest?;
    // The request, and a window that has to grow again.
    let start_s = 2.0 * pace.rtt.as_secs_f64();
    let rest = flight.own_end.saturating_sub(flight.at);
    let byte_s = (rest as f64 / rest_s.max(1e-6)).max(1.0);
    let together_s = (rest as f64 + pace.byte_s * start_s) / (byte_s + pace.byte_s.max(1.0));
    if rest_s - together_s.max(start_s) < pace.rtt.max(LEAST_GAIN).as_secs_f64() {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float saturates"
    )]
    let kept = (together_s * byte_s) as u64;
    let from = if kept < CRUMB || rest < 2 * CRUMB {
        flight.written
    } else {
        flight.at + kept.min(rest)
    };
    let range = from..flight.own_end;
    flight.own_end = from;
    (!range.is_empty()).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn pace() -> Pace {
        Pace {
            byte_s: 1e6,
            rtt: Duration::from_millis(100),
        }
    }

    /// A part of 10 MiB of which `came` have come in ten seconds, the last of them `silent` seconds ago.
    fn flight(came: u64, silent: u64, now: Instant) -> Flight {
        let begin = now.checked_sub(Duration::from_secs(10)).unwrap();
        let mut flight = Flight::new(&(0..10 * MIB));
        flight.asked(begin);
        flight.moved(came, now.checked_sub(Duration::from_secs(silent)).unwrap());
        flight.written = came;
        flight
    }

    #[test]
    fn the_slowest_part_is_cut_so_that_both_end_together() {
        let now = Instant::now();
        let mut flights = [flight(9 * MIB, 0, now), flight(MIB, 0, now), flight(5 * MIB, 0, now)];
        let range = relieve(flights.iter_mut(), &pace(), now).unwrap();
        assert_eq!(range.end, 10 * MIB);
        // 9 MiB are left; a tenth of the relief's rate brings a tenth of them.
        assert!((MIB + 500_000..3 * MIB).contains(&range.start), "{range:?}");
        assert_eq!(flights[1].own_end, range.start);
        assert_eq!(flights[1].end, 10 * MIB, "it goes on all the same");
    }

    #[test]
    fn a_part_that_has_stopped_is_taken_over_with_what_is_not_written() {
        let now = Instant::now();
        let mut stopped = flight(0, 9, now);
        stopped.moved(100, now.checked_sub(Duration::from_secs(9)).unwrap());
        let range = relieve(std::iter::once(&mut stopped), &pace(), now);
        assert_eq!(range, Some(0..10 * MIB));
        assert_eq!(
            relieve(std::iter::once(&mut stopped), &pace(), now),
            None,
            "it has been relieved"
        );
    }

    #[test]
    fn what_is_over_soon_is_left_alone() {
        let now = Instant::now();
        let mut fresh = Flight::new(&(0..200_000));
        fresh.asked(now);
        let mut flights = [flight(10 * MIB - 200_000, 0, now), fresh];
        assert_eq!(relieve(flights.iter_mut(), &pace(), now), None);
        assert_eq!(relieve(std::iter::empty(), &pace(), now), None);
    }

    #[test]
    fn what_waits_for_its_turn_is_not_asked_for_sooner() {
        let mut waiting = Flight::new(&(0..100 * MIB));
        let now = Instant::now();
        assert_eq!(relieve(std::iter::once(&mut waiting), &pace(), now), None);
        waiting.asked(now);
        assert!(relieve(std::iter::once(&mut waiting), &pace(), now).is_some());
    }
}
