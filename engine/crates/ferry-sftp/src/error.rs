//! Errors.

use std::fmt;

/// The server broke the protocol's rules. The channel is of no use afterwards: the beginning of the next packet, or the
/// meaning of its ids, is in doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// An earlier `feed` failed, or the channel was abandoned.
    Dead,
    /// Something came before VERSION.
    BeforeVersion {
        /// The packet's type.
        kind: u8,
    },
    /// VERSION came though INIT was not sent.
    BeforeInit,
    /// VERSION came again.
    SecondVersion,
    /// The server does not speak version 3.
    WrongVersion {
        /// The version that the server announced.
        version: u32,
    },
    /// A type that is no reply of version 3.
    UnknownKind {
        /// The packet's type.
        kind: u8,
    },
    /// No request has this id, or the request was answered already.
    UnknownId {
        /// The id.
        id: u32,
    },
    /// The request cannot have a reply of this type.
    WrongReply {
        /// The packet's type.
        kind: u8,
        /// The name of the request, e.g. `READ`.
        request: &'static str,
    },
    /// The status `Ok` for a request that asked for something.
    EmptySuccess {
        /// The name of the request.
        request: &'static str,
    },
    /// More data than the READ asked for.
    TooMuchData {
        /// Bytes that were asked for.
        asked: u32,
        /// Bytes that the reply announces.
        length: u32,
    },
    /// DATA announces more than its packet has room for.
    DataBeyondPacket {
        /// Bytes that the reply announces.
        length: u32,
        /// Bytes left in the packet.
        room: u32,
    },
    /// The packet is longer than [`MAX_PACKET`](crate::MAX_PACKET), or [`MAX_DATA_PACKET`](crate::MAX_DATA_PACKET) for DATA.
    PacketTooLong {
        /// The length in bytes.
        length: u32,
        /// The greatest length accepted, in bytes.
        most: u32,
    },
    /// A field ends behind its packet.
    Truncated,
    /// A handle of more than 256 bytes (section 6.3).
    HandleTooLong {
        /// The length in bytes.
        length: usize,
    },
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SFTP: ")?;
        match self {
            Self::Dead => f.write_str("the channel has failed before"),
            Self::BeforeVersion { kind } => write!(f, "a packet of type {kind} before VERSION"),
            Self::BeforeInit => f.write_str("VERSION before INIT"),
            Self::SecondVersion => f.write_str("VERSION twice"),
            Self::WrongVersion { version } => write!(f, "the server speaks version {version}, not 3"),
            Self::UnknownKind { kind } => write!(f, "a packet of type {kind}, which is no reply"),
            Self::UnknownId { id } => write!(f, "a reply to {id:#x}, which no open request has"),
            Self::WrongReply { kind, request } => write!(f, "a reply of type {kind} to {request}"),
            Self::EmptySuccess { request } => write!(f, "{request} succeeded without an answer"),
            Self::TooMuchData { asked, length } => write!(f, "{length} bytes of data where {asked} were asked for"),
            Self::DataBeyondPacket { length, room } => {
                write!(f, "{length} bytes of data in a packet that has room for {room}")
            }
            Self::PacketTooLong { length, most } => write!(f, "a packet of {length} bytes, above {most}"),
            Self::Truncated => f.write_str("a field ends behind its packet"),
            Self::HandleTooLong { length } => write!(f, "a handle of {length} bytes, above 256"),
        }
    }
}

impl std::error::Error for ProtocolError {}

/// The error of [`Channel::feed`](crate::Channel::feed).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedError<E> {
    /// The server broke the rules.
    Protocol(ProtocolError),
    /// The caller's function failed.
    Caller(E),
}

impl<E> From<ProtocolError> for FeedError<E> {
    fn from(error: ProtocolError) -> Self {
        Self::Protocol(error)
    }
}

impl<E: fmt::Display> fmt::Display for FeedError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Protocol(error) => error.fmt(f),
            Self::Caller(error) => error.fmt(f),
        }
    }
}

impl<E: std::error::Error> std::error::Error for FeedError<E> {}

/// A reply or a size that contradicts the books of a transfer. `Truncated` is a fault of the file; the others are miscounts
/// by the server or the caller, and leave the books as they were.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum RangeError {
    /// No request of exactly this range is in flight.
    NotInFlight {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
    },
    /// A reply without a byte, which is neither data nor an end.
    Empty {
        /// First byte of the request.
        offset: u64,
    },
    /// More bytes than were asked for.
    TooMuch {
        /// Bytes that were asked for.
        asked: u32,
        /// Bytes that are said to have come.
        got: u32,
    },
    /// The file ends before its size.
    Truncated {
        /// The highest offset at which the file can end.
        at: u64,
        /// The size that the file should have.
        size: u64,
    },
    /// A size below what has arrived.
    Shrunk {
        /// The size.
        size: u64,
        /// The offset behind the last byte that has arrived.
        arrived: u64,
    },
}

impl fmt::Display for RangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInFlight { offset, length } => {
                write!(f, "{length} bytes at {offset} were answered but are not asked for")
            }
            Self::Empty { offset } => write!(f, "an empty reply at {offset}"),
            Self::TooMuch { asked, got } => write!(f, "{got} bytes came where {asked} were asked for"),
            Self::Truncated { at, size } => write!(f, "the file ends at {at} but had {size} bytes"),
            Self::Shrunk { size, arrived } => write!(f, "a size of {size} bytes where {arrived} have arrived"),
        }
    }
}

impl std::error::Error for RangeError {}
