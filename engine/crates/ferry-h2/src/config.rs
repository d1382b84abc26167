//! The limits that this side announces in its first SETTINGS and `WINDOW_UPDATE` frames.

use crate::flow::MAX_WINDOW;
use crate::frame::DEFAULT_MAX_FRAME;

/// This side's limits (RFC 9113, 6.5.2). [`crate::Connection::new`] clamps each of them to its range.
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
pub struct Config {
    /// `SETTINGS_INITIAL_WINDOW_SIZE`: the bytes that the peer may send on a stream before it is granted more; at most
    /// 2^31-1. Automatic streams are topped up to the same size, so that 0 makes sense with manual streams only.
    pub stream_window: u32,
    /// The connection's window, 16 KiB to 2^31-1; the excess over the protocol's 65 535 is granted at the start.
    pub connection_window: u32,
    /// `SETTINGS_MAX_HEADER_LIST_SIZE`, enforced: 16 to 64 KiB.
    pub max_header_list: u32,
    /// `SETTINGS_HEADER_TABLE_SIZE` of the decoder: 0 to 64 KiB.
    pub header_table: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            stream_window: 16 << 20,
            connection_window: 64 << 20,
            max_header_list: 64 << 10,
            header_table: 4096,
        }
    }
}

impl Config {
    pub(crate) fn clamped(&self) -> Self {
        Self {
            stream_window: self.stream_window.min(MAX_WINDOW),
            connection_window: self.connection_window.clamp(DEFAULT_MAX_FRAME, MAX_WINDOW),
            max_header_list: self.max_header_list.clamp(16 << 10, 64 << 10),
            header_table: self.header_table.min(64 << 10),
        }
    }
}
