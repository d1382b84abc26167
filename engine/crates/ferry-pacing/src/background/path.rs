//! A path as two figures of TCP show it: its empty round trip, the scatter of that round trip by itself, and the bytes that
//! arrived.

use std::collections::VecDeque;

use super::{MS, PACKET, S, per_second};
use crate::Nanos;

/// Before so much has arrived, the smoothed round trip still contains the handshake's, whose packets are small and therefore fast.
const WARM_UP_BYTES: u64 = 32 * PACKET;
/// The least round trip is kept by the half minute.
const BUCKET_NS: u64 = 30 * S;
const BUCKETS: usize = 4;
/// The bounds of the history of samples, in time and in number.
const HISTORY_NS: u64 = 10 * S;
const HISTORY_MOST: usize = 4096;
/// A path counts as interrupted if nothing arrives for longer than this and longer than two round trips.
const SILENCE_NS: u64 = 150 * MS;
/// The round trip that ends a silence is measured from before the silence, and TCP's average forgets it after some eight times
/// eight packets.
const BLIND_BYTES: u64 = 48 * PACKET;
/// The latest bytes, of which TCP's average mostly consists.
const AVERAGED_BYTES: u64 = 16 * PACKET;
/// A scatter below this is the smoothing's.
const STILL_NS: u64 = MS;
/// Rounds in which a calm path shows its scatter: many where there is any.
const FEW_ROUNDS: u32 = 4;
const MANY_ROUNDS: u32 = 8;
const ROUND_NS: u64 = 10 * MS;
/// No path scatters by more than this part of its round trip.
const MOST_SCATTER: u64 = 8;
/// A longer path and a neighbour's queue look alike for less than this.
const STEADY_NS: u64 = 600 * MS;
/// The time for which the result of a calm needs no second one.
const SETTLED_NS: u64 = 5 * S;
/// The multiple of a calm's rate up to which its result needs no second one.
const SETTLED_FACTOR: u64 = 3;
/// A step of the path up to half of it is believed, within these.
const LEAST_STEP_NS: u64 = 20 * MS;
const MOST_STEP_NS: u64 = 100 * MS;

#[derive(Copy, Clone, Debug)]
struct Sample {
    at: Nanos,
    total: u64,
    rtt_ns: u64,
}

/// The standing round trips of some rounds during which this transfer had no queue of its own.
#[derive(Copy, Clone, Debug, Default)]
struct Calm {
    /// Until then a queue of this transfer's own is left.
    from: Nanos,
    from_total: u64,
    next: Nanos,
    /// Until then one may be left.
    until: Nanos,
    rounds: u32,
    /// The standing round trip of the round before, and of all.
    before_ns: u64,
    least_ns: u64,
    most_ns: u64,
    sum_ns: u64,
    looks: u64,
}

impl Calm {
    fn restart(&mut self) {
        (self.rounds, self.looks, self.sum_ns) = (0, 0, 0);
        (self.least_ns, self.most_ns) = (u64::MAX, 0);
    }
}

/// The result of a calm.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// It has not lasted long enough.
    Nothing,
    /// The empty round trip is unchanged.
    Same,
    /// The path has become longer, for it stays at another round trip although nothing of this transfer can be queued; or it
    /// scatters more than was known.
    Other,
    /// The queue is that of other traffic.
    Crowd,
}

