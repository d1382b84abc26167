//! The controller's promises in each of its phases, tested by samples that are made by hand: round trips of 50 ms, one sample
//! every 10 ms.

use super::{Background, LEARN_BYTES, MS, PACKET, Phase, S};
use crate::Nanos;

const RTT_NS: u64 = 50 * MS;
const LOOK_NS: u64 = 10 * MS;
/// The capacity of the path in bytes per second. A packet takes 0.76 ms, so 2 ms are a queue, and 4 ms are that of other traffic.
const LINE: u64 = 2_000_000;
/// A probe lasts three round trips, in which this many thousandths make a queue of 2 ms.
const STEP: u64 = 13;
const PROBE_MS: u64 = 150;

struct Fed {
    control: Background,
    now: u64,
    total: u64,
}

impl Fed {
    /// One that knows the line and the empty round trip, and has just entered the phase.
    fn entered(phase: Phase) -> Self {
        let mut fed = Self {
            control: Background::new(),
            now: 0,
            total: 0,
        };
        fed.control.path.sample(Nanos(0), RTT_NS, 0);
        for _ in 0..100 {
            fed.arrive(LINE, RTT_NS);
        }
        fed.control.line = LINE;
        fed.enter(phase);
        fed
    }

    /// The same, with a queue that was there before.
    fn queued(phase: Phase, delay_ns: u64) -> Self {
        let mut fed = Self::entered(phase);
        for _ in 0..10 {
            fed.arrive(LINE, RTT_NS + delay_ns);
        }
        fed.enter(phase);
        fed
    }

    fn enter(&mut self, phase: Phase) {
        self.control.enter(phase, Nanos(self.now));
    }

    /// Tells the path, and not the controller.
    fn arrive(&mut self, byte_s: u64, rtt_ns: u64) {
        self.now += LOOK_NS;
        self.total += byte_s / 100;
        self.control.path.sample(Nanos(self.now), rtt_ns, self.total);
    }

    /// Looks for `ms`, while so much arrives and the round trip is longer by `delay_ns`.
    fn on(&mut self, ms: u64, byte_s: u64, delay_ns: u64) {
        for _ in 0..ms * MS / LOOK_NS {
            self.now += LOOK_NS;
            self.total += byte_s / 100;
            self.control.sample(Nanos(self.now), RTT_NS + delay_ns, self.total);
        }
    }

    /// The next phase, and the ms until it begins.
    fn next(&mut self, byte_s: u64, delay_ns: u64) -> (Phase, u64) {
        let (phase, began) = (self.control.phase, self.now);
        while self.control.phase == phase && self.now - began < 200 * S {
            self.on(10, byte_s, delay_ns);
        }
        (self.control.phase, (self.now - began) / MS)
    }
}

#[test]
fn the_first_round_trip_begins_with_four_packets() {
    let mut control = Background::new();
    control.sample(Nanos(5 * S), RTT_NS, 1_000_000);
    assert_eq!(control.rate().byte_s(), 4 * PACKET * 20);
    assert_eq!((control.base_ns(), control.yields()), (None, 0));
}

#[test]
fn each_phase_has_its_part_of_the_line() {
    for (phase, byte_s) in [
        (Phase::Start, LINE),
        (Phase::Learn, LINE / 2),
        (Phase::Drain, LINE / 2),
        (Phase::Calm, LINE / 2),
        (Phase::Settle, LINE * 85 / 100),
        (Phase::Rest, LINE * 97 / 100),
        (Phase::Yield, LINE * 90 / 100),
        (Phase::Probe(100), LINE * 11 / 10),
    ] {
        assert_eq!(Fed::entered(phase).control.rate().byte_s(), byte_s, "{phase:?}");
    }
    let mut fed = Fed::entered(Phase::Rest);
    fed.control.known = LINE / 2;
    fed.enter(Phase::Learn);
    assert_eq!(
        fed.control.rate().byte_s(),
        LINE / 4,
        "behind the queue that is counted"
    );
    fed.control.known = LINE * 2;
    fed.enter(Phase::Learn);
    assert_eq!(
        fed.control.rate().byte_s(),
        LINE / 2,
        "and never more than is asked for"
    );
    fed.control.line = 10;
    fed.enter(Phase::Rest);
    assert_eq!(
        fed.control.rate().byte_s(),
        2 * PACKET * 20,
        "less than two packets in a round trip is no connection"
    );
}

