//! The controller on paths that change: jitter that keeps the order, as of netem; rates and round trips by a schedule; interruptions.

use std::collections::VecDeque;

use super::{Background, MS, PACKET, S};
use crate::Nanos;

const STEP: u64 = MS / 10;
const SMALL: u64 = 106;

/// The path from a time on; rates in bytes per second, the transfer's way first.
#[derive(Copy, Clone)]
struct State {
    from_ns: u64,
    byte_s: u64,
    back_byte_s: u64,
    rtt_ns: u64,
    passing: bool,
}

struct Course {
    states: Vec<State>,
    repeat_ns: u64,
    jitter_ns: u64,
}

impl Course {
    fn at(&self, now: u64) -> State {
        let now = now % self.repeat_ns;
        let passed = self.states.partition_point(|state| state.from_ns <= now);
        self.states[passed - 1]
    }

    /// The bytes that the path can carry in this time.
    fn carries(&self, from: u64, to: u64) -> u64 {
        (from / MS..to / MS)
            .map(|ms| self.at(ms * MS))
            .filter(|state| state.passing)
            .map(|state| state.byte_s / 1000)
            .sum()
    }
}

/// One direction: the delay first, in order, then the line.
#[derive(Default)]
struct Way {
    due: u64,
    free_at: u64,
}

struct Dice(u64);

impl Dice {
    /// 0 to below `sides`; 0 of none.
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) % sides.max(1)
    }
}

impl Way {
    /// When the packet arrives.
    fn pass(&mut self, course: &Course, dice: &mut Dice, now: u64, bytes: u64, back: bool) -> Option<u64> {
        let state = course.at(now);
        let jitter = dice.roll(2 * course.jitter_ns);
        if !state.passing {
            return None;
        }
        self.due = self.due.max(now + state.rtt_ns / 2 + jitter - course.jitter_ns);
        let begins = self.free_at.max(self.due);
        let later = course.at(begins);
        let rate = if back { later.back_byte_s } else { later.byte_s };
        self.free_at = begins + bytes * S / rate;
        Some(self.free_at)
    }
}

struct Seen {
    percent: u64,
    /// The neighbour's round trips, sorted.
    rtts: Vec<u64>,
    control: Background,
}

impl Seen {
    fn p_ms(&self, percent: usize) -> f64 {
        self.rtts[self.rtts.len() * percent / 100] as f64 / 1e6
    }
}

