//! One monotonic epoch for the whole process, so that pacers shared between threads speak of the same time.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use ferry_pacing::Nanos;

fn epoch() -> Instant {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    *EPOCH.get_or_init(Instant::now)
}

/// Now, and the epoch with it: an instant from before would be taken for the epoch itself.
#[must_use]
pub fn begin() -> Instant {
    epoch();
    Instant::now()
}

/// Nanoseconds since the epoch; an instant before it is the epoch.
#[must_use]
pub fn nanos(at: Instant) -> Nanos {
    Nanos(u64::try_from(at.saturating_duration_since(epoch()).as_nanos()).unwrap_or(u64::MAX))
}

#[must_use]
pub fn instant(at: Nanos) -> Instant {
    // A deadline beyond what an Instant can hold is as good as ten years.
    epoch()
        .checked_add(Duration::from_nanos(at.0))
        .unwrap_or_else(|| epoch() + Duration::from_secs(315_360_000))
}

/// Seconds between two times; 0 where the second is earlier.
#[must_use]
pub fn seconds(from: Instant, to: Instant) -> f64 {
    to.saturating_duration_since(from).as_secs_f64()
}
