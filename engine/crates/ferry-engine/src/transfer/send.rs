//! The body of an upload on its way to the socket.

use std::time::{Duration, Instant};

use super::throttle::Throttle;
use crate::clock::nanos;
use crate::error::Error;
use crate::files::{Digest, Source};
use crate::report::SeriesBuilder;

/// The most bytes that the engine hands to a connection at once, regardless of the caller's buffer.
const GATHER_BYTES: usize = 64 * 1024;

pub struct Sender {
    pub source: Source,
    pub digest: Option<Digest>,
    pub throttle: Throttle,
    /// The largest piece asked of the source (`--buffer-size`).
    piece: usize,
    /// The number of bytes from the source's position at the start to its end; `None` if unknown.
    pub size: Option<u64>,
    /// Body bytes handed to the connection.
    pub given: u64,
    pub series: Option<SeriesBuilder>,
    pub began: Option<Instant>,
    /// The last body byte was handed to the connection.
    pub exhausted: bool,
    /// The end of the body as a position in the connection's stream, once all of it has been written there.
    pub ends_at: Option<u64>,
    /// The time at which the system took the last body byte, if it does not report the byte's departure.
    pub handed: Option<Instant>,
    /// The time at which the last body byte left the send buffer.
    pub ended: Option<Instant>,
    last_moved: Option<Instant>,
    /// The round trip of the idle path, for systems that do not report the content of a send buffer.
    pub round_trip: Duration,
    gathered: Vec<u8>,
}

impl Sender {
    pub fn new(source: Source, digest: Option<Digest>, mut throttle: Throttle, piece: usize) -> Self {
        let size = source.length().map(|length| length.saturating_sub(source.position()));
        if let Some(size) = size {
            throttle.expect_total(size);
        }
        throttle.set_backlogged(true);
        Self {
            source,
            digest,
            throttle,
            piece,
            size,
            given: 0,
            series: None,
            began: None,
            exhausted: size == Some(0),
            ends_at: None,
            handed: None,
            ended: None,
            last_moved: None,
            round_trip: Duration::ZERO,
            gathered: Vec::new(),
        }
    }

    /// The next bytes of the body, at most `room`, and true if they are the last; empty when none may move now.
    pub fn next(&mut self, now: Instant, room: usize) -> Result<(&[u8], bool), Error> {
        let mut gathered = std::mem::take(&mut self.gathered);
        gathered.clear();
        let result = self.fill(now, room.min(GATHER_BYTES), &mut gathered);
        self.gathered = gathered;
        result.map(|last| (self.gathered.as_slice(), last))
    }

    /// Appends the next bytes of the body to `out`, at most `room`; returns true if the body ends with them. Nothing is appended
    /// when none may move now.
    pub fn fill(&mut self, now: Instant, room: usize, out: &mut Vec<u8>) -> Result<bool, Error> {
        if self.exhausted || (room == 0 && self.size != Some(self.given)) {
            return Ok(self.exhausted);
        }
        let allowed = usize::try_from(self.throttle.allowance(now))
            .unwrap_or(usize::MAX)
            .min(room);
        let start = out.len();
        while out.len() - start < allowed {
            let most = (allowed - (out.len() - start)).min(self.piece);
            if self.source.append(most, out)? == 0 {
                self.exhausted = true;
                break;
            }
        }
        let count = (out.len() - start) as u64;
        if count > 0 {
            let begin = nanos(now).0;
            self.began.get_or_insert(now);
            self.series
                .get_or_insert_with(|| SeriesBuilder::new(begin))
                .add(begin, count);
            self.throttle.take(now, count);
            self.given += count;
            self.last_moved = Some(now);
            if let Some(digest) = &mut self.digest {
                digest.update(out.get(start..).unwrap_or_default());
            }
        }
        if self.size == Some(self.given) {
            self.exhausted = true;
        }
        if self.exhausted {
            self.throttle.set_backlogged(false);
            self.began.get_or_insert(now);
        }
        Ok(self.exhausted)
    }

    /// When more may move; `None` when the limit does not hold it back.
    pub fn next_at(&self) -> Option<Instant> {
        if self.exhausted { None } else { self.throttle.next_at() }
    }

    pub fn last_moved(&self) -> Option<Instant> {
        self.last_moved
    }

    /// Nothing is left unsent at `now`.
    pub fn left(&mut self, now: Instant) {
        if self.exhausted && self.ended.is_none() {
            self.ended = Some(now);
        }
    }

