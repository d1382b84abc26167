//! Frames (RFC 9113, sections 4 and 6): their numbers, their headers of nine bytes, and functions that write them.

/// Length of a frame's header.
pub const HEADER_LENGTH: usize = 9;
/// `SETTINGS_MAX_FRAME_SIZE` before SETTINGS; also this side's own limit, as it announces no other.
pub const DEFAULT_MAX_FRAME: u32 = 16_384;
/// The largest value the peer may announce.
pub const LARGEST_MAX_FRAME: u32 = (1 << 24) - 1;
/// The first bytes that a client sends (RFC 9113, 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Frame types. 2 is PRIORITY, which means nothing here.
pub mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PUSH_PROMISE: u8 = 5;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}

/// Flags. `ACK` shares its bit with `END_STREAM`; the frame's type tells them apart.
pub mod flag {
    pub const END_STREAM: u8 = 0x1;
    pub const ACK: u8 = 0x1;
    pub const END_HEADERS: u8 = 0x4;
    pub const PADDED: u8 = 0x8;
    pub const PRIORITY: u8 = 0x20;
}

/// SETTINGS identifiers (RFC 9113, 6.5.2).
pub mod setting {
    pub const HEADER_TABLE_SIZE: u16 = 1;
    pub const ENABLE_PUSH: u16 = 2;
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
    pub const MAX_FRAME_SIZE: u16 = 5;
    pub const MAX_HEADER_LIST_SIZE: u16 = 6;
}

/// A frame's header (RFC 9113, 4.1).
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
pub struct FrameHeader {
    pub length: u32,
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
}

impl FrameHeader {
    #[inline]
    pub fn parse(bytes: &[u8; HEADER_LENGTH]) -> Self {
        let [l0, l1, l2, kind, flags, s0, s1, s2, s3] = *bytes;
        Self {
            length: u32::from_be_bytes([0, l0, l1, l2]),
            kind,
            flags,
            // The reserved bit is ignored.
            stream: u32::from_be_bytes([s0, s1, s2, s3]) & 0x7fff_ffff,
        }
    }

    #[inline]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Writes a frame's header. `length` is below 2^24: callers split at the peer's `MAX_FRAME_SIZE`.
#[inline]
pub fn put_header(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    out.extend_from_slice(&header(length, kind, flags, stream));
}

/// The nine bytes in front of a payload (RFC 9113, 4.1).
pub fn header(length: usize, kind: u8, flags: u8, stream: u32) -> [u8; HEADER_LENGTH] {
    debug_assert!(length <= LARGEST_MAX_FRAME as usize);
    let [.., l0, l1, l2] = length.to_be_bytes();
    let [s0, s1, s2, s3] = stream.to_be_bytes();
    [l0, l1, l2, kind, flags, s0, s1, s2, s3]
}

/// Writes a frame whose payload is one 32-bit number: `WINDOW_UPDATE` and `RST_STREAM`.
pub fn put_number(out: &mut Vec<u8>, kind: u8, stream: u32, number: u32) {
    put_header(out, 4, kind, 0, stream);
    out.extend_from_slice(&number.to_be_bytes());
}

/// Writes a SETTINGS frame.
pub fn put_settings(out: &mut Vec<u8>, settings: &[(u16, u32)]) {
    put_header(out, settings.len() * 6, kind::SETTINGS, 0, 0);
    for (identifier, value) in settings {
        out.extend_from_slice(&identifier.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Writes a GOAWAY. The last stream is 0: a server cannot open streams here.
pub fn put_goaway(out: &mut Vec<u8>, code: u32, debug: &[u8]) {
    put_header(out, 8 + debug.len(), kind::GOAWAY, 0, 0);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&code.to_be_bytes());
    out.extend_from_slice(debug);
}

/// Writes a PING or its acknowledgement.
pub fn put_ping(out: &mut Vec<u8>, flags: u8, payload: [u8; 8]) {
    put_header(out, 8, kind::PING, flags, 0);
    out.extend_from_slice(&payload);
}

/// The 32-bit number at `at`; callers have checked the length. 0 behind the end.
#[inline]
pub fn number_at(payload: &[u8], at: usize) -> u32 {
    let bytes = payload.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_survives_the_round_trip_and_loses_the_reserved_bit() {
        let mut out = Vec::new();
        put_header(&mut out, 0x01_02_03, kind::HEADERS, 5, 0xffff_ffff);
        let parsed = FrameHeader::parse(out[..].try_into().unwrap());
        assert_eq!(
            parsed,
            FrameHeader {
                length: 0x01_02_03,
                kind: 1,
                flags: 5,
                stream: 0x7fff_ffff
            }
        );
    }
}
