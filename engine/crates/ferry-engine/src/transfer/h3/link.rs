//! The QUIC connection as h3 wants it: h3's traits on quinn-proto. Nothing here waits: an operation that cannot go on is pending,
//! and the loop asks again.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use h3::error::Code;
use h3::quic::{self, ConnectionErrorIncoming, StreamErrorIncoming, WriteBuf};
use quinn_proto::{ConnectionError, Dir, ReadError, StreamEvent, StreamId, VarInt, WriteError};

use crate::error::Error;
use crate::net::quic::{Lost, Quic};
use crate::net::tls;

/// Read of a stream and not understood yet: a head, or a frame that means nothing. More than that is no server's honest wish.
const MOST_UNREAD: u64 = 1 << 20;
/// Besides, the framing of content may be such a part of it: a frame of 64 bytes has 3 more.
const FRAMING_PART: u64 = 16;
/// A connection's control streams carry settings and little else.
const MOST_CONTROL: u64 = 16 << 20;

/// One connection; all clones are the same.
#[derive(Clone)]
pub struct Link(Rc<RefCell<Inner>>);

struct Inner {
    quic: Quic,
    lanes: HashMap<StreamId, Lane>,
    /// The next request's stream.
    spare: Option<StreamId>,
    /// The last request's stream.
    last: Option<StreamId>,
    control_bytes: u64,
    /// Read since the server was last given window.
    ungranted: u64,
    /// Read in all.
    taken: u64,
    /// Something has been read or written since this was last asked.
    moved: bool,
    /// The server is one of [`super::nginx`].
    few_frames: bool,
}

/// The state of one stream beyond QUIC's own.
#[derive(Default)]
struct Lane {
    /// The stream is a request's, whose reads are counted.
    request: bool,
    /// The bytes that may be read now.
    budget: usize,
    read: u64,
    understood: u64,
    outgoing: VecDeque<WriteBuf<Bytes>>,
    /// The end is to be written behind `outgoing`.
    ends: bool,
    delivered: bool,
    stopped: Option<u64>,
}

impl Lane {
    fn has_too_much(&self) -> bool {
        self.read.saturating_sub(self.understood) > MOST_UNREAD + self.understood / FRAMING_PART
    }
}

/// The state of a request's sending side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    /// More may be given.
    Ready,
    /// QUIC takes nothing more now.
    Blocked,
    /// The server has acknowledged all of it.
    Delivered,
    /// The server wants no more of it, and gives this code as the reason.
    Stopped(u64),
}

/// The stream's bytes are no HTTP/3 that a server would send.
#[derive(Debug)]
struct TooMuch;

impl fmt::Display for TooMuch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("too many bytes that are no content")
    }
}

impl std::error::Error for TooMuch {}

impl Link {
    pub fn new(quic: Quic) -> Self {
        Self(Rc::new(RefCell::new(Inner {
            quic,
            lanes: HashMap::new(),
            spare: None,
            last: None,
            control_bytes: 0,
            ungranted: 0,
            taken: 0,
            moved: false,
            few_frames: false,
        })))
    }

    pub fn with<T>(&self, look: impl FnOnce(&mut Quic) -> T) -> T {
        look(&mut self.0.borrow_mut().quic)
    }

    pub fn is_lost(&self) -> bool {
        self.0.borrow().quic.lost().is_some()
    }

    /// The reason for the end of the connection to the host; `None` before its end.
    pub fn problem(&self, host: &str) -> Option<Error> {
        let inner = self.0.borrow();
        let lost = inner.quic.lost()?;
        // In TLS 1.3 a server looks at the client's certificate when the client has done its part of the handshake.
        if let Some(refusal) = inner.quic.tls_problem().filter(tls::refuses_client) {
            return Some(tls::problem(host, &refusal, None));
        }
        let message = |why: &dyn fmt::Display| format!("connection to {host} lost: {why}");
        Some(match lost {
            Lost::Unreachable(kind) => Error::transient(message(kind)).with_source(std::io::Error::from(*kind)),
            Lost::Quic(error) => Error::transient(message(error)).with_source(error.clone()),
        })
    }

