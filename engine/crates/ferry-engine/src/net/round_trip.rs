//! The last round trip that a connection's congestion controller has measured, for any code that needs it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The last round trip that was measured; quinn tells the mean of the last ones. All clones are one.
#[derive(Clone, Default)]
pub struct RoundTrip(Arc<Measured>);

#[derive(Default)]
struct Measured {
    ns: AtomicU64,
    times: AtomicU64,
}

impl RoundTrip {
    pub fn set(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.ns.store(ns, Ordering::Relaxed);
        self.0.times.fetch_add(1, Ordering::Relaxed);
    }

    /// `None` before the first one, and with controllers that are not watched.
    pub fn get(&self) -> Option<Duration> {
        let ns = self.0.ns.load(Ordering::Relaxed);
        (ns > 0).then(|| Duration::from_nanos(ns))
    }

    /// The number of round trips that were measured.
    pub fn count(&self) -> u64 {
        self.0.times.load(Ordering::Relaxed)
    }
}
