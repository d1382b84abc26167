//! The state that the connections of a run in the background share: the knowledge of their path, and the rate at which uploads
//! may send.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use ferry_pacing::{Background, Nanos, Options, Pacer, Rate};

use crate::clock::{instant, nanos};
use crate::sync::lock;

/// A step is short, because bytes that leave at once wait in the queue, where others meet them.
const STEP_NS: u64 = 2_000_000;
/// A connection over which nothing has come for so long, and for two round trips, leaves its part of the window to the others.
const IDLE_NS: u64 = 200_000_000;

/// One for a run. Its connections are one transfer to the controller: several controllers would take each other for neighbours.
#[derive(Clone)]
pub struct Pace {
    pacer: Arc<Mutex<Pacer>>,
    path: Arc<Mutex<Path>>,
}

#[derive(Default)]
struct Path {
    control: Background,
    round_trip_ns: u64,
    total: u64,
    /// When something last came over each connection; None of one that has ended.
    moved: Vec<Option<Nanos>>,
}

/// The controller's demands on one connection.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub rate: Rate,
    /// Its part of the window, in bytes.
    pub window: u64,
}

impl Default for Pace {
    fn default() -> Self {
        let options = Options {
            catch_up_horizon_ns: 5 * STEP_NS,
            ..Options::default()
        };
        Self {
            pacer: Arc::new(Mutex::new(Pacer::new(Background::new().rate(), options))),
            path: Arc::default(),
        }
    }
}

impl Pace {
    pub fn allowance(&self, now: Instant) -> u64 {
        lock(&self.pacer).allowance(nanos(now))
    }

    pub fn take(&self, now: Instant, bytes: u64) {
        lock(&self.pacer).take(nanos(now), bytes);
    }

    #[must_use]
    pub fn next_at(&self) -> Instant {
        instant(lock(&self.pacer).next_at())
    }

    #[cfg(all(test, target_os = "linux"))]
    #[must_use]
    pub fn rate(&self) -> Rate {
        lock(&self.pacer).rate()
    }

    #[must_use]
    pub fn quantum(&self) -> u64 {
        lock(&self.pacer).quantum()
    }

    pub fn set(&self, now: Nanos, rate: Rate) {
        lock(&self.pacer).set_rate(now, rate);
    }

    /// Adds a connection, and returns its number.
    #[must_use]
    pub fn join(&self, now: Nanos) -> usize {
        let moved = &mut lock(&self.path).moved;
        moved.push(Some(now));
        moved.len() - 1
    }

    pub fn leave(&self, connection: usize) {
        lock(&self.path).moved[connection] = None;
    }

    /// Takes a connection's figures since its last sample, and returns the controller's demands. A round trip counts if it is the
    /// first one or something has arrived: otherwise it is old.
    pub fn sample(&self, connection: usize, now: Nanos, round_trip_ns: u64, arrived: u64) -> Asked {
        let mut path = lock(&self.path);
        if arrived > 0 || path.round_trip_ns == 0 {
            path.round_trip_ns = round_trip_ns;
        }
        if arrived > 0 {
            path.moved[connection] = Some(now);
        }
        path.total += arrived;
        let (round_trip_ns, total) = (path.round_trip_ns, path.total);
        path.control.sample(now, round_trip_ns, total);
        let idle_ns = IDLE_NS.max(2 * round_trip_ns);
        let moving = path
            .moved
            .iter()
            .flatten()
            .filter(|at| now.since(**at) <= idle_ns)
            .count();
        Asked {
            rate: path.control.rate(),
            window: path.control.window() / u64::try_from(moving.max(1)).unwrap_or(1),
        }
    }

    /// Looks at the controller, for the log.
    pub fn with_control<T>(&self, look: impl FnOnce(&Background) -> T) -> T {
        look(&lock(&self.path).control)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn connections_share_the_window_and_an_idle_one_leaves_its_part() {
        let pace = Pace::default();
        let (one, other) = (pace.join(Nanos(0)), pace.join(Nanos(0)));
        let both = pace.sample(one, Nanos(MS), 50 * MS, 10_000).window;
        let all = pace.with_control(Background::window);
        assert_eq!(both, all / 2);
        let alone = pace.sample(one, Nanos(400 * MS), 50 * MS, 10_000).window;
        assert_eq!(alone, pace.with_control(Background::window));
        pace.sample(other, Nanos(401 * MS), 50 * MS, 10_000);
        pace.leave(other);
        let alone = pace.sample(one, Nanos(402 * MS), 50 * MS, 0).window;
        assert_eq!(alone, pace.with_control(Background::window));
    }
}
