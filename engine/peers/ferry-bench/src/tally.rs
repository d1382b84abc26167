//! What a benchmark counts.

use std::time::Instant;

/// What all connections have in common.
pub struct Tally {
    /// Requests not begun yet.
    pub left: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub bytes: u64,
    /// Microseconds.
    pub latencies: Vec<u32>,
    pub begin: Instant,
}

impl Tally {
    pub fn micros(&self, now: Instant) -> u32 {
        u32::try_from(now.saturating_duration_since(self.begin).as_micros()).unwrap_or(u32::MAX)
    }

    pub fn done(&mut self, ok: bool, latency: u32) {
        if ok {
            self.succeeded += 1;
            self.latencies.push(latency);
        } else {
            self.failed += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::Tally;

    #[test]
    fn only_requests_that_succeed_have_a_latency() {
        let mut tally = Tally {
            left: 0,
            succeeded: 0,
            failed: 0,
            bytes: 0,
            latencies: Vec::new(),
            begin: Instant::now(),
        };
        tally.done(true, 7);
        tally.done(false, 9);
        assert_eq!((tally.succeeded, tally.failed, tally.latencies), (1, 1, vec![7]));
    }
}
