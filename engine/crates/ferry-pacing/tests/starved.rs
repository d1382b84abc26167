//! A process that a busy machine stops again and again: it keeps its rate, and never by a burst.

mod support;

use ferry_pacing::{Nanos, Options, Pacer, Rate};
use proptest::prelude::*;
use support::{MS, S, ideal, rates};

const QUANTUM_NS: u64 = 3 * MS;
const PEAK_PERCENT: u32 = 50;

fn pacer(rate: Rate) -> Pacer {
    let quantum = Some(rate.bytes_in(QUANTUM_NS).max(1024));
    Pacer::new(
        rate,
        Options {
            quantum,
            ..Options::default()
        }
        .within_peak(PEAK_PERCENT, QUANTUM_NS),
    )
}

/// The wake-up time of a process that is stopped in these spans (begin, end) and wanted to wake up at `at`.
fn woken(at: Nanos, stops: &[(u64, u64)]) -> Nanos {
    stops
        .iter()
        .find(|stop| (stop.0..stop.1).contains(&at.0))
        .map_or(at, |stop| Nanos(stop.1))
}

/// The times and sizes of the takes before `end`.
fn run(pacer: &mut Pacer, stops: &[(u64, u64)], end: Nanos) -> Vec<(Nanos, u64)> {
    let (mut now, mut takes) = (Nanos(0), Vec::new());
    while now < end {
        let bytes = pacer.allowance(now);
        if bytes > 0 {
            pacer.take(now, bytes);
            takes.push((now, bytes));
        }
        now = woken(pacer.next_at().max(Nanos(now.0 + 1)), stops);
    }
    takes
}

fn stops_of(pause_ns: u64, period_ns: u64, end: u64) -> Vec<(u64, u64)> {
    (1..=end / period_ns)
        .map(|index| (index * period_ns - pause_ns, index * period_ns))
        .collect()
}

/// No 100 ms see more than 1.5 x the rate, less the two quanta that are left for the network.
fn assert_no_burst(takes: &[(Nanos, u64)], rate: Rate) {
    let bound = ideal(rate, 144 * MS) + 1;
    let (mut first, mut sum) = (0, 0_u128);
    for &(now, bytes) in takes {
        sum += u128::from(bytes);
        while now.since(takes[first].0) > 100 * MS {
            sum -= u128::from(takes[first].1);
            first += 1;
        }
        assert!(
            sum <= bound,
            "{sum} bytes in the 100 ms before {now:?}, {bound} allowed"
        );
    }
}

/// A quarter of the time taken away, by stops of any usual length: within 5 % over ten seconds.
#[test]
fn a_quarter_of_the_time_lost_costs_less_than_a_twentieth_of_the_rate() {
    for byte_s in [1_000_000, 2_500_000, 50_000_000] {
        let rate = Rate::new(byte_s).expect("not zero");
        for pause_ms in [5, 10, 20, 50, 100, 200, 440] {
            let stops = stops_of(pause_ms * MS, 4 * pause_ms * MS, 12 * S);
            let mut pacer = pacer(rate);
            let takes = run(&mut pacer, &stops, Nanos(10 * S));
            let share = pacer.taken() as f64 / (10 * byte_s) as f64;
            assert!(
                (0.95..=1.001).contains(&share),
                "{byte_s} B/s, stops of {pause_ms} ms: {share:.3}"
            );
            assert_no_burst(&takes, rate);
        }
    }
}

/// Three wake-ups of four are late by more than two quanta. That halved the rate when a wake-up could take two quanta at most.
#[test]
fn late_by_more_than_two_quanta_again_and_again_is_not_half_the_rate() {
    let rate = Rate::new(2_000_000).expect("not zero");
    let mut pacer = pacer(rate);
    let stops = stops_of(15 * MS, 20 * MS, 11 * S);
    let takes = run(&mut pacer, &stops, Nanos(10 * S));
    let share = pacer.taken() as f64 / 2e7;
    assert!((0.95..=1.001).contains(&share), "{share:.3}");
    assert_no_burst(&takes, rate);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_stops_make_a_burst(
        rate in rates(), stops in prop::collection::vec((0..S, 0..S / 2), 0..20),
    ) {
        // Below, a quantum is 1 KiB and lasts longer than 3 ms.
        prop_assume!(rate.byte_s() >= 342_000);
        let mut begin = 0;
        let stops: Vec<(u64, u64)> = stops.iter().map(|&(after, pause)| {
            let stop = (begin + after, begin + after + pause);
            begin = stop.1;
            stop
        }).collect();
        let takes = run(&mut pacer(rate), &stops, Nanos(begin + S));
        assert_no_burst(&takes, rate);
    }

    #[test]
    fn the_least_peak_is_two_quanta_and_one_percent(percent in 0_u32..15) {
        let options = Options::default().within_peak(percent, QUANTUM_NS);
        prop_assert_eq!((options.catch_up_depth_ns, options.catch_up_percent >= 1), (2 * QUANTUM_NS, true));
    }
}
