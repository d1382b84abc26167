//! The connection: its state, and queries about it.

mod control;
mod headers;
mod receive;
mod send;
#[cfg_attr(
    not(test),
    expect(
        clippy::indexing_slicing,
        reason = "every place is masked by the length of the table, a power of two; looked up for each frame"
    )
)]
mod streams;

use crate::StreamId;
use crate::config::Config;
use crate::error::ConnectionError;
use crate::flow::{DEFAULT_WINDOW, ReceiveWindow, SendWindow};
use crate::frame::{self, DEFAULT_MAX_FRAME, setting};
use crate::hpack::Decoder;
use streams::{Expect, Streams};

/// The number of streams that may be opened before the peer's SETTINGS arrive: the least that the RFC recommends a peer
/// to allow (RFC 9113, 6.5.2), so that a client that does not wait for SETTINGS is not refused.
const OPEN_LIMIT_BEFORE_SETTINGS: u32 = 100;

/// The limits from the peer's SETTINGS, or the values that hold until these arrive (RFC 9113, 6.5.2).
struct Peer {
    max_concurrent: u32,
    initial_window: u32,
    max_frame: u32,
}

/// The peer decoder's view of this side's dynamic table, which does not exist.
#[derive(Copy, Clone, Eq, PartialEq)]
enum EncoderTable {
    /// The table may have 4096 bytes, as on every connection at first.
    Default,
    /// The peer has lowered the limit and waits for the encoder to agree at its next block (RFC 9113, 4.3.1).
    UpdateDue,
    /// The encoder has agreed by announcing a size of 0, which holds for good.
    Empty,
}

/// An HTTP/2 client connection.
pub struct Connection {
    config: Config,
    streams: Streams,
    next_id: u32,
    peer: Peer,
    output: Vec<u8>,
    /// Bytes of answers to the peer's frames in `output`: a flood makes this number grow.
    control_unsent: usize,
    receive_window: ReceiveWindow,
    send_window: SendWindow,
    encoder: EncoderTable,
    peer_going_away: bool,
    going_away: bool,
    failed: Option<ConnectionError>,
    reading: receive::Reading,
    /// The beginning of a frame's header or payload that came in pieces; the buffer is kept.
    partial: Vec<u8>,
    decoder: Decoder,
    /// Fragments of a header block that needs CONTINUATION frames; the buffer is kept.
    block: Vec<u8>,
    continuing: Option<headers::Continuing>,
    settings_seen: bool,
    empty_data: u32,
}

impl Connection {
    /// A connection whose preface, SETTINGS and `WINDOW_UPDATE` are in [`Self::output`] (RFC 9113, 3.4).
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let config = config.clamped();
        let mut output = Vec::with_capacity(16 << 10);
        output.extend_from_slice(frame::PREFACE);
        frame::put_settings(
            &mut output,
            &[
                (setting::HEADER_TABLE_SIZE, config.header_table),
                (setting::ENABLE_PUSH, 0),
                (setting::INITIAL_WINDOW_SIZE, config.stream_window),
                (setting::MAX_HEADER_LIST_SIZE, config.max_header_list),
            ],
        );
        let mut receive_window = ReceiveWindow::new(DEFAULT_WINDOW);
        let raise = receive_window.grant(config.connection_window.saturating_sub(DEFAULT_WINDOW));
        if raise > 0 {
            frame::put_number(&mut output, frame::kind::WINDOW_UPDATE, 0, raise);
        }
        let mut decoder = Decoder::new(config.max_header_list as usize);
        // Until the peer acknowledges SETTINGS, it may go by the default or by the announced size.
        decoder.set_limit((config.header_table as usize).max(4096));
        Self {
            config,
            streams: Streams::new(),
            next_id: 1,
            peer: Peer {
                max_concurrent: OPEN_LIMIT_BEFORE_SETTINGS,
                initial_window: DEFAULT_WINDOW,
                max_frame: DEFAULT_MAX_FRAME,
            },
            output,
            control_unsent: 0,
            receive_window,
            send_window: SendWindow::new(DEFAULT_WINDOW),
            encoder: EncoderTable::Default,
            peer_going_away: false,
            going_away: false,
            failed: None,
            reading: receive::Reading::Header,
            partial: Vec::new(),
            decoder,
            block: Vec::new(),
            continuing: None,
            settings_seen: false,
            empty_data: 0,
        }
    }

    /// The bytes to be sent to the peer, in this order. The caller takes them and clears the buffer.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// The peer's `SETTINGS_MAX_CONCURRENT_STREAMS`; 100 until its SETTINGS have come.
    #[must_use]
    pub fn open_limit(&self) -> u32 {
        self.peer.max_concurrent
    }

    /// Streams that count against [`Self::open_limit`]: open or half closed (RFC 9113, 5.1.2).
    #[must_use]
    pub fn active(&self) -> u32 {
        u32::try_from(self.streams.len()).unwrap_or(u32::MAX)
    }

    /// Returns true once the peer has sent a GOAWAY (RFC 9113, 6.8): no more streams can be opened, the remaining ones go on.
    #[must_use]
    pub fn peer_going_away(&self) -> bool {
        self.peer_going_away
    }

    /// Bytes the peer may still send on a stream; 0 when its receive side is over.
    #[must_use]
    pub fn receive_window(&self, stream: StreamId) -> i64 {
        match self.streams.get(stream.0) {
            Some(found) if found.expect != Expect::Nothing => i64::from(found.receive.left()),
            _ => 0,
        }
    }

    /// Bytes that may be sent on a stream now: the smaller of its and the connection's window; 0 when its send side or the
    /// connection is over.
    #[must_use]
    pub fn capacity(&self, stream: StreamId) -> usize {
        match self.streams.get(stream.0) {
            Some(found) if !found.sent_all && self.failed.is_none() => {
                found.send.available().min(self.send_window.available())
            }
            _ => 0,
        }
    }
}
