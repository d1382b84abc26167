//! The limit of one stream: none, its own, or its share of one that several streams have in common.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use ferry_pacing::{Member, Options, Pacer, Rate, Shared};

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

    /// What to read before the size of an answer's head is known: more would be bytes of the body that are not due.
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
}

impl Throttle {
    #[must_use]
    pub fn is_limited(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// Whether the limit is this stream's alone.
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
        }
    }

    pub fn take(&mut self, now: Instant, bytes: u64) {
        match self {
            Self::None => {}
            Self::Own(pacer) => pacer.take(nanos(now), bytes),
            Self::Shared { shared, id, .. } => lock(shared).take(*id, nanos(now), bytes),
        }
    }

    /// When to look again.
    #[must_use]
    pub fn next_at(&self) -> Option<Instant> {
        match self {
            Self::None => None,
            Self::Own(pacer) => Some(instant(pacer.next_at())),
            Self::Shared { shared, id, .. } => Some(instant(lock(shared).next_at(*id))),
        }
    }

    /// When all that has moved is due: the end of a body.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        match self {
            Self::None => None,
            Self::Own(pacer) => Some(instant(pacer.due())),
            Self::Shared { shared, .. } => Some(instant(lock(shared).due())),
        }
    }

    /// The last piece of a known total leaves at its own deadline.
    pub fn expect_total(&mut self, bytes: u64) {
        if let Self::Own(pacer) = self {
            pacer.expect_total(bytes);
        }
    }

    /// Whether there is anything to move: who has nothing must not hold up the others of a shared limit.
    pub fn set_backlogged(&mut self, wants: bool) {
        if let Self::Shared {
            shared, id, backlogged, ..
        } = self
            && *backlogged != wants
        {
            *backlogged = wants;
            lock(shared).set_backlogged(*id, wants);
        }
    }

    /// Bytes of one step.
    #[must_use]
    pub fn quantum(&self) -> usize {
        let bytes = match self {
            Self::None => return usize::MAX,
            Self::Own(pacer) => pacer.quantum(),
            Self::Shared { quantum, .. } => *quantum,
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
