//! The window of a download without a limit: the bytes that the path carries in a round trip, and some more (ADR 0038, decision
//! 9).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use ferry_pacing::Rate;

use super::nginx::MOST_DATAGRAMS;

/// The first window of a connection, until its round trip is known.
pub const FIRST: u64 = 32 * 1024;
/// 500 Mbit/s at 550 ms. No stream has less.
const MOST: u64 = 64 << 20;
/// No path is taken for slower than 6 Mbit/s, of which so many round trips may be on their way.
const LEAST_RATE: u64 = 750_000;
const LEAST_ROUND_TRIPS: f64 = 1.8;
/// So many round trips of the rate may be on their way while there is no queue. The server's own window doubles in slow start, and a grant takes
/// half a round trip, for which 2.0 would be enough; looks are an eighth apart.
const EMPTY: f64 = 3.0;
/// The same once there is a queue. More would only fill it until it overflows.
const QUEUED: f64 = 1.6;
/// The round trip of an empty path may be longer than the shortest by an eighth, or by this.
const NO_QUEUE: Duration = Duration::from_millis(1);
/// It is a queue if it stands for such a part of a round trip.
const STANDING: u32 = 3;
/// The lateness of this side's wake-ups that the window covers.
const SLACK: Duration = Duration::from_millis(3);
/// A rate is measured over a round trip, and no less than this.
const LEAST_SPAN: Duration = Duration::from_millis(10);
/// The number of looks in a span, and in a window of bytes that come: a burst of a slow start is over sooner than a span.
const LOOKS: u32 = 8;
/// A rate counts as higher if it is by so much: a window that buys no rate fills a queue.
const HIGHER_PERCENT: u64 = 10;
/// A path on which others have made a queue: the rate is down to this, although so much of the window is on its way. Then the window grows by so much.
const LOWER_PERCENT: u64 = 80;
const USED_PERCENT: u64 = 75;
const GROWS_PERCENT: u64 = 125;
/// A queue that overflows leaves a gap, behind which nothing can be read: less than so much of what came. Then the window shrinks by so much, at most once in
/// a round trip, to what keeps the path busy without a queue.
const READABLE_PERCENT: u64 = 50;
const SHRINKS_PERCENT: u64 = 88;
const BUSY: f64 = 1.25;
/// Fewer bytes say nothing about a gap.
const TELLING: u64 = 4 * 1200;
/// A datagram's own: the head of the packet, its seal and the head of a STREAM frame.
const DATAGRAM_HEAD: u64 = 36;

/// The findings of a look at the connection.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// The last round trip that was measured.
    pub round_trip: Duration,
    /// The number of round trips measured.
    pub measured: u64,
    /// Bytes that have come, readable or not.
    pub came: u64,
    /// The number of datagrams that brought them.
    pub datagrams: u64,
    /// Bytes that were read.
    pub taken: u64,
    /// The server is one of [`super::nginx`].
    pub few_frames: bool,
}

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
    /// The looks of one span, each with its time.
    seen: VecDeque<(Instant, Look)>,
    changed: Option<Instant>,
}

