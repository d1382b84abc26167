//! A file that is being transferred: its requests, its early data, its acknowledgements.

use std::collections::BTreeMap;
use std::time::Instant;

use ferry_sftp::{Handle, RangeError, Reads, Reply, Status, Writes};
use tokio::sync::oneshot;

use crate::error::Error;
use crate::transfer::receive::Receiver;
use crate::transfer::send::Sender;

/// Takes the answer to a request, or the error that came instead.
pub type ReplySender = oneshot::Sender<Result<Reply, Error>>;

/// A file that is open on some channels, with the bytes that go in one direction.
pub struct OpenFile {
    pub path: Vec<u8>,
    /// The channel for all requests except those that move bytes.
    pub home: usize,
    pub handles: Vec<(usize, Handle)>,
    pub direction: Direction,
    pub done: oneshot::Sender<End>,
}

pub enum Direction {
    Down(Box<Down>),
    Up(Box<Up>),
}

pub struct Down {
    pub reads: Reads,
    pub receiver: Box<Receiver>,
    /// The next byte the receiver wants.
    pub next: u64,
    /// Bytes that came before their turn, by the offset of the first one.
    early: BTreeMap<u64, Vec<u8>>,
    early_bytes: u64,
    /// The number of bytes in flight from which on no further READ is sent.
    pub ahead: u64,
    /// True when every READ has been sent once.
    pub all_asked: bool,
    /// The sender for the answer to FSTAT, asked on the home channel behind the last READ: it shows if the file is still the
    /// same.
    pub trailer: Option<ReplySender>,
}

pub struct Up {
    pub writes: Writes,
    pub sender: Sender,
}

/// The outcome of an open file's transfer.
pub struct End {
    pub result: Result<(), Error>,
    pub direction: Direction,
    pub handles: Vec<(usize, Handle)>,
}

impl OpenFile {
    pub fn end(self, result: Result<(), Error>) {
        // The task that waited may have been given up.
        let _ = self.done.send(End {
            result,
            direction: self.direction,
            handles: self.handles,
        });
    }
}

impl Down {
    pub fn new(receiver: Box<Receiver>, begin: u64, end: Option<u64>, trailer: ReplySender) -> Self {
        Self {
            reads: Reads::new(begin, end),
            receiver,
            next: begin,
            early: BTreeMap::new(),
            early_bytes: 0,
            ahead: u64::MAX,
            all_asked: false,
            trailer: Some(trailer),
        }
    }

    /// The bytes asked for and not yet handed on.
    pub fn pending(&self) -> u64 {
        self.reads.in_flight() + self.early_bytes + self.receiver.waiting() as u64
    }

    /// The bytes in hand before their turn.
    pub fn early_bytes(&self) -> usize {
        usize::try_from(self.early_bytes).unwrap_or(usize::MAX)
    }

    /// Takes bytes of the request that began at `request`, the first of them at `at`.
    pub fn accept(&mut self, request: u64, at: u64, bytes: &[u8], now: Instant) -> Result<(), Error> {
        if at != self.next {
            self.early.entry(request).or_default().extend_from_slice(bytes);
            self.early_bytes += bytes.len() as u64;
            return Ok(());
        }
        self.receiver.accept(bytes, now)?;
        self.next += bytes.len() as u64;
        while let Some(piece) = self.early.remove(&self.next) {
            self.early_bytes -= piece.len() as u64;
            self.next += piece.len() as u64;
            self.receiver.accept(&piece, now)?;
        }
        Ok(())
    }

    /// Returns true once every byte has been handed on, including those that the limit held back.
    pub fn try_finish(&mut self, now: Instant) -> bool {
        if self.reads.is_complete() && self.early.is_empty() {
            self.receiver.complete(now);
        }
        self.receiver.ended.is_some()
    }
}

impl Up {
    /// An upload of the bytes from `begin` on; everything below is on the server.
    pub fn new(begin: u64, sender: Sender) -> Self {
        Self {
            writes: Writes::new(begin),
            sender,
        }
    }

    /// Returns true when everything has been acknowledged.
    pub fn try_finish(&mut self, now: Instant) -> bool {
        let over = self.sender.exhausted && self.writes.is_settled();
        if over {
            // The server has every byte, even if a look at the send buffer came too late or could not tell.
            self.sender.arrived(now);
        }
        over
    }
}

/// Judges an answer to a READ that brought no data: the end of the file, or a refusal.
pub fn read_refused(down: &mut Down, path: &[u8], offset: u64, asked: u32, status: &Status) -> Result<(), Error> {
    if status.code == ferry_sftp::StatusCode::Eof {
        return down
            .reads
            .end_of_file(offset, asked)
            .map_err(|error| broken(path, &error));
    }
    Err(super::refused("read", path, status))
}

pub fn broken(path: &[u8], error: &RangeError) -> Error {
    Error::integrity(format!("{}: {error}", String::from_utf8_lossy(path))).with_source(*error)
}
