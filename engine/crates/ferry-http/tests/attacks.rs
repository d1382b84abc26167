//! Responses that are known to have misled clients or proxies: each is refused, and for the reason it should be.

mod drive;

use drive::drive;
use ferry_http::{FrameError, MAX_HEAD, MAX_HEADERS, MAX_INFORMATIONAL};
use http::Method;

fn refusal(input: &[u8]) -> FrameError {
    let outcome = drive(&Method::GET, input, &[]);
    assert_eq!(drive(&Method::GET, input, &[7, 1, 3]), outcome);
    outcome.end.expect_err("this must be refused")
}

fn refused_head(headers: &str) -> FrameError {
    refusal(format!("HTTP/1.1 200 OK\r\n{headers}\r\nhello").as_bytes())
}

fn refused_body(chunks: &str) -> FrameError {
    refusal(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}").as_bytes())
}

#[test]
fn lengths_that_disagree() {
    let conflict = FrameError::ConflictingLength { first: 5, other: 6 };
    assert_eq!(refused_head("Content-Length: 5\r\nContent-Length: 6\r\n"), conflict);
    assert_eq!(refused_head("Content-Length: 5, 6\r\n"), conflict);
    let without_coding = "Content-Length: 5\r\nContent-Length: 6\r\nTransfer-Encoding: identity\r\n";
    assert_eq!(refused_head(without_coding), conflict);
}

#[test]
fn lengths_that_are_no_numbers() {
    for length in [
        "-1",
        "+5",
        "0x5",
        "5 5",
        "",
        "5,",
        ",5",
        "5.0",
        "18446744073709551616",
        "\u{ff15}",
    ] {
        assert_eq!(
            refused_head(&format!("Content-Length: {length}\r\n")),
            FrameError::BadLength,
            "{length:?}"
        );
    }
}

#[test]
fn encodings_that_are_not_exactly_chunked() {
    for encoding in [
        "gzip, chunked",
        "chunked, chunked",
        "xchunked",
        "chunked;q=1",
        "\"chunked\"",
        "chunked, identity, chunked",
        "identity;q=1",
    ] {
        let headers = format!("Transfer-Encoding: {encoding}\r\n");
        assert_eq!(refused_head(&headers), FrameError::BadTransferEncoding, "{encoding:?}");
    }
    let twice = "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n";
    assert_eq!(refused_head(twice), FrameError::BadTransferEncoding);
}

#[test]
fn lines_that_are_two_to_some() {
    for headers in [
        "A: b\rContent-Length: 5\r\n", // bare CR
        "A: b\0c\r\n",                 // NUL
        "A\0: b\r\n",
        "Content-Length : 5\r\n", // blank before the colon
        " Content-Length: 5\r\n",
        "Content-Length\x0b: 5\r\n",
        "Content-Length: 5\x01\r\n",
        "Transfer-Encoding : chunked\r\n",
        "no colon\r\n",
    ] {
        assert!(matches!(refused_head(headers), FrameError::BadHead(_)), "{headers:?}");
    }
}

#[test]
fn not_an_http_1_response() {
    let others: [&[u8]; 7] = [
        b"\x15\x03\x01\x00\x02\x02\x46",
        b"\0\0\x06\x04\0\0\0\0\0",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\r\n\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", // two empty lines are skipped, no third
        b"\r\nok",
        b"HTTP/2 200\r\n\r\n",
        b"ICY 200 OK\r\n\r\n",
    ];
    for other in others {
        assert_eq!(refusal(other), FrameError::BadHead("not an HTTP/1 response"));
    }
    for line in [
        "HTTP/1.2 200 OK",
        "HTTP/1.1 20 OK",
        "HTTP/1.1 2000 OK",
        "HTTP/1.1 099 OK",
        "HTTP/1.1  200 OK",
        "HTTP/1.1 -20 OK",
    ] {
        let error = refusal(format!("{line}\r\n\r\n").as_bytes());
        assert!(matches!(error, FrameError::BadHead(_)), "{line}: {error}");
    }
    assert_eq!(
        refusal(b"HTTP/1.1 101 Switching Protocols\r\n\r\n"),
        FrameError::UnexpectedUpgrade
    );
}

#[test]
fn chunk_sizes_that_are_none() {
    for size in [
        "-5",
        "+5",
        " 5",
        "0x5",
        "",
        ";a",
        "g",
        "5 5",
        "5\t\t5",
        "00000000000000005",
        "10000000000000000",
        "\u{ff15}",
    ] {
        let error = refused_body(&format!("{size}\r\nhello\r\n0\r\n\r\n"));
        assert!(
            matches!(error, FrameError::BadChunk { received: 0, .. }),
            "{size:?}: {error}"
        );
    }
}

