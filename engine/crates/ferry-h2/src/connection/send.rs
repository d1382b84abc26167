//! The frames that this side sends at its owner's request.

use super::streams::{Expect, Stream};
use super::{Connection, EncoderTable};
use crate::error::OpenError;
use crate::flow::MAX_WINDOW;
use crate::frame::{self, flag, kind};
use crate::{HeaderBlock, StreamId};

impl Connection {
    /// Opens a stream and queues its HEADERS (RFC 9113, 8.1), with CONTINUATION frames if they are needed.
    ///
    /// # Errors
    /// When the peer's limit is reached, when either side is going away, or when the numbers are used up.
    pub fn open(&mut self, block: &HeaderBlock, end_stream: bool) -> Result<StreamId, OpenError> {
        if self.going_away || self.peer_going_away || self.failed.is_some() {
            return Err(OpenError::GoingAway);
        }
        if self.next_id > MAX_WINDOW {
            return Err(OpenError::IdsExhausted);
        }
        if self.active() >= self.peer.max_concurrent {
            return Err(OpenError::AtLimit);
        }
        let id = self.next_id;
        self.next_id += 2;
        self.put_headers(id, block.bytes(), end_stream);
        self.streams.insert(Stream::new(
            id,
            end_stream,
            self.config.stream_window,
            self.peer.initial_window,
        ));
        Ok(StreamId(id))
    }

    fn put_headers(&mut self, id: u32, block: &[u8], end_stream: bool) {
        let out = &mut self.output;
        let prefix: &[u8] = if self.encoder == EncoderTable::UpdateDue {
            self.encoder = EncoderTable::Empty;
            // Table size update to 0 (RFC 7541, 6.3).
            &[0x20]
        } else {
            &[]
        };
        let max = self.peer.max_frame as usize;
        let end = if end_stream { flag::END_STREAM } else { 0 };
        let (first, mut rest) = block.split_at(block.len().min(max - prefix.len()));
        let last = if rest.is_empty() { flag::END_HEADERS } else { 0 };
        frame::put_header(out, prefix.len() + first.len(), kind::HEADERS, end | last, id);
        out.extend_from_slice(prefix);
        out.extend_from_slice(first);
        while !rest.is_empty() {
            let (piece, remaining) = rest.split_at(rest.len().min(max));
            rest = remaining;
            let last = if rest.is_empty() { flag::END_HEADERS } else { 0 };
            frame::put_header(out, piece.len(), kind::CONTINUATION, last, id);
            out.extend_from_slice(piece);
        }
    }

    /// Queues DATA, split at the peer's `SETTINGS_MAX_FRAME_SIZE`. More than [`Self::capacity`] bytes are a caller's error,
    /// and none of them is sent. Empty `data` is allowed with `end`, and does nothing without it.
    pub fn send_data(&mut self, stream: StreamId, data: &[u8], end: bool) {
        let max = self.peer.max_frame as usize;
        let mut rest = data;
        loop {
            let (piece, remaining) = rest.split_at(rest.len().min(max));
            rest = remaining;
            let last = rest.is_empty();
            if piece.len() + rest.len() > self.capacity(stream) {
                debug_assert!(
                    false,
                    "{} bytes exceed the capacity of {stream:?}",
                    piece.len() + rest.len()
                );
                return;
            }
            if !self.charge(stream, piece.len(), end && last) {
                return;
            }
            let flags = if end && last { flag::END_STREAM } else { 0 };
            frame::put_header(&mut self.output, piece.len(), kind::DATA, flags, stream.0);
            self.output.extend_from_slice(piece);
            if last {
                return;
            }
        }
    }

    /// Queues one DATA frame whose content `write` appends directly to the output: at most the given number of bytes, which is
    /// the smallest of `most`, [`Self::capacity`] and [`Self::max_frame`]. `write` returns true if the stream ends with them.
    /// Returns the number of bytes queued. Nothing is queued if `write` appended no byte without an end, if it appended more
    /// than the given number, or if the stream's send side is over.
    ///
    /// # Errors
    /// The error of `write`; nothing is queued then.
    pub fn send_data_with<E>(
        &mut self,
        stream: StreamId,
        most: usize,
        write: impl FnOnce(&mut Vec<u8>, usize) -> Result<bool, E>,
    ) -> Result<usize, E> {
        let room = most.min(self.capacity(stream)).min(self.max_frame());
        let header = self.output.len();
        frame::put_header(&mut self.output, 0, kind::DATA, 0, stream.0);
        let content = self.output.len();
        let result = write(&mut self.output, room);
        let length = self.output.len().saturating_sub(content);
        let Ok(end) = result else {
            self.output.truncate(header);
            return result.map(|_| 0);
        };
        debug_assert!(length <= room, "{length} bytes exceed the room of {room}");
        if length > room || !self.charge(stream, length, end) {
            self.output.truncate(header);
            return Ok(0);
        }
        // Writes the header again, now that its length and flags are known.
        let flags = if end { flag::END_STREAM } else { 0 };
        if let Some(place) = self.output.get_mut(header..content) {
            place.copy_from_slice(&frame::header(length, kind::DATA, flags, stream.0));
        }
        Ok(length)
    }

