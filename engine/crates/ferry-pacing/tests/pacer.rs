//! The promises of a [`Pacer`], in virtual time, to wakers of every kind.

mod support;

use ferry_pacing::{Nanos, Options, Pacer, Rate};
use proptest::prelude::*;
use support::{MS, S, assert_windows, ideal, rates};

/// Moves `total` bytes, waking `late(now, next_at)` nanoseconds after each `next_at`; the takes and the end.
fn run(pacer: &mut Pacer, start: Nanos, total: u64, mut late: impl FnMut(Nanos) -> u64) -> (Vec<(Nanos, u64)>, Nanos) {
    let (mut now, mut takes) = (start, Vec::new());
    while pacer.taken() < total {
        let bytes = pacer.allowance(now).min(total - pacer.taken());
        if bytes > 0 {
            pacer.take(now, bytes);
            takes.push((now, bytes));
        } else {
            assert!(pacer.next_at() > now, "a busy loop at {now:?}");
            now = pacer.next_at().saturating_add(late(pacer.next_at()));
        }
    }
    (takes, now.max(pacer.due()))
}

/// Taken is never more than one quantum ahead of the deadline line.
fn assert_not_ahead(takes: &[(Nanos, u64)], rate: Rate, quantum: u64) {
    let (start, mut sum) = (takes[0].0, 0);
    for &(now, bytes) in takes {
        sum += bytes;
        let due = ideal(rate, now.since(start));
        assert!(
            u128::from(sum) <= due + u128::from(quantum),
            "{sum} taken, {due} due at {now:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn punctual_wakers_end_on_the_nanosecond(
        rate in rates(), pieces in 0_u64..200, odd in any::<u64>(), start in 0..S, known in any::<bool>(),
    ) {
        let mut pacer = Pacer::new(rate, Options::default());
        let quantum = pacer.quantum();
        let total = pieces * quantum + odd % quantum + 1;
        if known {
            pacer.expect_total(total);
        }
        let (takes, end) = run(&mut pacer, Nanos(start), total, |_| 0);
        let exact = Nanos(start).saturating_add(rate.time_for(total));
        prop_assert_eq!(end, exact);
        prop_assert_eq!((pacer.anchor(), pacer.shortfall_ns()), (Some(Nanos(start)), 0));
        assert_not_ahead(&takes, rate, quantum);
        assert_windows(&takes, rate, quantum, 100 * MS);
        if known && total > 1 {
            let &(last, bytes) = takes.last().expect("not empty");
            prop_assert_eq!(last, exact, "the last piece leaves when its last byte is due");
            prop_assert!(bytes <= 1024.min((quantum / 8).max(1)));
        } else {
            prop_assert!(takes.len() as u64 <= total.div_ceil(quantum), "whole quanta, no crumbs");
        }
    }

    #[test]
    fn late_in_the_middle_is_made_up_for(
        rate in rates(), ms in 300_u64..500, lates in prop::collection::vec(0..=2 * MS, 64), known in any::<bool>(),
    ) {
        let mut pacer = Pacer::new(rate, Options::default());
        let total = rate.bytes_in(ms * MS);
        if known {
            pacer.expect_total(total);
        }
        // Below a quantum's time, every wake-up may be late; above, no more of them than 8 % can make up.
        let rest = if rate.time_for(pacer.quantum()) > 2 * MS { 0 } else { 40 * MS };
        let (mut lates, mut quiet_until) = (lates.into_iter().cycle(), 0);
        let (takes, end) = run(&mut pacer, Nanos(0), total, |at| {
            if at.0 < quiet_until || at.0 > (ms - 50) * MS {
                return 0;
            }
            quiet_until = at.0 + rest;
            lates.next().expect("endless")
        });
        let exact = rate.time_for(total);
        prop_assert!(end.0.abs_diff(exact) <= exact / 1000, "{} instead of {exact}", end.0);
        prop_assert_eq!(pacer.shortfall_ns(), 0);
        assert_not_ahead(&takes, rate, pacer.quantum());
        assert_windows(&takes, rate, pacer.quantum(), 100 * MS);
    }

    #[test]
    fn looking_in_early_changes_nothing(rate in rates(), pieces in 1_u64..30, steps in 3_u64..100, known in any::<bool>()) {
        let mut pacer = Pacer::new(rate, Options::default());
        let quantum = pacer.quantum();
        let total = pieces * quantum + quantum / 3;
        if known {
            pacer.expect_total(total);
        }
        let (mut now, mut takes) = (Nanos(0), Vec::new());
        while pacer.taken() < total {
            let bytes = pacer.allowance(now).min(total - pacer.taken());
            if bytes > 0 {
                prop_assert!(bytes >= quantum.div_ceil(4) || total - pacer.taken() < quantum, "a crumb of {bytes}");
                pacer.take(now, bytes);
                takes.push((now, bytes));
            }
            now = now.saturating_add(rate.time_for(quantum) / steps + 1).min(pacer.next_at().max(now));
        }
        prop_assert_eq!(now.max(pacer.due()), Nanos(rate.time_for(total)));
        assert_not_ahead(&takes, rate, quantum);
    }
}

/// Ten years, from 1 B/s to nearly as many bytes as can be counted: as exact at the end as at the beginning.
#[test]
fn ten_years_are_exact() {
    let years = 10 * 365 * 86_400 * S;
    for byte_s in [1, 3, 999_999_937, 25_000_000_000] {
        let rate = Rate::new(byte_s).expect("not zero");
        let mut pacer = Pacer::new(rate, Options::default());
        pacer.take(Nanos(0), rate.bytes_in(years));
        let (due, quantum) = (pacer.due(), pacer.quantum());
        assert!(years - due.0 <= rate.time_for(1));
        assert_eq!(pacer.next_at().max(due), pacer.next_at());
        for _ in 0..1000 {
            let at = pacer.next_at();
            assert!(pacer.allowance(at) >= quantum);
            pacer.take(at, quantum);
        }
        assert_eq!(pacer.due().0, rate.time_for(rate.bytes_in(years) + 1000 * quantum));
    }
}

/// A wake-up 5 ms late in the middle: the deadline at the end is met, and the way there is 8 % steeper, not a burst.
#[test]
fn one_late_wake_up_is_caught_up_at_eight_percent() {
    for byte_s in [100_000, 10_000_000, 100_000_000, 1_000_000_000] {
        let rate = Rate::new(byte_s).expect("not zero");
        let mut pacer = Pacer::new(rate, Options::default());
        pacer.expect_total(byte_s / 2);
        let mut was_late = None;
        let (takes, end) = run(&mut pacer, Nanos(0), byte_s / 2, |at| {
            if was_late.is_none() && at >= Nanos(250 * MS) {
                was_late = Some(at);
                return 5 * MS;
            }
            0
        });
        assert_eq!(end, Nanos(S / 2));
        assert_windows(&takes, rate, pacer.quantum(), 10 * MS);
    }
}

/// Half a second of nothing: 100 ms are made up, 400 ms are the shortfall, and the end says so.
#[test]
fn a_stall_is_given_up_beyond_the_horizon() {
    for byte_s in [100_000, 10_000_000, 1_000_000_000] {
        let rate = Rate::new(byte_s).expect("not zero");
        let mut pacer = Pacer::new(rate, Options::default());
        pacer.expect_total(3 * byte_s);
        let mut stalls = vec![500 * MS];
        let (takes, end) = run(&mut pacer, Nanos(0), 3 * byte_s, |at| {
            if at.0 < S { 0 } else { stalls.pop().unwrap_or(0) }
        });
        assert_eq!(pacer.shortfall_ns(), 400 * MS);
        assert_eq!(end, Nanos(3 * S + 400 * MS));
        for width in [0, 10 * MS, 100 * MS, S] {
            assert_windows(&takes, rate, pacer.quantum(), width);
        }
    }
}

/// The last piece waits 128 ms at this rate: longer than the horizon, and yet nothing is given up.
#[test]
fn waiting_for_the_last_piece_is_no_lag() {
    let mut pacer = Pacer::new(Rate::new(1000).expect("not zero"), Options::default());
    pacer.expect_total(3000);
    let (takes, end) = run(&mut pacer, Nanos(0), 3000, |_| 0);
    assert_eq!((takes.last(), end), (Some(&(Nanos(3 * S), 128)), Nanos(3 * S)));
    assert_eq!(
        (pacer.shortfall_ns(), pacer.allowance(Nanos(9 * S)), pacer.next_at()),
        (0, 0, Nanos(3 * S))
    );
}

/// A total that turns out wrong, or comes late, does not end the transfer or stop it for ever.
#[test]
fn a_wrong_total_is_forgotten() {
    let mut pacer = Pacer::new(Rate::new(1_000_000).expect("not zero"), Options::default());
    pacer.take(Nanos(0), 2500);
    pacer.expect_total(1000);
    assert_eq!(pacer.allowance(Nanos(2_500_000)), 2500, "less than is taken: no total");
    pacer.expect_total(2500);
    assert_eq!(pacer.allowance(Nanos(2_500_000)), 0, "complete");
    pacer.take(Nanos(2_500_000), 1);
    assert!(pacer.allowance(Nanos(2_500_000)) > 0, "evidently not complete");
}

/// A body smaller than the last piece usually is has a last piece all the same.
#[test]
fn the_smallest_bodies_end_on_time() {
    for total in 2..200 {
        let mut pacer = Pacer::new(Rate::new(1000).expect("not zero"), Options::default());
        pacer.expect_total(total);
        let (takes, end) = run(&mut pacer, Nanos(0), total, |_| 0);
        assert_eq!(
            (takes.len(), takes[1].0, end),
            (2, Nanos(total * MS), Nanos(total * MS))
        );
    }
}

/// With nothing left there is only the final wait, whatever the catch-up line would ask for.
#[test]
fn when_complete_the_next_time_is_the_end() {
    let mut pacer = Pacer::new(Rate::new(1_000_000).expect("not zero"), Options::default());
    pacer.expect_total(100_000);
    pacer.take(Nanos(0), 1);
    assert_eq!(pacer.allowance(Nanos(90 * MS)), 5000);
    pacer.take(Nanos(90 * MS), 99_999);
    assert_eq!((pacer.next_at(), pacer.due()), (Nanos(100 * MS), Nanos(100 * MS)));
}
