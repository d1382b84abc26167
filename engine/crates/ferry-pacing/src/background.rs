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
//! What is known of the path comes from two figures of TCP: its smoothed round trip and the bytes that arrived so far. The least round
//! trip of the last two minutes is that of an empty queue, and what is above it, and above its scatter, is delay. A queue that grows
//! shows what the path carries: just what arrives. A window of `rate x empty round trip` does for a receiver what the rate does for a
//! sender.
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
/// What a sender begins with in each round trip.
const FIRST_PACKETS: u64 = 4;
/// In percent of the line: at rest, while it yields, while a queue is drained and in a calm, and while that of a probe is.
const REST_PERCENT: u64 = 97;
const YIELD_PERCENT: u64 = 90;
const CALM_PERCENT: u64 = 50;
const SETTLE_PERCENT: u64 = 85;
/// Doublings in a row that bring less than a fifth more: the path is full, and was before its empty round trip could be seen.
const VAIN_DOUBLINGS: u32 = 3;
/// So much of a queue tells what the line carries.
const LEARN_BYTES: u64 = 16 * PACKET;
/// What a probe asks for beyond the line, in thousandths.
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
    /// Somebody else fills the queue.
    Yield,
}

/// The controller: samples in, rate and window out.
#[derive(Clone, Debug)]
pub struct Background {
    phase: Phase,
    /// When the phase began, and what had arrived by then.
    since: Nanos,
    began: u64,
    /// What the path carries for this transfer, in bytes per second; during the start, what it is asked to.
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
    /// How long a rest is now, and what the line was at the last one.
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
        // As over a round trip of 100 ms, until there is one.
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

    /// What a sender may send now, in bytes per second.
    #[must_use]
    pub fn rate(&self) -> Rate {
        Rate::new(self.rate.max(1)).unwrap_or(Rate::LEAST)
    }

    /// What a receiver lets be on its way now, in bytes: the rate in the empty round trip, and a packet that an acknowledgement waits for.
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

    /// What the smoothed round trip was at least, during the last one, above that of an empty queue and its scatter.
    #[must_use]
    pub fn delay_ns(&self) -> u64 {
        self.path.delay_ns()
    }

    /// How often the delay of others was yielded to.
    #[must_use]
    pub fn yields(&self) -> u64 {
        self.yields
    }

    fn rtt_ns(&self) -> u64 {
        self.path.rtt_ns()
    }

    /// What so many packets take on the line.
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
            // What is sent now arrives behind the queue that is counted.
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

    /// What a probe asks for.
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