fn bytes(rate: Rate, time: Duration) -> u64 {
    rate.bytes_in(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

fn percent(of: u64, percent: u64) -> u64 {
    of / 100 * percent
}

impl Follow {
    pub fn new() -> Self {
        Self {
            current: FIRST,
            rate: None,
            shortest: Duration::MAX,
            queued: false,
            seen: VecDeque::new(),
            changed: None,
        }
    }

    /// The window to announce now, if it changes. A smaller one holds back what is read until it is reached.
    pub fn next(&mut self, look: Look, now: Instant) -> Option<u64> {
        let span = look.round_trip.max(LEAST_SPAN);
        if let Some((at, last)) = self.seen.back()
            && now < *at + span / LOOKS
            && look.came - last.came < self.current / u64::from(LOOKS)
        {
            return None;
        }
        self.shortest = self.shortest.min(look.round_trip);
        self.seen.push_back((now, look));
        while self.seen.get(1).is_some_and(|(at, _)| *at + span <= now) {
            self.seen.pop_front();
        }
        let queue = self.has_queue(now, span);
        let first = queue && !self.queued;
        self.queued |= queue;
        let Some(chosen) = self.rate else {
            let least = Rate::new(LEAST_RATE)?;
            self.rate = Some(least);
            return self.grow(bytes(least, self.shortest.mul_f64(LEAST_ROUND_TRIPS) + SLACK), now);
        };
        let (since, before) = *self.seen.front()?;
        let time = now.saturating_duration_since(since).max(span);
        let came = look.came - before.came;
        let rate = Rate::new(u64::try_from(u128::from(came) * 1_000_000_000 / time.as_nanos()).ok()?)?;
        if rate.byte_s() >= percent(chosen.byte_s(), 100 + HIGHER_PERCENT) {
            self.rate = Some(rate);
            return self.grow(self.wanted(rate), now);
        }
        if first {
            return self.shrink(self.wanted(chosen.max(rate)), now);
        }
        let settled = self.changed.is_none_or(|at| at + span <= now);
        if !settled {
            return None;
        }
        let gap = self.has_gap(look);
        if gap && queue {
            let least = bytes(chosen.max(rate), self.shortest.mul_f64(BUSY));
            return self.shrink(percent(self.current, SHRINKS_PERCENT).max(least), now);
        }
        let held_back = bytes(rate, look.round_trip) >= percent(self.current, USED_PERCENT);
        let slower = rate.byte_s() <= percent(chosen.byte_s(), LOWER_PERCENT);
        if held_back && slower && !gap {
            return self.grow(percent(self.current, GROWS_PERCENT), now);
        }
        None
    }

    /// A burst of a slow start makes a queue that goes away again, and one long round trip may be that of a server that had something else to do:
    /// a queue is there for some time, and was there when the round trip was last measured before.
    fn has_queue(&self, now: Instant, span: Duration) -> bool {
        let is_long = |look: &Look| look.round_trip > self.shortest + (self.shortest / 8).max(NO_QUEUE);
        let mut recent = self
            .seen
            .iter()
            .rev()
            .take_while(|(at, _)| *at + span / STANDING >= now);
        let measured = self.seen.back().map(|(_, look)| look.measured);
        let before = self.seen.iter().rev().find(|(_, look)| Some(look.measured) != measured);
        recent.all(|(_, look)| is_long(look)) && before.is_some_and(|(_, look)| is_long(look))
    }

    /// True if less than [`READABLE_PERCENT`] of the bytes that came last can be read.
    fn has_gap(&self, look: Look) -> bool {
        let telling = self
            .seen
            .iter()
            .rev()
            .find(|(_, before)| look.came - before.came >= TELLING);
        telling
            .is_some_and(|(_, before)| look.taken - before.taken < percent(look.came - before.came, READABLE_PERCENT))
    }

    fn wanted(&self, rate: Rate) -> u64 {
        let round_trips = if self.queued { QUEUED } else { EMPTY };
        bytes(rate, self.shortest.mul_f64(round_trips) + SLACK)
    }

    fn grow(&mut self, window: u64, now: Instant) -> Option<u64> {
        self.change(window.min(self.most()).max(self.current), now)
    }

    /// A server that ends a connection with too many datagrams on its way gets no more. What it was given stays given.
    fn most(&self) -> u64 {
        let last = self
            .seen
            .back()
            .filter(|(_, look)| look.few_frames && look.datagrams > 0);
        let datagrams =
            last.map(|(_, look)| (look.came / look.datagrams).saturating_sub(DATAGRAM_HEAD) * MOST_DATAGRAMS);
        datagrams.map_or(MOST, |most| most.min(MOST))
    }

    fn shrink(&mut self, window: u64, now: Instant) -> Option<u64> {
        self.change(window.min(self.current), now)
    }

    fn change(&mut self, window: u64, now: Instant) -> Option<u64> {
        if window == self.current {
            return None;
        }
        self.current = window;
        self.changed = Some(now);
        Some(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

    fn look(round_trip: Duration, came: u64, taken: u64) -> Look {
        Look {
            round_trip,
            // Each look has another one.
            measured: NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
            came,
            datagrams: came / 1236,
            taken,
            few_frames: false,
        }
    }

    /// Runs a server that sends all it may for 3 s, over a path of `byte_s` with an endless queue: returns the last window, and
    /// the part of the path that was filled.
    fn run(byte_s: u64, base: Duration) -> (u64, f64) {
        let (begin, mut follow) = (Instant::now(), Follow::new());
        let (mut edge, mut sent, mut taken) = (FIRST, 0_u64, 0_u64);
        // Grants by their arrival at the server; sent bytes by their arrival on this side.
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
            follow.next(look(round_trip, taken, taken), begin + t);
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
        assert_eq!(follow.next(look(300 * MS, 0, 0), Instant::now()), Some(407_250));
        assert_eq!(Follow::new().next(look(2 * MS, 0, 0), Instant::now()), None);
    }

    /// The window after a second at `byte_s` and this round trip, of one that was chosen for 1 MB/s at 100 ms.
    fn later(byte_s: u64, round_trip: Duration) -> (u64, u64) {
        let (begin, mut follow) = (Instant::now(), Follow::new());
        follow.next(look(100 * MS, 0, 0), begin);
        follow.next(look(100 * MS, 100_000, 100_000), begin + 100 * MS);
        let chosen = follow.current;
        for step in 1..100_u32 {
            let taken = 100_000 + byte_s / 100 * u64::from(step);
            follow.next(look(round_trip, taken, taken), begin + 100 * MS + 10 * MS * step);
        }
        (chosen, follow.current)
    }

    #[test]
    fn a_window_grows_when_others_make_the_path_slower_and_not_for_its_own_queue() {
        // 1.6 round trips of 1 MB/s, and 3 ms.
        let (chosen, settled) = later(1_000_000, 170 * MS);
        assert_eq!((chosen, settled), (303_000, 163_000));
        let (_, grown) = later(500_000, 480 * MS);
        assert!(grown > settled, "{settled} {grown}");
        // It is not the window that holds the server back.
        let (chosen, same) = later(500_000, 100 * MS);
        assert_eq!(chosen, same);
    }

    #[test]
    fn no_window_is_larger_than_a_streams() {
        let (begin, mut follow) = (Instant::now(), Follow::new());
        follow.next(look(300 * MS, 0, 0), begin);
        assert_eq!(
            follow.next(look(300 * MS, 1 << 30, 1 << 30), begin + 300 * MS),
            Some(MOST)
        );
        assert_eq!(follow.next(look(300 * MS, 1 << 33, 1 << 33), begin + 600 * MS), None);
    }

    /// The windows before and after half a second of 1 MB/s of which nothing can be read.
    fn with_gap(round_trip: Duration) -> (u64, u64) {
        let (begin, mut follow) = (Instant::now(), Follow::new());
        follow.next(look(20 * MS, 0, 0), begin);
        follow.next(look(20 * MS, 20_000, 20_000), begin + 20 * MS);
        let before = follow.current;
        for step in 1..100_u32 {
            let came = 20_000 + 5_000 * u64::from(step);
            follow.next(look(round_trip, came, 20_000), begin + 20 * MS + 5 * MS * step);
        }
        (before, follow.current)
    }

    #[test]
    fn a_window_that_made_a_queue_overflow_shrinks_to_what_keeps_the_path_busy() {
        let (before, after) = with_gap(35 * MS);
        assert_eq!((before, after), (63_000, 25_000));
        // A loss without a queue is not the window's doing.
        let (before, after) = with_gap(20 * MS);
        assert_eq!(before, after);
    }

    #[test]
    fn one_long_round_trip_is_no_queue_and_two_are() {
        let (begin, mut follow) = (Instant::now(), Follow::new());
        let mut at = |ms: u32, round_trip: Duration, measured| {
            let look = Look {
                measured,
                ..look(round_trip, 0, 0)
            };
            follow.next(look, begin + ms * MS);
            follow.queued
        };
        assert!(!at(0, 300 * MS, 1));
        // The server reads a file before it answers, and nothing is measured meanwhile.
        for ms in (100..=400).step_by(50) {
            assert!(!at(ms, 411 * MS, 2));
        }
        assert!(!at(450, 300 * MS, 3));
        assert!(!at(600, 411 * MS, 4));
        assert!(at(760, 411 * MS, 5));
    }

    #[test]
    fn a_server_with_few_frames_has_no_more_datagrams_on_its_way() {
        let (begin, mut follow) = (Instant::now(), Follow::new());
        follow.next(look(300 * MS, 0, 0), begin);
        let few = Look {
            few_frames: true,
            ..look(300 * MS, 1236 << 20, 1236 << 20)
        };
        let most = follow.next(few, begin + 300 * MS);
        assert_eq!(most, Some(1200 * MOST_DATAGRAMS));
    }

    #[test]
    fn a_burst_is_looked_at_before_it_is_over() {
        let (begin, mut follow) = (Instant::now(), Follow::new());
        follow.next(look(300 * MS, 0, 0), begin);
        assert_eq!(follow.next(look(300 * MS, 50_000, 50_000), begin + MS), None);
        assert!(follow.seen.len() == 1);
        follow.next(look(300 * MS, 60_000, 60_000), begin + MS);
        assert!(follow.seen.len() == 2);
    }
}
