//! What the server of a download without a limit may have on its way: what the path carries in a round trip, and some more (ADR 0038, decision 9).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use ferry_pacing::Rate;

/// What the connection begins with, until its round trip is known.
pub const FIRST: u64 = 32 * 1024;
/// 500 Mbit/s at 550 ms. No stream has less.
const MOST: u64 = 64 << 20;
/// No path is taken for slower than 6 Mbit/s.
const LEAST_RATE: u64 = 750_000;
/// So many round trips of the rate may be on their way while there is no queue: the server's own window doubles in slow start.
const EMPTY: f64 = 1.8;
/// The same once there is one. More would only fill it until it overflows.
const QUEUED: f64 = 1.6;
/// The round trip of an empty path may be longer than the shortest by an eighth, or by this.
const NO_QUEUE: Duration = Duration::from_millis(4);
/// What late wake-ups of this side may cost.
const SLACK: Duration = Duration::from_millis(3);
/// A rate is measured over a round trip, and no less than this.
const LEAST_SPAN: Duration = Duration::from_millis(10);
/// Looks at the rate in this time.
const LOOKS: u32 = 8;
/// A rate counts as higher if it is by so much: a window that buys no rate fills a queue.
const HIGHER_PERCENT: u64 = 10;
/// A path on which others have made a queue: the rate is down to this, although so much of the window is on its way. Then the window grows by so much.
const LOWER_PERCENT: u64 = 80;
const USED_PERCENT: u64 = 75;
const GROWS_PERCENT: u64 = 125;

/// The window of a connection, which grows as long as that makes it faster, or as others make it slower.
#[derive(Debug)]
pub struct Follow {
    current: u64,
    /// The rate for which it was chosen.
    rate: Option<Rate>,
    /// The shortest round trip.
    shortest: Duration,
    /// There has been a queue.
    queued: bool,
    /// When how many bytes had come, over one span.
    seen: VecDeque<(Instant, u64)>,
    grew: Option<Instant>,
}