#[test]
fn the_window_is_what_the_rate_has_on_its_way_and_a_packet() {
    let mut fed = Fed::entered(Phase::Rest);
    fed.on(S / MS, LINE, 0);
    let window = LINE * 97 / 100 / 20 + PACKET;
    assert_eq!(fed.control.window(), window);
    fed.control.window = 0;
    fed.on(10, LINE, 0);
    assert_eq!(fed.control.window(), LINE / 100, "no more at once than arrived");
    fed.control.window = 0;
    fed.on(10, 0, 0);
    assert_eq!(fed.control.window(), 2 * PACKET, "and two packets at least");
}

#[test]
fn who_waits_is_yielded_to_by_the_delay() {
    for (delay_us, percent) in [(4_100, 98), (8_000, 90), (12_000, 80), (24_000, 50), (80_000, 50)] {
        let mut fed = Fed::entered(Phase::Rest);
        fed.on(100, LINE, 0);
        let (phase, _) = fed.next(LINE, delay_us * 1000);
        assert_eq!((phase, fed.control.yields()), (Phase::Yield, 1), "{delay_us} us");
        assert_eq!(fed.control.line, LINE * percent / 100, "{delay_us} us");
    }
    let mut fed = Fed::entered(Phase::Rest);
    fed.on(1000, LINE / 2, 3900 * 1000);
    assert_eq!((fed.control.phase, fed.control.yields()), (Phase::Rest, 0));
    fed.next(LINE / 2, 8 * MS);
    assert_eq!(fed.control.line, LINE / 2 * 90 / 100, "less than what arrived");
}

#[test]
fn a_delay_that_two_yields_leave_as_it_is_may_be_the_paths() {
    let mut fed = Fed::entered(Phase::Rest);
    fed.next(LINE, 8 * MS);
    // Two round trips are what a yield needs to be seen.
    fed.on(110, LINE, 8 * MS);
    assert_eq!((fed.control.phase, fed.control.yields()), (Phase::Yield, 1));
    fed.on(10, LINE, 8 * MS);
    assert_eq!((fed.control.phase, fed.control.yields()), (Phase::Yield, 2));
    assert_eq!(fed.next(LINE, 8 * MS), (Phase::Calm, 120));
    assert_eq!(fed.control.yields(), 2);
}

#[test]
fn a_queue_that_drains_is_yielded_to_once() {
    let mut fed = Fed::entered(Phase::Rest);
    fed.next(LINE, 40 * MS);
    let mut delay_ns = 40 * MS;
    while delay_ns > 5 * MS {
        fed.on(10, LINE, delay_ns);
        assert_eq!(
            (fed.control.phase, fed.control.yields()),
            (Phase::Yield, 1),
            "{delay_ns} ns"
        );
        delay_ns = delay_ns * 97 / 100;
    }
    let (phase, _) = fed.next(LINE, 0);
    assert_eq!(phase, Phase::Probe(STEP), "the rest is won back at once");
}

#[test]
fn a_rest_is_doubled_while_the_line_stays_and_halved_when_it_changes() {
    let mut fed = Fed::entered(Phase::Start);
    let mut rest_s = |percent: u64| {
        fed.control.line = LINE * percent / 100;
        fed.enter(Phase::Rest);
        fed.control.rest_ns / S
    };
    assert_eq!([rest_s(100), rest_s(100), rest_s(100)], [4, 8, 10]);
    assert_eq!([rest_s(105), rest_s(111), rest_s(105)], [10, 5, 2]);
    assert_eq!([rest_s(50), rest_s(100), rest_s(98)], [1, 1, 2]);
    let mut fed = Fed::entered(Phase::Rest);
    assert_eq!(fed.next(LINE, 0), (Phase::Probe(STEP), 4000));
}

