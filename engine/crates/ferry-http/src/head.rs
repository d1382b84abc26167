//! The head of a response, and what it says about the body and about the connection afterwards.

use std::borrow::Cow;
use std::mem::MaybeUninit;

use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::FrameError;

/// The longest head that is read, in bytes.
pub const MAX_HEAD: usize = 64 * 1024;
/// The most header lines in one head.
pub const MAX_HEADERS: usize = 256;

/// The version in a status line (RFC 9112, section 2.3); no other one speaks this syntax.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
}

/// Status line and headers (RFC 9112, sections 4 and 5). The reason phrase is dropped: it means nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseHead {
    /// 100 to 999; what is above 599 is to be treated as a 5xx (RFC 9110, section 15).
    pub status: u16,
    /// The server's version.
    pub version: Version,
    /// The headers, with all values of repeated ones.
    pub headers: HeaderMap,
}

/// How the body of a response is delimited (RFC 9112, section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseBody {
    /// There is none, whatever the headers say: HEAD, 204, 304, a tunnel.
    None,
    /// Content-Length.
    Known(u64),
    /// Transfer-Encoding: chunked.
    Chunked,
    /// All bytes until the peer closes; a truncation cannot be told from the end.
    UntilClose,
}

/// Parses a head from the beginning of `input`: `None` when it is not complete, else its length and what it says.
pub(crate) fn parse(input: &[u8]) -> Result<Option<(usize, ResponseHead)>, FrameError> {
    let mut slots = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut parsed = httparse::Response::new(&mut []);
    // Blanks before the colon are refused (RFC 9112, section 5.1).
    let mut config = httparse::ParserConfig::default();
    config.allow_obsolete_multiline_headers_in_responses(true);
    let status = config.parse_response_with_uninit_headers(&mut parsed, input, &mut slots);
    let length = match status {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(bad_head(error)),
    };
    let version = if parsed.version == Some(1) {
        Version::Http11
    } else {
        Version::Http10
    };
    let status = parsed
        .code
        .filter(|code| *code >= 100)
        .ok_or(FrameError::BadHead("status code"))?;
    let mut headers = HeaderMap::with_capacity(parsed.headers.len());
    for header in parsed.headers.iter() {
        let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|_| FrameError::BadHead("header name"))?;
        let value =
            HeaderValue::from_bytes(&unfolded(header.value)).map_err(|_| FrameError::BadHead("header value"))?;
        headers.append(name, value);
    }
    Ok(Some((
        length,
        ResponseHead {
            status,
            version,
            headers,
        },
    )))
}

/// A value with every fold (a line end and the blanks around it) replaced by one blank, as a user agent must (RFC 9112, section 5.2).
fn unfolded(value: &[u8]) -> Cow<'_, [u8]> {
    if !value.contains(&b'\n') {
        return Cow::Borrowed(value);
    }
    let lines: Vec<&[u8]> = value.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).collect();
    Cow::Owned(lines.join(&b' ').trim_ascii().to_vec())
}

fn bad_head(error: httparse::Error) -> FrameError {
    match error {
        httparse::Error::TooManyHeaders => FrameError::TooManyHeaders(MAX_HEADERS),
        httparse::Error::HeaderName => FrameError::BadHead("header name"),
        httparse::Error::HeaderValue => FrameError::BadHead("header value"),
        httparse::Error::NewLine => FrameError::BadHead("line end"),
        httparse::Error::Status => FrameError::BadHead("status line"),
        httparse::Error::Token => FrameError::BadHead("token"),
        httparse::Error::Version => FrameError::BadHead("version"),
    }
}

/// How the body that follows a final head is delimited: RFC 9112, section 6.3, in the order of its rules.
pub(crate) fn body_of(method: &Method, head: &ResponseHead) -> Result<ResponseBody, FrameError> {
    if *method == Method::HEAD || matches!(head.status, 204 | 304) || is_tunnel(method, head) {
        return Ok(ResponseBody::None);
    }
    let length = content_length(&head.headers)?;
    let mut codings = head.headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), length) {
        (None, None) => Ok(ResponseBody::UntilClose),
        (None, Some(length)) => Ok(ResponseBody::Known(length)),
        (Some(_), Some(_)) => Err(FrameError::LengthAndEncoding),
        // HTTP/1.0 knows no codings: who sends one has passed on what a peer of its own said (section 6.1).
        (Some(coding), None) => {
            let chunked = coding.as_bytes().eq_ignore_ascii_case(b"chunked") && codings.next().is_none();
            let known = chunked && head.version == Version::Http11;
            if known {
                Ok(ResponseBody::Chunked)
            } else {
                Err(FrameError::BadTransferEncoding)
            }
        }
    }
}

/// The one value of all Content-Length fields, which may be repeated as long as they agree.
fn content_length(headers: &HeaderMap) -> Result<Option<u64>, FrameError> {
    let mut length = None;
    for field in headers.get_all(CONTENT_LENGTH) {
        for item in field.to_str().map_err(|_| FrameError::BadLength)?.split(',') {
            let value = crate::values::number(item.trim_matches([' ', '\t'])).ok_or(FrameError::BadLength)?;
            match length {
                Some(first) if first != value => return Err(FrameError::ConflictingLength { first, other: value }),
                _ => length = Some(value),
            }
        }
    }
    Ok(length)
}