/// A transfer from `from` to `to` seconds, by rate or by window; none at all with `idle`.
fn run(course: &Course, by_window: bool, seconds: u64, from: u64, idle: bool) -> Seen {
    let mut control = Background::new();
    let mut dice = Dice(7);
    let (mut there, mut back) = (Way::default(), Way::default());
    // Data on its way, with the time that its acknowledgement echoes; acknowledgements; the neighbour's packets.
    let mut data: VecDeque<(u64, u64)> = VecDeque::new();
    let mut acks: VecDeque<(u64, u64)> = VecDeque::new();
    let mut lost: VecDeque<u64> = VecDeque::new();
    let mut requests: VecDeque<(u64, u64)> = VecDeque::new();
    let mut answers: VecDeque<(u64, u64)> = VecDeque::new();
    let (mut now, mut credit, mut arrived, mut counted, mut in_flight) = (0_u64, 0.0_f64, 0_u64, 0_u64, 0_u64);
    let (mut srtt_ns, mut rtts, mut echoed) = (0_u64, Vec::new(), 0_u64);
    let mut look_at = 0;
    let smooth = |srtt_ns: &mut u64, sample: u64| {
        *srtt_ns = if *srtt_ns == 0 {
            sample
        } else {
            *srtt_ns - *srtt_ns / 8 + sample / 8
        };
    };
    while now < seconds * S {
        if now % (20 * MS) == 7 * MS
            && let Some(at) = back.pass(course, &mut dice, now, SMALL, true)
        {
            requests.push_back((at, now));
        }
        while requests.front().is_some_and(|(at, _)| *at <= now) {
            let (at, sent) = requests.pop_front().expect("seen");
            if let Some(back_at) = there.pass(course, &mut dice, at, SMALL, false) {
                answers.push_back((back_at, sent));
            }
        }
        while answers.front().is_some_and(|(at, _)| *at <= now) {
            let (at, sent) = answers.pop_front().expect("seen");
            if sent >= from * S {
                rtts.push(at - sent);
            }
        }
        while lost.front().is_some_and(|at| *at <= now) {
            lost.pop_front();
            in_flight -= PACKET;
        }
        while data.front().is_some_and(|(at, _)| *at <= now) {
            let (at, stamp) = data.pop_front().expect("seen");
            if at >= from * S {
                counted += PACKET;
            }
            if by_window {
                // A receiver's round trip is from its acknowledgement to what that called for.
                arrived += PACKET;
                if stamp != echoed && stamp > 0 {
                    echoed = stamp;
                    smooth(&mut srtt_ns, at - stamp);
                }
                if stamp == 0 && srtt_ns == 0 {
                    srtt_ns = course.at(0).rtt_ns;
                }
            }
            let stamp = if by_window { at } else { stamp };
            match back.pass(course, &mut dice, at, 66, true) {
                Some(at) => acks.push_back((at, stamp)),
                None => lost.push_back(at + 2 * course.at(at).rtt_ns),
            }
        }
        let mut stamp = 0;
        while acks.front().is_some_and(|(at, _)| *at <= now) {
            let (at, sent) = acks.pop_front().expect("seen");
            in_flight -= PACKET;
            stamp = sent;
            if !by_window {
                arrived += PACKET;
                smooth(&mut srtt_ns, at - sent);
            }
        }
        let stamp = if by_window { stamp } else { now };
        credit = (credit + control.rate().byte_s() as f64 * STEP as f64 / 1e9).min(2.0 * PACKET as f64);
        while !idle
            && if by_window {
                in_flight + PACKET <= control.window()
            } else {
                credit >= PACKET as f64
            }
        {
            credit -= PACKET as f64;
            in_flight += PACKET;
            match there.pass(course, &mut dice, now, PACKET, false) {
                Some(at) => data.push_back((at, stamp)),
                None => lost.push_back(now + 2 * course.at(now).rtt_ns),
            }
        }
        if now >= look_at {
            control.sample(Nanos(now), srtt_ns, arrived);
            look_at = now + (srtt_ns / 4).clamp(2 * MS, 10 * MS);
        }
        now += STEP;
    }
    rtts.sort_unstable();
    Seen {
        percent: counted * 100 / course.carries(from * S, seconds * S),
        rtts,
        control,
    }
}

fn state(from_ms: u64, kbit_s: u64, back_kbit_s: u64, rtt_ms: u64, passing: bool) -> State {
    State {
        from_ns: from_ms * MS,
        byte_s: kbit_s * 125,
        back_byte_s: back_kbit_s * 125,
        rtt_ns: rtt_ms * MS,
        passing,
    }
}

/// The rates, round trips and interruptions of `topologies/starlink.yaml`, and its jitter; losses are left out.
fn satellite(up: bool) -> Course {
    let states = [
        (0, 150, 15, 50, true),
        (14_950, 90, 10, 42, false),
        (15_000, 90, 10, 42, true),
        (29_950, 200, 20, 60, false),
        (30_000, 200, 20, 60, true),
        (44_950, 120, 12, 46, false),
        (45_000, 120, 12, 46, true),
        (59_940, 150, 15, 50, false),
        (59_990, 150, 15, 50, true),
    ];
    let states = states.map(|(at, down, other, rtt, passing)| {
        let (first, second) = if up { (other, down) } else { (down, other) };
        state(at, first * 1000, second * 1000, rtt, passing)
    });
    Course {
        states: states.to_vec(),
        repeat_ns: 60 * S,
        jitter_ns: 4 * MS,
    }
}

