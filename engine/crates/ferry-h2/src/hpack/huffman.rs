//! Huffman strings (RFC 7541, 5.2 and Appendix B).
//!
//! The code is canonical: codes of one length are consecutive and ordered by symbol, and longer codes follow shorter
//! ones. The lengths are therefore all there is to know; everything else is computed from them when this is compiled.

use super::HpackError;

/// The end-of-string symbol; only its beginning may occur, as padding.
const EOS: usize = 256;
/// The longest code.
const LONGEST: usize = 30;
/// A look-up takes this many bits: enough for two letters or digits at once, and small enough for the cache.
const LOOKUP: usize = 12;

/// The length of each symbol's code in bits, from Appendix B.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
     6, 10, 10, 12, 13,  6,  8, 11, 10, 10,  8, 11,  8,  6,  6,  6,
     5,  5,  5,  6,  6,  6,  6,  6,  6,  6,  7,  8, 15,  6, 12, 10,
    13,  6,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,
     7,  7,  7,  7,  7,  7,  7,  7,  8,  7,  8, 13, 19, 13, 14,  6,
    15,  5,  6,  5,  6,  5,  6,  6,  6,  5,  7,  7,  6,  6,  6,  5,
     6,  7,  6,  5,  5,  6,  7,  7,  7,  7,  7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

/// One length's codes: they begin at `first` (aligned to the left of 32 bits), end before `end`, and stand for the
/// symbols from `offset` on in [`Code::sorted`].
#[derive(Copy, Clone)]
struct Length {
    first: u64,
    end: u64,
    offset: usize,
}

struct Code {
    lengths: [Length; LONGEST + 1],
    /// The symbols by length, then by value.
    sorted: [u16; 257],
}

#[allow(clippy::cast_possible_truncation, reason = "a symbol is at most 256")]
const CODE: Code = {
    let mut code = Code {
        lengths: [Length {
            first: 0,
            end: 0,
            offset: 0,
        }; LONGEST + 1],
        sorted: [0; 257],
    };
    let (mut next, mut count, mut length) = (0u64, 0, 1);
    while length <= LONGEST {
        let step = 1u64 << (32 - length);
        code.lengths[length] = Length {
            first: next,
            end: next,
            offset: count,
        };
        let mut symbol = 0;
        while symbol <= EOS {
            if LENGTHS[symbol] as usize == length {
                code.sorted[count] = symbol as u16;
                count += 1;
                next += step;
            }
            symbol += 1;
        }
        code.lengths[length].end = next;
        length += 1;
    }
    // A complete prefix code (Kraft's sum is 1): a mistyped length would not compile.
    assert!(count == 257 && next == 1 << 32);
    code
};

/// The symbols, at most two, that twelve bits begin with.
#[derive(Copy, Clone)]
struct Entry {
    symbols: [u8; 2],
    /// Bits of the first symbol; 0 when its code is longer than [`LOOKUP`].
    first: u8,
    /// Bits of both; the same as `first` when only one is complete.
    both: u8,
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "short codes have symbols below 256 and at most 12 bits"
)]
static TABLE: [Entry; 1 << LOOKUP] = {
    let mut table = [Entry {
        symbols: [0; 2],
        first: 0,
        both: 0,
    }; 1 << LOOKUP];
    let mut length = 1;
    while length <= LOOKUP {
        let codes = CODE.lengths[length];
        let mut code = codes.first >> (32 - LOOKUP);
        while code < codes.end >> (32 - LOOKUP) {
            let nth = (code - (codes.first >> (32 - LOOKUP))) >> (LOOKUP - length);
            let symbol = CODE.sorted[codes.offset + nth as usize] as u8;
            table[code as usize] = Entry {
                symbols: [symbol, 0],
                first: length as u8,
                both: length as u8,
            };
            code += 1;
        }
        length += 1;
    }
    let mut at = 0;
    while at < table.len() {
        let first = table[at].first as usize;
        let second = table[(at << first) & (table.len() - 1)];
        if first > 0 && second.first > 0 && first + second.first as usize <= LOOKUP {
            table[at].symbols[1] = second.symbols[0];
            table[at].both = (first + second.first as usize) as u8;
        }
        at += 1;
    }
    table
};

/// The code that `bits` (aligned to the left) begins with, when it is longer than [`LOOKUP`]: symbol and length.
#[cold]
fn long_code(bits: u64) -> (usize, u32) {
    let code = bits >> 32;
    let mut length = LOOKUP + 1;
    // Ends at the latest with 30, because the code is complete.
    while code >= CODE.lengths[length].end {
        length += 1;
    }
    let codes = &CODE.lengths[length];
    let nth = usize::try_from((code - codes.first) >> (32 - length)).unwrap_or(0);
    (
        usize::from(CODE.sorted[codes.offset + nth]),
        u32::try_from(length).unwrap_or(0),
    )
}