/// Whether the server leaves the connection open (RFC 9112, section 9.3), the body's own end permitting.
pub(crate) fn persists(method: &Method, head: &ResponseHead) -> bool {
    let says = |option: &str| {
        head.headers.get_all(CONNECTION).iter().any(|field| {
            field
                .as_bytes()
                .split(|b| *b == b',')
                .any(|t| t.trim_ascii().eq_ignore_ascii_case(option.as_bytes()))
        })
    };
    !is_tunnel(method, head) && !says("close") && (head.version == Version::Http11 || says("keep-alive"))
}

/// After a successful CONNECT the bytes are somebody else's (RFC 9112, section 6.3, rule 2).
fn is_tunnel(method: &Method, head: &ResponseHead) -> bool {
    *method == Method::CONNECT && (200..300).contains(&head.status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> ResponseHead {
        let (length, head) = parse(format!("{text}\r\n\r\nbody").as_bytes())
            .unwrap()
            .expect("complete");
        assert_eq!(length, text.len() + 4);
        head
    }

    fn body(method: &Method, text: &str) -> Result<ResponseBody, FrameError> {
        body_of(method, &head(text))
    }

    #[test]
    fn what_a_head_says() {
        let head = head("HTTP/1.0 206\r\nX-A:  1 \r\nx-a: \u{e4}2\r\nEmpty:\r\nB: c\td");
        assert_eq!((head.status, head.version), (206, Version::Http10));
        let values: Vec<_> = head.headers.get_all("x-a").iter().map(HeaderValue::as_bytes).collect();
        assert_eq!(values, ["1".as_bytes(), "\u{e4}2".as_bytes()]);
        assert_eq!(head.headers["empty"], "");
        assert_eq!(head.headers["b"], "c\td");
        assert_eq!(parse(b"HTTP/1.1 200 OK\r\nA: b\r\n"), Ok(None));
        assert_eq!(
            parse(b"HTTP/1.1 600 ?\r\n\r\n").map(|h| h.map(|h| h.1.status)),
            Ok(Some(600))
        );
    }

    #[test]
    fn folded_lines_are_one_value() {
        let head = head(
            "HTTP/1.1 200 OK\r\nA: b\r\n c \r\n\t d\r\nConnection:   \r\n  close\r\nB:\r\n \r\nContent-Length: 1\r\n 2",
        );
        assert_eq!(head.headers["a"], "b c d");
        assert_eq!(head.headers["b"], "");
        assert!(!persists(&Method::GET, &head));
        assert_eq!(
            body_of(&Method::GET, &head),
            Err(FrameError::BadLength),
            "not 12, nor 1"
        );
    }

    #[test]
    fn where_the_body_ends() {
        let get = Method::GET;
        assert_eq!(body(&get, "HTTP/1.1 200 OK"), Ok(ResponseBody::UntilClose));
        assert_eq!(
            body(&get, "HTTP/1.1 200 OK\r\nContent-Length: 007"),
            Ok(ResponseBody::Known(7))
        );
        assert_eq!(
            body(&get, "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\nContent-Length: 5"),
            Ok(ResponseBody::Known(5))
        );
        assert_eq!(
            body(&get, "HTTP/1.1 404 No\r\nTransfer-Encoding: CHUNKED"),
            Ok(ResponseBody::Chunked)
        );
    }

    #[test]
    fn no_body_whatever_the_headers_say() {
        for line in ["HTTP/1.1 204 No", "HTTP/1.1 304 No\r\nContent-Length: 5"] {
            assert_eq!(body(&Method::GET, line), Ok(ResponseBody::None));
        }
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5";
        assert_eq!(body(&Method::HEAD, chunked), Ok(ResponseBody::None));
        assert_eq!(body(&Method::CONNECT, chunked), Ok(ResponseBody::None));
        assert_eq!(
            body(&Method::CONNECT, "HTTP/1.1 403 No\r\nContent-Length: 5"),
            Ok(ResponseBody::Known(5))
        );
    }

    #[test]
    fn who_leaves_the_connection_open() {
        for (text, expected) in [
            ("HTTP/1.1 200 OK", true),
            ("HTTP/1.1 200 OK\r\nConnection: closely", true),
            (
                "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nConnection: TE , Close",
                false,
            ),
            ("HTTP/1.0 200 OK", false),
            ("HTTP/1.0 200 OK\r\nConnection: Keep-Alive", true),
            ("HTTP/1.0 200 OK\r\nConnection: keep-alive, close", false),
        ] {
            assert_eq!(persists(&Method::GET, &head(text)), expected, "{text}");
            assert!(
                !persists(&Method::CONNECT, &head(text)),
                "a tunnel is no HTTP connection"
            );
        }
    }
}
