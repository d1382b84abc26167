//! Errors in the client's requests and in the servers' responses; every message is one line.

use std::fmt;

use http::HeaderName;

/// The fault of a request that was not written. Nothing has been appended when this is returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadRequest {
    /// The request target (RFC 9112, section 3.2) is empty or holds a space, a control character or a non-ASCII byte.
    Target,
    /// The host (RFC 9112, section 3.2) is empty or holds a space, a control character or a non-ASCII byte.
    Host,
    /// The caller gave a header that decides framing or reuse, which this crate writes itself.
    OwnHeader(HeaderName),
}

impl fmt::Display for BadRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target => f.write_str("request target is empty or holds a space, control or non-ASCII character"),
            Self::Host => f.write_str("host is empty or holds a space, control or non-ASCII character"),
            Self::OwnHeader(name) => write!(f, "header {name} is set by the client itself"),
        }
    }
}

impl std::error::Error for BadRequest {}

/// The fault that ended the reading of a response. The reader stays failed: it answers every later call with the same error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameError {
    /// The status line or a header line is malformed (RFC 9112, sections 4 and 5); the text names the part.
    BadHead(&'static str),
    /// The head does not end within this many bytes.
    HeadTooLong(usize),
    /// The head has more than this many header lines.
    TooManyHeaders(usize),
    /// More than this many interim responses (RFC 9110, section 15.2) came before the final one.
    TooManyInformational(u32),
    /// 101 (RFC 9110, section 15.2.2), though no upgrade was asked for.
    UnexpectedUpgrade,
    /// A Content-Length (RFC 9110, section 8.6) that is no decimal number of at most 64 bits.
    BadLength,
    /// Two Content-Length values that differ (RFC 9112, section 6.3, rule 5).
    ConflictingLength {
        /// The value seen first.
        first: u64,
        /// The value that contradicts it.
        other: u64,
    },
    /// A Transfer-Encoding with more than one `chunked` (RFC 9112, section 6.1).
    BadTransferEncoding,
    /// Malformed chunk framing (RFC 9112, section 7.1).
    BadChunk {
        /// The fault in words.
        reason: &'static str,
        /// Body bytes handed out before the fault.
        received: u64,
    },
    /// Malformed or endless trailer fields (RFC 9112, section 7.1.2).
    BadTrailer {
        /// The fault in words.
        reason: &'static str,
        /// Body bytes handed out before the fault.
        received: u64,
    },
    /// The peer closed before the final head was complete. If `bytes` is 0, it may never have seen the request, which is the
    /// usual race on a reused connection (RFC 9112, section 9.3.1).
    ClosedInHead {
        /// Bytes of heads seen, interim ones included.
        bytes: u64,
    },
    /// The peer closed within the body (RFC 9112, section 8).
    Truncated {
        /// Body bytes handed out.
        received: u64,
        /// The announced Content-Length; `None` for a chunked body.
        expected: Option<u64>,
    },
    /// More bytes than Content-Length announced: the length may be wrong (RFC 9112, section 6.3), and the body cut short by it.
    Excess {
        /// The announced Content-Length.
        expected: u64,
    },
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::BadHead(part) => write!(f, "malformed response head: {part}"),
            Self::HeadTooLong(limit) => write!(f, "response head does not end within {limit} bytes"),
            Self::TooManyHeaders(limit) => write!(f, "response head has more than {limit} headers"),
            Self::TooManyInformational(limit) => write!(f, "more than {limit} interim responses before the final one"),
            Self::UnexpectedUpgrade => f.write_str("101 Switching Protocols, though no upgrade was asked for"),
            Self::BadLength => f.write_str("Content-Length is not a 64-bit decimal number"),
            Self::ConflictingLength { first, other } => {
                write!(f, "conflicting Content-Length values: {first} and {other} bytes")
            }
            Self::BadTransferEncoding => f.write_str("Transfer-Encoding is not exactly \"chunked\""),
            Self::BadChunk { reason, received } => write!(f, "bad chunk after {received} body bytes: {reason}"),
            Self::BadTrailer { reason, received } => write!(f, "bad trailer after {received} body bytes: {reason}"),
            Self::ClosedInHead { bytes: 0 } => f.write_str("connection closed before any byte of the response"),
            Self::ClosedInHead { bytes } => {
                write!(f, "connection closed within the response head, after {bytes} bytes")
            }
            Self::Excess { expected } => write!(
                f,
                "the server sent more than the {expected} bytes that it announced: its Content-Length may be wrong"
            ),
            Self::Truncated {
                received,
                expected: Some(expected),
            } => {
                let missing = expected.saturating_sub(received);
                write!(
                    f,
                    "connection closed after {received} of {expected} body bytes, {missing} missing"
                )
            }
            Self::Truncated {
                received,
                expected: None,
            } => {
                write!(
                    f,
                    "connection closed after {received} body bytes, before the last chunk"
                )
            }
        }
    }
}

impl std::error::Error for FrameError {}