    /// True if another request may be opened.
    pub fn has_room(&self) -> bool {
        let mut inner = self.0.borrow_mut();
        if inner.spare.is_none() && inner.quic.lost().is_none() {
            inner.spare = inner.quic.connection.streams().open(Dir::Bi);
        }
        inner.spare.is_some()
    }

    /// The stream that was opened last for a request.
    pub fn last_request(&self) -> Option<StreamId> {
        self.0.borrow().last
    }

    /// Hands received datagrams to QUIC, sends those that can leave, and takes note of QUIC's events. True if anything moved.
    pub fn turn(&self) -> bool {
        let mut inner = self.0.borrow_mut();
        let now = std::time::Instant::now();
        let received = inner.quic.receive();
        let sent = inner.quic.drive(now);
        while let Some(event) = inner.quic.poll_event() {
            match event {
                StreamEvent::Finished { id } => {
                    if let Some(lane) = inner.lanes.get_mut(&id) {
                        lane.delivered = true;
                    }
                }
                StreamEvent::Stopped { id, error_code } => {
                    if let Some(lane) = inner.lanes.get_mut(&id) {
                        lane.stopped = Some(error_code.into_inner());
                        lane.outgoing.clear();
                    }
                }
                // Every stream is looked at in every round.
                StreamEvent::Opened { .. }
                | StreamEvent::Readable { .. }
                | StreamEvent::Writable { .. }
                | StreamEvent::Available { .. } => {}
            }
        }
        received || sent
    }

    /// Writes the queued bytes. True if anything was read or written since the last call.
    pub fn flush(&self) -> bool {
        let mut inner = self.0.borrow_mut();
        let Inner { quic, lanes, moved, .. } = &mut *inner;
        for (id, lane) in lanes {
            *moved |= flush(quic, *id, lane);
        }
        std::mem::take(moved)
    }

    pub fn sending(&self, id: StreamId) -> Sending {
        let inner = self.0.borrow();
        match inner.lanes.get(&id) {
            Some(Lane {
                stopped: Some(code), ..
            }) => Sending::Stopped(*code),
            Some(lane) if lane.delivered => Sending::Delivered,
            Some(lane) if lane.outgoing.is_empty() => Sending::Ready,
            _ => Sending::Blocked,
        }
    }

    /// Limits the reads of the stream from now on to `budget` bytes.
    pub fn allow(&self, id: StreamId, budget: usize) {
        if let Some(lane) = self.0.borrow_mut().lanes.get_mut(&id) {
            lane.budget = budget;
        }
    }

    /// Counts `bytes` of those read as content.
    pub fn understood(&self, id: StreamId, bytes: usize) {
        if let Some(lane) = self.0.borrow_mut().lanes.get_mut(&id) {
            lane.understood += bytes as u64;
        }
    }

    /// Drops the state of a stream whose request is over.
    pub fn forget(&self, id: StreamId) {
        self.0.borrow_mut().lanes.remove(&id);
    }

    /// Bytes that were read since the last [`Self::set_window`], for which the server may send as many.
    pub fn ungranted(&self) -> u64 {
        self.0.borrow().ungranted
    }

    /// Bytes that were read in all.
    pub fn taken(&self) -> u64 {
        self.0.borrow().taken
    }

    pub fn keep_few_frames(&self) {
        self.0.borrow_mut().few_frames = true;
    }

    /// True if the answers are those of a server that ends a connection with too much on its way.
    pub fn keeps_few_frames(&self) -> bool {
        self.0.borrow().few_frames
    }

    /// Lets the server have `bytes` on their way, and tells it of the bytes that were read. quinn would wait until these are an
    /// eighth of the window.
    pub fn set_window(&self, bytes: u64) {
        let mut inner = self.0.borrow_mut();
        inner.ungranted = 0;
        let connection = &mut inner.quic.connection;
        let wide = |bytes| VarInt::from_u64(bytes).unwrap_or(VarInt::MAX);
        // A window that becomes larger is announced. The byte too much is taken back, and counts against what is read next.
        connection.set_receive_window(wide(bytes + 1));
        connection.set_receive_window(wide(bytes));
    }
}

