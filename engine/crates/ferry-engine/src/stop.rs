//! Ending a run before it is done.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::error::{Class, Error};

/// The longest wait between two checks for a request to stop.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// Asks a run to end: from another thread, or from a signal handler that stores its signal's number. All clones are one.
///
/// A run that was asked ends its transfers with class [`Class::Interrupted`] within some 200 ms, keeps what `--resume` can use, and reports.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicUsize>);

impl Stop {
    /// Asks now.
    pub fn request(&self) {
        self.0.store(usize::MAX, Ordering::Relaxed);
    }

    /// The flag in which a signal handler stores any number but 0.
    #[must_use]
    pub fn flag(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.0)
    }

    /// The stored number; 0 before any request.
    #[must_use]
    pub fn reason(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// The error that ends a transfer, once a stop was requested.
    #[must_use]
    pub fn problem(&self) -> Option<Error> {
        (self.reason() != 0).then(|| Error::new(Class::Interrupted, "interrupted"))
    }

    /// The next moment to look, no later than `deadline`.
    #[must_use]
    pub(crate) fn look_by(deadline: Instant) -> Instant {
        deadline.min(Instant::now() + LOOK)
    }

    /// Sleeps, but not beyond a request.
    pub(crate) fn sleep(&self, time: Duration) {
        let end = Instant::now() + time;
        while self.reason() == 0 {
            let now = Instant::now();
            if now >= end {
                return;
            }
            std::thread::sleep(LOOK.min(end - now));
        }
    }
}
