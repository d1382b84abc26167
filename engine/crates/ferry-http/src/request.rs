//! Writing a request: its head, and the chunks of a body whose length is not known beforehand.

use std::io::Write;

use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, Method};

use crate::BadRequest;

/// The framing of a request's body (RFC 9112, section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLength {
    /// No body and no word about one. For an empty PUT or POST say `Known(0)` (RFC 9110, section 8.6).
    None,
    /// Content-Length.
    Known(u64),
    /// Transfer-Encoding: chunked.
    Chunked,
}

/// The parts of the request head that [`encode_request`] writes.
#[derive(Debug, Clone, Copy)]
pub struct RequestHead<'a> {
    /// The method (RFC 9110, section 9).
    pub method: &'a Method,
    /// The request target in the form that the method and a proxy ask for (RFC 9112, section 3.2).
    pub target: &'a str,
    /// The Host field (RFC 9110, section 7.2), with the port unless it is the scheme's own.
    pub host: &'a str,
    /// All other headers.
    pub headers: &'a HeaderMap,
    /// The framing of the body.
    pub body: BodyLength,
}

/// Appends the request head to `out` (RFC 9112, section 3): Host, the headers, then the framing of the body.
///
/// # Errors
/// If target or host could break out of their line, or `headers` has a header that this function writes: then `out` is
/// unchanged.
pub fn encode_request(out: &mut Vec<u8>, request: &RequestHead<'_>) -> Result<(), BadRequest> {
    if !is_one_word(request.target) {
        return Err(BadRequest::Target);
    }
    if !is_one_word(request.host) {
        return Err(BadRequest::Host);
    }
    // With two sources for one of these headers, a request may mean different things to two recipients.
    if let Some(name) = [HOST, CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION]
        .into_iter()
        .find(|n| request.headers.contains_key(n))
    {
        return Err(BadRequest::OwnHeader(name));
    }
    put(
        out,
        &[
            request.method.as_str(),
            " ",
            request.target,
            " HTTP/1.1\r\nHost: ",
            request.host,
            "\r\n",
        ],
    );
    for (name, value) in request.headers {
        put(out, &[name.as_str(), ": "]);
        // Neither CR, LF nor NUL: http::HeaderValue has no way to hold them.
        out.extend_from_slice(value.as_bytes());
        put(out, &["\r\n"]);
    }
    match request.body {
        BodyLength::None => {}
        BodyLength::Known(length) => put(out, &["Content-Length: ", &length.to_string(), "\r\n"]),
        BodyLength::Chunked => put(out, &["Transfer-Encoding: chunked\r\n"]),
    }
    put(out, &["\r\n"]);
    Ok(())
}

/// Appends one chunk (RFC 9112, section 7.1) to `out`; nothing for empty data, which would end the body.
pub fn encode_chunk(out: &mut Vec<u8>, data: &[u8]) {
    if data.is_empty() {
        return;
    }
    // Writing to a Vec does not fail.
    let _ = write!(out, "{:x}\r\n", data.len());
    out.extend_from_slice(data);
    put(out, &["\r\n"]);
}

/// Appends the last chunk, without trailers (RFC 9112, section 7.1).
pub fn encode_last_chunk(out: &mut Vec<u8>) {
    put(out, &["0\r\n\r\n"]);
}

fn put(out: &mut Vec<u8>, parts: &[&str]) {
    for part in parts {
        out.extend_from_slice(part.as_bytes());
    }
}

fn is_one_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use http::header::{ACCEPT, RANGE};

    fn encode(target: &str, host: &str, headers: &HeaderMap, body: BodyLength) -> Result<String, BadRequest> {
        let mut out = b"before ".to_vec();
        let result = encode_request(
            &mut out,
            &RequestHead {
                method: &Method::PUT,
                target,
                host,
                headers,
                body,
            },
        );
        let text = String::from_utf8(out).unwrap();
        let head = text.strip_prefix("before ").expect("appended").to_owned();
        assert!(result.is_ok() || head.is_empty(), "all or nothing");
        result.map(|()| head)
    }

    #[test]
    fn order_and_framing() {
        let mut headers = HeaderMap::new();
        headers.insert(RANGE, HeaderValue::from_static("bytes=5-"));
        headers.append(ACCEPT, HeaderValue::from_static("a"));
        headers.append(ACCEPT, HeaderValue::from_static("b"));
        let start = "PUT /a?b HTTP/1.1\r\nHost: [::1]:80\r\nrange: bytes=5-\r\naccept: a\r\naccept: b\r\n";
        for (body, end) in [
            (BodyLength::None, "\r\n"),
            (BodyLength::Known(0), "Content-Length: 0\r\n\r\n"),
            (
                BodyLength::Known(u64::MAX),
                "Content-Length: 18446744073709551615\r\n\r\n",
            ),
            (BodyLength::Chunked, "Transfer-Encoding: chunked\r\n\r\n"),
        ] {
            assert_eq!(encode("/a?b", "[::1]:80", &headers, body), Ok(format!("{start}{end}")));
        }
    }

    #[test]
    fn nothing_breaks_out_of_its_line() {
        let none = HeaderMap::new();
        for bad in ["", "/a b", "/a\r\nX: y", "/\0", "/\t", "/\x7f", "/\u{e4}"] {
            assert_eq!(
                encode(bad, "host", &none, BodyLength::None),
                Err(BadRequest::Target),
                "{bad:?}"
            );
            assert_eq!(
                encode("/", bad, &none, BodyLength::None),
                Err(BadRequest::Host),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn what_is_ours_is_refused() {
        for name in [HOST, CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION] {
            let headers = HeaderMap::from_iter([(name.clone(), HeaderValue::from_static("5"))]);
            assert_eq!(
                encode("/", "host", &headers, BodyLength::None),
                Err(BadRequest::OwnHeader(name))
            );
        }
    }

    #[test]
    fn chunks() {
        let mut out = Vec::new();
        encode_chunk(&mut out, b"");
        assert!(out.is_empty(), "an empty chunk is the last one");
        encode_chunk(&mut out, &[b'x'; 26]);
        encode_last_chunk(&mut out);
        assert_eq!(out, b"1a\r\nxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n0\r\n\r\n");
    }

    #[test]
    fn a_bad_request_says_what_is_wrong_with_it() {
        for (bad, part) in [
            (BadRequest::Target, "target"),
            (BadRequest::Host, "host"),
            (BadRequest::OwnHeader(http::header::CONTENT_LENGTH), "content-length"),
        ] {
            assert!(bad.to_string().contains(part), "{bad:?}: {bad}");
        }
    }
}