fn flush(quic: &mut Quic, id: StreamId, lane: &mut Lane) -> bool {
    let mut moved = false;
    while let Some(piece) = lane.outgoing.front_mut() {
        if !piece.has_remaining() {
            lane.outgoing.pop_front();
            continue;
        }
        match quic.connection.send_stream(id).write(piece.chunk()) {
            Ok(written) => {
                piece.advance(written);
                moved = true;
            }
            Err(WriteError::Blocked) => return moved,
            Err(WriteError::Stopped(code)) => {
                lane.stopped = Some(code.into_inner());
                lane.outgoing.clear();
            }
            Err(WriteError::ClosedStream) => lane.outgoing.clear(),
        }
    }
    if lane.ends {
        lane.ends = false;
        moved |= quic.connection.send_stream(id).finish().is_ok();
    }
    moved
}

impl Inner {
    /// The reason why nothing more will come; `None` while the connection lasts.
    fn lost(&self) -> Option<ConnectionErrorIncoming> {
        Some(match self.quic.lost()? {
            Lost::Quic(ConnectionError::ApplicationClosed(close)) => ConnectionErrorIncoming::ApplicationClose {
                error_code: close.error_code.into_inner(),
            },
            Lost::Quic(ConnectionError::TimedOut) => ConnectionErrorIncoming::Timeout,
            Lost::Quic(error) => ConnectionErrorIncoming::Undefined(Arc::new(error.clone())),
            Lost::Unreachable(kind) => ConnectionErrorIncoming::Undefined(Arc::new(std::io::Error::from(*kind))),
        })
    }

    fn pending<T>(&self) -> Poll<Result<T, StreamErrorIncoming>> {
        match self.lost() {
            None => Poll::Pending,
            Some(connection_error) => {
                Poll::Ready(Err(StreamErrorIncoming::ConnectionErrorIncoming { connection_error }))
            }
        }
    }

    fn read(&mut self, id: StreamId) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        let unknown =
            |error: Box<dyn std::error::Error + Send + Sync>| Poll::Ready(Err(StreamErrorIncoming::Unknown(error)));
        let lane = self.lanes.get(&id);
        let most = match lane {
            Some(lane) if lane.request && lane.has_too_much() => return unknown(Box::new(TooMuch)),
            Some(lane) if lane.request && lane.budget == 0 => return Poll::Pending,
            Some(lane) if lane.request => lane.budget,
            _ if self.control_bytes > MOST_CONTROL => return unknown(Box::new(TooMuch)),
            _ => 64 * 1024,
        };
        let mut stream = self.quic.connection.recv_stream(id);
        let mut chunks = match stream.read(true) {
            Ok(chunks) => chunks,
            Err(error) => return unknown(Box::new(error)),
        };
        let result = chunks.next(most);
        drop(chunks);
        match result {
            Ok(Some(chunk)) => {
                let count = chunk.bytes.len();
                self.moved = true;
                self.ungranted += count as u64;
                self.taken += count as u64;
                match self.lanes.get_mut(&id) {
                    Some(lane) if lane.request => {
                        lane.read += count as u64;
                        lane.budget -= count.min(lane.budget);
                    }
                    _ => self.control_bytes += count as u64,
                }
                Poll::Ready(Ok(Some(chunk.bytes)))
            }
            Ok(None) => Poll::Ready(Ok(None)),
            Err(ReadError::Reset(code)) => Poll::Ready(Err(StreamErrorIncoming::StreamTerminated {
                error_code: code.into_inner(),
            })),
            Err(ReadError::Blocked) => self.pending(),
        }
    }
}

/// Both sides of a stream, or one of them.
pub struct Half {
    link: Link,
    id: StreamId,
    number: quic::StreamId,
}

impl Half {
    fn of(link: &Link, id: StreamId) -> Result<Self, ConnectionErrorIncoming> {
        let number = quic::StreamId::try_from(u64::from(id))
            .map_err(|_| ConnectionErrorIncoming::InternalError(format!("stream {id}")))?;
        Ok(Self {
            link: link.clone(),
            id,
            number,
        })
    }
}

impl Link {
    fn open(&self, dir: Dir) -> Poll<Result<Half, StreamErrorIncoming>> {
        let mut inner = self.0.borrow_mut();
        let spare = (dir == Dir::Bi).then(|| inner.spare.take()).flatten();
        let Some(id) = spare.or_else(|| inner.quic.connection.streams().open(dir)) else {
            return inner.pending();
        };
        let lane = Lane {
            request: dir == Dir::Bi,
            ..Lane::default()
        };
        inner.lanes.insert(id, lane);
        if dir == Dir::Bi {
            inner.last = Some(id);
        }
        drop(inner);
        let opened = Half::of(self, id);
        Poll::Ready(
            opened.map_err(|connection_error| StreamErrorIncoming::ConnectionErrorIncoming { connection_error }),
        )
    }

