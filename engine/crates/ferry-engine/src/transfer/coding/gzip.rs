//! gzip (RFC 1952): any number of members, one behind the other. The deflate within (RFC 1951) is `flate2`'s.

use flate2::{Crc, Decompress, FlushDecompress, Status};

use super::{Fault, PIECE};
use crate::error::Error;

const MAGIC: [u8; 2] = [0x1f, 0x8b];
/// The only method there is.
const DEFLATE: u8 = 8;
/// Flags of a header (section 2.3.1).
const HEADER_CRC: u8 = 2;
const EXTRA: u8 = 4;
const NAME: u8 = 8;
const COMMENT: u8 = 16;
const RESERVED: u8 = 0xe0;

pub(super) struct Gzip {
    at: Place,
    inflate: Decompress,
    output: Box<[u8]>,
    /// The checksum of this member's content so far.
    crc: Crc,
    /// The checksum of this member's header so far.
    header_crc: Crc,
    flags: u8,
    members: u64,
}

/// The part of a member that the next byte belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The ten bytes that every header has; the number counts those that have come.
    Fixed(u8),
    /// The length of the extra field, and its low byte once that is there.
    ExtraLength(Option<u8>),
    /// The number of bytes left of the extra field.
    Extra(u16),
    /// Each ends with a zero.
    Name,
    Comment,
    HeaderCrc(Option<u8>),
    Content,
    /// Checksum and length: the number of their bytes that have come, and these bytes as one number.
    Trailer(u8, u64),
}

impl Gzip {
    pub(super) fn new() -> Self {
        Self {
            at: Place::Fixed(0),
            inflate: Decompress::new(false),
            output: vec![0; PIECE].into_boxed_slice(),
            crc: Crc::new(),
            header_crc: Crc::new(),
            flags: 0,
            members: 0,
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.members > 0 && self.at == Place::Fixed(0)
    }

    pub(super) fn decode(
        &mut self,
        mut input: &[u8],
        put: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        loop {
            if self.at == Place::Content {
                input = self.inflate(input, put)?;
            }
            // Content that takes no more bytes has ended, or has used all.
            let Some((&byte, rest)) = input.split_first() else {
                return Ok(());
            };
            self.frame(byte).map_err(Fault::into_error)?;
            input = rest;
        }
    }

    /// Returns the input behind the content.
    fn inflate<'a>(
        &mut self,
        mut input: &'a [u8],
        put: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<&'a [u8], Error> {
        loop {
            let (read, written) = (self.inflate.total_in(), self.inflate.total_out());
            let status = self
                .inflate
                .decompress(input, &mut self.output, FlushDecompress::None)
                .map_err(|_| Fault::Malformed("deflate").into_error())?;
            let count = |from, to: u64| usize::try_from(to - from).unwrap_or(usize::MAX);
            let used = count(read, self.inflate.total_in());
            let filled = count(written, self.inflate.total_out());
            input = input.get(used..).unwrap_or_default();
            let content = self.output.get(..filled).unwrap_or_default();
            if !content.is_empty() {
                self.crc.update(content);
                put(content)?;
            }
            if status == Status::StreamEnd {
                self.at = Place::Trailer(0, 0);
                return Ok(input);
            }
            // A full buffer may leave more behind it.
            if input.is_empty() && filled < self.output.len() {
                return Ok(input);
            }
            if used == 0 && filled == 0 {
                return Err(Fault::Malformed("deflate").into_error());
            }
        }
    }

    /// A byte of a header or trailer.
    fn frame(&mut self, byte: u8) -> Result<(), Fault> {
        if !matches!(self.at, Place::HeaderCrc(_) | Place::Trailer(..)) {
            self.header_crc.update(&[byte]);
        }
        self.at = match self.at {
            Place::Fixed(index) => self.fixed(index, byte)?,
            Place::ExtraLength(None) => Place::ExtraLength(Some(byte)),
            Place::ExtraLength(Some(low)) => match u16::from_le_bytes([low, byte]) {
                0 => self.behind_extra(),
                length => Place::Extra(length),
            },
            Place::Extra(1) => self.behind_extra(),
            Place::Extra(left) => Place::Extra(left.saturating_sub(1)),
            Place::Name if byte == 0 => self.behind_name(),
            Place::Comment if byte == 0 => self.behind_comment(),
            same @ (Place::Name | Place::Comment | Place::Content) => same,
            Place::HeaderCrc(None) => Place::HeaderCrc(Some(byte)),
            Place::HeaderCrc(Some(low)) => {
                let [first, second, ..] = self.header_crc.sum().to_le_bytes();
                if [first, second] != [low, byte] {
                    return Err(Fault::Malformed("checksum of a gzip header"));
                }
                self.content()
            }
            Place::Trailer(index, number) => {
                let number = number | u64::from(byte) << (8 * index);
                if index < 7 {
                    Place::Trailer(index + 1, number)
                } else {
                    self.end_member(number)?
                }
            }
        };
        Ok(())
    }

    fn fixed(&mut self, index: u8, byte: u8) -> Result<Place, Fault> {
        let right = match index {
            0 => byte == MAGIC[0],
            1 => byte == MAGIC[1],
            2 => byte == DEFLATE,
            3 => byte & RESERVED == 0,
            _ => true,
        };
        if !right {
            return Err(match index {
                0 | 1 if self.members > 0 => Fault::Behind,
                0 | 1 => Fault::Malformed("no gzip"),
                _ => Fault::Malformed("gzip header"),
            });
        }
        if index == 3 {
            self.flags = byte;
        }
        Ok(match index {
            0..=8 => Place::Fixed(index + 1),
            _ if self.flags & EXTRA != 0 => Place::ExtraLength(None),
            _ => self.behind_extra(),
        })
    }

    fn behind_extra(&mut self) -> Place {
        if self.flags & NAME != 0 {
            Place::Name
        } else {
            self.behind_name()
        }
    }

    fn behind_name(&mut self) -> Place {
        if self.flags & COMMENT != 0 {
            Place::Comment
        } else {
            self.behind_comment()
        }
    }

    fn behind_comment(&mut self) -> Place {
        if self.flags & HEADER_CRC != 0 {
            Place::HeaderCrc(None)
        } else {
            self.content()
        }
    }

    fn content(&mut self) -> Place {
        self.inflate.reset(false);
        self.crc.reset();
        Place::Content
    }

    /// `trailer` is checksum and length, the lower half first.
    fn end_member(&mut self, trailer: u64) -> Result<Place, Fault> {
        let length = self.inflate.total_out() & u64::from(u32::MAX);
        if trailer != u64::from(self.crc.sum()) | length << 32 {
            return Err(Fault::Checksum);
        }
        self.members += 1;
        self.header_crc.reset();
        Ok(Place::Fixed(0))
    }
}
