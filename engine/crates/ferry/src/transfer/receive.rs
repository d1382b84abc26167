//! The body of a download on its way to the sink: at once without a limit, by deadlines with one.

use std::time::Instant;

use super::throttle::Throttle;
use crate::clock::nanos;
use crate::files::{Digest, Sink};
use crate::report::{Problem, SeriesBuilder};

pub struct Receiver {
    pub sink: Sink,
    pub digest: Option<Digest>,
    pub throttle: Throttle,
    /// The largest piece handed to the sink (`--buffer-size`).
    piece: usize,
    /// What came before it was due.
    held: Vec<u8>,
    held_from: usize,
    /// Bytes of this attempt that the sink has.
    pub delivered: u64,
    pub arrived: u64,
    /// Body bytes this answer announced.
    pub expected: Option<u64>,
    pub series: Option<SeriesBuilder>,
    pub began: Option<Instant>,
    pub ended: Option<Instant>,
    last_moved: Option<Instant>,
    /// The answer's body is no part of the file (416).
    pub ignore: bool,
    /// The peer has sent everything.
    complete: bool,
}

impl Receiver {
    pub fn new(sink: Sink, digest: Option<Digest>, throttle: Throttle, piece: usize, expected: Option<u64>) -> Self {
        Self {
            sink,
            digest,
            throttle,
            piece,
            held: Vec::new(),
            held_from: 0,
            delivered: 0,
            arrived: 0,
            expected,
            series: None,
            began: None,
            ended: None,
            last_moved: None,
            ignore: false,
            complete: false,
        }
    }

    /// Bytes in hand that are not due yet.
    pub fn waiting(&self) -> usize {
        self.held.len() - self.held_from
    }

    /// How much more of the wire it wants now; 0 leaves it in the kernel, where it holds the sender back, and wakes nobody.
    pub fn appetite(&self) -> usize {
        if !self.throttle.is_limited() {
            return usize::MAX;
        }
        let quantum = self.throttle.quantum();
        if self.waiting() >= quantum {
            0
        } else {
            2 * quantum - self.waiting()
        }
    }

    /// Bytes from the network.
    pub fn accept(&mut self, data: &[u8], now: Instant) -> Result<(), Problem> {
        self.arrived += data.len() as u64;
        if self.ignore {
            return Ok(());
        }
        if !self.throttle.is_limited() {
            return self.hand_on(data, now);
        }
        if self.held_from == self.held.len() {
            self.held.clear();
            self.held_from = 0;
        }
        self.held.extend_from_slice(data);
        self.throttle.set_hungry(true);
        self.pump(now)
    }

    /// The peer has sent all of it.
    pub fn complete(&mut self, now: Instant) {
        self.complete = true;
        if self.began.is_none() {
            self.began = Some(now);
        }
        self.settle(now);
    }

    /// Moves what is due.
    pub fn pump(&mut self, now: Instant) -> Result<(), Problem> {
        while self.waiting() > 0 {
            let allowed = usize::try_from(self.throttle.allowance(now)).unwrap_or(usize::MAX);
            let count = allowed.min(self.waiting());
            if count == 0 {
                break;
            }
            let held = std::mem::take(&mut self.held);
            let result = self.hand_on(&held[self.held_from..self.held_from + count], now);
            self.held = held;
            result?;
            self.throttle.take(now, count as u64);
            self.held_from += count;
        }
        if self.waiting() == 0 {
            self.throttle.set_hungry(false);
        } else if self.held_from > 64 * 1024 {
            self.held.drain(..self.held_from);
            self.held_from = 0;
        }
        self.settle(now);
        Ok(())
    }

    /// When something is due; `None` while it depends on the network alone.
    pub fn next_at(&self) -> Option<Instant> {
        if self.ended.is_some() {
            None
        } else if self.waiting() > 0 {
            self.throttle.next_at()
        } else if self.complete {
            self.throttle.due()
        } else {
            None
        }
    }

    /// Everything is in the sink, and only the deadline is missing.
    pub fn only_waits(&self) -> bool {
        self.complete && self.waiting() == 0 && self.ended.is_none()
    }

    /// Whether the network, not the limit, decides when the next byte moves: only then can it stall.
    pub fn depends_on_network(&self) -> bool {
        self.waiting() == 0 && !self.complete
    }

    pub fn last_moved(&self) -> Option<Instant> {
        self.last_moved
    }