#[derive(Copy, Clone, Debug)]
struct Settled {
    at: Nanos,
    base_ns: u64,
    scatter_ns: u64,
    usual_ns: u64,
    /// Bytes per second that arrived meanwhile: packets in a closer row meet more of the jitter of those before them.
    byte_s: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Path {
    rtt_ns: u64,
    total: u64,
    began_at: Option<u64>,
    /// The least round trip of the last one: packets that leave together wait for each other, and that is no queue.
    standing_ns: u64,
    bases: VecDeque<(Nanos, u64)>,
    /// The result of the last calm: the least round trip, and the excesses over it of the standing round trip and of the mean
    /// smoothed one while nothing is queued.
    settled: Option<Settled>,
    history: VecDeque<Sample>,
    moved_at: Nanos,
    /// Until so much has arrived, round trips are those of a silence.
    blind_until: Option<u64>,
    calm: Option<Calm>,
}

impl Path {
    /// True for the first sample.
    pub fn sample(&mut self, now: Nanos, rtt_ns: u64, total: u64) -> bool {
        let first = self.began_at.is_none();
        let began = *self.began_at.get_or_insert(total);
        self.rtt_ns = rtt_ns;
        if first {
            self.moved_at = now;
        }
        if total > self.total {
            if !first && now.since(self.moved_at) > self.longest_gap() {
                self.blind_until = Some(total.saturating_add(BLIND_BYTES));
                self.history.clear();
            }
            self.moved_at = now;
        }
        self.total = total.max(self.total);
        self.history.push_back(Sample {
            at: now,
            total: self.total,
            rtt_ns,
        });
        while self.history.len() > HISTORY_MOST
            || self.history.front().is_some_and(|old| now.since(old.at) > HISTORY_NS)
        {
            self.history.pop_front();
        }
        let last_round = self.history.iter().rev().take_while(|old| now.since(old.at) <= rtt_ns);
        self.standing_ns = last_round.map(|old| old.rtt_ns).min().unwrap_or(rtt_ns);
        if self.total.saturating_sub(began) >= WARM_UP_BYTES && !self.is_blind(now) {
            self.learn_base(now);
        }
        first
    }

