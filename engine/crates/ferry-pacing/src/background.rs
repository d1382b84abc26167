//! A rate that leaves the queue to others: it rests a little below what the path carries, and yields when the delay grows.
//!
//! ```text
//!   rate                       line: what arrived while a queue grew
//!     |          /\  probe  ____________________________________
//!     |         /  \       /\        /\             
//!     |        /    \ ____/  \______/  \_     rest: 97 % of the line
//!     |  start/      V                   \
//!     |     _/     drain                  \__/  yield: in proportion to the delay
//!     +---------------------------------------------------------- time ->
//! ```
//!
//! The controller knows the path by two figures of TCP: its smoothed round trip and the bytes that arrived so far. The least
//! round trip of the last two minutes is that of an empty queue, and the excess over it and its scatter is delay. While a queue
//! grows, the path is full: its capacity is the rate at which bytes arrive. A window of `rate x empty round trip` does for a
//! receiver what the rate does for a sender.
//!
//! A path that becomes longer looks like a queue at first. So after two yields in vain comes a calm: half of the line is left free
//! until no queue of this transfer's own can be left. If the round trip then stands still, and is not much longer than it was, it
//! is the path's. The same calm measures how far the round trip of an empty queue scatters.
//!
//! The ideas are those of LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus) and rLEDBAT (RFC 9840). The difference: between its probes this
//! one holds no queue at all, because on a slow line a single packet takes most of what a neighbour tolerates.

use self::path::Path;
use crate::{Nanos, Rate};

mod path;
mod steps;

const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;

/// Delay that ends a start or a probe, and delay that is yielded to. A smoothed round trip scatters by half a millisecond or more.
const PROBE_DELAY_NS: u64 = 2 * MS;
const YIELD_DELAY_NS: u64 = 4 * MS;
/// The part of the round trip that ends the first start.
const FIRST_DELAY: u64 = 10;
/// A full packet with its headers and TCP's options.
const PACKET: u64 = 1514;
/// The packets per round trip at the start of a transfer.
const FIRST_PACKETS: u64 = 4;
/// The rates of the phases, in percent of the line; that of a calm is also that of `Learn` and `Drain`.
const REST_PERCENT: u64 = 97;
const YIELD_PERCENT: u64 = 90;
const CALM_PERCENT: u64 = 50;
const SETTLE_PERCENT: u64 = 85;
/// Doublings in a row that bring less than a fifth more: the path is full, and was before its empty round trip could be seen.
const VAIN_DOUBLINGS: u32 = 3;
/// So much of a queue tells what the line carries.
const LEARN_BYTES: u64 = 16 * PACKET;
/// Bounds of a probe's excess over the line, in thousandths. Below half of the known line the excess is 1000 instead.
const LEAST_PROBE_PERMILLE: u64 = 1;
const MOST_PROBE_PERMILLE: u64 = 250;
/// On a line so slow that a count of packets takes longer, fewer have to do.
const LONGEST_COUNT_NS: u64 = 250 * MS;
/// A rest lasts so long, and at least as many probes as this: on a slow line a probe and what follows it takes half a second, of which
/// the neighbour's 95th percentile should see nothing.
const REST_NS: u64 = 10 * S;
const REST_PROBES: u64 = 20;
/// A line that changes is looked at more often: a rest is half as long after a change of so many percent, twice as long without one.
const CHANGED_PERCENT: u64 = 5;
const LEAST_REST_NS: u64 = S;
const FIRST_REST_NS: u64 = 8 * S;
const LEAST_REST_PROBES: u64 = 2;
/// A yield cuts the rate by so many percent at least. A cut of nothing would be repeated for ever.
const LEAST_CUT_PERCENT: u64 = 2;
/// Yields in a row that leave the delay as it is: perhaps it is the path's.
const VAIN_YIELDS: u32 = 2;
/// A slowdown every so often shows the round trip of the empty path even if the line was overestimated.
const SLOWDOWN_NS: u64 = 60 * S;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// Doubles until the delay grows.
    Start,
    /// The queue of the start's last doubling arrives, and shows what the line carries.
    Learn,
    /// Lets a queue of its own run empty.
    Drain,
    /// The same, and sees how long the path is without.
    Calm,
    /// The same for the small queue of a probe.
    Settle,
    Rest,
    /// Asks for so many thousandths more than the line.
    Probe(u64),
    /// Yields to other traffic, which fills the queue.
    Yield,
}