    /// The body clock stops when the last byte is due.
    fn settle(&mut self, now: Instant) {
        if !self.complete || self.waiting() > 0 || self.ended.is_some() {
            return;
        }
        match self.throttle.due() {
            Some(due) if self.delivered > 0 && now < due => {}
            Some(_) => self.ended = Some(now),
            None => self.ended = self.last_moved.or(Some(now)),
        }
    }

    fn hand_on(&mut self, data: &[u8], now: Instant) -> Result<(), Problem> {
        if self.began.is_none() {
            self.began = Some(now);
            self.series = Some(SeriesBuilder::new(nanos(now).0));
        }
        for piece in data.chunks(self.piece) {
            self.sink.write(piece)?;
        }
        if let Some(digest) = &mut self.digest {
            digest.update(data);
        }
        if let Some(series) = &mut self.series {
            series.add(nanos(now).0, data.len() as u64);
        }
        self.delivered += data.len() as u64;
        self.last_moved = Some(now);
        Ok(())
    }

    /// The sink and the checksum so far, for another attempt or for the end.
    pub fn into_parts(self) -> (Sink, Option<Digest>) {
        (self.sink, self.digest)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ferry_pacing::Rate;

    use super::*;
    use crate::transfer::throttle::Limit;

    const RATE: u64 = 1_000_000;

    fn receiver(limit: &Limit) -> Receiver {
        Receiver::new(Sink::discard(), None, limit.throttle(), 4096, None)
    }

    fn limited() -> Receiver {
        receiver(&Limit::Each(Rate::new(RATE).unwrap()))
    }

    #[test]
    fn without_a_limit_everything_moves_at_once_and_the_clock_stops_with_the_last_byte() {
        let mut receiver = receiver(&Limit::None);
        let begin = crate::clock::begin();
        receiver.accept(&vec![0; 100_000], begin).unwrap();
        assert_eq!(receiver.delivered, 100_000);
        assert_eq!(receiver.appetite(), usize::MAX);
        receiver.complete(begin + Duration::from_secs(1));
        assert_eq!(receiver.ended, Some(begin));
    }

    #[test]
    fn what_came_at_once_is_handed_on_by_deadlines() {
        let mut receiver = limited();
        let begin = crate::clock::begin();
        receiver.accept(&vec![0; 50_000], begin).unwrap();
        receiver.complete(begin);
        let quantum = receiver.throttle.quantum() as u64;
        assert_eq!(receiver.delivered, quantum);
        let mut now = begin;
        while receiver.ended.is_none() {
            let next = receiver.next_at().expect("something is due until the end");
            assert!(next > now, "no progress");
            now = next;
            receiver.pump(now).unwrap();
            let due = u64::try_from((now - begin).as_micros()).unwrap();
            assert!(
                receiver.delivered <= due + quantum,
                "{} bytes after {due} us",
                receiver.delivered
            );
        }
        assert_eq!(receiver.delivered, 50_000);
        let took = receiver.ended.unwrap() - begin;
        assert!(
            took >= Duration::from_millis(50) && took < Duration::from_micros(50_010),
            "{took:?}"
        );
    }

    #[test]
    fn a_limited_body_leaves_bytes_in_the_kernel_while_it_has_some_in_hand() {
        let mut receiver = limited();
        let begin = crate::clock::begin();
        assert!(receiver.appetite() > 0);
        receiver.accept(&vec![0; 50_000], begin).unwrap();
        assert_eq!(receiver.appetite(), 0);
        assert!(!receiver.depends_on_network());
    }

    #[test]
    fn an_empty_body_ends_at_once() {
        let mut receiver = limited();
        let now = Instant::now();
        receiver.complete(now);
        assert_eq!(receiver.ended, Some(now));
        assert_eq!(receiver.next_at(), None);
    }

    #[test]
    fn a_shared_limit_is_kept_by_both_together() {
        let limit = Limit::shared(Rate::new(RATE).unwrap());
        let (mut one, mut two) = (receiver(&limit), receiver(&limit));
        let begin = crate::clock::begin();
        for receiver in [&mut one, &mut two] {
            receiver.accept(&vec![0; 50_000], begin).unwrap();
        }
        for step in 0..50 {
            let now = begin + Duration::from_millis(step);
            one.pump(now).unwrap();
            two.pump(now).unwrap();
        }
        let quantum = one.throttle.quantum() as u64;
        let both = one.delivered + two.delivered;
        assert!(both <= 49_000 + 2 * quantum && both + 2 * quantum >= 49_000, "{both}");
        assert!(
            one.delivered.abs_diff(two.delivered) <= 2 * quantum,
            "{} and {}",
            one.delivered,
            two.delivered
        );
    }
}
