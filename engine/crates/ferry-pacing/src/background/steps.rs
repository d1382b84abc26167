//! The controller's actions in each phase.

use super::path::Shown;
use super::{
    Background, FIRST_DELAY, LEARN_BYTES, LEAST_REST_NS, MS, PROBE_DELAY_NS, Phase, SLOWDOWN_NS, VAIN_DOUBLINGS,
    VAIN_YIELDS, YIELD_DELAY_NS,
};
use crate::Nanos;

/// The delay now, and the thresholds that it is compared with.
#[derive(Copy, Clone)]
struct Delay {
    now_ns: u64,
    /// Above this a queue begins.
    queue: u64,
    /// Above this other traffic fills the queue.
    crowd: u64,
}

impl Background {
    pub(super) fn step_on(&mut self, now: Nanos) {
        let delay = Delay {
            now_ns: self.delay_ns(),
            queue: self.threshold(PROBE_DELAY_NS),
            crowd: self.threshold(YIELD_DELAY_NS),
        };
        let elapsed = now.since(self.since);
        match self.phase {
            Phase::Start => self.start_on(now, elapsed, delay),
            Phase::Learn => self.learn_on(now, elapsed, delay),
            Phase::Drain => self.drain_on(now, elapsed, delay),
            Phase::Calm => self.calm_on(now, delay),
            Phase::Settle => self.settle_on(now, elapsed, delay),
            Phase::Rest => self.rest_on(now, elapsed, delay),
            Phase::Probe(step) => self.probe_on(now, elapsed, delay, step),
            Phase::Yield => self.yield_on(now, elapsed, delay),
        }
    }

    fn start_on(&mut self, now: Nanos, elapsed: u64, delay: Delay) {
        let most = if self.path.is_new() {
            // So much of it may be the path's scatter.
            delay.queue.max(self.path.base_ns().unwrap_or(0) / FIRST_DELAY)
        } else if self.path.scatter_ns() > 0 {
            delay.crowd
        } else {
            delay.queue
        };
        if delay.now_ns > most {
            self.enter(Phase::Learn, now);
        } else if elapsed >= 2 * self.rtt_ns().max(self.time_of(12)) {
            let arrived = self.path.arrived(now, self.rtt_ns()).unwrap_or(self.line);
            self.vain = if arrived > self.known * 6 / 5 { 0 } else { self.vain + 1 };
            self.known = self.known.max(arrived.min(self.line));
            if self.vain >= VAIN_DOUBLINGS {
                self.line = arrived.max(self.least());
                self.drain(now);
            } else {
                // A transfer that sends less than it may does not show what the line carries.
                // On a path that is known a little what is too much is expensive.
                let growth = if self.path.is_new() { 200 } else { 150 };
                self.line = (self.line.min(arrived) * growth / 100).max(self.least());
                self.enter(Phase::Start, now);
            }
        }
    }

    fn learn_on(&mut self, now: Nanos, elapsed: u64, delay: Delay) {
        let counted = self.path.total().saturating_sub(self.began) >= LEARN_BYTES;
        let enough = counted || elapsed >= 2 * self.rtt_ns();
        if enough && elapsed >= self.base_ns().unwrap_or(self.rtt_ns()) {
            if delay.now_ns > delay.queue {
                // Half of the line is left free meanwhile, so it carries at least what arrived before.
                let arrived = self.path.arrived(now, elapsed).unwrap_or(self.line);
                self.line = arrived.max(self.known * 9 / 10).max(self.least());
                self.known = self.line;
                self.drain(now);
            } else {
                // Packets that left together, and no queue.
                self.enter(Phase::Start, now);
            }
        }
    }

    fn drain_on(&mut self, now: Nanos, elapsed: u64, delay: Delay) {
        if elapsed >= self.rtt_ns() && delay.now_ns <= delay.queue / 2 {
            self.step = self.least_step();
            self.enter(Phase::Probe(self.step), now);
        } else if elapsed >= 2 * self.probe_ns() {
            self.enter(Phase::Calm, now);
        }
    }

