//! The draft's data types (section 3 and 4): numbers, strings, and the length in front of a packet.

use crate::error::ProtocolError;

/// Packet types (section 3).
pub mod kind {
    pub const INIT: u8 = 1;
    pub const VERSION: u8 = 2;
    pub const OPEN: u8 = 3;
    pub const CLOSE: u8 = 4;
    pub const READ: u8 = 5;
    pub const WRITE: u8 = 6;
    pub const LSTAT: u8 = 7;
    pub const FSTAT: u8 = 8;
    pub const SETSTAT: u8 = 9;
    pub const FSETSTAT: u8 = 10;
    pub const OPENDIR: u8 = 11;
    pub const READDIR: u8 = 12;
    pub const REMOVE: u8 = 13;
    pub const MKDIR: u8 = 14;
    pub const RMDIR: u8 = 15;
    pub const REALPATH: u8 = 16;
    pub const STAT: u8 = 17;
    pub const RENAME: u8 = 18;
    pub const STATUS: u8 = 101;
    pub const HANDLE: u8 = 102;
    pub const DATA: u8 = 103;
    pub const NAME: u8 = 104;
    pub const ATTRS: u8 = 105;
    pub const EXTENDED: u8 = 200;
    pub const EXTENDED_REPLY: u8 = 201;
}

/// The low 32 bits of a length. No caller has 4 GiB of path.
fn low(length: usize) -> [u8; 4] {
    debug_assert!(u32::try_from(length).is_ok());
    let [.., a, b, c, d] = length.to_be_bytes();
    [a, b, c, d]
}

#[inline]
pub fn put_u32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_be_bytes());
}

#[inline]
pub fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_be_bytes());
}

#[inline]
pub fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&low(bytes.len()));
    out.extend_from_slice(bytes);
}

/// Begins a packet whose length is not known yet; returns its offset for [`end_packet`].
#[inline]
pub fn begin_packet(out: &mut Vec<u8>, kind: u8) -> usize {
    let begin = out.len();
    out.extend_from_slice(&[0, 0, 0, 0, kind]);
    begin
}

/// Writes the length of the packet begun at `begin`, which reaches to the end of `out` and `more` bytes further.
#[inline]
pub fn end_packet(out: &mut [u8], begin: usize, more: u32) {
    let length = out.len() - begin - 4 + more as usize;
    if let Some(place) = out.get_mut(begin..begin + 4) {
        place.copy_from_slice(&low(length));
    }
}

/// Takes fields off the front of a packet's body.
#[derive(Copy, Clone, Debug)]
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    pub fn u32(&mut self) -> Result<u32, ProtocolError> {
        let (number, rest) = self.0.split_first_chunk().ok_or(ProtocolError::Truncated)?;
        self.0 = rest;
        Ok(u32::from_be_bytes(*number))
    }

    pub fn u64(&mut self) -> Result<u64, ProtocolError> {
        let (number, rest) = self.0.split_first_chunk().ok_or(ProtocolError::Truncated)?;
        self.0 = rest;
        Ok(u64::from_be_bytes(*number))
    }

    pub fn string(&mut self) -> Result<&'a [u8], ProtocolError> {
        let length = self.u32()? as usize;
        let (string, rest) = self.0.split_at_checked(length).ok_or(ProtocolError::Truncated)?;
        self.0 = rest;
        Ok(string)
    }
}