#[test]
fn the_empty_path_is_looked_at_once_a_minute() {
    let mut fed = Fed::entered(Phase::Rest);
    fed.control.rest_ns = u64::MAX;
    // It knew the path for a second before.
    assert_eq!(fed.next(LINE, 0), (Phase::Calm, 59_000));
    fed.control.rest_ns = S;
    fed.enter(Phase::Rest);
    fed.control.rest_ns = u64::MAX;
    assert_eq!(fed.next(LINE, 0), (Phase::Calm, 60_000));
}

#[test]
fn a_probe_that_meets_no_queue_is_the_line_and_the_next_asks_for_twice_as_much() {
    let mut fed = Fed::entered(Phase::Probe(STEP));
    let mut line = LINE;
    for step in [2 * STEP, 4 * STEP, 8 * STEP, 16 * STEP, 250, 250] {
        line += line * fed_step(&fed) / 1000;
        let (phase, ms) = fed.next(line, 0);
        if phase == Phase::Probe(250) && step == 250 && fed_step(&fed) == 250 {
            break;
        }
        assert_eq!((phase, ms), (Phase::Probe(step), PROBE_MS));
        assert_eq!(fed.control.line, line);
    }
}

fn fed_step(fed: &Fed) -> u64 {
    match fed.control.phase {
        Phase::Probe(step) => step,
        _ => 0,
    }
}

#[test]
fn close_to_what_a_queue_has_shown_the_steps_stay_small_for_four_probes() {
    for (known_percent, next) in [(100, 26), (94, 26), (112, 26), (92, 38), (114, 38)] {
        let mut fed = Fed::entered(Phase::Rest);
        fed.control.known = LINE * known_percent / 100;
        fed.enter(Phase::Probe(19));
        fed.next(LINE * 11 / 10, 0);
        assert_eq!(fed_step(&fed), next, "known: {known_percent} %");
    }
    let mut fed = Fed::entered(Phase::Rest);
    fed.control.known = 3 * LINE;
    fed.enter(Phase::Probe(STEP));
    fed.next(LINE * 11 / 10, 0);
    assert_eq!(fed_step(&fed), 1000, "what it carried before is won back fast");
}

#[test]
fn a_probe_that_meets_a_queue_has_found_the_line() {
    let mut fed = Fed::entered(Phase::Probe(100));
    fed.on(100, LINE * 103 / 100, 0);
    assert_eq!(fed.next(LINE * 103 / 100, 3 * MS).0, Phase::Settle);
    assert_eq!(
        (fed.control.line, fed.control.known),
        (LINE * 103 / 100, LINE * 103 / 100)
    );
    let mut fed = Fed::entered(Phase::Probe(2 * STEP - 2));
    fed.next(LINE * 103 / 100, 3 * MS);
    assert_eq!(fed.control.line, LINE, "a small step is not counted precisely");
    let mut fed = Fed::entered(Phase::Probe(100));
    fed.next(LINE / 2, 3 * MS);
    assert_eq!(
        fed.control.line,
        LINE * 95 / 100,
        "nor is one probe believed to more than a twentieth"
    );
}

#[test]
fn a_probe_of_who_sends_less_than_it_may_teaches_nothing() {
    let mut fed = Fed::entered(Phase::Probe(100));
    assert_eq!(fed.next(LINE * 89 / 100, 0), (Phase::Rest, PROBE_MS));
    assert_eq!(fed.control.line, LINE);
    let mut fed = Fed::entered(Phase::Probe(100));
    fed.next(LINE * 91 / 100, 0);
    assert_eq!(fed.control.line, LINE * 11 / 10);
}

#[test]
fn a_probe_after_which_a_queue_begins_is_believed_as_far_as_it_arrived() {
    let mut fed = Fed::entered(Phase::Probe(100));
    let (phase, ms) = fed.next(LINE * 105 / 100, 3 * MS / 2);
    // The round trip is a little longer now.
    assert_eq!(
        (phase, ms, fed.control.line),
        (Phase::Rest, PROBE_MS + 10, LINE * 105 / 100)
    );
}

#[test]
fn the_queue_of_a_probe_settles_or_is_not_a_probes() {
    for (delay_us, phase, ms) in [
        (900, Phase::Rest, 60),
        (1500, Phase::Calm, 310),
        (5_000, Phase::Yield, 330),
        (20_000, Phase::Yield, 100),
    ] {
        let mut fed = Fed::queued(Phase::Settle, delay_us * 1000);
        let (next, after) = fed.next(LINE, delay_us * 1000);
        assert_eq!((next, after), (phase, ms), "{delay_us} us");
    }
}