/// The rates, round trips and interruptions of `topologies/4g-bad.yaml`, and its jitter; losses are left out.
fn cell(up: bool) -> Course {
    let mut states = vec![state(0, 1600, 750, 150, true)];
    for piece in 0..300 {
        states.push(state(5000 + 10 * piece, 1600 + 1400 * piece / 300, 750, 150, true));
    }
    states.push(state(8000, 3000, 750, 150, true));
    states.push(state(12_000, 3000, 750, 150, false));
    states.push(state(13_100, 3000, 750, 150, true));
    for piece in 0..200 {
        let rtt_ms = 150 + piece / 4;
        states.push(state(16_000 + 10 * piece, 3000 - 2200 * piece / 200, 750, rtt_ms, true));
    }
    states.push(state(18_000, 800, 750, 200, true));
    states.push(state(22_000, 1600, 750, 150, false));
    states.push(state(22_400, 1600, 750, 150, true));
    if up {
        for each in &mut states {
            (each.byte_s, each.back_byte_s) = (each.back_byte_s, each.byte_s);
        }
    }
    Course {
        states,
        repeat_ns: 30 * S,
        jitter_ns: 10 * MS,
    }
}

/// The transfer's share in percent, and what it adds to the neighbour's 95th percentile, in ms.
fn compared(course: &Course, by_window: bool, seconds: u64, from: u64) -> (u64, f64) {
    let alone = run(course, by_window, seconds, from, true);
    let beside = run(course, by_window, seconds, from, false);
    (beside.percent, beside.p_ms(95) - alone.p_ms(95))
}

fn steady(kbit_s: u64, rtt_ms: u64, jitter_ms: u64) -> Course {
    Course {
        states: vec![state(0, kbit_s, kbit_s, rtt_ms, true)],
        repeat_ns: 1000 * S,
        jitter_ns: jitter_ms * MS,
    }
}

#[test]
fn jitter_is_no_queue() {
    for by_window in [false, true] {
        let (percent, added_ms) = compared(&steady(20_000, 50, 4), by_window, 40, 10);
        assert!(
            percent >= 90 && added_ms <= 5.0,
            "window {by_window}: {percent} %, {added_ms:.1} ms"
        );
    }
}

#[test]
fn a_longer_path_is_believed_within_seconds_and_a_shorter_one_at_once() {
    for by_window in [false, true] {
        let mut course = steady(20_000, 50, 0);
        course.states.push(state(20_000, 20_000, 20_000, 70, true));
        course.states.push(state(40_000, 20_000, 20_000, 40, true));
        let longer = run(&course, by_window, 25, 24, false);
        let base_ms = longer.control.base_ns().unwrap_or(0) / MS;
        assert!((70..=73).contains(&base_ms), "window {by_window}: {base_ms} ms");
        let shorter = run(&course, by_window, 41, 40, false);
        let base_ms = shorter.control.base_ns().unwrap_or(0) / MS;
        assert!((40..=43).contains(&base_ms), "window {by_window}: {base_ms} ms");
        // Two seconds of fifteen are the price.
        let after = run(&course, by_window, 37, 22, false);
        assert!(after.percent >= 85, "window {by_window}: {} %", after.percent);
    }
}

#[test]
fn what_ends_a_silence_is_no_queue() {
    let mut course = steady(20_000, 50, 0);
    course.states.push(state(20_000, 20_000, 20_000, 50, false));
    course.states.push(state(21_100, 20_000, 20_000, 50, true));
    for by_window in [false, true] {
        let seen = run(&course, by_window, 26, 22, false);
        assert!(seen.percent >= 85, "window {by_window}: {} %", seen.percent);
    }
}

#[test]
fn a_satellite_that_changes_every_quarter_of_a_minute_is_followed() {
    let (percent, added_ms) = compared(&satellite(true), false, 60, 0);
    assert!(percent >= 80 && added_ms <= 6.0, "{percent} %, {added_ms:.1} ms");
}

#[test]
fn a_cell_whose_rate_ramps_and_stops_is_followed() {
    let (percent, _) = compared(&cell(false), true, 60, 0);
    assert!(percent >= 60, "{percent} %");
}
