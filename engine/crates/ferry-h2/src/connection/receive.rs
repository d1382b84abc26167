//! Input from the peer: the bytes are cut into frames, and DATA is handed on piece by piece.

use super::Connection;
use super::streams::Expect;
use crate::StreamId;
use crate::error::{ConnectionError, error_code};
use crate::frame::{self, DEFAULT_MAX_FRAME, FrameHeader, HEADER_LENGTH, flag, kind};
use crate::handler::Handler;

/// Empty DATA frames in a row that end nothing: a way to make work without spending window (CVE-2019-9518).
const MAX_EMPTY_DATA: u32 = 1000;

/// The connection's position in the byte stream.
#[derive(Copy, Clone, Debug)]
pub(super) enum Reading {
    Header,
    /// A frame that is handled once complete.
    Payload(FrameHeader),
    Data(Data),
    /// The payload of a frame of unknown type (RFC 9113, 4.1).
    Skip(u32),
}

/// A DATA frame that is not complete.
#[derive(Copy, Clone, Debug)]
pub(super) struct Data {
    stream: u32,
    /// Bytes of the body still to come.
    body: u32,
    /// Bytes of padding still to come.
    padding: u32,
    /// The byte with the length of the padding has not come yet; it counts in `body`.
    padding_unknown: bool,
    end: bool,
    /// The stream is not known any more: the bytes count in the connection's window, and are dropped.
    dropped: bool,
}