    fn calm_on(&mut self, now: Nanos, delay: Delay) {
        match self.path.look_at_calm(now, delay.crowd) {
            Shown::Nothing => {}
            Shown::Same if self.yielded > 0 => {
                self.rest_ns = 0;
                self.enter(Phase::Rest, now);
            }
            Shown::Same => {
                // The line was learnt in a hurry, so a probe checks it at once.
                self.step = self.least_step();
                self.enter(Phase::Probe(self.step), now);
            }
            Shown::Other => {
                // Another path, another line, but hardly one of another kind.
                self.line = self.line.max(self.known / 2);
                (self.known, self.vain) = (0, 0);
                self.rest_ns = self.rest_ns.min(2 * LEAST_REST_NS);
                self.enter(Phase::Start, now);
            }
            Shown::Crowd => {
                self.yielded = 0;
                self.yield_to(delay.now_ns, delay.crowd, now);
            }
        }
    }

    fn settle_on(&mut self, now: Nanos, elapsed: u64, delay: Delay) {
        // More than a probe can have caused: the line has become slower, or other traffic has come.
        let far_more = delay.now_ns > 4 * delay.crowd && elapsed >= 2 * self.path.usual_ns();
        if far_more || delay.now_ns > delay.crowd && elapsed >= 2 * self.probe_ns() {
            self.yield_to(delay.now_ns, delay.crowd, now);
        } else if delay.now_ns <= delay.queue / 2 && elapsed >= self.rtt_ns() {
            self.enter(Phase::Rest, now);
        } else if elapsed >= 2 * self.probe_ns() {
            // Too long for the queue of a probe: perhaps the path scatters more than is known.
            self.enter(Phase::Calm, now);
        }
    }

    fn rest_on(&mut self, now: Nanos, elapsed: u64, delay: Delay) {
        if delay.now_ns > delay.crowd && elapsed >= self.rtt_ns() {
            self.yield_to(delay.now_ns, delay.crowd, now);
        } else if now.since(self.slowed_at) >= SLOWDOWN_NS {
            self.slowed_at = now;
            self.enter(Phase::Calm, now);
        } else if elapsed >= self.rest_ns {
            self.step = self.least_step();
            self.enter(Phase::Probe(self.step), now);
        }
    }

    fn probe_on(&mut self, now: Nanos, elapsed: u64, delay: Delay, step: u64) {
        let settled = elapsed >= self.rtt_ns();
        if settled && delay.now_ns > delay.queue {
            let arrived = self.path.arrived(now, elapsed.min(self.span()).max(self.rtt_ns()));
            // So few packets are not counted to a small step's precision.
            let most = if step <= 2 * self.least_step() {
                self.line
            } else {
                self.asked(step)
            };
            self.line = arrived.unwrap_or(self.line).clamp(self.line * 95 / 100, most);
            self.known = self.line;
            self.enter(Phase::Settle, now);
        } else if elapsed >= self.probe_ns() {
            let arrived = self.path.arrived(now, self.span()).unwrap_or(self.line);
            let idle = arrived < self.line * 9 / 10;
            if !idle {
                let most = self.asked(step);
                self.line = if delay.now_ns > delay.queue / 2 {
                    arrived.clamp(self.line, most)
                } else {
                    most
                };
            }
            if idle || delay.now_ns > delay.queue / 2 {
                // Not the path, but the file, the peer or another limit decides: nothing to be learnt. Or a queue begins.
                self.enter(Phase::Rest, now);
            } else {
                // A rate that the path is known to have carried is won back fast.
                self.passed += 1;
                self.step = (2 * step).min(self.most_step());
                if self.line < self.known / 2 {
                    self.step = 1000;
                }
                self.enter(Phase::Probe(self.step), now);
            }
        }
    }

    fn yield_on(&mut self, now: Nanos, elapsed: u64, delay: Delay) {
        if elapsed >= 2 * self.rtt_ns().max(20 * MS) {
            if delay.now_ns > delay.crowd && delay.now_ns * 4 < self.yielded_to * 3 {
                // It drains.
                self.yielded_to = delay.now_ns;
                self.since = now;
            } else if delay.now_ns > delay.crowd && self.yielded >= VAIN_YIELDS {
                self.enter(Phase::Calm, now);
            } else if delay.now_ns > delay.crowd {
                self.yield_to(delay.now_ns, delay.crowd, now);
            } else {
                self.step = self.least_step();
                self.enter(Phase::Probe(self.step), now);
            }
        }
    }
}
