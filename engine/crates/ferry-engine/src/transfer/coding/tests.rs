//! Any pieces of a body give the same file, and nothing but a complete body gives one.

use std::io::Write as _;

use flate2::{Compression, GzBuilder};
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use proptest::prelude::*;

use super::*;

type Compress = fn(&[u8]) -> Vec<u8>;

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzBuilder::new().write(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// With every field that a header can have but its checksum, which encoders do not write.
fn gzip_with_names(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzBuilder::new()
        .extra(b"extra".to_vec())
        .filename("name")
        .comment("comment")
        .mtime(1)
        .write(Vec::new(), Compression::best());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn zstd(content: &[u8]) -> Vec<u8> {
    let mut compressor = zstd_safe::CCtx::create();
    compressor
        .set_parameter(zstd_safe::CParameter::ChecksumFlag(true))
        .unwrap();
    let mut body = vec![0; zstd_safe::compress_bound(content.len())];
    let size = compressor.compress2(&mut body[..], content).unwrap();
    body.truncate(size);
    body
}

/// A frame by hand (RFC 8878, section 3.1.1): a window of 2^`window_log`, then blocks of one repeated byte, each of `length`.
fn zstd_of_runs(window_log: u8, length: u32, blocks: u32) -> Vec<u8> {
    let mut body = vec![0x28, 0xb5, 0x2f, 0xfd, 0, (window_log - 10) << 3];
    for index in 1..=blocks {
        let header = length << 3 | 1 << 1 | u32::from(index == blocks);
        body.extend_from_slice(&header.to_le_bytes()[..3]);
        body.push(b'x');
    }
    body
}

/// The same of one block of 300 bytes, with its size (a field of two bytes, less 256) in the header.
fn zstd_with_size(window_log: u8) -> Vec<u8> {
    let mut body = zstd_of_runs(window_log, 300, 1);
    body[4] = 0x40;
    body.splice(6..6, (300_u16 - 256).to_le_bytes());
    body
}

fn skippable(content: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x5a, 0x2a, 0x4d, 0x18];
    frame.extend_from_slice(&u32::try_from(content.len()).unwrap().to_le_bytes());
    frame.extend_from_slice(content);
    frame
}

fn fault(problem: &Error) -> Fault {
    let source = std::error::Error::source(problem).expect("a fault below");
    source.downcast_ref::<Fault>().expect("a fault below").clone()
}

/// The file, and what is wrong with the body. `pieces` are the sizes in which it comes, again and again.
fn decode_in(coding: Coding, body: &[u8], pieces: &[usize]) -> (Vec<u8>, Option<Fault>) {
    let mut decoder = Decoder::new(coding).unwrap();
    let mut file = Vec::new();
    let (mut left, mut sizes) = (body, pieces.iter().cycle());
    while !left.is_empty() {
        let (piece, later) = left.split_at((*sizes.next().unwrap()).clamp(1, left.len()));
        left = later;
        let result = decoder.decode(piece, &mut |content| {
            assert!(!content.is_empty() && content.len() <= PIECE);
            file.extend_from_slice(content);
            Ok(())
        });
        if let Err(problem) = result {
            return (file, Some(fault(&problem)));
        }
    }
    let ended = decoder.finish();
    (file, ended.err())
}

fn decode(coding: Coding, body: &[u8]) -> (Vec<u8>, Option<Fault>) {
    decode_in(coding, body, &[usize::MAX])
}

/// Content that has something to compress, and more of it than a buffer holds.
fn content() -> impl Strategy<Value = Vec<u8>> {
    let run = (any::<u8>(), 1..40_000_usize).prop_map(|(byte, count)| vec![byte; count]);
    let noise = proptest::collection::vec(any::<u8>(), 0..2_000);
    proptest::collection::vec(prop_oneof![run, noise], 0..6).prop_map(|parts| parts.concat())
}

fn pieces() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(prop_oneof![1..4_usize, 1..500_usize, Just(PIECE)], 1..8)
}

