//! Calls from a connection to its owner.

use crate::StreamId;

/// The part of a header block that its receiver needs.
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
pub enum Interest {
    /// Every field.
    All,
    /// Only `:status`: other literals are skipped unless the dynamic table needs them, and no other field is reported.
    StatusOnly,
}

/// Receives the events that [`crate::Connection::receive`] finds in its input, in the order of the wire.
///
/// A final response is `header`.. `headers_done`, `data`.., possibly trailers (`header`.. `headers_done`), `end`.
/// After `end` or `reset` a stream gets no more calls, with one exception: `reset` may follow `end` while the request's
/// body is not yet sent completely, usually because the peer has answered and wants no more of it (`NO_ERROR`; RFC 9113,
/// 8.1).
pub trait Handler {
    /// Returns the part needed of the header block that follows. With [`Interest::StatusOnly`], literals that are not
    /// indexed are not decoded; their lengths are still checked.
    fn interest(&self, stream: StreamId) -> Interest {
        let _ = stream;
        Interest::All
    }

    /// A field of a response (`:status` included, and first), of a 1xx response, or of the trailers.
    fn header(&mut self, stream: StreamId, name: &[u8], value: &[u8]);

    /// The header block is complete; also after a 1xx response and after trailers.
    fn headers_done(&mut self, stream: StreamId, end_stream: bool);

    /// A piece of DATA payload, never empty, padding removed.
    fn data(&mut self, stream: StreamId, data: &[u8]);

    /// `END_STREAM`: the stream's receive side is over. The last call for a stream whose request is sent completely.
    fn end(&mut self, stream: StreamId);

    /// The stream is over without having ended: the peer sent `RST_STREAM`, or a GOAWAY refused the stream
    /// (`REFUSED_STREAM`: it was not processed and may be retried), or this side had to reset it because the peer
    /// broke the rules on it (RFC 9113, 5.4.2): malformed headers, a window overrun by `WINDOW_UPDATE`, and so on.
    fn reset(&mut self, stream: StreamId, code: u32);

    /// The peer takes no streams above `last` (RFC 9113, 6.8). Those that are open get their `reset` after this call.
    fn goaway(&mut self, last: StreamId, code: u32, debug: &[u8]) {
        let _ = (last, code, debug);
    }

    /// A parameter of the peer's SETTINGS (RFC 9113, 6.5.2), already applied; identifiers may be unknown ones.
    fn setting(&mut self, identifier: u16, value: u32) {
        let _ = (identifier, value);
    }

    /// The peer's answer to [`crate::Connection::ping`] (RFC 9113, 6.7).
    fn pong(&mut self, payload: [u8; 8]) {
        let _ = payload;
    }
}
