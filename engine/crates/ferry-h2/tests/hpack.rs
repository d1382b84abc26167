//! HPACK against the examples of RFC 7541, Appendix C, and against itself.

use ferry_h2::hpack::{Decoder, HpackError};
use ferry_h2::{BadHeader, HeaderBlock};
use proptest::prelude::*;

type Fields = Vec<(String, String)>;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex
        .chars()
        .filter_map(|c| c.to_digit(16))
        .map(|d| u8::try_from(d).unwrap())
        .collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Fields, HpackError> {
    let mut fields = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    decoder.decode(block, false, |field| fields.push((text(field.name), text(field.value))))?;
    Ok(fields)
}

/// Decodes blocks one after the other with one decoder whose table has `size` bytes.
fn check(size: &str, blocks: &[(&str, &str)]) {
    let mut decoder = Decoder::new(1 << 16);
    decode(&mut decoder, &bytes(size)).unwrap();
    for (block, expected) in blocks {
        let expected: Fields = expected
            .lines()
            .map(|line| line.trim().split_once("= ").unwrap())
            .map(|(n, v)| (n.into(), v.into()))
            .collect();
        assert_eq!(decode(&mut decoder, &bytes(block)), Ok(expected), "{block}");
    }
}

#[test]
fn appendix_c_2_single_fields() {
    check(
        "",
        &[(
            "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
            "custom-key= custom-header",
        )],
    );
    check("", &[("040c 2f73 616d 706c 652f 7061 7468", ":path= /sample/path")]);
    check(
        "",
        &[("1008 7061 7373 776f 7264 0673 6563 7265 74", "password= secret")],
    );
    check("", &[("82", ":method= GET")]);
}

const REQUESTS: [&str; 3] = [
    ":method= GET\n:scheme= http\n:path= /\n:authority= www.example.com",
    ":method= GET\n:scheme= http\n:path= /\n:authority= www.example.com\ncache-control= no-cache",
    ":method= GET\n:scheme= https\n:path= /index.html\n:authority= www.example.com\ncustom-key= custom-value",
];

#[test]
fn appendix_c_3_requests() {
    check(
        "",
        &[
            ("8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", REQUESTS[0]),
            ("8286 84be 5808 6e6f 2d63 6163 6865", REQUESTS[1]),
            (
                "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
                REQUESTS[2],
            ),
        ],
    );
}

#[test]
fn appendix_c_4_requests_with_huffman() {
    check(
        "",
        &[
            ("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", REQUESTS[0]),
            ("8286 84be 5886 a8eb 1064 9cbf", REQUESTS[1]),
            (
                "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
                REQUESTS[2],
            ),
        ],
    );
}

const RESPONSES: [&str; 3] = [
    ":status= 302\ncache-control= private\ndate= Mon, 21 Oct 2013 20:13:21 GMT\nlocation= https://www.example.com",
    ":status= 307\ncache-control= private\ndate= Mon, 21 Oct 2013 20:13:21 GMT\nlocation= https://www.example.com",
    ":status= 200\ncache-control= private\ndate= Mon, 21 Oct 2013 20:13:22 GMT\nlocation= https://www.example.com\n\
     content-encoding= gzip\nset-cookie= foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
];

/// Sets the table to the 256 bytes that C.5 and C.6 assume, so that they evict.
const SIZE_256: &str = "3fe1 01";

#[test]
fn appendix_c_5_responses_with_eviction() {
    check(
        SIZE_256,
        &[
            (
                "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 \
                 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
                RESPONSES[0],
            ),
            ("4803 3330 37c1 c0bf", RESPONSES[1]),
            (
                "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 \
                 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 \
                 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
                RESPONSES[2],
            ),
        ],
    );
}

#[test]
fn appendix_c_6_responses_with_huffman_and_eviction() {
    check(
        SIZE_256,
        &[
            (
                "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad \
                 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
                RESPONSES[0],
            ),
            ("4883 640e ffc1 c0bf", RESPONSES[1]),
            (
                "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 \
                 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
                RESPONSES[2],
            ),
        ],
    );
}

