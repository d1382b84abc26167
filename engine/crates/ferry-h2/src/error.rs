//! Errors and their codes.

use std::fmt;

/// The codes of RFC 9113, section 7.
pub mod error_code {
    /// No error: a graceful end.
    pub const NO_ERROR: u32 = 0x0;
    /// The protocol's rules were broken.
    pub const PROTOCOL_ERROR: u32 = 0x1;
    /// An implementation failed.
    pub const INTERNAL_ERROR: u32 = 0x2;
    /// More was sent than the window allowed, or a window grew beyond 2^31-1.
    pub const FLOW_CONTROL_ERROR: u32 = 0x3;
    /// SETTINGS were not acknowledged in time.
    pub const SETTINGS_TIMEOUT: u32 = 0x4;
    /// A frame came on a stream that was half closed.
    pub const STREAM_CLOSED: u32 = 0x5;
    /// A frame's length was wrong.
    pub const FRAME_SIZE_ERROR: u32 = 0x6;
    /// The stream was not processed at all and may be retried.
    pub const REFUSED_STREAM: u32 = 0x7;
    /// The stream is no longer wanted.
    pub const CANCEL: u32 = 0x8;
    /// The header compression context is lost.
    pub const COMPRESSION_ERROR: u32 = 0x9;
    /// The connection behind a CONNECT failed.
    pub const CONNECT_ERROR: u32 = 0xa;
    /// The peer causes too much load.
    pub const ENHANCE_YOUR_CALM: u32 = 0xb;
    /// The transport is not secure enough.
    pub const INADEQUATE_SECURITY: u32 = 0xc;
    /// The peer wants HTTP/1.1.
    pub const HTTP_1_1_REQUIRED: u32 = 0xd;

    /// The name of a code, as the RFC spells it.
    #[must_use]
    pub fn name(code: u32) -> &'static str {
        match code {
            NO_ERROR => "NO_ERROR",
            PROTOCOL_ERROR => "PROTOCOL_ERROR",
            INTERNAL_ERROR => "INTERNAL_ERROR",
            FLOW_CONTROL_ERROR => "FLOW_CONTROL_ERROR",
            SETTINGS_TIMEOUT => "SETTINGS_TIMEOUT",
            STREAM_CLOSED => "STREAM_CLOSED",
            FRAME_SIZE_ERROR => "FRAME_SIZE_ERROR",
            REFUSED_STREAM => "REFUSED_STREAM",
            CANCEL => "CANCEL",
            COMPRESSION_ERROR => "COMPRESSION_ERROR",
            CONNECT_ERROR => "CONNECT_ERROR",
            ENHANCE_YOUR_CALM => "ENHANCE_YOUR_CALM",
            INADEQUATE_SECURITY => "INADEQUATE_SECURITY",
            HTTP_1_1_REQUIRED => "HTTP_1_1_REQUIRED",
            _ => "unknown error code",
        }
    }
}

/// The peer broke the rules in a way that ends the connection (RFC 9113, 5.4.1).
#[derive(Clone, Eq, PartialEq, Debug)]
pub struct ConnectionError {
    /// The code that the queued GOAWAY carries.
    pub code: u32,
    /// The broken rule, in one line.
    pub message: &'static str,
}

impl ConnectionError {
    pub(crate) fn new(code: u32, message: &'static str) -> Self {
        Self { code, message }
    }

    pub(crate) fn protocol(message: &'static str) -> Self {
        Self::new(error_code::PROTOCOL_ERROR, message)
    }

    pub(crate) fn frame_size(message: &'static str) -> Self {
        Self::new(error_code::FRAME_SIZE_ERROR, message)
    }

    pub(crate) fn flow(message: &'static str) -> Self {
        Self::new(error_code::FLOW_CONTROL_ERROR, message)
    }

    pub(crate) fn calm(message: &'static str) -> Self {
        Self::new(error_code::ENHANCE_YOUR_CALM, message)
    }
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HTTP/2 {}: {}", error_code::name(self.code), self.message)
    }
}

impl std::error::Error for ConnectionError {}

/// The reason for a refusal to open a stream.
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
pub enum OpenError {
    /// The peer's `SETTINGS_MAX_CONCURRENT_STREAMS` is reached; a stream has to end first.
    AtLimit,
    /// A GOAWAY was sent or received, or the connection failed.
    GoingAway,
    /// All 2^30 numbers are used (RFC 9113, 5.1.1).
    IdsExhausted,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AtLimit => "the peer's limit of concurrent streams is reached",
            Self::GoingAway => "the connection takes no more streams",
            Self::IdsExhausted => "the connection's stream numbers are used up",
        })
    }
}

impl std::error::Error for OpenError {}
