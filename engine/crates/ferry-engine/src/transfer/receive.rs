//! The body of a download on its way to the sink: at once without a limit, by deadlines with one.
//!
//! A limit that is this body's alone, on a connection that carries nothing else, paces the reads of the socket: a byte is counted
//! when it comes off the socket, and it reaches the sink when its TLS record or SSH packet is complete. Bytes that are not due
//! stay in the kernel, so the last one leaves it at its deadline, and a measurement on the wire agrees with the report. If
//! several bodies share a connection or a limit, the owner of the next bytes is unknown: these are read early, held, and counted
//! when they reach the sink.

use std::time::Instant;

use super::coding::Coding;
use super::decoding::Decoding;
use super::throttle::Throttle;
use crate::clock::nanos;
use crate::error::Error;
use crate::files::{Digest, Sink};
use crate::report::SeriesBuilder;

/// The most bytes to read once all of a body has been counted: the rest of its framing.
const FRAMING: usize = 16 * 1024 + 29;
/// At most this is left for the last deadline of a body (`ferry_pacing::Pacer::expect_total`).
const LAST_PIECE: u64 = 1024;

pub struct Receiver {
    pub sink: Sink,
    pub digest: Option<Digest>,
    /// The decoding of a compressed body: sink and checksum get the decoded bytes, everything else counts the bytes that came.
    pub decoding: Option<Box<Decoding>>,
    pub throttle: Throttle,
    /// The largest piece handed to the sink (`--buffer-size`).
    piece: usize,
    /// Bytes that came before they were due.
    held: Vec<u8>,
    held_from: usize,
    /// Body bytes counted against the limit: those in the sink, and those that came off the socket when they were due.
    charged: u64,
    /// Read off the socket, and not decoded to anything yet: part of a TLS record or of an SSH packet.
    undecoded: usize,
    /// Bytes of this attempt that the sink has.
    pub delivered: u64,
    pub arrived: u64,
    /// Body bytes this answer announced.
    pub expected: Option<u64>,
    pub series: Option<SeriesBuilder>,
    pub began: Option<Instant>,
    pub ended: Option<Instant>,
    last_moved: Option<Instant>,
    /// The last read of a socket whose reads are paced.
    heard: Option<Instant>,
    /// Bytes of an incomplete record, after the last read.
    incomplete: usize,
    /// The answer's body is no part of the file (416).
    pub ignore: bool,
    /// The most body bytes, and the error that ends a transfer with more.
    pub most: Option<(u64, Error)>,
    /// The peer has sent everything.
    complete: bool,
    /// More may be in the socket, and the limit does not let it be read yet.
    held_back: bool,
}

impl Receiver {
    pub fn new(
        sink: Sink,
        digest: Option<Digest>,
        mut throttle: Throttle,
        piece: usize,
        expected: Option<u64>,
    ) -> Self {
        if let Some(bytes) = expected {
            throttle.expect_total(bytes);
        }
        Self {
            sink,
            digest,
            decoding: None,
            throttle,
            piece,
            held: Vec::new(),
            held_from: 0,
            charged: 0,
            undecoded: 0,
            delivered: 0,
            arrived: 0,
            expected,
            series: None,
            began: None,
            ended: None,
            last_moved: None,
            heard: None,
            incomplete: 0,
            ignore: false,
            most: None,
            complete: false,
            held_back: false,
        }
    }

    /// Bytes in hand that are not due yet.
    pub fn waiting(&self) -> usize {
        self.held.len() - self.held_from
    }