/// Decodes into `out`, which only ever grows so that it is not cleared for each string.
pub fn decode<'a>(source: &[u8], out: &'a mut Vec<u8>) -> Result<&'a [u8], HpackError> {
    // The shortest code has five bits; one more because a look-up always writes two symbols.
    let bound = source.len() * 8 / 5 + 2;
    if out.len() < bound {
        out.resize(bound, 0);
    }
    let mut written = 0;
    let mut rest = source;
    // `valid` bits at the left of `bits` are of the source. Behind its end follow ones, as its padding is of ones.
    let (mut bits, mut valid) = (u64::MAX, 0u32);
    loop {
        if valid < 30 && !rest.is_empty() {
            (bits, valid, rest) = refill(bits, valid, rest);
        }
        let entry = TABLE[(bits >> (64 - LOOKUP)) as usize];
        let (first, both) = (u32::from(entry.first), u32::from(entry.both));
        let used;
        if both <= valid && both > 0 {
            out[written..written + 2].copy_from_slice(&entry.symbols);
            written += 1 + usize::from(both != first);
            used = both;
        } else if first <= valid && first > 0 {
            out[written] = entry.symbols[0];
            written += 1;
            used = first;
        } else if first > 0 || valid as usize <= LOOKUP {
            // Not even one code: at the end of most strings, a few ones that look like the beginning of a long one.
            break;
        } else {
            let (symbol, length) = long_code(bits);
            if length > valid {
                break;
            }
            out[written] = u8::try_from(symbol).map_err(|_| HpackError::Huffman)?;
            written += 1;
            used = length;
        }
        bits = !(!bits << used);
        valid -= used;
    }
    // The rest must be padding: fewer than eight bits, all ones (RFC 7541, 5.2).
    if valid >= 8 || bits != u64::MAX {
        return Err(HpackError::Huffman);
    }
    Ok(&out[..written])
}

#[inline]
fn refill(bits: u64, valid: u32, rest: &[u8]) -> (u64, u32, &[u8]) {
    let keep = bits & !(u64::MAX >> valid);
    let room = (64 - valid) / 8;
    if let Some(word) = rest.first_chunk::<8>() {
        // A byte that only fits in part is put there as well, and overwritten by the same bits next time.
        let next = u64::from_be_bytes(*word) >> valid;
        return (keep | next, valid + room * 8, &rest[room as usize..]);
    }
    let mut word = u64::MAX;
    let mut shift = 64;
    let take = rest.len().min(room as usize);
    for &byte in &rest[..take] {
        shift -= 8;
        word ^= u64::from(!byte) << shift;
    }
    let next = !(!word >> valid);
    (keep | (next & (u64::MAX >> valid)), valid + (64 - shift), &rest[take..])
}

/// The encoder is for tests: requests need none.
#[cfg(test)]
pub fn encode(source: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let (mut bits, mut count) = (0u64, 0u32);
    for &byte in source {
        let length = usize::from(LENGTHS[usize::from(byte)]);
        let codes = &CODE.lengths[length];
        let nth = CODE.sorted[codes.offset..]
            .iter()
            .position(|&symbol| symbol == u16::from(byte))
            .unwrap();
        bits = (bits << length) | ((codes.first >> (32 - length)) + nth as u64);
        count += u32::from(LENGTHS[usize::from(byte)]);
        while count >= 8 {
            count -= 8;
            out.push((bits >> count).to_le_bytes()[0]);
        }
    }
    if count > 0 {
        out.push(((bits << (8 - count)) | (0xff >> count)).to_le_bytes()[0]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut out = Vec::new();
            prop_assert_eq!(decode(&encode(&text), &mut out), Ok(&text[..]));
        }

        /// A straightforward decoder, one bit at a time, agrees on everything, malformed or not.
        #[test]
        fn agrees_with_bit_by_bit(bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(0xff)], 0..40)) {
            let mut out = Vec::new();
            prop_assert_eq!(decode(&bytes, &mut out).map(<[u8]>::to_vec), slowly(&bytes));
        }
    }

    fn slowly(bytes: &[u8]) -> Result<Vec<u8>, HpackError> {
        let (mut text, mut code, mut length) = (Vec::new(), 0u64, 0);
        for at in 0..bytes.len() * 8 {
            code = code << 1 | u64::from(bytes[at / 8] >> (7 - at % 8) & 1);
            length += 1;
            let codes = &CODE.lengths[length];
            let (first, end) = (codes.first >> (32 - length), codes.end >> (32 - length));
            if (first..end).contains(&code) {
                let symbol = CODE.sorted[codes.offset + usize::try_from(code - first).unwrap()];
                text.push(u8::try_from(symbol).map_err(|_| HpackError::Huffman)?);
                (code, length) = (0, 0);
            }
        }
        if length < 8 && code == (1 << length) - 1 {
            Ok(text)
        } else {
            Err(HpackError::Huffman)
        }
    }

    #[test]
    fn the_code_has_the_values_of_appendix_b() {
        for (symbol, code, length) in [
            (b'0', 0x0, 5),
            (b'a', 0x3, 5),
            (b' ', 0x14, 6),
            (b'z', 0x7b, 7),
            (b'&', 0xf8, 8),
            (b'\\', 0x7fff0, 19),
        ]
        .into_iter()
        .chain([
            (0, 0x1ff8, 13),
            (128, 0xfffe6, 20),
            (255, 0x3ff_ffee, 26),
            (22, 0x3fff_fffe, 30),
        ]) {
            let mut wire = encode(&[symbol]);
            wire.resize(8, 0xff);
            let value = u64::from_be_bytes(wire.try_into().unwrap());
            assert_eq!(
                (value >> (64 - length), value | u64::MAX << (64 - length)),
                (code, u64::MAX),
                "{symbol}"
            );
        }
    }

    #[test]
    fn padding_and_eos_are_checked() {
        let mut out = Vec::new();
        assert_eq!(decode(&[], &mut out), Ok(&b""[..]));
        assert_eq!(decode(&[0b0001_1111], &mut out), Ok(&b"a"[..]));
        for bad in [
            &[0b0001_1000][..],
            &[0b0001_1110],
            &[0b0001_1111, 0xff],
            &[0xff],
            &[0xff; 4],
            &[0xff; 12],
        ] {
            assert_eq!(decode(bad, &mut out), Err(HpackError::Huffman), "{bad:?}");
        }
    }
}