fn bytes(rate: Rate, time: Duration) -> u64 {
    rate.bytes_in(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

impl Follow {
    pub fn new() -> Self {
        Self {
            current: FIRST,
            rate: None,
            shortest: Duration::MAX,
            queued: false,
            seen: VecDeque::new(),
            grew: None,
        }
    }

    /// What to announce now, when `taken` bytes have come in all: the window, if it grows.
    pub fn next(&mut self, round_trip: Duration, taken: u64, now: Instant) -> Option<u64> {
        let span = round_trip.max(LEAST_SPAN);
        if self.seen.back().is_some_and(|(last, _)| now < *last + span / LOOKS) {
            return None;
        }
        self.shortest = self.shortest.min(round_trip);
        self.queued |= round_trip > self.shortest + (self.shortest / 8).max(NO_QUEUE);
        self.seen.push_back((now, taken));
        while self.seen.get(1).is_some_and(|(at, _)| *at + span <= now) {
            self.seen.pop_front();
        }
        let Some(chosen) = self.rate else {
            return self.choose(Rate::new(LEAST_RATE)?, now);
        };
        let (since, before) = *self.seen.front()?;
        let time = now.saturating_duration_since(since).max(span);
        let rate = Rate::new(u64::try_from(u128::from(taken - before) * 1_000_000_000 / time.as_nanos()).ok()?)?;
        let percent = |of: u64, percent: u64| of / 100 * percent;
        if rate.byte_s() >= percent(chosen.byte_s(), 100 + HIGHER_PERCENT) {
            return self.choose(rate, now);
        }
        let held_back = bytes(rate, round_trip) >= percent(self.current, USED_PERCENT);
        let slower = rate.byte_s() <= percent(chosen.byte_s(), LOWER_PERCENT);
        if held_back && slower && self.grew.is_none_or(|at| at + span <= now) {
            return self.grow(percent(self.current, GROWS_PERCENT), now);
        }
        None
    }

    fn choose(&mut self, rate: Rate, now: Instant) -> Option<u64> {
        self.rate = Some(rate);
        let round_trips = if self.queued { QUEUED } else { EMPTY };
        self.grow(bytes(rate, self.shortest.mul_f64(round_trips) + SLACK), now)
    }

    fn grow(&mut self, window: u64, now: Instant) -> Option<u64> {
        let window = window.min(MOST);
        if window <= self.current {
            return None;
        }
        self.current = window;
        self.grew = Some(now);
        Some(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A server that sends whatever it may, over a path of `byte_s` with an endless queue: the window at the end, and what came of 3 s.
    fn run(byte_s: u64, base: Duration) -> (u64, f64) {
        let (begin, mut follow) = (Instant::now(), Follow::new());
        let (mut edge, mut sent, mut taken) = (FIRST, 0_u64, 0_u64);
        // When the server has a grant; when this side has what was sent.
        let (mut grants, mut way) = (VecDeque::from([(Duration::ZERO, FIRST)]), VecDeque::new());
        let mut free = Duration::ZERO;
        for step in 0..12_000 {
            let t = MS / 4 * step;
            while grants.front().is_some_and(|(at, _)| *at <= t) {
                edge = grants.pop_front().unwrap().1;
            }
            while sent + 1200 <= edge {
                sent += 1200;
                free = free.max(t) + Duration::from_secs_f64(1200.0 / byte_s as f64);
                way.push_back((free + base / 2, sent, t));
            }
            let mut round_trip = base;
            while way.front().is_some_and(|(at, _, _)| *at <= t) {
                let (at, upto, left) = way.pop_front().unwrap();
                (taken, round_trip) = (upto, at.saturating_sub(left) + base / 2);
            }
            follow.next(round_trip, taken, begin + t);
            let granted = taken + follow.current;
            grants.push_back((t + base / 2, granted));
        }
        (follow.current, taken as f64 / (3.0 * byte_s as f64))
    }

    #[test]
    fn the_window_fills_the_path_and_does_not_follow_the_queue_that_it_makes() {
        for (byte_s, base) in [(6_250_000, 30 * MS), (6_250_000, 300 * MS), (62_500_000, 100 * MS)] {
            let (window, filled) = run(byte_s, base);
            let most = byte_s as f64 * base.as_secs_f64();
            let products = window as f64 / most;
            assert!((1.3..=2.7).contains(&products), "{byte_s} {base:?}: {products}");
            assert!(filled >= 0.5, "{byte_s} {base:?}: {filled}");
        }
    }

    #[test]
    fn a_window_begins_with_what_six_mbit_s_need() {
        let mut follow = Follow::new();
        assert_eq!(follow.next(300 * MS, 0, Instant::now()), Some(407_250));
        assert_eq!(Follow::new().next(2 * MS, 0, Instant::now()), None);
    }

    /// The window after a second at `byte_s` and this round trip, of one that was chosen for 1 MB/s at 100 ms.
    fn later(byte_s: u64, round_trip: Duration) -> (u64, u64) {
        let (begin, mut follow) = (Instant::now(), Follow::new());
        follow.next(100 * MS, 0, begin);
        follow.next(100 * MS, 100_000, begin + 100 * MS);
        let chosen = follow.current;
        for step in 1..100_u32 {
            let taken = 100_000 + byte_s / 100 * u64::from(step);
            follow.next(round_trip, taken, begin + 100 * MS + 10 * MS * step);
        }
        (chosen, follow.current)
    }

    #[test]
    fn a_window_grows_when_others_make_the_path_slower_and_not_for_its_own_queue() {
        let (chosen, same) = later(1_000_000, 170 * MS);
        assert_eq!(chosen, same);
        let (chosen, grown) = later(500_000, 480 * MS);
        assert!(grown > chosen, "{chosen} {grown}");
        // It is not the window that holds the server back.
        let (chosen, same) = later(500_000, 100 * MS);
        assert_eq!(chosen, same);
    }

    #[test]
    fn no_window_is_larger_than_a_streams() {
        let (begin, mut follow) = (Instant::now(), Follow::new());
        follow.next(300 * MS, 0, begin);
        assert_eq!(follow.next(300 * MS, 1 << 30, begin + 300 * MS), Some(MOST));
        assert_eq!(follow.next(300 * MS, 1 << 33, begin + 600 * MS), None);
    }
}