    /// Takes the windows of one DATA frame. False, and nothing changes, when the stream's send side is over, when `length` exceeds
    /// [`Self::capacity`] or [`Self::max_frame`], or when the frame would be empty without ending anything.
    fn charge(&mut self, stream: StreamId, length: usize, end: bool) -> bool {
        if length > self.capacity(stream) || length > self.max_frame() || (length == 0 && !end) || self.failed.is_some()
        {
            return false;
        }
        let Some(found) = self.streams.get_mut(stream.0) else {
            return false;
        };
        if found.sent_all {
            return false;
        }
        found.send.charge(length);
        found.sent_all = end;
        let over = end && found.expect == Expect::Nothing;
        self.send_window.charge(length);
        if over {
            self.streams.remove(stream.0);
        }
        true
    }

    /// The peer's `SETTINGS_MAX_FRAME_SIZE`.
    #[must_use]
    pub fn max_frame(&self) -> usize {
        self.peer.max_frame as usize
    }

    /// Gives a stream up (RFC 9113, 6.4). No more calls come for it; data in flight is dropped, and still counts
    /// against the connection's window as it must.
    pub fn reset(&mut self, stream: StreamId, code: u32) {
        if self.failed.is_none() && self.streams.remove(stream.0) {
            frame::put_number(&mut self.output, kind::RST_STREAM, stream.0, code);
        }
    }

    /// Makes [`Self::grant`] the only source of the stream's window, or goes back to the default: automatic top-ups as data
    /// comes, in batches of half a window. Going back tops the window up at once if a top-up is due.
    pub fn set_manual(&mut self, stream: StreamId, manual: bool) {
        let target = self.config.stream_window;
        let Some(found) = self.streams.get_mut(stream.0) else {
            return;
        };
        found.manual = manual;
        if manual || found.expect == Expect::Nothing {
            return;
        }
        let increment = found.receive.top_up(target);
        self.put_window_update(stream.0, increment);
    }

    /// Lets the peer send `bytes` more on a stream, never beyond 2^31-1 in all. Does nothing on a stream whose
    /// receive side is over.
    pub fn grant(&mut self, stream: StreamId, bytes: u32) {
        let Some(found) = self.streams.get_mut(stream.0) else {
            return;
        };
        if found.expect == Expect::Nothing {
            return;
        }
        let increment = found.receive.grant(bytes);
        self.put_window_update(stream.0, increment);
    }

    pub(super) fn put_window_update(&mut self, stream: u32, increment: u32) {
        if increment > 0 && self.failed.is_none() {
            frame::put_number(&mut self.output, kind::WINDOW_UPDATE, stream, increment);
        }
    }

    /// Queues a PING (RFC 9113, 6.7); the answer is [`crate::Handler::pong`].
    pub fn ping(&mut self, payload: [u8; 8]) {
        if self.failed.is_none() {
            frame::put_ping(&mut self.output, 0, payload);
        }
    }

    /// Queues a GOAWAY (RFC 9113, 6.8): no more streams can be opened, those that are open go on.
    pub fn go_away(&mut self, code: u32) {
        if self.failed.is_none() {
            self.going_away = true;
            frame::put_goaway(&mut self.output, code, &[]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    #[test]
    fn the_last_number_is_used_and_none_after_it() {
        let mut connection = Connection::new(&Config::default());
        connection.next_id = MAX_WINDOW;
        let fields = [
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", "a"),
            (":path", "/"),
        ];
        let get = HeaderBlock::new(fields.map(|(name, value)| (name.as_bytes(), value.as_bytes()))).unwrap();
        assert_eq!(connection.open(&get, true), Ok(StreamId(MAX_WINDOW)));
        assert_eq!(connection.open(&get, true), Err(OpenError::IdsExhausted));
    }
}
