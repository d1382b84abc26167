//! HEADERS and CONTINUATION (RFC 9113, 6.2, 6.10 and 8).

use super::Connection;
use super::streams::Expect;
use crate::StreamId;
use crate::error::{ConnectionError, error_code};
use crate::frame::{FrameHeader, flag};
use crate::handler::{Handler, Interest};
use crate::hpack::Field;

/// The most CONTINUATION frames of one block. Four full frames would suffice; small or empty ones without end are an
/// attack (CVE-2024-27316).
const MAX_CONTINUATIONS: u32 = 32;

/// A header block that is not complete.
pub(super) struct Continuing {
    pub(super) stream: u32,
    end_stream: bool,
    frames: u32,
}

/// The properties of a header block, collected field by field.
#[derive(Default)]
struct Message {
    /// 0 until the status is known.
    status: u16,
    regular: bool,
    malformed: bool,
}

impl Message {
    /// Returns true if the block is well-formed up to this field, so that the field may be handed on (RFC 9113, 8.3.2:
    /// `:status` is the only pseudo-header, and it is first).
    #[inline]
    fn accept(&mut self, field: &Field<'_>, trailers: bool) -> bool {
        if field.name.first() == Some(&b':') {
            self.malformed |= trailers || self.regular || self.status != 0 || field.name != b":status";
            self.status = status(field.value).unwrap_or(0);
            self.malformed |= self.status == 0;
        } else {
            self.regular = true;
        }
        self.malformed |= !field.valid;
        !self.malformed
    }
}

/// Three digits from 100 on (RFC 9110, 15).
fn status(value: &[u8]) -> Option<u16> {
    let &[hundreds @ b'1'..=b'9', tens @ b'0'..=b'9', ones @ b'0'..=b'9'] = value else {
        return None;
    };
    Some(u16::from(hundreds - b'0') * 100 + u16::from(tens - b'0') * 10 + u16::from(ones - b'0'))
}

impl Connection {
    pub(super) fn headers(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        handler: &mut impl Handler,
    ) -> Result<(), ConnectionError> {
        if self.is_idle(header.stream) {
            return Err(ConnectionError::protocol("HEADERS on a stream that was never opened"));
        }
        let fragment = without_padding(header, payload)?;
        let fragment = if header.has(flag::PRIORITY) {
            fragment.get(5..).ok_or(ConnectionError::frame_size(
                "a HEADERS frame is too short for its priority",
            ))?
        } else {
            fragment
        };
        let end_stream = header.has(flag::END_STREAM);
        if header.has(flag::END_HEADERS) {
            return self.header_block(header.stream, end_stream, fragment, handler);
        }
        self.block.clear();
        self.block.extend_from_slice(fragment);
        self.continuing = Some(Continuing {
            stream: header.stream,
            end_stream,
            frames: 0,
        });
        Ok(())
    }

    pub(super) fn continuation(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        handler: &mut impl Handler,
    ) -> Result<(), ConnectionError> {
        let Some(continuing) = &mut self.continuing else {
            return Err(ConnectionError::protocol("CONTINUATION without HEADERS"));
        };
        continuing.frames += 1;
        // Compression never makes a field larger than its size in the list, so the limit of the list holds here.
        if continuing.frames > MAX_CONTINUATIONS
            || self.block.len() + payload.len() > self.config.max_header_list as usize
        {
            return Err(ConnectionError::calm("a header block is too long"));
        }
        self.block.extend_from_slice(payload);
        if !header.has(flag::END_HEADERS) {
            return Ok(());
        }
        let (stream, end_stream) = (continuing.stream, continuing.end_stream);
        self.continuing = None;
        let block = std::mem::take(&mut self.block);
        let result = self.header_block(stream, end_stream, &block, handler);
        self.block = block;
        result
    }

    fn header_block(
        &mut self,
        id: u32,
        end_stream: bool,
        block: &[u8],
        handler: &mut impl Handler,
    ) -> Result<(), ConnectionError> {
        let stream = StreamId(id);
        let expect = self.streams.get(id).map(|found| found.expect);
        let (Some(Expect::Response | Expect::Body), Some(expect)) = (expect, expect) else {
            // No stream waits for this block, but the decoder has to see it: it may have been in flight when its stream
            // was closed.
            self.decoder.decode(block, true, |_| ()).map_err(compression)?;
            self.fail_stream(id, error_code::STREAM_CLOSED, handler);
            return Ok(());
        };
        let trailers = expect == Expect::Body;
        let status_only = handler.interest(stream) == Interest::StatusOnly;
        let mut message = Message::default();
        let complete = self
            .decoder
            .decode(block, status_only, |field| {
                if message.accept(&field, trailers) && (!status_only || !message.regular) {
                    handler.header(stream, field.name, field.value);
                }
            })
            .map_err(compression)?;
        let interim = (100..200).contains(&message.status);
        // Trailers must end the stream, a 1xx response must not (8.1), and 101 does not exist (8.6).
        let misplaced = if trailers {
            !end_stream
        } else {
            message.status == 0 || message.status == 101 || (interim && end_stream)
        };
        if message.malformed || misplaced || !complete {
            let code = if complete {
                error_code::PROTOCOL_ERROR
            } else {
                error_code::ENHANCE_YOUR_CALM
            };
            self.fail_stream(id, code, handler);
            return Ok(());
        }
        if end_stream {
            self.end_receive(id);
        } else if !interim && let Some(found) = self.streams.get_mut(id) {
            found.expect = Expect::Body;
        }
        handler.headers_done(stream, end_stream);
        if end_stream {
            handler.end(stream);
        }
        Ok(())
    }
}

fn compression(error: crate::hpack::HpackError) -> ConnectionError {
    ConnectionError::new(error_code::COMPRESSION_ERROR, error.message())
}

/// The payload without the length of its padding and the padding (RFC 9113, 6.2).
fn without_padding(header: FrameHeader, payload: &[u8]) -> Result<&[u8], ConnectionError> {
    if !header.has(flag::PADDED) {
        return Ok(payload);
    }
    let (&padding, rest) = payload
        .split_first()
        .ok_or(ConnectionError::frame_size("a padded HEADERS frame is empty"))?;
    rest.len()
        .checked_sub(usize::from(padding))
        .and_then(|length| rest.get(..length))
        .ok_or(ConnectionError::protocol(
            "a HEADERS frame's padding is longer than the frame",
        ))
}
