//! The decoder (RFC 7541, sections 3 and 6).

use super::table::{DynamicTable, STATIC};
use super::{HpackError, field, huffman, integer};

/// The table's size before SETTINGS say otherwise (RFC 9113, 6.5.2).
const DEFAULT_TABLE: usize = 4096;
/// The overhead of a field, in bytes, that counts in `SETTINGS_MAX_HEADER_LIST_SIZE` (RFC 9113, 10.5.1).
const OVERHEAD: usize = 32;

/// A decoded field.
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
pub struct Field<'a> {
    /// The name, in lower case if `valid`. A pseudo-header's is not checked.
    pub name: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// True if RFC 9113, 8.2, permits this field in an HTTP/2 message.
    pub valid: bool,
}

/// Decodes the header blocks of one connection, in their order.
pub struct Decoder {
    table: DynamicTable,
    /// The greatest size that the peer may give the table.
    limit: usize,
    /// The limit was lowered below the table's size: the next block must begin with an update (RFC 9113, 4.3.1).
    update_due: bool,
    max_list: usize,
    name: Vec<u8>,
    value: Vec<u8>,
}

/// A string as it lies in the block.
#[derive(Copy, Clone)]
struct Raw<'a> {
    bytes: &'a [u8],
    huffman: bool,
}

impl Decoder {
    /// A decoder whose table is that of RFC 9113 before SETTINGS. `max_list` bounds the fields of one block.
    #[must_use]
    pub fn new(max_list: usize) -> Self {
        Self {
            table: DynamicTable::new(DEFAULT_TABLE),
            limit: DEFAULT_TABLE,
            update_due: false,
            max_list,
            name: Vec::new(),
            value: Vec::new(),
        }
    }

    /// `SETTINGS_HEADER_TABLE_SIZE` is (also) this from now on.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
        self.update_due = self.table.max() > limit;
    }

    /// Decodes a complete block. With `first_only` only the first field is reported, which is a response's `:status`; the
    /// others are decoded only as far as the table needs it.
    ///
    /// Returns true if the fields kept within the limit of the header list. If not, those beyond it were not reported,
    /// but the decoder is in order and the connection can go on.
    ///
    /// # Errors
    /// When the block is not what an encoder makes. The decoder is of no use from then on.
    pub fn decode(
        &mut self,
        block: &[u8],
        first_only: bool,
        mut report: impl FnMut(Field<'_>),
    ) -> Result<bool, HpackError> {
        let (mut at, mut size, mut first) = (0, 0, true);
        while let Some(&byte) = block.get(at) {
            if byte & 0xe0 == 0x20 {
                let max = integer::get(block, &mut at, 5)?;
                if max > self.limit || !first {
                    return Err(HpackError::SizeUpdate);
                }
                self.table.set_max(max);
                self.update_due = false;
                continue;
            }
            if self.update_due {
                return Err(HpackError::SizeUpdate);
            }
            let wanted = size <= self.max_list && (first || !first_only);
            first = false;
            if byte & 0x80 != 0 {
                let index = integer::get(block, &mut at, 7)?;
                let (name, value, valid) = self.entry(index).ok_or(HpackError::Index)?;
                size += name.len() + value.len() + OVERHEAD;
                if wanted && size <= self.max_list {
                    report(Field { name, value, valid });
                }
            } else {
                let indexing = byte & 0x40 != 0;
                size += self.literal(
                    block,
                    &mut at,
                    indexing,
                    wanted,
                    self.max_list.saturating_sub(size),
                    &mut report,
                )?;
            }
        }
        Ok(size <= self.max_list)
    }

    /// A field that is in one of the tables.
    #[inline]
    fn entry(&self, index: usize) -> Option<(&[u8], &[u8], bool)> {
        let at = index.checked_sub(1)?;
        match STATIC.get(at) {
            // The only name of the static table that HTTP/2 does not allow is transfer-encoding.
            Some(&(name, value)) => Some((name, value, index != 57)),
            None => self.table.get(at - STATIC.len()),
        }
    }

    /// A literal field (RFC 7541, 6.2); returns its size. Reported if it is `wanted` and within `room`.
    #[inline]
    fn literal(
        &mut self,
        block: &[u8],
        at: &mut usize,
        indexing: bool,
        wanted: bool,
        room: usize,
        report: &mut impl FnMut(Field<'_>),
    ) -> Result<usize, HpackError> {
        let index = integer::get(block, at, if indexing { 6 } else { 4 })?;
        let raw_name = if index == 0 { Some(Raw::get(block, at)?) } else { None };
        let raw_value = Raw::get(block, at)?;
        if !wanted && !indexing {
            // The name must exist all the same, and the strings count as they are.
            let name = match raw_name {
                Some(raw) => raw.bytes,
                None => self.entry(index).ok_or(HpackError::Index)?.0,
            };
            return Ok(name.len() + raw_value.bytes.len() + OVERHEAD);
        }
        let name = match raw_name {
            Some(raw) => raw.decode(&mut self.name)?,
            None => match index.checked_sub(STATIC.len() + 1) {
                None => STATIC.get(index.wrapping_sub(1)).ok_or(HpackError::Index)?.0,
                Some(nth) => {
                    // A copy, because inserting may evict the entry that the name is taken from (RFC 7541, 4.4).
                    let (name, _, _) = self.table.get(nth).ok_or(HpackError::Index)?;
                    self.name.clear();
                    self.name.extend_from_slice(name);
                    &self.name
                }
            },
        };
        let value = raw_value.decode(&mut self.value)?;
        let named = match index {
            1..=56 | 58..=61 => true,
            _ => name.first() == Some(&b':') || (field::is_name(name) && !field::is_connection_specific(name)),
        };
        let valid = named && field::may_be_received(value);
        let size = name.len() + value.len() + OVERHEAD;
        if wanted && size <= room {
            report(Field { name, value, valid });
        }
        if indexing {
            self.table.insert(name, value, valid);
        }
        Ok(size)
    }
}

impl<'a> Raw<'a> {
    #[inline]
    fn get(block: &'a [u8], at: &mut usize) -> Result<Self, HpackError> {
        let huffman = block.get(*at).ok_or(HpackError::Truncated)? & 0x80 != 0;
        let length = integer::get(block, at, 7)?;
        let bytes = block.get(*at..*at + length).ok_or(HpackError::Truncated)?;
        *at += length;
        Ok(Self { bytes, huffman })
    }

    #[inline]
    fn decode<'b>(self, scratch: &'b mut Vec<u8>) -> Result<&'b [u8], HpackError>
    where
        'a: 'b,
    {
        if self.huffman {
            huffman::decode(self.bytes, scratch)
        } else {
            Ok(self.bytes)
        }
    }
}
