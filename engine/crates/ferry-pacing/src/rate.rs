//! Rates, and the lines they draw through time.

use crate::Nanos;

const NS_PER_S: u128 = 1_000_000_000;

/// Bytes per second, at least 1.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// One byte per second.
    pub const LEAST: Self = Self(1);

    /// A rate of `byte_s` bytes per second; `None` for 0, which would be a stop and not a limit.
    #[must_use]
    pub const fn new(byte_s: u64) -> Option<Self> {
        if byte_s == 0 { None } else { Some(Self(byte_s)) }
    }

    /// Bytes per second.
    #[must_use]
    pub const fn byte_s(self) -> u64 {
        self.0
    }

    /// The nanoseconds that `bytes` take, rounded up so that nothing is due early; `u64::MAX` if it is more than that.
    #[must_use]
    pub fn time_for(self, bytes: u64) -> u64 {
        // u64 x 1e9 is below 2^94: the product cannot overflow.
        u64::try_from((u128::from(bytes) * NS_PER_S).div_ceil(u128::from(self.0))).unwrap_or(u64::MAX)
    }

    /// The whole bytes that fit into `ns` nanoseconds; `u64::MAX` if it is more than that.
    #[must_use]
    pub fn bytes_in(self, ns: u64) -> u64 {
        u64::try_from(u128::from(ns) * u128::from(self.0) / NS_PER_S).unwrap_or(u64::MAX)
    }

    /// This rate and `percent` of it, rounded down so that it is never above what was asked.
    pub(crate) fn plus_percent(self, percent: u32) -> Self {
        let more = u128::from(self.0) * u128::from(percent) / 100;
        Self(u64::try_from(u128::from(self.0) + more).unwrap_or(u64::MAX))
    }
}

/// A count of bytes that grows with time: `base` at `since`, and `rate` from then on.
///
/// Always computed from `since`, never from the last answer, so that roundings do not add up.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Line {
    pub rate: Rate,
    pub since: Nanos,
    pub base: u64,
}

impl Line {
    /// The line's bytes at `now`, rounded down.
    pub fn at(&self, now: Nanos) -> u64 {
        self.base.saturating_add(self.rate.bytes_in(now.since(self.since)))
    }

    /// The first nanosecond, not before `since`, at which [`Line::at`] is `bytes` or more.
    pub fn reaches(&self, bytes: u64) -> Nanos {
        self.since
            .saturating_add(self.rate.time_for(bytes.saturating_sub(self.base)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Line, Rate};
    use crate::Nanos;

    fn rate(byte_s: u64) -> Rate {
        Rate::new(byte_s).expect("not zero")
    }

    #[test]
    fn zero_is_no_rate() {
        assert_eq!(Rate::new(0), None);
        assert_eq!(rate(7).byte_s(), 7);
    }

    #[test]
    fn times_round_up_and_bytes_round_down() {
        assert_eq!(rate(3).time_for(1), 333_333_334);
        assert_eq!(rate(3).bytes_in(333_333_333), 0);
        assert_eq!(rate(3).bytes_in(333_333_334), 1);
        assert_eq!(rate(1_000_000_000).time_for(17), 17);
    }

    #[test]
    fn extremes_stop_at_the_end() {
        assert_eq!(rate(1).time_for(u64::MAX), u64::MAX);
        assert_eq!(rate(u64::MAX).bytes_in(u64::MAX), u64::MAX);
        assert_eq!(rate(u64::MAX).time_for(u64::MAX), 1_000_000_000);
        assert_eq!(rate(u64::MAX).plus_percent(u32::MAX), rate(u64::MAX));
    }

    #[test]
    fn a_share_more_is_rounded_down() {
        assert_eq!(rate(1_000).plus_percent(8), rate(1_080));
        assert_eq!(rate(12).plus_percent(8), rate(12));
    }

    #[test]
    fn a_line_answers_both_ways() {
        let line = Line {
            rate: rate(1_000),
            since: Nanos(50),
            base: 10,
        };
        assert_eq!(line.at(Nanos(0)), 10);
        assert_eq!(line.reaches(10), Nanos(50));
        assert_eq!(line.reaches(12), Nanos(2_000_050));
        assert_eq!(line.at(Nanos(2_000_049)), 11);
        assert_eq!(line.at(Nanos(2_000_050)), 12);
    }
}