#[test]
fn blanks_behind_a_chunk_size_are_skipped() {
    for size in ["5 ", "5\t\t", "5 ;a", "5; a "] {
        let answer = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{size}\r\nhello\r\n0 \r\n\r\n");
        let outcome = drive(&Method::GET, answer.as_bytes(), &[7, 1, 3]);
        assert_eq!(
            (outcome.body.as_slice(), outcome.end),
            (&b"hello"[..], Ok((answer.len(), true))),
            "{size:?}"
        );
    }
}

#[test]
fn chunk_lines_that_do_not_end_in_crlf() {
    for (chunks, received) in [
        ("5\nhello\r\n0\r\n\r\n", 0),
        ("5\rhello\r\n0\r\n\r\n", 0),
        ("5;a\nhello\r\n0\r\n\r\n", 0),
        ("5;a\0\r\nhello\r\n0\r\n\r\n", 0),
        ("5\r\nhello\n0\r\n\r\n", 5),
        ("5\r\nhello0\r\n\r\n", 5),
        ("5\r\nhello\r0\r\n\r\n", 5),
    ] {
        let error = refused_body(chunks);
        assert!(
            matches!(error, FrameError::BadChunk { received: got, .. } if got == received),
            "{chunks:?}: {error}"
        );
    }
}

#[test]
fn the_hugest_chunk_is_only_truncated() {
    let truncated = FrameError::Truncated {
        received: 5,
        expected: None,
    };
    assert_eq!(refused_body("ffffffffffffffff\r\nhello"), truncated);
    assert_eq!(
        refused_head("Content-Length: 18446744073709551615\r\n"),
        FrameError::Truncated {
            received: 5,
            expected: Some(u64::MAX)
        }
    );
}

#[test]
fn trailers_that_are_none() {
    for trailer in [
        "A: b\n\r\n",
        "A: \0\r\n\r\n",
        "\0: b\r\n\r\n",
        "\n",
        "A\r\n\r\n",
        "\r\r",
    ] {
        let error = refused_body(&format!("5\r\nhello\r\n0\r\n{trailer}"));
        assert!(
            matches!(error, FrameError::BadTrailer { received: 5, .. }),
            "{trailer:?}: {error}"
        );
    }
}

#[test]
fn what_never_ends() {
    let long = format!("A: {}\r\n", "b".repeat(MAX_HEAD));
    assert_eq!(refused_head(&long), FrameError::HeadTooLong(MAX_HEAD));
    assert_eq!(
        refused_head(&"A: b\r\n".repeat(MAX_HEADERS + 1)),
        FrameError::TooManyHeaders(MAX_HEADERS)
    );
    let interim = "HTTP/1.1 102 Processing\r\n\r\n".repeat(300);
    assert_eq!(
        refusal(interim.as_bytes()),
        FrameError::TooManyInformational(MAX_INFORMATIONAL)
    );
    let extension = refused_body(&format!("5;{}", "a".repeat(4096)));
    assert!(matches!(extension, FrameError::BadChunk { .. }));
    let trailers = refused_body(&format!("0\r\n{}", "A: b\r\n".repeat(3000)));
    assert!(matches!(trailers, FrameError::BadTrailer { .. }));
}

#[test]
fn the_most_interim_answers_that_are_read() {
    let last = "HTTP/1.1 204 None\r\n\r\n";
    for (count, fits) in [(256, true), (257, false)] {
        let wire = "HTTP/1.1 102 Processing\r\n\r\n".repeat(count) + last;
        assert_eq!(drive(&Method::GET, wire.as_bytes(), &[]).end.is_ok(), fits, "{count}");
    }
}

#[test]
fn the_largest_head_that_is_read() {
    let frame = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nA: \r\n\r\n".len();
    for (extra, fits) in [(0, true), (1, false)] {
        let value = "b".repeat(MAX_HEAD - frame + extra);
        let wire = format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nA: {value}\r\n\r\n");
        assert_eq!(drive(&Method::GET, wire.as_bytes(), &[255]).end.is_ok(), fits);
    }
    let many = format!("HTTP/1.1 204 None\r\n{}\r\n", "A: b\r\n".repeat(MAX_HEADERS));
    assert_eq!(drive(&Method::GET, many.as_bytes(), &[]).end, Ok((many.len(), true)));
}
