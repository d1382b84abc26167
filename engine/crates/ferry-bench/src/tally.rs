//! What a benchmark counts.

use std::time::Instant;

use ferry_engine::report::Percentiles;

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

/// Of latencies in any order; all 0 without any.
pub fn percentiles(latencies: &mut [u32]) -> Percentiles {
    if latencies.is_empty() {
        return Percentiles::default();
    }
    latencies.sort_unstable();
    let at = |share: usize| u64::from(latencies[(latencies.len() - 1) * share / 100]);
    Percentiles {
        min: at(0),
        p50: at(50),
        p90: at(90),
        p99: at(99),
        max: at(100),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::{Tally, percentiles};

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

    #[test]
    fn percentiles_are_those_of_the_sorted_latencies() {
        let mut latencies: Vec<u32> = (1..=101).rev().collect();
        let found = percentiles(&mut latencies);
        assert_eq!(
            (found.min, found.p50, found.p90, found.p99, found.max),
            (1, 51, 91, 100, 101)
        );
        assert_eq!(percentiles(&mut []).max, 0);
    }
}
