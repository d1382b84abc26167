//! Integers with a prefix (RFC 7541, 5.1).

use super::HpackError;

/// Appends `value` behind `first`, whose low `prefix` bits are free.
pub fn put(out: &mut Vec<u8>, first: u8, prefix: u8, value: usize) {
    let max = (1usize << prefix) - 1;
    if value < max {
        out.push(first | low_byte(value));
        return;
    }
    out.push(first | low_byte(max));
    let mut rest = value - max;
    while rest >= 0x80 {
        out.push(low_byte(rest) | 0x80);
        rest >>= 7;
    }
    out.push(low_byte(rest));
}

fn low_byte(value: usize) -> u8 {
    value.to_le_bytes()[0]
}

/// Reads an integer whose first byte is at `*at`. Four bytes may follow the first: that is more than any table or
/// string here may have, and an attacker's endless zeros end there.
#[inline]
pub fn get(block: &[u8], at: &mut usize, prefix: u8) -> Result<usize, HpackError> {
    let max = (1u8 << prefix) - 1;
    let first = *block.get(*at).ok_or(HpackError::Truncated)? & max;
    *at += 1;
    if first < max {
        return Ok(usize::from(first));
    }
    let mut value = u32::from(max);
    for shift in [0, 7, 14, 21] {
        let byte = *block.get(*at).ok_or(HpackError::Truncated)?;
        *at += 1;
        value += u32::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return usize::try_from(value).map_err(|_| HpackError::Integer);
        }
    }
    Err(HpackError::Integer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_appendix_c_1() {
        for (value, prefix, wire) in [
            (10, 5, &[0b0_1010][..]),
            (1337, 5, &[0b1_1111, 0b1001_1010, 0b0000_1010]),
            (42, 7, &[42]),
        ] {
            let mut out = Vec::new();
            put(&mut out, 0, prefix, value);
            assert_eq!(out, wire);
            let mut at = 0;
            assert_eq!(get(wire, &mut at, prefix), Ok(value));
            assert_eq!(at, wire.len());
        }
    }

    #[test]
    fn every_prefix_round_trips_around_its_limits() {
        for prefix in 4..=7 {
            for value in (0..600).chain([16_383, 16_384, 65_536, 1 << 20]) {
                let mut out = Vec::new();
                put(&mut out, 0, prefix, value);
                assert_eq!(get(&out, &mut 0, prefix), Ok(value));
                out.pop();
                assert_eq!(get(&out, &mut 0, prefix), Err(HpackError::Truncated));
            }
        }
    }

    #[test]
    fn overlong_integers_are_refused() {
        assert_eq!(
            get(&[0x7f, 0x80, 0x80, 0x80, 0x80, 0x00], &mut 0, 7),
            Err(HpackError::Integer)
        );
        assert_eq!(
            get(&[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f], &mut 0, 7),
            Err(HpackError::Integer)
        );
    }
}