#[test]
fn malformed_blocks() {
    for (block, error) in [
        ("80", HpackError::Index),                     // index 0
        ("be", HpackError::Index),                     // beyond the tables
        ("7e 00", HpackError::Index),                  // a name beyond the tables
        ("0f 2f 00", HpackError::Index),               // the same, not indexed
        ("ff", HpackError::Truncated),                 // an integer
        ("ff 80 80 80 80 00", HpackError::Integer),    // too long
        ("00", HpackError::Truncated),                 // no name
        ("00 05 61", HpackError::Truncated),           // half a name
        ("00 01 61", HpackError::Truncated),           // no value
        ("00 01 61 7f", HpackError::Truncated),        // half a length
        ("00 81 ff 00", HpackError::Huffman),          // eight bits of padding
        ("00 81 18 00", HpackError::Huffman),          // padding of zeros
        ("00 84 ff ff ff ff 00", HpackError::Huffman), // EOS
        ("3f e2 1f", HpackError::SizeUpdate),          // 4097
        ("88 20", HpackError::SizeUpdate),             // behind a field
    ] {
        assert_eq!(decode(&mut Decoder::new(1 << 16), &bytes(block)), Err(error), "{block}");
    }
    // An encoder that lowered and raised its table sends two updates in a row (RFC 7541, 4.2).
    assert_eq!(
        decode(&mut Decoder::new(1 << 16), &bytes("20 3f e1 1f 88")).map(|f| f.len()),
        Ok(1)
    );
}

#[test]
fn an_entry_may_be_named_after_the_one_it_evicts() {
    let mut decoder = Decoder::new(1 << 16);
    let mut block = bytes("3f 09 40 01 61 01 62"); // 40 bytes: room for one entry; a: b
    block.extend(bytes("7e 01 63")); // named as the entry before, which must go
    block.extend(bytes("be"));
    let field = |value: &str| ("a".to_string(), value.to_string());
    assert_eq!(
        decode(&mut decoder, &block),
        Ok(vec![field("b"), field("c"), field("c")])
    );
}

#[test]
fn the_first_field_is_all_that_is_decoded_if_no_more_is_wanted() {
    let mut decoder = Decoder::new(1 << 16);
    let mut seen = Vec::new();
    // The second field's Huffman string is malformed, but is not decoded.
    let block = bytes("88 00 81 ff 00 40 01 61 01 62");
    assert_eq!(
        decoder.decode(&block, true, |field| seen.push(field.value.to_vec())),
        Ok(true)
    );
    assert_eq!(seen, [b"200"]);
    // Lengths are still checked, and so are names.
    for (bad, error) in [
        ("88 00 05 61", HpackError::Truncated),
        ("88 0f 7f 00", HpackError::Index),
    ] {
        assert_eq!(Decoder::new(1 << 16).decode(&bytes(bad), true, |_| ()), Err(error));
    }
    assert_eq!(decode(&mut decoder, &bytes("be")).map(|f| f.len()), Ok(1));
}

#[test]
fn requests_that_must_not_be_sent() {
    let start = [(":method", "GET"), (":scheme", "https"), (":path", "/")];
    let with = |more: &[(&'static str, &'static str)]| {
        let all: Vec<_> = start
            .iter()
            .chain(more)
            .map(|(n, v)| (n.as_bytes(), v.as_bytes()))
            .collect();
        HeaderBlock::new(all).map(|_| ())
    };
    assert_eq!(with(&[("te", "trailers"), ("x", "a\tb"), ("empty", "")]), Ok(()));
    for (name, value, error) in [
        ("", "", BadHeader::Name),
        ("Accept", "x", BadHeader::Name),
        ("a b", "x", BadHeader::Name),
        ("a\n", "x", BadHeader::Name),
        ("a", "x\r\ny", BadHeader::Value),
        ("a", "\0", BadHeader::Value),
        ("a", "\u{7f}", BadHeader::Value),
        ("a", " x", BadHeader::Value),
        ("a", "x\t", BadHeader::Value),
        (":path", "/twice", BadHeader::Pseudo),
        (":authority", "", BadHeader::Pseudo),
        (":status", "200", BadHeader::Pseudo),
        ("connection", "close", BadHeader::ConnectionSpecific),
        ("transfer-encoding", "chunked", BadHeader::ConnectionSpecific),
        ("te", "gzip", BadHeader::ConnectionSpecific),
    ] {
        assert_eq!(with(&[(name, value)]), Err(error), "{name}: {value}");
    }
    assert_eq!(with(&[("a", "b"), (":authority", "x")]), Err(BadHeader::Pseudo));
    let block = |fields: &[(&str, &str)]| HeaderBlock::new(fields.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())));
    assert_eq!(block(&start[..2]), Err(BadHeader::Missing));
    assert_eq!(block(&start[1..]), Err(BadHeader::Missing));
    assert!(block(&[(":method", "CONNECT"), (":authority", "a:1")]).is_ok());
}

proptest! {
    /// The connection tests cover the encoder's bytes; this test only checks that nothing panics.
    #[test]
    fn arbitrary_blocks_never_panic(blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..5), first_only: bool) {
        let mut decoder = Decoder::new(1000);
        for block in blocks {
            if decoder.decode(&block, first_only, |_| ()).is_err() {
                break;
            }
        }
    }
}