proptest! {
    #[test]
    fn several_members_are_one_file_in_any_pieces(parts in proptest::collection::vec(content(), 1..4), pieces in pieces()) {
        let file = parts.concat();
        let compress: [(Coding, Compress); 3] =
            [(Coding::Gzip, gzip), (Coding::Gzip, gzip_with_names), (Coding::Zstd, zstd)];
        for (coding, compress) in compress {
            let body: Vec<u8> = parts.iter().flat_map(|part| compress(part)).collect();
            prop_assert!(decode_in(coding, &body, &pieces) == (file.clone(), None));
        }
    }

    #[test]
    fn any_bytes_mean_the_same_in_any_pieces(
        start in 0..4_usize, flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        tail in proptest::collection::vec(any::<u8>(), 0..12), part in content(), pieces in pieces(),
    ) {
        let (coding, mut body) = match start {
            0 => (Coding::Gzip, gzip(&part)),
            1 => (Coding::Gzip, gzip_with_names(&part)),
            2 => (Coding::Zstd, zstd(&part)),
            _ => (Coding::Zstd, skippable(&part)),
        };
        for (index, byte) in flips {
            let index = index.index(body.len());
            body[index] ^= byte;
        }
        body.extend_from_slice(&tail);
        let whole = decode(coding, &body);
        let (file, fault) = decode_in(coding, &body, &pieces);
        prop_assert_eq!(fault, whole.1.clone());
        // Before a fault, how much has come out depends on the pieces.
        let common = file.len().min(whole.0.len());
        prop_assert!(whole.0[..common] == file[..common]);
        prop_assert!(whole.1.is_some() || whole.0 == file);
    }

    #[test]
    fn a_body_that_is_cut_short_is_no_file(part in content(), cut in any::<prop::sample::Index>()) {
        for (coding, body) in [(Coding::Gzip, gzip(&part)), (Coding::Gzip, gzip_with_names(&part)), (Coding::Zstd, zstd(&part))] {
            let cut = cut.index(body.len());
            let (file, fault) = decode(coding, &body[..cut]);
            prop_assert_eq!(fault, Some(Fault::CutShort), "{:?} {} of {}", coding, cut, body.len());
            prop_assert!(part.starts_with(&file));
        }
    }
}

#[test]
fn a_changed_content_is_found_by_its_checksum() {
    let content = b"a text of no repetition";
    let mut body = gzip(content);
    // Checksum and length.
    for index in body.len() - 8..body.len() {
        body[index] ^= 1;
        assert_eq!(decode(Coding::Gzip, &body).1, Some(Fault::Checksum));
        body[index] ^= 1;
    }
    let mut body = zstd(content);
    *body.last_mut().unwrap() ^= 1;
    assert_eq!(decode(Coding::Zstd, &body).1, Some(Fault::Checksum));
}

#[test]
fn what_follows_the_end_is_refused() {
    for (coding, body) in [(Coding::Gzip, gzip(b"x")), (Coding::Zstd, zstd(b"x"))] {
        for tail in [&b"garbage"[..], &[0; 8]] {
            let (file, fault) = decode(coding, &[&body[..], tail].concat());
            assert_eq!((&file[..], fault), (&b"x"[..], Some(Fault::Behind)), "{coding:?}");
        }
    }
}

/// libzstd itself looks at the window only of a frame that comes in pieces.
#[test]
fn a_window_that_is_too_large_is_refused_in_any_pieces() {
    for pieces in [&[usize::MAX][..], &[1], &[8], &[9, 1]] {
        let (file, fault) = decode_in(Coding::Zstd, &zstd_with_size(23), pieces);
        assert_eq!((file, fault), (vec![b'x'; 300], None), "{pieces:?}");
        let (file, fault) = decode_in(Coding::Zstd, &zstd_with_size(24), pieces);
        assert_eq!(
            (file, fault),
            (
                vec![],
                Some(Fault::Malformed("Frame requires too much memory for decoding"))
            ),
            "{pieces:?}"
        );
    }
}