    pub fn rtt_ns(&self) -> u64 {
        self.rtt_ns
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    /// The least smoothed round trip of the last two minutes, or since the path became longer.
    pub fn base_ns(&self) -> Option<u64> {
        self.bases.iter().map(|(_, least)| *least).min()
    }

    /// The mean round trip while nothing is queued.
    pub fn usual_ns(&self) -> u64 {
        self.base_ns().map_or(self.rtt_ns, |base| {
            base + self.settled.map_or(0, |settled| settled.usual_ns + self.below())
        })
    }

    /// The excess of the standing round trip over the least one and its scatter.
    pub fn delay_ns(&self) -> u64 {
        self.base_ns()
            .map_or(0, |base| self.standing_ns.saturating_sub(base + self.scatter_ns()))
    }

    /// The largest excess over the least round trip that the standing one of an empty queue may have.
    pub fn scatter_ns(&self) -> u64 {
        self.settled.map_or(0, |settled| settled.scatter_ns + self.below())
    }

    /// The amount by which the least round trip is below that of the last calm, if scatter explains it; 0 for a shorter path,
    /// which scatters as before.
    fn below(&self) -> u64 {
        let (Some(settled), Some(base)) = (self.settled, self.base_ns()) else {
            return 0;
        };
        let below = settled.base_ns.saturating_sub(base);
        if settled.scatter_ns <= STILL_NS || below > settled.scatter_ns.max(MS) {
            return 0;
        }
        below
    }

    /// True until a calm has measured the path.
    pub fn is_new(&self) -> bool {
        self.settled.is_none()
    }

    /// True if a calm has measured the path within `SETTLED_NS`, at `byte_s / SETTLED_FACTOR` or more.
    pub fn is_settled(&self, now: Nanos, byte_s: u64) -> bool {
        self.settled
            .is_some_and(|settled| now.since(settled.at) < SETTLED_NS && byte_s / SETTLED_FACTOR <= settled.byte_s)
    }

    fn longest_gap(&self) -> u64 {
        SILENCE_NS.max(2 * self.base_ns().unwrap_or(self.rtt_ns))
    }

    /// True in a silence, and after it until the round trips are no longer those of the silence.
    pub fn is_blind(&mut self, now: Nanos) -> bool {
        if self.blind_until.is_some_and(|until| self.total >= until) {
            self.blind_until = None;
            // The round trips of before say nothing either.
            self.history.drain(..self.history.len().saturating_sub(1));
            self.standing_ns = self.rtt_ns;
        }
        self.blind_until.is_some() || now.since(self.moved_at) > self.longest_gap()
    }

    fn learn_base(&mut self, now: Nanos) {
        match self.bases.back_mut() {
            Some((since, least)) if now.since(*since) < BUCKET_NS => *least = (*least).min(self.rtt_ns),
            _ => self.bases.push_back((now, self.rtt_ns)),
        }
        while self.bases.len() > BUCKETS {
            self.bases.pop_front();
        }
    }

    /// Bytes per second that arrived in the last `ns`.
    pub fn arrived(&self, now: Nanos, ns: u64) -> Option<u64> {
        let from = self
            .history
            .iter()
            .rev()
            .find(|old| now.since(old.at) >= ns)
            .or(self.history.front())?;
        let elapsed = now.since(from.at);
        (elapsed > 0).then(|| per_second(self.total.saturating_sub(from.total), elapsed))
    }

    /// From now on half of the line is left free.
    pub fn begin_calm(&mut self, now: Nanos) {
        // The queue is gone after as long again, and that is seen a round trip later.
        let above = self.base_ns().map_or(0, |base| self.standing_ns.saturating_sub(base));
        let from = now.saturating_add(self.rtt_ns + above.min(S));
        let mut calm = Calm {
            from,
            from_total: self.total + AVERAGED_BYTES,
            next: from.saturating_add(self.round()),
            until: from.saturating_add(S + 4 * above.min(S)),
            ..Calm::default()
        };
        calm.restart();
        calm.before_ns = u64::MAX;
        self.calm = Some(calm);
    }

    fn round(&self) -> u64 {
        self.rtt_ns.max(ROUND_NS)
    }

    /// Looks at a calm that has begun. `crowd_ns` is what no path rises by unseen.
    pub fn look_at_calm(&mut self, now: Nanos, crowd_ns: u64) -> Shown {
        let (rtt_ns, standing_ns, round_ns) = (self.rtt_ns, self.standing_ns, self.round());
        let known_ns = self.scatter_ns();
        let Some(calm) = self
            .calm
            .as_mut()
            .filter(|calm| now >= calm.from && self.total >= calm.from_total)
        else {
            return Shown::Nothing;
        };
        calm.sum_ns += rtt_ns;
        calm.looks += 1;
        calm.least_ns = calm.least_ns.min(standing_ns);
        calm.most_ns = calm.most_ns.max(standing_ns);
        if now < calm.next {
            return Shown::Nothing;
        }
        calm.next = now.saturating_add(round_ns);
        if standing_ns.saturating_add((STILL_NS / 2).max(known_ns)) < calm.before_ns && now < calm.until {
            // A queue that still drains.
            calm.restart();
        }
        calm.before_ns = standing_ns;
        if calm.looks == 0 {
            return Shown::Nothing;
        }
        calm.rounds += 1;
        let seen = *calm;
        let usual_ns = (seen.sum_ns / seen.looks).saturating_sub(seen.least_ns);
        let scatter_ns = usual_ns.max(seen.most_ns - seen.least_ns);
        let Some(base) = self.base_ns() else {
            return Shown::Same;
        };
        let raised = seen.least_ns.saturating_sub(base + known_ns);
        let plain = scatter_ns <= STILL_NS && raised <= crowd_ns;
        let long = now.since(seen.from) >= STEADY_NS;
        if seen.rounds < FEW_ROUNDS || !plain && !long && seen.rounds < MANY_ROUNDS || raised > crowd_ns && !long {
            return Shown::Nothing;
        }
        self.calm = None;
        if raised <= crowd_ns {
            let scatters = scatter_ns > STILL_NS && scatter_ns > known_ns + MS;
            // Without a scatter, what the path was ever seen to do is its round trip.
            let base_ns = if scatter_ns > STILL_NS { seen.least_ns } else { base };
            self.settle(now, base_ns, scatter_ns, usual_ns);
            return if scatters { Shown::Other } else { Shown::Same };
        }
        let believed = (base / 2).clamp(LEAST_STEP_NS, MOST_STEP_NS);
        if scatter_ns <= (2 * MS).max(2 * known_ns).max(raised / 4) && seen.least_ns - base <= believed {
            self.settle(now, seen.least_ns, scatter_ns, usual_ns);
            return Shown::Other;
        }
        Shown::Crowd
    }

    fn settle(&mut self, now: Nanos, base_ns: u64, scatter_ns: u64, usual_ns: u64) {
        if Some(base_ns) != self.base_ns() {
            self.bases.clear();
            self.bases.push_back((now, base_ns));
        }
        let most_ns = base_ns / MOST_SCATTER;
        let scatter_ns = if scatter_ns > STILL_NS {
            scatter_ns.min(most_ns)
        } else {
            0
        };
        self.settled = Some(Settled {
            at: now,
            base_ns,
            scatter_ns,
            byte_s: self.arrived(now, u64::from(MANY_ROUNDS) * self.rtt_ns / 2).unwrap_or(0),
            usual_ns: if scatter_ns > 0 { usual_ns.min(most_ns) } else { 0 },
        });
    }
}

#[cfg(test)]
mod tests;