    fn accept(&self, dir: Dir) -> Poll<Result<Half, ConnectionErrorIncoming>> {
        let mut inner = self.0.borrow_mut();
        match (inner.quic.connection.streams().accept(dir), inner.lost()) {
            (Some(id), _) => {
                drop(inner);
                Poll::Ready(Half::of(self, id))
            }
            (None, Some(lost)) => Poll::Ready(Err(lost)),
            (None, None) => Poll::Pending,
        }
    }
}

impl quic::OpenStreams<Bytes> for Link {
    type BidiStream = Half;
    type SendStream = Half;

    fn poll_open_bidi(&mut self, _: &mut Context<'_>) -> Poll<Result<Half, StreamErrorIncoming>> {
        self.open(Dir::Bi)
    }

    fn poll_open_send(&mut self, _: &mut Context<'_>) -> Poll<Result<Half, StreamErrorIncoming>> {
        self.open(Dir::Uni)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.with(|quic| quic.close(code.value(), reason));
    }
}

impl quic::Connection<Bytes> for Link {
    type RecvStream = Half;
    type OpenStreams = Self;

    fn poll_accept_recv(&mut self, _: &mut Context<'_>) -> Poll<Result<Half, ConnectionErrorIncoming>> {
        self.accept(Dir::Uni)
    }

    fn poll_accept_bidi(&mut self, _: &mut Context<'_>) -> Poll<Result<Half, ConnectionErrorIncoming>> {
        self.accept(Dir::Bi)
    }

    fn opener(&self) -> Self {
        self.clone()
    }
}

impl quic::RecvStream for Half {
    type Buf = Bytes;

    fn poll_data(&mut self, _: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.link.0.borrow_mut().read(self.id)
    }

    fn stop_sending(&mut self, error_code: u64) {
        let code = VarInt::from_u64(error_code).unwrap_or(VarInt::MAX);
        let _ = self.link.with(|quic| quic.connection.recv_stream(self.id).stop(code));
    }

    fn recv_id(&self) -> quic::StreamId {
        self.number
    }
}

impl quic::SendStream<Bytes> for Half {
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        // The loop writes the queued bytes, and gives nothing more before that.
        Poll::Ready(match self.link.sending(self.id) {
            Sending::Stopped(error_code) => Err(StreamErrorIncoming::StreamTerminated { error_code }),
            Sending::Ready | Sending::Blocked | Sending::Delivered => Ok(()),
        })
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        let mut inner = self.link.0.borrow_mut();
        if let Some(lane) = inner.lanes.get_mut(&self.id) {
            lane.outgoing.push_back(data.into());
        }
        Ok(())
    }

    fn poll_finish(&mut self, _: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        let mut inner = self.link.0.borrow_mut();
        if let Some(lane) = inner.lanes.get_mut(&self.id) {
            lane.ends = true;
        }
        Poll::Ready(Ok(()))
    }

    fn reset(&mut self, reset_code: u64) {
        let code = VarInt::from_u64(reset_code).unwrap_or(VarInt::MAX);
        let mut inner = self.link.0.borrow_mut();
        if let Some(lane) = inner.lanes.get_mut(&self.id) {
            lane.outgoing.clear();
            lane.ends = false;
        }
        let _ = inner.quic.connection.send_stream(self.id).reset(code);
    }

    fn send_id(&self) -> quic::StreamId {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn framing_may_grow_with_the_content_and_nothing_else_may() {
        let lane = |read, understood| Lane {
            read,
            understood,
            ..Lane::default()
        };
        assert!(!lane(MOST_UNREAD, 0).has_too_much());
        assert!(lane(MOST_UNREAD + 1, 0).has_too_much());
        // 64 GB in frames of 4 KiB.
        let frames = 16_000_000;
        assert!(!lane(frames * 4099, frames * 4096).has_too_much());
        assert!(lane(frames * 2, frames).has_too_much());
    }
}