    /// Returns the most bytes to read from the socket now; 0 leaves them in the kernel, where they hold the sender back and cause
    /// no wake-up.
    ///
    /// `alone`: the connection's next bytes can only be this body's.
    pub fn read_budget(&mut self, alone: bool, now: Instant) -> usize {
        let was_held_back = std::mem::take(&mut self.held_back);
        if !self.throttle.is_limited() || self.ignore {
            return usize::MAX;
        }
        if !alone || !self.throttle.is_own() {
            self.undecoded = 0;
            let quantum = self.throttle.quantum();
            return if self.waiting() >= quantum {
                0
            } else {
                2 * quantum - self.waiting()
            };
        }
        if self.expected.is_some_and(|expected| self.charged >= expected) {
            return FRAMING;
        }
        let allowed = self.charged.saturating_add(self.throttle.allowance(now));
        let room = usize::try_from(allowed.saturating_sub(self.read())).unwrap_or(usize::MAX);
        self.held_back = room == 0;
        if was_held_back && !self.held_back {
            // From now on the network is waited for.
            self.heard = Some(now);
        }
        room
    }

    /// True if the body's own limit paces the reads of a connection that carries nothing else.
    pub fn paces_reads(&self) -> bool {
        self.throttle.is_own() && !self.ignore
    }

    /// The connection is this body's alone, and has had a read: `undecoded` bytes of all that was read are not decoded yet.
    pub fn read_off(&mut self, undecoded: usize, now: Instant) {
        if self.paces_reads() {
            self.undecoded = undecoded;
            self.heard = Some(now);
            self.charge_read(now);
        } else if undecoded > std::mem::replace(&mut self.incomplete, undecoded) {
            // A record of TLS may take longer to come than a silence may last.
            self.heard = Some(now);
        }
    }

    /// The body bytes off the socket. Their framing (22 bytes of a TLS record) counts until it is decoded.
    fn read(&self) -> u64 {
        self.delivered + (self.waiting() + self.undecoded) as u64
    }

    /// Counts the read bytes that are due.
    fn charge_read(&mut self, now: Instant) {
        let due = self.charged.saturating_add(self.throttle.allowance(now));
        self.charge(self.read().min(due), now);
    }

    /// Counts body bytes up to `upto`; the first of them starts the clock.
    fn charge(&mut self, upto: u64, now: Instant) {
        let upto = self.expected.map_or(upto, |expected| upto.min(expected));
        let more = upto.saturating_sub(self.charged);
        if more == 0 {
            return;
        }
        self.begin(now);
        if let Some(series) = &mut self.series {
            series.add(nanos(now).0, more);
        }
        self.throttle.take(now, more);
        self.charged += more;
    }

    fn begin(&mut self, now: Instant) {
        if self.began.is_none() {
            self.began = Some(now);
            self.series = Some(SeriesBuilder::new(nanos(now).0));
        }
    }

    /// Bytes from the network.
    pub fn accept(&mut self, data: &[u8], now: Instant) -> Result<(), Error> {
        self.arrived += data.len() as u64;
        if self.ignore {
            return Ok(());
        }
        if let Some((most, problem)) = &self.most
            && self.arrived > *most
        {
            return Err(problem.clone());
        }
        if !self.throttle.is_limited() {
            return self.hand_on(data, now);
        }
        if self.held_from == self.held.len() {
            self.held.clear();
            self.held_from = 0;
        }
        self.held.extend_from_slice(data);
        self.throttle.set_backlogged(true);
        self.poll_paced(now)
    }

    /// The peer has sent all of it.
    pub fn complete(&mut self, now: Instant) {
        self.complete = true;
        self.held_back = false;
        self.throttle.expect_total(self.delivered + self.waiting() as u64);
        if self.began.is_none() {
            self.began = Some(now);
        }
        self.try_finish(now);
    }

    /// Moves the bytes that are due.
    pub fn poll_paced(&mut self, now: Instant) -> Result<(), Error> {
        while self.waiting() > 0 {
            let paid = self.charged.saturating_sub(self.delivered);
            let allowed = usize::try_from(paid.saturating_add(self.throttle.allowance(now))).unwrap_or(usize::MAX);
            let count = allowed.min(self.waiting());
            if count == 0 {
                break;
            }
            let held = std::mem::take(&mut self.held);
            let piece = held.get(self.held_from..self.held_from + count).unwrap_or_default();
            let result = self.hand_on(piece, now);
            self.held = held;
            result?;
            self.held_from += count;
            self.charge(self.delivered, now);
        }
        if self.undecoded > 0 {
            self.charge_read(now);
        }
        if self.waiting() == 0 {
            self.throttle.set_backlogged(false);
        } else if self.held_from > 64 * 1024 {
            self.held.drain(..self.held_from);
            self.held_from = 0;
        }
        self.try_finish(now);
        Ok(())
    }

