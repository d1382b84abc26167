//! The frames that carry no message: SETTINGS, PING, GOAWAY, `WINDOW_UPDATE` and `RST_STREAM` (RFC 9113, 6.4 to 6.9).

use super::{Connection, EncoderTable};
use crate::StreamId;
use crate::error::{ConnectionError, error_code};
use crate::flow::MAX_WINDOW;
use crate::frame::{self, DEFAULT_MAX_FRAME, FrameHeader, LARGEST_MAX_FRAME, flag, kind, number_at, setting};
use crate::handler::Handler;

/// The most bytes of answers to the peer's frames that may wait in the output. A peer that causes more answers than it
/// reads is trying to exhaust the memory (CVE-2019-9512, CVE-2019-9515).
const MAX_CONTROL_UNSENT: usize = 1 << 20;

impl Connection {
    /// Counts an answer of `length` bytes that was just queued.
    fn answered(&mut self, length: usize) -> Result<(), ConnectionError> {
        // The caller takes from the output without notice: bytes no longer in it were sent.
        self.control_unsent = self.control_unsent.min(self.output.len() - length) + length;
        if self.control_unsent > MAX_CONTROL_UNSENT {
            return Err(ConnectionError::calm("a flood of PING or SETTINGS frames"));
        }
        Ok(())
    }

    pub(super) fn settings(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        handler: &mut impl Handler,
    ) -> Result<(), ConnectionError> {
        if header.stream != 0 {
            return Err(ConnectionError::protocol("SETTINGS on a stream"));
        }
        if header.has(flag::ACK) {
            if !payload.is_empty() {
                return Err(ConnectionError::frame_size(
                    "an acknowledgement of SETTINGS is not empty",
                ));
            }
            self.decoder.set_limit(self.config.header_table as usize);
            return Ok(());
        }
        let (settings, rest) = payload.as_chunks::<6>();
        if !rest.is_empty() {
            return Err(ConnectionError::frame_size(
                "the length of SETTINGS is not a multiple of 6",
            ));
        }
        if !self.settings_seen {
            self.settings_seen = true;
            self.peer.max_concurrent = u32::MAX;
        }
        for &[i0, i1, v0, v1, v2, v3] in settings {
            let (identifier, value) = (u16::from_be_bytes([i0, i1]), u32::from_be_bytes([v0, v1, v2, v3]));
            self.setting(identifier, value)?;
            handler.setting(identifier, value);
        }
        frame::put_header(&mut self.output, 0, kind::SETTINGS, flag::ACK, 0);
        self.answered(frame::HEADER_LENGTH)
    }

    fn setting(&mut self, identifier: u16, value: u32) -> Result<(), ConnectionError> {
        match identifier {
            setting::HEADER_TABLE_SIZE if value < 4096 && self.encoder == EncoderTable::Default => {
                self.encoder = EncoderTable::UpdateDue;
            }
            setting::ENABLE_PUSH if value != 0 => {
                return Err(ConnectionError::protocol("a server must not enable push"));
            }
            setting::MAX_CONCURRENT_STREAMS => self.peer.max_concurrent = value,
            setting::INITIAL_WINDOW_SIZE => {
                if value > MAX_WINDOW {
                    return Err(ConnectionError::flow("the peer's initial window exceeds 2^31-1"));
                }
                let change = i64::from(value) - i64::from(self.peer.initial_window);
                self.peer.initial_window = value;
                if !self.streams.iter_mut().all(|stream| stream.send.adjust(change)) {
                    return Err(ConnectionError::flow(
                        "the peer's initial window makes a window exceed 2^31-1",
                    ));
                }
            }
            setting::MAX_FRAME_SIZE => {
                if !(DEFAULT_MAX_FRAME..=LARGEST_MAX_FRAME).contains(&value) {
                    return Err(ConnectionError::protocol(
                        "the peer's maximum frame size is out of range",
                    ));
                }
                self.peer.max_frame = value;
            }
            // MAX_HEADER_LIST_SIZE is advice, and unknown settings are to be ignored (RFC 9113, 6.5.2).
            _ => {}
        }
        Ok(())
    }

    pub(super) fn window_update(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        handler: &mut impl Handler,
    ) -> Result<(), ConnectionError> {
        if payload.len() != 4 {
            return Err(ConnectionError::frame_size("a WINDOW_UPDATE is not of 4 bytes"));
        }
        let increment = number_at(payload, 0) & MAX_WINDOW;
        if header.stream == 0 {
            if increment == 0 {
                return Err(ConnectionError::protocol("a WINDOW_UPDATE of 0"));
            }
            if !self.send_window.adjust(i64::from(increment)) {
                return Err(ConnectionError::flow(
                    "a WINDOW_UPDATE makes the connection's window exceed 2^31-1",
                ));
            }
        } else if let Some(stream) = self.streams.get_mut(header.stream) {
            if increment == 0 {
                self.fail_stream(header.stream, error_code::PROTOCOL_ERROR, handler);
            } else if !stream.send.adjust(i64::from(increment)) {
                self.fail_stream(header.stream, error_code::FLOW_CONTROL_ERROR, handler);
            }
        } else if self.is_idle(header.stream) {
            return Err(ConnectionError::protocol(
                "a WINDOW_UPDATE on a stream that was never opened",
            ));
        }
        Ok(())
    }

    pub(super) fn reset_by_peer(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        handler: &mut impl Handler,
    ) -> Result<(), ConnectionError> {
        if payload.len() != 4 {
            return Err(ConnectionError::frame_size("an RST_STREAM is not of 4 bytes"));
        }
        if self.is_idle(header.stream) {
            return Err(ConnectionError::protocol(
                "an RST_STREAM on a stream that was never opened",
            ));
        }
        if self.streams.remove(header.stream) {
            handler.reset(StreamId(header.stream), number_at(payload, 0));
        }
        Ok(())
    }

    pub(super) fn pinged(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        handler: &mut impl Handler,
    ) -> Result<(), ConnectionError> {
        let payload: [u8; 8] = payload
            .try_into()
            .map_err(|_| ConnectionError::frame_size("a PING is not of 8 bytes"))?;
        if header.stream != 0 {
            return Err(ConnectionError::protocol("a PING on a stream"));
        }
        if header.has(flag::ACK) {
            handler.pong(payload);
            return Ok(());
        }
        frame::put_ping(&mut self.output, flag::ACK, payload);
        self.answered(frame::HEADER_LENGTH + 8)
    }

    pub(super) fn goaway(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        handler: &mut impl Handler,
    ) -> Result<(), ConnectionError> {
        if header.stream != 0 {
            return Err(ConnectionError::protocol("a GOAWAY on a stream"));
        }
        let Some((_, debug)) = payload.split_at_checked(8) else {
            return Err(ConnectionError::frame_size("a GOAWAY is shorter than 8 bytes"));
        };
        let last = number_at(payload, 0) & MAX_WINDOW;
        self.peer_going_away = true;
        handler.goaway(StreamId(last), number_at(payload, 4), debug);
        let mut refused: Vec<u32> = self
            .streams
            .iter_mut()
            .map(|stream| stream.id)
            .filter(|id| *id > last)
            .collect();
        refused.sort_unstable();
        for id in refused {
            self.streams.remove(id);
            handler.reset(StreamId(id), error_code::REFUSED_STREAM);
        }
        Ok(())
    }
}
