//! Responses that servers write wrong, and that every client understands alike: each is read, but the connection is not
//! reused after a response that may mean two things to a proxy.

mod drive;

use drive::drive;
use ferry_http::{MAX_HEAD, MAX_HEADERS};
use http::Method;

/// Reads a response at once and in pieces; its body is `hello`. Returns true if another response may follow.
fn reusable(response: &str) -> bool {
    let whole = drive(&Method::GET, response.as_bytes(), &[]);
    assert_eq!(drive(&Method::GET, response.as_bytes(), &[7, 1, 3]), whole);
    assert_eq!(whole.body, b"hello", "{:?}", response.get(..200));
    whole
        .end
        .unwrap_or_else(|error| panic!("{error}: {:?}", response.get(..200)))
        .1
}

#[test]
fn fields_that_are_not_well_formed() {
    let many = "A: b\r\n".repeat(1000);
    let most = "A: b\r\n".repeat(MAX_HEADERS - 1);
    let cookies = format!("Set-Cookie: {}\r\n", "c".repeat(3000)).repeat(30);
    let long = format!("A: {}\r\n", "b".repeat(MAX_HEAD - 50));
    for fields in [
        " A: b\r\n", // a blank before the first field: the line is dropped
        "\tfolded\r\n",
        "A : b\r\n",   // before the colon
        "A b: c\r\n",  // within a name
        ": b\r\n",     // no name
        "A(b): c\r\n", // no character of a name
        "Ä: b\r\n",
        "A: b\x01c\r\n", // controls in a value
        "A: \x7f\r\n",
        "A: \x0b\x0c\x1b[2J\r\n",
        "A: b\r\n \x01c\r\n",
        &many,
        &most,
        &cookies,
        &long,
    ] {
        let response = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 5\r\n\r\nhello");
        assert!(reusable(&response), "{:?}", fields.get(..20));
    }
}

#[test]
fn codings_that_say_too_much() {
    let (plain, chunks) = ("hello", "5\r\nhello\r\n0\r\n\r\n");
    for (version, fields, body) in [
        (1, "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", chunks),
        (1, "Content-Length: 5, 6\r\nTransfer-Encoding: chunked\r\n", chunks),
        (1, "Transfer-Encoding: identity\r\nContent-Length: 5\r\n", plain),
        (1, "Transfer-Encoding: identity\r\n", plain),
        (1, "Transfer-Encoding: identity, chunked\r\n", chunks),
        (1, "Transfer-Encoding: chunked,\r\n", chunks),
        (1, "Transfer-Encoding:\r\nContent-Length: 5\r\n", plain),
        (0, "Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n", chunks),
    ] {
        let response = format!("HTTP/1.{version} 200 OK\r\n{fields}\r\n{body}");
        assert!(!reusable(&response), "{fields:?}");
    }
}

#[test]
fn trailers_that_are_not_well_formed() {
    for trailer in [
        "A : b\r\n",
        " A: b\r\n",
        "A: b\r\n c\r\n",
        ": b\r\n",
        "A b: \x01\x7f\r\n",
    ] {
        let response = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n{trailer}\r\n");
        assert!(reusable(&response), "{trailer:?}");
    }
}