impl Connection {
    /// Takes bytes from the peer, all of them, and calls the handler for their events.
    ///
    /// # Errors
    /// When the peer broke the rules (RFC 9113, 5.4.1): a GOAWAY is queued and the connection is over.
    pub fn receive(&mut self, input: &[u8], handler: &mut impl Handler) -> Result<(), ConnectionError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.take_in(input, handler).inspect_err(|error| {
            frame::put_goaway(&mut self.output, error.code, error.message.as_bytes());
            self.failed = Some(error.clone());
        })
    }

    fn take_in(&mut self, mut input: &[u8], handler: &mut impl Handler) -> Result<(), ConnectionError> {
        while !input.is_empty() {
            match self.reading {
                Reading::Header => {
                    let header = if self.partial.is_empty()
                        && let Some((head, rest)) = input.split_first_chunk::<HEADER_LENGTH>()
                    {
                        input = rest;
                        FrameHeader::parse(head)
                    } else {
                        input = self.gather(input, HEADER_LENGTH);
                        let Some(head) = self.partial.first_chunk() else {
                            return Ok(());
                        };
                        let header = FrameHeader::parse(head);
                        self.partial.clear();
                        header
                    };
                    self.begin(header, handler)?;
                }
                Reading::Payload(header) => {
                    let length = header.length as usize;
                    if self.partial.is_empty()
                        && let Some((payload, rest)) = input.split_at_checked(length)
                    {
                        input = rest;
                        self.reading = Reading::Header;
                        self.whole(header, payload, handler)?;
                    } else {
                        input = self.gather(input, length);
                        if self.partial.len() == length {
                            self.reading = Reading::Header;
                            let mut payload = std::mem::take(&mut self.partial);
                            self.whole(header, &payload, handler)?;
                            payload.clear();
                            self.partial = payload;
                        }
                    }
                }
                Reading::Data(data) => input = self.data(data, input, handler)?,
                Reading::Skip(left) => {
                    let skipped = input.len().min(left as usize);
                    input = input.get(skipped..).unwrap_or_default();
                    self.skip(left - u32::try_from(skipped).unwrap_or(left));
                }
            }
        }
        Ok(())
    }

    /// Fills `partial` up to `length` bytes; returns the rest of the input.
    fn gather<'a>(&mut self, input: &'a [u8], length: usize) -> &'a [u8] {
        let (taken, rest) = input.split_at(input.len().min(length - self.partial.len()));
        self.partial.extend_from_slice(taken);
        rest
    }

    fn skip(&mut self, left: u32) {
        self.reading = if left == 0 {
            Reading::Header
        } else {
            Reading::Skip(left)
        };
    }

    /// Handles a frame's header. Frames without payload end here, as no more input need come.
    #[inline]
    fn begin(&mut self, header: FrameHeader, handler: &mut impl Handler) -> Result<(), ConnectionError> {
        if !self.settings_seen && (header.kind != kind::SETTINGS || header.has(flag::ACK)) {
            return Err(ConnectionError::protocol(
                "the first frame is not SETTINGS: is this an HTTP/2 server?",
            ));
        }
        if header.length > DEFAULT_MAX_FRAME {
            return Err(ConnectionError::frame_size("a frame is larger than 16 KiB"));
        }
        if let Some(continuing) = &self.continuing
            && (header.kind != kind::CONTINUATION || header.stream != continuing.stream)
        {
            return Err(ConnectionError::protocol(
                "a header block is interrupted by another frame",
            ));
        }
        match header.kind {
            kind::DATA => self.begin_data(header, handler),
            kind::HEADERS..=kind::CONTINUATION if header.length == 0 => self.whole(header, &[], handler),
            kind::HEADERS..=kind::CONTINUATION => {
                self.reading = Reading::Payload(header);
                Ok(())
            }
            _ => {
                self.skip(header.length);
                Ok(())
            }
        }
    }

    /// Returns true if this side has not opened a stream of this number: no frame may be on it (RFC 9113, 5.1).
    pub(super) fn is_idle(&self, stream: u32) -> bool {
        stream.is_multiple_of(2) || stream >= self.next_id
    }

    #[inline]
    fn begin_data(&mut self, header: FrameHeader, handler: &mut impl Handler) -> Result<(), ConnectionError> {
        let id = header.stream;
        let padded = header.has(flag::PADDED);
        if padded && header.length == 0 {
            return Err(ConnectionError::frame_size("a padded DATA frame is empty"));
        }
        // The complete frame counts in both windows, padding included (RFC 9113, 6.9.1).
        if !self.receive_window.charge(header.length) {
            return Err(ConnectionError::flow("the peer sent more than the connection's window"));
        }
        let end = header.has(flag::END_STREAM);
        if header.length == 0 && !end {
            self.empty_data += 1;
            if self.empty_data > MAX_EMPTY_DATA {
                return Err(ConnectionError::calm("too many empty DATA frames"));
            }
        } else {
            self.empty_data = 0;
        }
        let idle = self.is_idle(id);
        let refused = match self.streams.get_mut(id) {
            Some(stream) => match stream.expect {
                Expect::Body if stream.receive.charge(header.length) => None,
                Expect::Body => Some(error_code::FLOW_CONTROL_ERROR),
                Expect::Response => Some(error_code::PROTOCOL_ERROR),
                Expect::Nothing => Some(error_code::STREAM_CLOSED),
            },
            None if idle => {
                return Err(ConnectionError::protocol("DATA on a stream that was never opened"));
            }
            // The stream was closed earlier, by this side's reset or otherwise. Frames in flight are dropped (RFC 9113, 5.1).
            None => Some(error_code::NO_ERROR),
        };
        if let Some(code) = refused {
            self.fail_stream(id, code, handler);
        }
        let data = Data {
            stream: id,
            body: header.length,
            padding: 0,
            padding_unknown: padded,
            end,
            dropped: refused.is_some(),
        };
        if header.length == 0 {
            self.end_of_frame(data, handler);
        } else {
            self.reading = Reading::Data(data);
        }
        Ok(())
    }

    /// Hands on the bytes of a DATA frame at the front of the input; returns the rest of the input.
    #[inline]
    fn data<'a>(
        &mut self,
        mut data: Data,
        mut input: &'a [u8],
        handler: &mut impl Handler,
    ) -> Result<&'a [u8], ConnectionError> {
        if data.padding_unknown
            && let Some((&padding, rest)) = input.split_first()
        {
            data.padding_unknown = false;
            data.padding = u32::from(padding);
            data.body = (data.body - 1)
                .checked_sub(data.padding)
                .ok_or(ConnectionError::protocol(
                    "a DATA frame's padding is longer than the frame",
                ))?;
            input = rest;
        }
        // The caller may have reset the stream between two calls.
        data.dropped = data.dropped || self.streams.get(data.stream).is_none();
        let (body, rest) = input.split_at(input.len().min(data.body as usize));
        let (padding, rest) = rest.split_at(rest.len().min(data.padding as usize));
        if !data.dropped && !body.is_empty() {
            handler.data(StreamId(data.stream), body);
        }
        // Neither is longer than a frame.
        data.body -= u32::try_from(body.len()).unwrap_or(0);
        data.padding -= u32::try_from(padding.len()).unwrap_or(0);
        if data.body == 0 && data.padding == 0 {
            self.end_of_frame(data, handler);
        } else {
            self.reading = Reading::Data(data);
        }
        Ok(rest)
    }

    #[inline]
    fn end_of_frame(&mut self, data: Data, handler: &mut impl Handler) {
        self.reading = Reading::Header;
        let increment = self.receive_window.top_up(self.config.connection_window);
        self.put_window_update(0, increment);
        if data.dropped {
            return;
        }
        if data.end {
            self.end_receive(data.stream);
            handler.end(StreamId(data.stream));
        } else if let Some(stream) = self.streams.get_mut(data.stream)
            && !stream.manual
        {
            let increment = stream.receive.top_up(self.config.stream_window);
            self.put_window_update(data.stream, increment);
        }
    }

    /// Ends a stream's receive side: `END_STREAM` has come.
    #[inline]
    pub(super) fn end_receive(&mut self, id: u32) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.expect = Expect::Nothing;
            if stream.sent_all {
                self.streams.remove(id);
            }
        }
    }

    /// Resets a stream because of a stream error (RFC 9113, 5.4.2), unless the stream is no longer there.
    pub(super) fn fail_stream(&mut self, id: u32, code: u32, handler: &mut impl Handler) {
        if self.streams.remove(id) {
            frame::put_number(&mut self.output, kind::RST_STREAM, id, code);
            handler.reset(StreamId(id), code);
        }
    }

    /// Handles a complete frame.
    fn whole(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        handler: &mut impl Handler,
    ) -> Result<(), ConnectionError> {
        match header.kind {
            kind::HEADERS => self.headers(header, payload, handler),
            kind::CONTINUATION => self.continuation(header, payload, handler),
            kind::SETTINGS => self.settings(header, payload, handler),
            kind::WINDOW_UPDATE => self.window_update(header, payload, handler),
            kind::RST_STREAM => self.reset_by_peer(header, payload, handler),
            kind::PING => self.pinged(header, payload, handler),
            kind::GOAWAY => self.goaway(header, payload, handler),
            kind::PUSH_PROMISE => Err(ConnectionError::protocol("the server pushes although it must not")),
            // PRIORITY is deprecated and has no meaning for a client (RFC 9113, 5.3.2).
            _ if header.stream == 0 => Err(ConnectionError::protocol("PRIORITY without a stream")),
            _ if payload.len() != 5 => Err(ConnectionError::frame_size("a PRIORITY frame is not of 5 bytes")),
            _ => Ok(()),
        }
    }
}
