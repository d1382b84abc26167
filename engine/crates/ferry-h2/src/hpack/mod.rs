//! HPACK (RFC 7541): an encoder without state for requests, a complete decoder for responses.

use std::fmt;

mod decode;
mod encode;
#[cfg_attr(not(test), expect(clippy::indexing_slicing, reason = "by a byte, in a table of 256"))]
pub(crate) mod field;
#[cfg_attr(
    not(test),
    expect(
        clippy::indexing_slicing,
        reason = "tables made when this is compiled, by masked or complete codes; the output is as long as the longest decoding; compared bit by bit"
    )
)]
mod huffman;
mod integer;
mod table;

pub use decode::{Decoder, Field};
pub use encode::{BadHeader, HeaderBlock};

/// The fault of an undecodable header block; always a connection error `COMPRESSION_ERROR` (RFC 9113, 4.3).
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
pub enum HpackError {
    /// The block ends within a field.
    Truncated,
    /// An integer is longer than anything sensible.
    Integer,
    /// An index that is 0 or beyond both tables.
    Index,
    /// A Huffman string with `EOS` in it, or whose padding is too long or not of ones.
    Huffman,
    /// A table size update beyond the limit, in the wrong place, or missing after the limit was lowered.
    SizeUpdate,
}

impl HpackError {
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::Truncated => "a header block ends within a field",
            Self::Integer => "an integer in a header block is too large",
            Self::Index => "an index in a header block is in no table",
            Self::Huffman => "a Huffman string in a header block is malformed",
            Self::SizeUpdate => "a table size update is too large, misplaced or missing",
        }
    }
}

impl fmt::Display for HpackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for HpackError {}
