//! Writing a request: its head, and the chunks of a body whose length is not known beforehand.

use std::io::Write;

use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, Method};

use crate::BadRequest;

/// How the body of a request is delimited (RFC 9112, section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLength {
    /// No body and no word about one. For an empty PUT or POST say `Known(0)` (RFC 9110, section 8.6).
    None,
    /// Content-Length.
    Known(u64),
    /// Transfer-Encoding: chunked.
    Chunked,
}

/// What [`encode_request`] writes.
#[derive(Debug, Clone, Copy)]
pub struct RequestHead<'a> {
    /// The method (RFC 9110, section 9).
    pub method: &'a Method,
    /// The request target in the form that the method and a proxy ask for (RFC 9112, section 3.2).
    pub target: &'a str,
    /// The Host field (RFC 9110, section 7.2), with the port unless it is the scheme's own.
    pub host: &'a str,
    /// Everything else.
    pub headers: &'a HeaderMap,
    /// How the body is delimited.
    pub body: BodyLength,
}

/// Appends the request head to `out` (RFC 9112, section 3): Host, the headers, then what delimits the body.
///
/// # Errors
/// When target or host could break out of their line, or a header is one that is written here: then `out` is unchanged.
pub fn encode_request(out: &mut Vec<u8>, request: &RequestHead<'_>) -> Result<(), BadRequest> {
    if !is_one_word(request.target) {
        return Err(BadRequest::Target);
    }
    if !is_one_word(request.host) {
        return Err(BadRequest::Host);
    }
    // Two sources for one of these is how a request comes to mean different things to two recipients.
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
    write!(out, "{:x}\r\n", data.len()).expect("writing to a Vec does not fail");
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
