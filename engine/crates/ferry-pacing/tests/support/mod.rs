//! Helpers of the property tests of both kinds of limit.
#![allow(dead_code, reason = "each test binary uses its part")]

use ferry_pacing::{Nanos, Rate};
use proptest::prelude::*;

pub const MS: u64 = 1_000_000;
pub const S: u64 = 1_000 * MS;

/// 1 KB/s to 10 GB/s, each decade as likely as the others.
pub fn rates() -> impl Strategy<Value = Rate> {
    (3_u32..10, 1_000_u64..10_000)
        .prop_map(|(decade, digits)| Rate::new(digits * 10_u64.pow(decade) / 1_000).expect("at least 1000"))
}

/// The bytes of `rate` in `ns`, by a formula that owes nothing to the crate.
pub fn ideal(rate: Rate, ns: u64) -> u128 {
    u128::from(rate.byte_s()) * u128::from(ns) / 1_000_000_000
}

/// No window of `width_ns` sees more than 1.08 x the rate and two quanta.
pub fn assert_windows(takes: &[(Nanos, u64)], rate: Rate, quantum: u64, width_ns: u64) {
    let bound = u128::from(rate.byte_s()) * u128::from(width_ns) * 108 / 100_000_000_000 + 2 * u128::from(quantum);
    let (mut first, mut sum) = (0, 0_u128);
    for &(now, bytes) in takes {
        sum += u128::from(bytes);
        while now.since(takes[first].0) > width_ns {
            sum -= u128::from(takes[first].1);
            first += 1;
        }
        assert!(
            sum <= bound,
            "{sum} bytes within {width_ns} ns before {now:?}, at most {bound} allowed"
        );
    }
}