#[test]
fn a_queue_of_its_own_drains_or_a_calm_looks() {
    let mut fed = Fed::entered(Phase::Drain);
    assert_eq!(fed.next(LINE, 0), (Phase::Probe(STEP), 50));
    let mut fed = Fed::entered(Phase::Drain);
    assert_eq!(
        fed.next(LINE, 9 * MS / 10),
        (Phase::Probe(STEP), 60),
        "half of a queue does not count as one"
    );
    let mut fed = Fed::entered(Phase::Drain);
    let (phase, ms) = fed.next(LINE, 3 * MS / 2);
    assert_eq!(phase, Phase::Calm);
    assert!((300..=320).contains(&ms), "{ms} ms");
}

#[test]
fn a_start_doubles_every_second_round_trip_until_the_delay_grows() {
    let mut fed = Fed::entered(Phase::Start);
    for doubled in [2, 4, 8] {
        fed.on(90, fed.control.line, 0);
        assert_eq!(fed.control.line, LINE * doubled / 2);
        fed.on(10, fed.control.line, 0);
        assert_eq!(fed.control.line, LINE * doubled);
    }
    let line = fed.control.line;
    fed.on(100, line / 4, 0);
    assert_eq!(fed.control.line, line / 4 * 2, "who sends less does not show more");
    let mut fed = Fed::entered(Phase::Start);
    fed.on(90, LINE, 49 * MS / 10);
    assert_eq!(fed.control.phase, Phase::Start, "a tenth may be the path's scatter");
    assert_eq!(fed.next(LINE, 6 * MS).0, Phase::Learn);
}

#[test]
fn three_doublings_that_bring_nothing_have_filled_the_path() {
    let mut fed = Fed::entered(Phase::Start);
    // The first shows what arrives, and the next three that it is all.
    fed.on(390, LINE, 0);
    assert_eq!(fed.control.phase, Phase::Start);
    fed.on(10, LINE, 0);
    assert_eq!((fed.control.phase, fed.control.line), (Phase::Calm, LINE));
}

#[test]
fn a_queue_that_grew_in_a_start_tells_the_line() {
    let mut fed = Fed::queued(Phase::Learn, 6 * MS);
    fed.on(90, LINE / 16, 6 * MS);
    assert_eq!(fed.control.phase, Phase::Learn, "too few packets");
    assert_eq!(
        fed.next(LINE / 16, 6 * MS),
        (Phase::Calm, 30),
        "but two round trips are enough"
    );
    assert_eq!(fed.control.line, LINE / 16);
    let mut fed = Fed::queued(Phase::Learn, 6 * MS);
    assert_eq!(
        fed.next(LINE, 6 * MS),
        (Phase::Calm, 50),
        "one round trip, and {LEARN_BYTES} bytes"
    );
    let mut fed = Fed::queued(Phase::Learn, 6 * MS);
    fed.control.known = LINE;
    fed.next(LINE / 2, 6 * MS);
    assert_eq!(fed.control.line, LINE * 9 / 10, "no less than arrived before");
    let mut fed = Fed::entered(Phase::Learn);
    assert_eq!(
        fed.next(LINE, 0).0,
        Phase::Start,
        "packets that left together, and no queue"
    );
}

#[test]
fn nothing_is_done_in_a_silence_and_the_line_is_asked_soon_after() {
    let mut fed = Fed::entered(Phase::Rest);
    let (line, rate) = (fed.control.line, fed.control.rate());
    fed.on(2000, 0, 0);
    fed.on(10, LINE, 500 * MS);
    assert_eq!(
        (fed.control.line, fed.control.rate(), fed.control.yields()),
        (line, rate, 0)
    );
    fed.on(100, LINE, 0);
    assert_eq!(fed.control.phase, Phase::Rest);
    let (phase, ms) = fed.next(LINE, 0);
    assert_eq!(phase, Phase::Probe(STEP));
    assert!(ms <= 1000, "{ms} ms");
}