/// The controller: samples in, rate and window out.
#[derive(Clone, Debug)]
pub struct Background {
    phase: Phase,
    /// The start of the phase, and the bytes that had arrived by then.
    since: Nanos,
    began: u64,
    /// The capacity of the path for this transfer, in bytes per second; during the start, the rate that is tried.
    line: u64,
    rate: u64,
    /// The line as a queue showed it last, whatever was yielded since.
    known: u64,
    /// Probes in a row that met no queue.
    passed: u32,
    /// Doublings in a row that brought nothing.
    vain: u32,
    /// Yields in a row, and the delay at the last one.
    yielded: u32,
    yielded_to: u64,
    /// The next probe's step, in thousandths.
    step: u64,
    /// The current length of a rest, and the line at the start of the last one.
    rest_ns: u64,
    rested_at: u64,
    window: u64,
    path: Path,
    slowed_at: Nanos,
    blind: bool,
    yields: u64,
}

impl Default for Background {
    fn default() -> Self {
        Self::new()
    }
}

impl Background {
    /// One that knows nothing yet.
    #[must_use]
    pub fn new() -> Self {
        // A round trip of 100 ms is assumed until the first sample.
        let first = FIRST_PACKETS * PACKET * 10;
        Self {
            phase: Phase::Start,
            since: Nanos(0),
            began: 0,
            line: first,
            rate: first,
            known: 0,
            passed: 0,
            vain: 0,
            yielded: 0,
            yielded_to: 0,
            step: LEAST_PROBE_PERMILLE,
            rest_ns: FIRST_REST_NS,
            rested_at: 0,
            window: FIRST_PACKETS * PACKET,
            path: Path::default(),
            slowed_at: Nanos(0),
            blind: false,
            yields: 0,
        }
    }

    /// TCP's smoothed round trip and the bytes that arrived since the connection began, looked at some hundred times a second.
    pub fn sample(&mut self, now: Nanos, rtt_ns: u64, total: u64) {
        if rtt_ns == 0 {
            return;
        }
        let arrived = total.saturating_sub(self.path.total());
        if self.path.sample(now, rtt_ns, total) {
            self.since = now;
            self.slowed_at = now;
            self.line = per_second(FIRST_PACKETS * PACKET, rtt_ns);
            self.rate = self.line;
            return;
        }
        if self.path.is_blind(now) {
            self.blind = true;
        } else if self.blind {
            self.blind = false;
            self.rest_ns = 0;
            if self.phase != Phase::Start {
                self.enter(Phase::Rest, now);
            }
        }
        if !self.blind {
            self.step_on(now);
        }
        self.set_window(arrived);
    }

    /// The rate that a sender may use now, in bytes per second.
    #[must_use]
    pub fn rate(&self) -> Rate {
        Rate::new(self.rate.max(1)).unwrap_or(Rate::LEAST)
    }

    /// The bytes that a receiver allows in flight now: the rate times the empty round trip, and a packet for which an
    /// acknowledgement waits.
    #[must_use]
    pub fn window(&self) -> u64 {
        self.window
    }

    /// The window that goes with the rate. It grows by no more than what arrives, so that no window's worth of packets leaves at once.
    fn set_window(&mut self, arrived: u64) {
        let bytes = u128::from(self.rate) * u128::from(self.path.usual_ns()) / u128::from(S);
        let wanted = u64::try_from(bytes).unwrap_or(u64::MAX).saturating_add(PACKET);
        self.window = wanted.min(self.window.saturating_add(arrived)).max(2 * PACKET);
    }

    /// The least smoothed round trip of the last two minutes, or since the path became longer.
    #[must_use]
    pub fn base_ns(&self) -> Option<u64> {
        self.path.base_ns()
    }

    /// The excess of the least smoothed round trip, during the last one, over that of an empty queue and its scatter.
    #[must_use]
    pub fn delay_ns(&self) -> u64 {
        self.path.delay_ns()
    }

    /// The number of yields to the delay of others.
    #[must_use]
    pub fn yields(&self) -> u64 {
        self.yields
    }

    fn rtt_ns(&self) -> u64 {
        self.path.rtt_ns()
    }

