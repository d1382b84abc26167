//! The promises that a [`Pacer`] keeps even with a waker that wants to break them.

mod support;

use ferry_pacing::{Nanos, Options, Pacer, Rate};
use proptest::prelude::*;
use support::{MS, S, assert_windows, ideal, rates};

/// The adversary's next step.
#[derive(Clone, Debug)]
enum Step {
    /// Time moves by so many thousandths of a quantum's time.
    Quanta(u64),
    /// Time moves by so many nanoseconds.
    Ns(u64),
    /// Time goes back by so many nanoseconds.
    Back(u64),
    /// Time goes to `next_at`, and so many nanoseconds further.
    Wake(u64),
}

fn steps() -> impl Strategy<Value = Vec<(Step, u64)>> {
    let step = prop_oneof![
        4 => (0_u64..3_000).prop_map(Step::Quanta),
        2 => (0..5 * MS).prop_map(Step::Ns),
        1 => (0..10 * S).prop_map(Step::Ns),
        1 => (0..S).prop_map(Step::Back),
        2 => Just(Step::Wake(0)),
        3 => (0..3 * MS).prop_map(Step::Wake),
    ];
    // After each step, so many percent of the allowance are taken.
    prop::collection::vec((step, prop_oneof![3 => Just(100_u64), 1 => 0..100_u64]), 1..200)
}

fn after(step: &Step, now: Nanos, pacer: &Pacer) -> Nanos {
    match *step {
        Step::Quanta(thousandths) => {
            let quantum_ns = u128::from(pacer.rate().time_for(pacer.quantum()));
            now.saturating_add(u64::try_from(quantum_ns * u128::from(thousandths) / 1000).expect("small"))
        }
        Step::Ns(ns) => now.saturating_add(ns),
        Step::Back(ns) => now.saturating_sub(ns),
        Step::Wake(ns) => now.max(pacer.next_at().saturating_add(ns)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn bounds_hold_whatever_the_waker_does(
        rate in rates(), steps in steps(), horizon in prop_oneof![Just(100 * MS), 0..S], total in prop::option::of(0_u64..300_000),
    ) {
        let mut pacer = Pacer::new(rate, Options { catch_up_horizon_ns: horizon, ..Options::default() });
        if let Some(total) = total {
            pacer.expect_total(total);
        }
        let quantum = pacer.quantum();
        let (mut now, mut latest, mut lost) = (Nanos(S), Nanos(0), 0);
        let mut takes: Vec<(Nanos, u64)> = Vec::new();
        for (step, percent) in steps {
            now = after(&step, now, &pacer);
            latest = latest.max(now);
            let (due, next_at, left) = (pacer.due(), pacer.next_at(), total.unwrap_or(u64::MAX) - pacer.taken());
            let allowed = pacer.allowance(now);
            prop_assert!(allowed <= left.min(2 * quantum), "a burst of {allowed}");
            if latest >= next_at && left > 0 {
                prop_assert!(allowed > 0 && allowed >= quantum.min(left) - left.min(1024.min((quantum / 8).max(1))));
            }
            if pacer.anchor().is_some() && left > 0 {
                // The last piece is due later than `due` says, so then only the upper bound is known.
                let given_up = latest.since(due).saturating_sub(horizon);
                let waits = total.is_some() && left <= 1024.min((quantum / 8).max(1));
                let counted = pacer.shortfall_ns() - lost;
                prop_assert!(counted == given_up || waits && counted < given_up, "{counted} of {given_up}");
                prop_assert!(!waits || latest.since(pacer.due()) <= horizon + rate.time_for(left));
                lost = pacer.shortfall_ns();
            }
            let bytes = allowed * percent / 100;
            pacer.take(now, bytes);
            prop_assert_eq!(pacer.shortfall_ns(), lost, "counted once");
            if bytes > 0 {
                takes.push((latest, bytes));
            }
            if let Some(anchor) = pacer.anchor() {
                prop_assert_eq!(pacer.due().since(anchor), lost + rate.time_for(pacer.taken()));
                let line = ideal(rate, latest.since(anchor) - lost) + u128::from(quantum);
                prop_assert!(u128::from(pacer.taken()) <= line, "{} taken, line at {line}", pacer.taken());
            }
        }
        prop_assert_eq!(takes.iter().map(|take| take.1).sum::<u64>(), pacer.taken());
        for width in [0, MS, 100 * MS, S, 100 * S] {
            assert_windows(&takes, rate, quantum, width);
        }
    }

    #[test]
    fn more_than_allowed_is_paid_for(rate in rates(), extra in prop::collection::vec(0_u64..1_000_000, 1..20)) {
        let mut pacer = Pacer::new(rate, Options::default());
        let mut now = Nanos(0);
        for extra in extra {
            pacer.take(now, pacer.clone().allowance(now) + extra);
            let early = Nanos((pacer.due().0).saturating_sub(rate.time_for(pacer.quantum()) + 1));
            prop_assert_eq!(pacer.allowance(early), 0);
            now = pacer.next_at();
            prop_assert_eq!(now.max(pacer.due()), now, "no quantum before what is taken is due");
            prop_assert!(pacer.allowance(now) >= pacer.quantum());
        }
    }

    #[test]
    fn extremes_neither_panic_nor_hang(
        rate in prop_oneof![Just(1_u64), 1..1000_u64, 1..100_000_000_000_u64, Just(100_000_000_000), Just(u64::MAX)],
        ops in prop::collection::vec((any::<u64>(), 0..u64::MAX / 2, any::<bool>()), 1..30),
        quantum in prop::option::of(any::<u64>()), catch_up_horizon_ns in any::<u64>(), catch_up_percent in any::<u32>(), catch_up_depth_ns in any::<u64>(),
        late_while_unknown in any::<bool>(),
    ) {
        let rate = Rate::new(rate).expect("at least 1");
        let mut pacer = Pacer::new(rate, Options { quantum, catch_up_horizon_ns, catch_up_percent, catch_up_depth_ns, late_while_unknown });
        for (time, bytes, total) in ops {
            if total {
                pacer.expect_total(bytes);
            }
            let allowed = pacer.allowance(Nanos(time));
            pacer.take(Nanos(time), if total { allowed } else { bytes });
            let _ = (pacer.next_at(), pacer.due(), pacer.shortfall_ns());
        }
    }
}
