//! The controller on a simulated line: one queue, full packets, TCP's smoothing, and a neighbour who sends a small packet every 20 ms.

use super::{Background, MS, PACKET, Phase, S};
use crate::Nanos;

struct Line {
    byte_s: u64,
    base_ns: u64,
}

struct Seen {
    /// The transfer's share of the line, in percent.
    percent: u64,
    /// The neighbour's waits in the queue, sorted.
    waits: Vec<u64>,
    /// The number of calms, which slow the transfer down to see the empty path, and the number of probes, which ask for more.
    calms: u32,
    probes: u32,
    control: Background,
}

impl Seen {
    fn p95_ms(&self) -> f64 {
        self.waits[self.waits.len() * 95 / 100] as f64 / 1e6
    }
}

/// Runs a transfer for `seconds`, by rate or by window, and counts from `from` seconds on. `others` is the load of other traffic
/// at a second, in percent of the line.
fn run(line: &Line, by_window: bool, seconds: u64, from: u64, others: impl Fn(u64) -> u64) -> Seen {
    let mut control = Background::new();
    let (mut now, step) = (0_u64, MS / 10);
    let look = (line.base_ns / 4).clamp(2 * MS, 10 * MS) / step * step;
    // When the line has sent all that is queued.
    let mut free_at = 0_u64;
    let mut acks: std::collections::VecDeque<(u64, u64, u64)> = std::collections::VecDeque::new();
    let (mut credit, mut arrived, mut in_flight, mut counted) = (0.0_f64, 0_u64, 0_u64, 0_u64);
    let (mut srtt_ns, mut other_credit, mut waits) = (0_u64, 0.0_f64, Vec::new());
    let (mut phase, mut calms, mut probes) = (Phase::Start, 0, 0);
    let enqueue = |free_at: &mut u64, now: u64, bytes: u64| {
        *free_at = (*free_at).max(now) + bytes * S / line.byte_s;
        *free_at
    };
    while now < seconds * S {
        other_credit += line.byte_s as f64 * others(now / S) as f64 / 100.0 * step as f64 / 1e9;
        // The neighbours' buffer holds 600 ms.
        while other_credit >= PACKET as f64 {
            other_credit -= PACKET as f64;
            if free_at.saturating_sub(now) < 600 * MS {
                enqueue(&mut free_at, now, PACKET);
            }
        }
        credit = (credit + control.rate().byte_s() as f64 * step as f64 / 1e9).min(2.0 * PACKET as f64);
        while if by_window {
            in_flight + PACKET <= control.window()
        } else {
            credit >= PACKET as f64
        } {
            credit -= PACKET as f64;
            in_flight += PACKET;
            let left = enqueue(&mut free_at, now, PACKET);
            acks.push_back((left + line.base_ns, now, PACKET));
        }
        while acks.front().is_some_and(|(at, ..)| *at <= now) {
            let Some((at, sent, bytes)) = acks.pop_front() else {
                break;
            };
            in_flight -= bytes;
            arrived += bytes;
            if at >= from * S {
                counted += bytes;
            }
            let sample = at - sent;
            srtt_ns = if srtt_ns == 0 {
                sample
            } else {
                srtt_ns - srtt_ns / 8 + sample / 8
            };
        }
        if now % look == 0 {
            control.sample(Nanos(now), srtt_ns, arrived);
            if now >= from * S && control.phase != phase {
                calms += u32::from(control.phase == Phase::Calm);
                probes += u32::from(matches!(control.phase, Phase::Probe(_)));
            }
            phase = control.phase;
        }
        if now % (20 * MS) == 7 * MS && now >= from * S {
            waits.push(free_at.saturating_sub(now));
        }
        now += step;
    }
    waits.sort_unstable();
    Seen {
        percent: counted * 100 / (line.byte_s * (seconds - from)),
        waits,
        calms,
        probes,
        control,
    }
}

const LINES: [Line; 6] = [
    Line {
        byte_s: 375_000,
        base_ns: 30 * MS,
    },
    Line {
        byte_s: 2_000_000,
        base_ns: 30 * MS,
    },
    Line {
        byte_s: 2_000_000,
        base_ns: 120 * MS,
    },
    Line {
        byte_s: 12_500_000,
        base_ns: 10 * MS,
    },
    Line {
        byte_s: 2_000_000,
        base_ns: 600 * MS,
    },
    Line {
        byte_s: 125_000,
        base_ns: 50 * MS,
    },
];

#[test]
fn a_neighbour_waits_five_milliseconds_or_a_packet_and_nine_tenths_of_the_line_are_used() {
    let mut bad = Vec::new();
    for line in &LINES {
        for by_window in [false, true] {
            let seen = run(line, by_window, 120, 30, |_| 0);
            let packet_ms = (PACKET * S / line.byte_s) as f64 / 1e6;
            let what = format!(
                "{} B/s, {} ms, window {by_window}: {} %, p95 {:.2} ms",
                line.byte_s,
                line.base_ns / MS,
                seen.percent,
                seen.p95_ms()
            );
            // A window of a long round trip leaves in clumps.
            let clumps_ms = if by_window {
                line.base_ns as f64 / 1e6 / 25.0
            } else {
                0.0
            };
            if seen.percent < 90 || seen.p95_ms() > 5.0_f64.max(2.0 * packet_ms).max(clumps_ms) {
                bad.push(what);
            }
        }
    }
    assert!(bad.is_empty(), "{bad:#?}");
}

#[test]
fn a_steady_line_is_asked_for_more_every_few_seconds_and_left_alone_once_a_minute() {
    for by_window in [false, true] {
        let seen = run(&LINES[1], by_window, 160, 40, |_| 0);
        assert!((1..=3).contains(&seen.calms), "{} calms in two minutes", seen.calms);
        assert!(
            (8..=120).contains(&seen.probes),
            "{} probes in two minutes",
            seen.probes
        );
    }
}

#[test]
fn it_yields_to_who_fills_the_queue_and_comes_back() {
    let line = &LINES[1];
    for by_window in [false, true] {
        let others = |second| if (20..40).contains(&second) { 110 } else { 0 };
        let during = run(line, by_window, 40, 25, others);
        assert!(during.percent <= 8, "{} %", during.percent);
        assert!(during.control.yields() > 0);
        let after = run(line, by_window, 60, 50, others);
        assert!(after.percent >= 85, "{} %", after.percent);
    }
}

#[test]
fn the_rest_of_the_line_is_left_to_a_neighbour_who_needs_less_than_all() {
    let seen = run(&LINES[1], true, 60, 20, |_| 50);
    assert!((35..=50).contains(&seen.percent), "{} %", seen.percent);
    assert!(seen.p95_ms() <= 8.0, "{}", seen.p95_ms());
}

#[test]
fn what_has_no_round_trip_teaches_nothing() {
    let mut control = Background::new();
    let before = control.rate();
    control.sample(Nanos(5), 0, 1_000_000);
    assert_eq!(
        (control.rate(), control.base_ns(), control.delay_ns()),
        (before, None, 0)
    );
}