    /// The next deadline: that of a read of the socket, or [`Self::due_at`]; `None` while the body depends on the network alone.
    pub fn next_at(&self) -> Option<Instant> {
        if self.held_back && self.ended.is_none() {
            self.throttle.next_at()
        } else {
            self.due_at()
        }
    }

    /// The deadline of bytes in hand, or of the end.
    pub fn due_at(&self) -> Option<Instant> {
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

    /// Only a deadline is missing: that of the last piece, or everything is in the sink.
    pub fn only_waits(&self) -> bool {
        let last = self.held_back
            && self
                .expected
                .is_some_and(|expected| expected - self.charged <= LAST_PIECE);
        (last || (self.complete && self.waiting() == 0)) && self.ended.is_none()
    }

    /// True if the next byte waits for the network, not for the limit: only then can the body stall.
    pub fn depends_on_network(&self) -> bool {
        self.waiting() == 0 && !self.complete && !self.held_back
    }

    /// Bytes are in hand, or can be read, that the limit does not let move yet.
    pub fn is_held_back(&self) -> bool {
        self.waiting() > 0 || self.held_back
    }

    /// When the network last brought something.
    pub fn last_moved(&self) -> Option<Instant> {
        self.last_moved.max(self.heard)
    }

    /// The body clock stops when the last byte is due.
    fn try_finish(&mut self, now: Instant) {
        if !self.complete || self.waiting() > 0 || self.ended.is_some() {
            return;
        }
        match self.throttle.due() {
            Some(due) if self.delivered > 0 && now < due => {}
            Some(_) => self.ended = Some(now),
            None => self.ended = self.last_moved.or(Some(now)),
        }
    }

    fn hand_on(&mut self, data: &[u8], now: Instant) -> Result<(), Error> {
        self.begin(now);
        if self.decoding.is_some() {
            self.decode(data)?;
        } else {
            for piece in data.chunks(self.piece) {
                self.sink.write(piece)?;
            }
            if let Some(digest) = &mut self.digest {
                digest.update(data);
            }
        }
        if !self.throttle.is_limited()
            && let Some(series) = &mut self.series
        {
            series.add(nanos(now).0, data.len() as u64);
        }
        self.delivered += data.len() as u64;
        self.last_moved = Some(now);
        Ok(())
    }

    fn decode(&mut self, data: &[u8]) -> Result<(), Error> {
        let Some(decoding) = &mut self.decoding else {
            return Ok(());
        };
        let (sink, digest, piece) = (&mut self.sink, &mut self.digest, self.piece);
        decoding.decode(data, &mut |content| {
            for piece in content.chunks(piece) {
                sink.write(piece)?;
            }
            if let Some(digest) = digest {
                digest.update(content);
            }
            Ok(())
        })
    }

    /// Returns the coding of a decoded body, and the bytes of the file so far; `None` if the body is not decoded.
    pub fn decoded(&self) -> Option<(Coding, u64)> {
        let decoding = self.decoding.as_ref()?;
        Some((decoding.coding(), decoding.decoded))
    }

    /// Checks that the file is complete, once everything is in the sink.
    ///
    /// # Errors
    /// Class Integrity, of a body that had to be decoded.
    pub fn check(&self) -> Result<(), Error> {
        self.decoding.as_ref().map_or(Ok(()), |decoding| decoding.finish())
    }

    /// The sink and the checksum so far, for another attempt or for the end.
    pub fn into_parts(self) -> (Sink, Option<Digest>) {
        (self.sink, self.digest)
    }
}

#[cfg(test)]
#[path = "receive_tests.rs"]
mod tests;
