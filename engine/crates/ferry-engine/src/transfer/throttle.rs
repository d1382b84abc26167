//! The limit of one stream: none, its own, or its share of one that several streams have in common.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use ferry_pacing::{Member, Options, Pacer, Rate, Shared};

use super::pace::Pace;
use crate::clock::{instant, nanos};
use crate::platform;
use crate::sync::lock;
use crate::units::Peak;

/// One step of a limit: 3 ms of it, 8 ms on Windows, where a wake-up may be late by more than 3 ms every time. No 64 KiB cap as in the
/// pacer: above 26 MB/s they are over in less time than a wake-up may be late by.
fn quantum(rate: Rate) -> u64 {
    rate.bytes_in(platform::PACING_STEP_NS).clamp(1024, 1 << 20)
}

fn options(rate: Rate, peak: Peak) -> Options {
    let quantum = Some(quantum(rate));
    Options {
        quantum,
        ..Options::default()
    }
    .within_peak(peak.percent_above(), platform::PACING_STEP_NS)
}

/// A limit as it was asked for; every stream makes its `Throttle` of it.
#[derive(Clone)]
pub enum Limit {
    None,
    Each(Rate, Peak),
    Shared(Arc<Mutex<Shared>>, Rate),
}

impl Limit {
    #[must_use]
    pub fn shared(rate: Rate, peak: Peak) -> Self {
        Self::Shared(Arc::new(Mutex::new(Shared::new(rate, options(rate, peak)))), rate)
    }

    #[must_use]
    pub fn rate(&self) -> Option<Rate> {
        match self {
            Self::None => None,
            Self::Each(rate, _) | Self::Shared(_, rate) => Some(*rate),
        }
    }

    #[must_use]
    pub fn is_shared(&self) -> bool {
        matches!(self, Self::Shared(..))
    }

    /// Returns the most bytes to read before the size of an answer's head is known: more would be bytes of the body that are not
    /// due.
    #[must_use]
    pub fn first_read(&self) -> usize {
        match self {
            Self::Each(rate, _) => usize::try_from(quantum(*rate)).unwrap_or(usize::MAX),
            Self::None | Self::Shared(..) => usize::MAX,
        }
    }

    #[must_use]
    pub fn throttle(&self) -> Throttle {
        match self {
            Self::None => Throttle::None,
            Self::Each(rate, peak) => {
                let options = Options {
                    late_while_unknown: true,
                    ..options(*rate, *peak)
                };
                Throttle::Own(Box::new(Pacer::new(*rate, options)))
            }
            Self::Shared(shared, rate) => {
                let mut member = lock(shared);
                let id = member.join();
                member.set_backlogged(id, false);
                drop(member);
                let quantum = quantum(*rate);
                Throttle::Shared {
                    shared: Arc::clone(shared),
                    id,
                    backlogged: false,
                    quantum,
                }
            }
        }
    }
}

/// Pacing of one stream.
pub enum Throttle {
    None,
    Own(Box<Pacer>),
    Shared {
        shared: Arc<Mutex<Shared>>,
        id: Member,
        backlogged: bool,
        quantum: u64,
    },
    /// Held to a limit, and to the pace that leaves the queue to others; for uploads only.
    Yielding {
        limit: Box<Throttle>,
        pace: Pace,
    },
}