    /// The time that so many packets take on the line, in nanoseconds.
    fn time_of(&self, packets: u64) -> u64 {
        let ns = u128::from(packets * PACKET) * u128::from(S) / u128::from(self.line.max(1));
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// On a slow line one packet more or less is no queue.
    fn threshold(&self, ns: u64) -> u64 {
        // The scatter was seen while half of the line was free.
        ns.max(self.time_of(1) * 3 / 4) + self.path.scatter_ns()
    }

    /// Long enough for the smoothed round trip to follow, and for what arrives to be counted.
    fn span(&self) -> u64 {
        (2 * self.rtt_ns())
            .max(self.time_of(24).min(LONGEST_COUNT_NS))
            .max(20 * MS)
    }

    /// A probe: its effect is seen a round trip later.
    fn probe_ns(&self) -> u64 {
        self.rtt_ns() + self.span()
    }

    fn enter(&mut self, phase: Phase, now: Nanos) {
        if !matches!(phase, Phase::Probe(_)) {
            self.passed = 0;
        }
        if !matches!(phase, Phase::Yield | Phase::Calm) {
            self.yielded = 0;
        }
        match phase {
            Phase::Calm => self.path.begin_calm(now),
            Phase::Rest => self.choose_rest(),
            _ => {}
        }
        self.phase = phase;
        self.since = now;
        self.began = self.path.total();
        self.rate = match phase {
            Phase::Start => self.line,
            // Packets sent now arrive behind the queue that is counted.
            Phase::Learn if self.known > 0 => self.known.min(self.line) * CALM_PERCENT / 100,
            Phase::Learn | Phase::Drain | Phase::Calm => self.line * CALM_PERCENT / 100,
            Phase::Settle => self.line * SETTLE_PERCENT / 100,
            Phase::Rest => self.line * REST_PERCENT / 100,
            Phase::Yield => self.line * YIELD_PERCENT / 100,
            Phase::Probe(step) => self.asked(step),
        }
        .max(self.least());
    }

    fn choose_rest(&mut self) {
        let changed = self.line.abs_diff(self.rested_at) > self.rested_at * CHANGED_PERCENT / 100;
        let longest = REST_NS.max(REST_PROBES * self.probe_ns());
        let least = LEAST_REST_NS.max(LEAST_REST_PROBES * self.probe_ns());
        let rest_ns = if changed { self.rest_ns / 2 } else { self.rest_ns * 2 };
        self.rest_ns = rest_ns.clamp(least, longest);
        self.rested_at = self.line;
    }

    /// The rate of a probe: `step` thousandths above the line.
    fn asked(&self, step: u64) -> u64 {
        self.line + self.line * step / 1000
    }

    /// Two packets in an empty round trip: less is no connection.
    fn least(&self) -> u64 {
        per_second(2 * PACKET, self.base_ns().unwrap_or(self.rtt_ns()).max(MS))
    }

    fn drain(&mut self, now: Nanos) {
        let settled = self.path.is_settled(now, self.line);
        self.enter(if settled { Phase::Drain } else { Phase::Calm }, now);
    }

    /// The step whose queue, after a probe, is the threshold's.
    fn least_step(&self) -> u64 {
        (self.threshold(PROBE_DELAY_NS) * 1000 / self.probe_ns().max(1))
            .clamp(LEAST_PROBE_PERMILLE, MOST_PROBE_PERMILLE)
    }

    /// Close to what the path is known to carry, twice the least; further away a quarter of the line.
    fn most_step(&self) -> u64 {
        let close = self.known * 9 / 10 <= self.line && self.line <= self.known * 11 / 10;
        if close && self.passed < 4 {
            2 * self.least_step()
        } else {
            MOST_PROBE_PERMILLE
        }
    }

    /// Less, by the delay: a tenth at twice the threshold, half from six times on.
    fn yield_to(&mut self, delay: u64, crowd: u64, now: Nanos) {
        self.yields += 1;
        self.yielded += 1;
        self.yielded_to = delay;
        let above = delay.saturating_sub(crowd) * 100 / crowd.max(1);
        let cut = (above / 10).clamp(LEAST_CUT_PERCENT, 50);
        let arrived = self.path.arrived(now, self.span()).unwrap_or(self.line);
        self.line = (self.line.min(arrived) * (100 - cut) / 100).max(self.least());
        self.enter(Phase::Yield, now);
    }
}

fn per_second(bytes: u64, ns: u64) -> u64 {
    u64::try_from(u128::from(bytes) * u128::from(S) / u128::from(ns.max(1))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod line_tests;
#[cfg(test)]
mod path_tests;
#[cfg(test)]
mod phase_tests;
