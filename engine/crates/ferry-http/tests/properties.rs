//! Properties that hold for all responses, well-formed or not.

mod drive;

use drive::drive;
use ferry_http::{FrameError, ResponseBody, encode_chunk, encode_last_chunk};
use http::Method;
use proptest::collection::vec;
use proptest::prelude::*;

fn method() -> impl Strategy<Value = Method> {
    prop_oneof![Just(Method::GET), Just(Method::HEAD), Just(Method::CONNECT)]
}

/// Pieces of responses, right and wrong, that only make sense together.
fn fragment() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => prop::sample::select(vec![
            "HTTP/1.1 200 OK\r\n", "HTTP/1.0 200 OK\r\n", "HTTP/1.1 204 \r\n", "HTTP/1.1 304\r\n", "HTTP/1.1 100 Continue\r\n\r\n",
            "HTTP/1.1 101 Switching\r\n", "Content-Length: 7\r\n", "Content-Length: 12, 12\r\n", "Content-Length: -1\r\n",
            "Transfer-Encoding: chunked\r\n", "Transfer-Encoding: gzip, chunked\r\n", "Connection: close\r\n", "A: b\n", "A : b\r\n",
            " folded\r\n", "\r\n", "\n", "\r", "5\r\nhello\r\n", "5;a=\"b\"\r\nhello\r\n", "0\r\n", "0\r\n\r\n", "fffffffffffffffff\r\n",
            "ffffffffffffffff\r\n", "X-Sum: 1\r\n", "hello",
        ]).prop_map(|text| text.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..20),
    ]
}

/// A head that is right and a body of fragments, or fragments alone.
fn response() -> impl Strategy<Value = Vec<u8>> {
    let head = prop::sample::select(vec![
        "",
        "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
    ]);
    (head, vec(fragment(), 0..12)).prop_map(|(head, rest)| [head.as_bytes().to_vec(), rest.concat()].concat())
}

fn sizes() -> impl Strategy<Value = Vec<u8>> {
    vec(1..40u8, 1..8)
}

proptest! {
    #[test]
    fn cuts_change_nothing(method in method(), mut input in response(), lost in 0..8usize, sizes in sizes()) {
        input.truncate(input.len().saturating_sub(lost));
        let whole = drive(&method, &input, &[]);
        prop_assert_eq!(&drive(&method, &input, &sizes), &whole);
        prop_assert_eq!(&drive(&method, &input, &[1]), &whole);
    }

    #[test]
    fn arbitrary_bytes_are_survived(method in method(), input in vec(any::<u8>(), 0..300), sizes in sizes()) {
        drive(&method, &input, &sizes);
    }

    #[test]
    fn chunks_come_back(pieces in vec(vec(any::<u8>(), 0..300), 0..10), sizes in sizes()) {
        let mut wire = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for piece in &pieces {
            encode_chunk(&mut wire, piece);
        }
        encode_last_chunk(&mut wire);
        let length = wire.len();
        wire.extend_from_slice(b"the next response");
        let outcome = drive(&Method::GET, &wire, &sizes);
        prop_assert_eq!(outcome.body, pieces.concat());
        prop_assert_eq!(outcome.length, Some(ResponseBody::Chunked));
        prop_assert_eq!(outcome.end, Ok((length, true)));
    }

    #[test]
    fn a_cut_body_tells_what_is_missing(body in vec(any::<u8>(), 1..300), missing in 1..1000u64, sizes in sizes()) {
        let expected = body.len() as u64 + missing;
        let mut wire = format!("HTTP/1.1 200 OK\r\nContent-Length: {expected}\r\n\r\n").into_bytes();
        wire.extend_from_slice(&body);
        let outcome = drive(&Method::GET, &wire, &sizes);
        prop_assert_eq!(outcome.end, Err(FrameError::Truncated { received: body.len() as u64, expected: Some(expected) }));
        prop_assert_eq!(outcome.body, body);
    }
}