#[test]
fn gzip_headers() {
    let plain = gzip(b"x");
    for (index, byte) in [(0, 0x1e), (1, 0x8c), (2, 7), (3, 0x20), (3, 0x80)] {
        let mut body = plain.clone();
        body[index] = byte;
        assert!(
            matches!(decode(Coding::Gzip, &body).1, Some(Fault::Malformed(_))),
            "{index}"
        );
    }
    // With a checksum of its own (RFC 1952, section 2.3.1): the lower half of the CRC-32.
    let mut head = plain[..10].to_vec();
    head[3] = 2;
    let mut crc = flate2::Crc::new();
    crc.update(&head);
    for (flip, expected) in [(0, None), (1, Some(Fault::Malformed("checksum of a gzip header")))] {
        let sum = crc.sum().to_le_bytes();
        let body = [&head[..], &[sum[0], sum[1] ^ flip], &plain[10..]].concat();
        assert_eq!(decode_in(Coding::Gzip, &body, &[1]).1, expected);
    }
    // An extra field of no length.
    let mut head = plain[..10].to_vec();
    head[3] = 4;
    assert_eq!(
        decode(Coding::Gzip, &[&head[..], &[0, 0], &plain[10..]].concat()).1,
        None
    );
}

#[test]
fn frames_to_be_skipped_are_skipped() {
    let body = [
        skippable(b"abc"),
        zstd(b"one"),
        skippable(b""),
        zstd(b"two"),
        skippable(&vec![7; 70_000]),
    ]
    .concat();
    for pieces in [&[1][..], &[usize::MAX], &[11, 3]] {
        assert_eq!(decode_in(Coding::Zstd, &body, pieces), (b"onetwo".to_vec(), None));
    }
}

#[test]
fn the_window_of_zstd_is_at_most_8_mib() {
    assert_eq!(
        decode(Coding::Zstd, &zstd_of_runs(23, 5, 2)),
        (b"xxxxxxxxxx".to_vec(), None)
    );
    for window_log in [24, 27, 31] {
        let (file, fault) = decode(Coding::Zstd, &zstd_of_runs(window_log, 5, 2));
        assert!(file.is_empty());
        assert!(matches!(fault, Some(Fault::Malformed(_))), "{window_log}: {fault:?}");
    }
}

#[test]
fn a_bomb_comes_in_pieces_and_can_be_stopped() {
    // 32 KiB for 1 GiB.
    let body = zstd_of_runs(23, 128 * 1024, 8192);
    let mut decoder = Decoder::new(Coding::Zstd).unwrap();
    let mut sum = 0;
    let result = decoder.decode(&body, &mut |content| {
        sum += content.len();
        if sum > 1_000_000 {
            Err(Error::permanent("enough"))
        } else {
            Ok(())
        }
    });
    assert_eq!(result.unwrap_err(), Error::permanent("enough"));
    assert!(sum <= 1_000_000 + PIECE);
}

#[test]
fn names_of_codings() {
    let of = |values: &[&'static str]| {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(CONTENT_ENCODING, HeaderValue::from_static(value));
        }
        Coding::of(&headers)
    };
    for values in [&[][..], &[""], &["identity"], &["Identity, ,"], &["none"]] {
        assert_eq!(of(values), Ok(None), "{values:?}");
    }
    for values in [
        &["gzip"][..],
        &["GZIP"],
        &["x-gzip"],
        &[" gzip\t"],
        &["identity", "gzip"],
    ] {
        assert_eq!(of(values), Ok(Some(Coding::Gzip)), "{values:?}");
    }
    assert_eq!(of(&["zstd"]), Ok(Some(Coding::Zstd)));
    for values in [
        &["br"][..],
        &["deflate"],
        &["gzip, gzip"],
        &["gzip", "zstd"],
        &["gzip;q=1"],
        &["gzipped"],
    ] {
        assert_eq!(of(values), Err(values.join(", ")), "{values:?}");
    }
}