impl Throttle {
    #[must_use]
    pub fn is_limited(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// True if the limit is this stream's alone.
    #[must_use]
    pub fn is_own(&self) -> bool {
        matches!(self, Self::Own(_))
    }

    /// Bytes that may move now.
    pub fn allowance(&mut self, now: Instant) -> u64 {
        match self {
            Self::None => u64::MAX,
            Self::Own(pacer) => pacer.allowance(nanos(now)),
            Self::Shared { shared, id, .. } => lock(shared).allowance(*id, nanos(now)),
            Self::Yielding { limit, pace } => limit.allowance(now).min(pace.allowance(now)),
        }
    }

    pub fn take(&mut self, now: Instant, bytes: u64) {
        match self {
            Self::None => {}
            Self::Own(pacer) => pacer.take(nanos(now), bytes),
            Self::Shared { shared, id, .. } => lock(shared).take(*id, nanos(now), bytes),
            Self::Yielding { limit, pace } => {
                limit.take(now, bytes);
                pace.take(now, bytes);
            }
        }
    }

    /// When to look again.
    #[must_use]
    pub fn next_at(&self) -> Option<Instant> {
        match self {
            Self::None => None,
            Self::Own(pacer) => Some(instant(pacer.next_at())),
            Self::Shared { shared, id, .. } => Some(instant(lock(shared).next_at(*id))),
            Self::Yielding { limit, pace } => limit.next_at().max(Some(pace.next_at())),
        }
    }

    /// The deadline of all bytes that have moved: the end of a body.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        match self {
            Self::None => None,
            Self::Own(pacer) => Some(instant(pacer.due())),
            Self::Shared { shared, .. } => Some(instant(lock(shared).due())),
            Self::Yielding { limit, .. } => limit.due(),
        }
    }

    /// The last piece of a known total leaves at its own deadline.
    pub fn expect_total(&mut self, bytes: u64) {
        match self {
            Self::Own(pacer) => pacer.expect_total(bytes),
            Self::Yielding { limit, .. } => limit.expect_total(bytes),
            Self::None | Self::Shared { .. } => {}
        }
    }

    /// Marks the stream as having bytes to move or none: a stream with none must not hold up the others of a shared limit.
    pub fn set_backlogged(&mut self, wants: bool) {
        match self {
            Self::Shared {
                shared, id, backlogged, ..
            } if *backlogged != wants => {
                *backlogged = wants;
                lock(shared).set_backlogged(*id, wants);
            }
            Self::Yielding { limit, .. } => limit.set_backlogged(wants),
            _ => {}
        }
    }

    /// Bytes of one step.
    #[must_use]
    pub fn quantum(&self) -> usize {
        let bytes = match self {
            Self::None => return usize::MAX,
            Self::Own(pacer) => pacer.quantum(),
            Self::Shared { quantum, .. } => *quantum,
            Self::Yielding { pace, .. } => pace.quantum(),
        };
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Seconds that were given up because the network could not follow.
    #[must_use]
    pub fn shortfall_s(&self) -> f64 {
        let ns = match self {
            Self::None => 0,
            Self::Own(pacer) => pacer.shortfall_ns(),
            Self::Shared { shared, .. } => lock(shared).shortfall_ns(),
            Self::Yielding { limit, .. } => return limit.shortfall_s(),
        };
        ns as f64 / 1e9
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        if let Self::Shared { shared, id, .. } = self {
            lock(shared).leave(*id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn yielding(limit: &Limit, pace: &Pace) -> Throttle {
        Throttle::Yielding {
            limit: Box::new(limit.throttle()),
            pace: pace.clone(),
        }
    }

    fn rate(byte_s: u64) -> Rate {
        Rate::new(byte_s).unwrap()
    }

    /// Bytes that leave in the second after `begin`, by a clock of the test's own.
    fn moved_in_a_second(throttle: &mut Throttle, begin: Instant) -> u64 {
        let (mut now, mut moved) = (begin, 0);
        while now < begin + Duration::from_secs(1) {
            match throttle.allowance(now) {
                0 => now = throttle.next_at().unwrap().max(now + Duration::from_micros(100)),
                bytes => {
                    throttle.take(now, bytes);
                    moved += bytes;
                }
            }
        }
        moved
    }

    #[test]
    fn the_lower_of_limit_and_pace_wins() {
        for (limit, pace) in [(200_000, 1_000_000), (1_000_000, 200_000)] {
            let (own, begin) = (Pace::default(), Instant::now());
            own.set(nanos(begin), rate(pace));
            let mut throttle = yielding(&Limit::Each(rate(limit), Peak::default()), &own);
            let moved = moved_in_a_second(&mut throttle, begin);
            assert!((190_000..=215_000).contains(&moved), "{limit} {pace}: {moved}");
        }
    }

    #[test]
    fn a_pace_that_changes_is_followed() {
        let (own, begin) = (Pace::default(), Instant::now());
        own.set(nanos(begin), rate(100_000));
        let mut throttle = yielding(&Limit::None, &own);
        let slow = moved_in_a_second(&mut throttle, begin);
        let later = begin + Duration::from_secs(1);
        own.set(nanos(later), rate(400_000));
        let fast = moved_in_a_second(&mut throttle, later);
        assert!((95_000..=110_000).contains(&slow), "{slow}");
        assert!((390_000..=420_000).contains(&fast), "{fast}");
    }
}
