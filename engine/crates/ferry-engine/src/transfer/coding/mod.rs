//! Content codings (RFC 9110, section 8.4): a file that a server sends compressed. No I/O: bytes in, bytes out.
//!
//! `gzip` and `zstd` each know their format: where a member or frame ends, and that another may follow. This file knows their
//! names in a header, and the check common to both: a body may end only behind a member or frame.

mod gzip;
#[cfg(test)]
mod tests;
mod zstd;

use std::fmt;

use http::HeaderMap;
use http::header::{CONTENT_ENCODING, HeaderValue};

use crate::error::Error;

/// The value of a request's Accept-Encoding (RFC 9110, section 12.5.3). The order has no meaning there, but servers without a
/// preference take the first: zstd is smaller at the same cost. Without `identity;q=0` an answer may also come uncoded.
pub const ACCEPTED: HeaderValue = HeaderValue::from_static("zstd, gzip");

/// The most bytes decoded before they are handed on. A decoder keeps these, its window (gzip 32 KiB, zstd at most 8 MiB) and no
/// more, however large a body becomes.
const PIECE: usize = 64 * 1024;

/// The coding of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    Gzip,
    Zstd,
}

impl Coding {
    /// Returns the coding of an answer, `None` for an answer without one. `identity` is no coding and should not be there, `none`
    /// does not exist; servers send both.
    ///
    /// # Errors
    /// The list of codings, when it is not one of those that were asked for.
    pub fn of(headers: &HeaderMap) -> Result<Option<Self>, String> {
        let fields = headers.get_all(CONTENT_ENCODING).iter();
        let list: Vec<String> = fields
            .map(|value| String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase())
            .collect();
        let codings: Vec<&str> = list
            .iter()
            .flat_map(|field| field.split(','))
            .map(|name| name.trim_matches([' ', '\t']))
            .filter(|name| !matches!(*name, "" | "identity" | "none"))
            .collect();
        match codings[..] {
            [] => Ok(None),
            // RFC 9110, section 8.4.1.3.
            ["gzip" | "x-gzip"] => Ok(Some(Self::Gzip)),
            ["zstd"] => Ok(Some(Self::Zstd)),
            _ => Err(codings.join(", ")),
        }
    }

    /// Returns the coding's name in a header.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

/// A fault of a coded body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It ends within a member or frame, or before the first.
    CutShort,
    /// The bytes have no meaning in the format; the text names the place.
    Malformed(&'static str),
    /// The content is not what the compressor saw.
    Checksum,
    /// Neither the end nor another member or frame.
    Behind,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CutShort => f.write_str("it is cut short"),
            Self::Malformed(what) => write!(f, "it is malformed ({what})"),
            Self::Checksum => f.write_str("its content does not have the checksum or the length that it says"),
            Self::Behind => f.write_str("something else follows its end"),
        }
    }
}

impl std::error::Error for Fault {}

impl Fault {
    /// Class Integrity.
    pub fn into_error(self) -> Error {
        Error::integrity(self.to_string()).with_source(self)
    }
}

/// Takes a body in any pieces, and hands on its decoded content.
pub struct Decoder {
    format: Format,
    coding: Coding,
    /// A byte of the body has come.
    begun: bool,
}

// One for a transfer; a box within would be one more hop at every piece.
#[allow(clippy::large_enum_variant)]
enum Format {
    Gzip(gzip::Gzip),
    Zstd(zstd::Zstd),
}

impl Decoder {
    /// # Errors
    /// Class Local, without memory.
    pub fn new(coding: Coding) -> Result<Self, Error> {
        Ok(Self {
            format: match coding {
                Coding::Gzip => Format::Gzip(gzip::Gzip::new()),
                Coding::Zstd => Format::Zstd(zstd::Zstd::new()?),
            },
            coding,
            begun: false,
        })
    }

    #[must_use]
    pub fn coding(&self) -> Coding {
        self.coding
    }

    /// Decodes the next bytes of the body; `put` gets the content in pieces of at most 64 KiB.
    ///
    /// # Errors
    /// Class Integrity with a [`Fault`] below, or the error of `put`. Nothing may be decoded after an error.
    pub fn decode(&mut self, input: &[u8], put: &mut dyn FnMut(&[u8]) -> Result<(), Error>) -> Result<(), Error> {
        if input.is_empty() {
            return Ok(());
        }
        self.begun = true;
        match &mut self.format {
            Format::Gzip(gzip) => gzip.decode(input, put),
            Format::Zstd(zstd) => zstd.decode(input, put),
        }
    }

    /// True once a byte of the body has come.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// Checks that the body may end here.
    ///
    /// # Errors
    /// When it does not end with a member or frame.
    pub fn finish(&self) -> Result<(), Fault> {
        let complete = match &self.format {
            Format::Gzip(gzip) => gzip.is_complete(),
            Format::Zstd(zstd) => zstd.is_complete(),
        };
        if complete { Ok(()) } else { Err(Fault::CutShort) }
    }
}