    /// Records that the system has taken the last byte, whose departure it will not report.
    pub fn handed_over(&mut self, now: Instant) {
        if self.exhausted {
            self.handed.get_or_insert(now);
        }
    }

    /// The time from which the wait is for the server, as far as this side knows.
    pub fn out(&self) -> Option<Instant> {
        self.ended.or(self.handed)
    }

    /// The server's answer at `now` shows that it has the complete body, but the system did not report when the last byte left. The byte left a
    /// round trip earlier, and no earlier than it was handed to the connection. Time spent in queues on the path counts, so the end is never
    /// too early.
    pub fn arrived(&mut self, now: Instant) {
        let left = now.checked_sub(self.round_trip).unwrap_or(now);
        self.left(self.last_moved.map_or(left, |moved| left.max(moved)));
    }

    /// The source and the checksum so far, for another attempt or for the end.
    pub fn into_parts(self) -> (Source, Option<Digest>) {
        (self.source, self.digest)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use ferry_pacing::Rate;

    use super::*;
    use crate::transfer::throttle::Limit;
    use crate::units::Peak;

    fn sender(bytes: usize, limit: &Limit, piece: usize) -> (Sender, tempfile::NamedTempFile) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let content: Vec<u8> = (0..bytes).map(|at| u8::try_from(at % 251).unwrap()).collect();
        file.write_all(&content).unwrap();
        let source = Source::open(file.path()).unwrap();
        (Sender::new(source, None, limit.throttle(), piece), file)
    }

    #[test]
    fn the_callers_buffer_does_not_decide_what_a_connection_gets_at_once() {
        for piece in [4096, 1 << 20] {
            let (mut sender, _file) = sender(200_000, &Limit::None, piece);
            let (data, last) = sender.next(Instant::now(), usize::MAX).unwrap();
            assert_eq!((data.len(), last), (GATHER_BYTES, false));
        }
    }

    #[test]
    fn the_content_is_the_files_and_the_last_piece_says_so() {
        let (mut sender, file) = sender(150_001, &Limit::None, 5000);
        let mut all = Vec::new();
        loop {
            let (data, last) = sender.next(Instant::now(), 10_000).unwrap();
            assert!(data.len() <= 10_000);
            all.extend_from_slice(data);
            if last {
                break;
            }
        }
        assert_eq!(all, std::fs::read(file.path()).unwrap());
        assert!(sender.exhausted && sender.next(Instant::now(), 10).unwrap().0.is_empty());
    }

    #[test]
    fn the_last_byte_of_a_limited_upload_leaves_at_its_deadline() {
        let (mut sender, _file) = sender(
            50_000,
            &Limit::Each(Rate::new(1_000_000).unwrap(), Peak::default()),
            65_536,
        );
        let begin = crate::clock::begin();
        let mut now = begin;
        loop {
            let last = sender.next(now, usize::MAX).unwrap().1;
            if last {
                break;
            }
            now = now.max(sender.next_at().expect("more is to come"));
        }
        let took = now - begin;
        assert!(
            took >= Duration::from_millis(49) && took <= Duration::from_micros(50_010),
            "{took:?}"
        );
    }

    /// Sent at once at `begin`; the server is heard `heard` after that, over a path of 30 ms.
    fn end_when_heard(heard: Duration) -> Duration {
        let (mut sender, _file) = sender(1000, &Limit::None, 4096);
        sender.round_trip = Duration::from_millis(30);
        let begin = Instant::now();
        sender.arrived(begin + heard);
        assert_eq!(sender.ended, None, "nothing has been sent");
        assert!(sender.next(begin, usize::MAX).unwrap().1);
        sender.arrived(begin + heard);
        sender.arrived(begin + 2 * heard);
        sender.ended.unwrap() - begin
    }

    #[test]
    fn where_no_look_at_the_send_buffer_is_to_be_had_the_answer_less_a_round_trip_ends_an_upload() {
        assert_eq!(end_when_heard(Duration::from_millis(100)), Duration::from_millis(70));
        // An answer sooner than a round trip: no byte leaves before it was handed over.
        assert_eq!(end_when_heard(Duration::from_millis(20)), Duration::ZERO);
    }

    #[test]
    fn an_empty_file_is_exhausted_from_the_start() {
        let (sender, _file) = sender(0, &Limit::None, 4096);
        assert!(sender.exhausted);
        assert_eq!(sender.size, Some(0));
    }
}
