//! The window of a limited download: enough to keep the server going, and never a burst (ADR 0038, decision 4).

use std::time::{Duration, Instant};

use ferry_pacing::Rate;

/// Before the first request the window holds the bytes that the limit allows in this time.
const FIRST: Duration = Duration::from_millis(4);
/// A datagram and its framing: with less, nothing comes.
const LEAST: u64 = 1500;
/// The lateness of this side's wake-ups that the window covers, besides a quarter of the round trip, so that the server does not
/// run dry.
const SLACK: Duration = Duration::from_millis(15);
/// The part of the limit at which the window grows to that size.
const SLOWLY: f64 = 0.02;
/// Grants are this far apart.
const STEP: Duration = Duration::from_millis(3);

/// The window of a connection.
pub struct Window {
    /// The limit of all streams together.
    rate: Rate,
    began: Option<Instant>,
    current: u64,
}

fn bytes(rate: Rate, time: Duration) -> u64 {
    rate.bytes_in(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

impl Window {
    /// The first window of a connection.
    pub fn first(rate: Rate) -> u64 {
        bytes(rate, FIRST).max(LEAST)
    }

    pub fn new(rate: Rate) -> Self {
        Self {
            rate,
            began: None,
            current: Self::first(rate),
        }
    }

    /// A request leaves.
    pub fn begin(&mut self, now: Instant) {
        self.began.get_or_insert(now);
    }

    /// Sets `rate` as the limit of each of `streams` streams.
    pub fn share(&mut self, rate: Rate, streams: u64) {
        if let Some(all) = rate.byte_s().checked_mul(streams.max(1)).and_then(Rate::new) {
            self.rate = all;
        }
    }

    fn full(&self, round_trip: Duration) -> u64 {
        bytes(self.rate, round_trip.mul_f64(1.25) + SLACK).max(self.current)
    }

    fn wanted(&self, round_trip: Duration, now: Instant) -> u64 {
        let Some(began) = self.began else { return self.current };
        let since = now.saturating_duration_since(began);
        let soon = Self::first(self.rate) + bytes(self.rate, since.min(round_trip));
        let later = bytes(self.rate, since.saturating_sub(round_trip).mul_f64(SLOWLY));
        (soon + later).clamp(self.current, self.full(round_trip))
    }

    /// Returns the window to announce now, if its edge moves far enough; `ungranted` bytes were read since the last announcement.
    pub fn next(&mut self, round_trip: Duration, ungranted: u64, now: Instant) -> Option<u64> {
        let wanted = self.wanted(round_trip, now);
        let moves = wanted - self.current + ungranted;
        if moves == 0 || moves < bytes(self.rate, STEP) {
            return None;
        }
        self.current = wanted;
        Some(wanted)
    }

    /// When to ask again, although nothing was read.
    pub fn next_at(&self, round_trip: Duration, now: Instant) -> Option<Instant> {
        let began = self.began?;
        if self.current >= self.full(round_trip) {
            return None;
        }
        let soon = now < began + round_trip;
        Some(now + if soon { STEP } else { STEP.div_f64(SLOWLY) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// The bytes that the server sends in each 100 ms, if it sends all it may at once, and this side reads at the limit's rate.
    fn sent_by_slots(byte_s: u64, round_trip: Duration) -> Vec<u64> {
        let rate = Rate::new(byte_s).unwrap();
        let (begin, mut window) = (Instant::now(), Window::new(rate));
        window.begin(begin);
        let mut edge = Window::first(rate);
        let (mut read, mut ungranted) = (0, 0);
        // (when the server has it, the edge)
        let mut grants = vec![(Duration::ZERO, edge)];
        for step in 0..4000_u32 {
            let t = MS / 4 * step;
            // The first byte comes a round trip after the request.
            let due = bytes(rate, t.saturating_sub(round_trip));
            ungranted += due - read;
            read = due;
            if let Some(size) = window.next(round_trip, ungranted, begin + t) {
                ungranted = 0;
                edge = edge.max(read + size);
                grants.push((t, edge));
            }
        }
        let mut slots = vec![0; 10];
        let mut before = 0;
        for (t, edge) in grants {
            slots[usize::try_from(t.as_millis() / 100).unwrap()] += edge - before;
            before = edge;
        }
        slots
    }

    #[test]
    fn no_slot_of_100_ms_is_more_than_a_seventh_above_the_limit_and_none_is_empty() {
        for byte_s in [250_000, 1_000_000, 20_000_000] {
            for round_trip in [MS, 20 * MS, 100 * MS, 300 * MS] {
                let slots = sent_by_slots(byte_s, round_trip);
                let most = *slots.iter().max().unwrap() as f64 / (byte_s as f64 / 10.0);
                let least = *slots.iter().min().unwrap() as f64 / (byte_s as f64 / 10.0);
                assert!(most <= 1.15, "{byte_s} {round_trip:?}: {most} {slots:?}");
                assert!(least >= 0.9, "{byte_s} {round_trip:?}: {least} {slots:?}");
            }
        }
    }

    #[test]
    fn the_window_covers_the_round_trip_and_grows_no_further_than_late_wake_ups_need() {
        let rate = Rate::new(1_000_000).unwrap();
        let (begin, mut window) = (Instant::now(), Window::new(rate));
        assert_eq!(window.next(20 * MS, 0, begin), None);
        window.begin(begin);
        assert_eq!(window.next(20 * MS, 0, begin + 20 * MS), Some(24_000));
        assert_eq!(window.next(20 * MS, 0, begin + 21 * MS), None);
        assert!(window.next_at(20 * MS, begin + 21 * MS).is_some());
        assert_eq!(window.next(20 * MS, 0, begin + 5000 * MS), Some(40_000));
        assert_eq!(window.next_at(20 * MS, begin + 5000 * MS), None);
        // A longer round trip than at first.
        assert_eq!(window.next(40 * MS, 0, begin + 5001 * MS), Some(65_000));
    }

    #[test]
    fn what_was_read_is_granted_in_steps_of_the_limit() {
        let rate = Rate::new(1_000_000).unwrap();
        let (begin, mut window) = (Instant::now(), Window::new(rate));
        window.begin(begin);
        window.next(MS, 0, begin + 5000 * MS).unwrap();
        assert_eq!(window.next(MS, 2_999, begin + 5001 * MS), None);
        assert_eq!(window.next(MS, 3_000, begin + 5002 * MS), Some(16_250));
    }
}
