//! The head of a response, and its consequences for the body and for the connection afterwards.

use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, Method};

use crate::{FrameError, fields};

/// The longest head that is read, in bytes: as long as curl's.
pub const MAX_HEAD: usize = 300 * 1024;
/// The most lines of fields in one head: as many as curl's.
pub const MAX_HEADERS: usize = 5000;

/// The version in a status line (RFC 9112, section 2.3); no other version uses this syntax.
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
    /// 100 to 999; a status above 599 is to be treated as a 5xx (RFC 9110, section 15).
    pub status: u16,
    /// The server's version.
    pub version: Version,
    /// The headers, with all values of repeated ones.
    pub headers: HeaderMap,
}

/// The framing of a response's body (RFC 9112, section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseBody {
    /// No body, whatever the headers say: HEAD, 204, 304, a tunnel.
    None,
    /// Content-Length.
    Known(u64),
    /// Transfer-Encoding: chunked.
    Chunked,
    /// All bytes until the peer closes; a truncation cannot be told from the end.
    UntilClose,
}

/// Version and status of a status line, its end included.
pub(crate) fn status_line(line: &[u8]) -> Result<(Version, u16), FrameError> {
    // A head without fields.
    let whole = [line, b"\r\n"].concat();
    let mut parsed = httparse::Response::new(&mut []);
    match parsed.parse(&whole) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Err(FrameError::BadHead("status line")),
        Err(error) => return Err(bad_status_line(error)),
    }
    let version = if parsed.version == Some(1) {
        Version::Http11
    } else {
        Version::Http10
    };
    let status = parsed.code.filter(|code| *code >= 100);
    Ok((version, status.ok_or(FrameError::BadHead("status code"))?))
}

/// Parses a complete head, from the status line to the empty line.
pub(crate) fn parse(head: &[u8]) -> Result<ResponseHead, FrameError> {
    let end = head
        .iter()
        .position(|byte| *byte == b'\n')
        .map_or(head.len(), |at| at + 1);
    let (first, rest) = head.split_at(end);
    let (version, status) = status_line(first)?;
    Ok(ResponseHead {
        status,
        version,
        headers: fields::parse(rest)?,
    })
}

fn bad_status_line(error: httparse::Error) -> FrameError {
    FrameError::BadHead(match error {
        httparse::Error::NewLine => "line end",
        httparse::Error::Token => "token",
        httparse::Error::Version => "version",
        _ => "status line",
    })
}

/// The framing of the body that follows a final head: RFC 9112, section 6.3, in the order of its rules.
pub(crate) fn body_of(method: &Method, head: &ResponseHead) -> Result<ResponseBody, FrameError> {
    if *method == Method::HEAD || matches!(head.status, 204 | 304) || is_tunnel(method, head) {
        return Ok(ResponseBody::None);
    }
    // Rule 3: the coding overrides the length. A response with both is also a mark of response splitting, so nothing else is
    // read from the connection (`persists`).
    if is_chunked(&head.headers)? {
        return Ok(ResponseBody::Chunked);
    }
    Ok(content_length(&head.headers)?.map_or(ResponseBody::UntilClose, ResponseBody::Known))
}

/// Returns true if the body is chunked. `identity`, which RFC 2616 had, does not count as a coding.
fn is_chunked(headers: &HeaderMap) -> Result<bool, FrameError> {
    let fields = headers.get_all(TRANSFER_ENCODING).iter();
    let mut codings = fields
        .flat_map(|field| field.as_bytes().split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity"));
    match (codings.next(), codings.next()) {
        (None, _) => Ok(false),
        (Some(coding), None) if coding.eq_ignore_ascii_case(b"chunked") => Ok(true),
        _ => Err(FrameError::BadTransferEncoding),
    }
}

/// Returns true if every recipient finds the end of this message at the same place: HTTP/1.0 knows no codings (RFC 9112,
/// section 6.1), and a message with two such fields may have passed an intermediary that knew only one of them.
fn is_framed_for_all(head: &ResponseHead) -> bool {
    let mut codings = head.headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => true,
        (Some(coding), None) => {
            coding.as_bytes().eq_ignore_ascii_case(b"chunked")
                && head.version == Version::Http11
                && !head.headers.contains_key(CONTENT_LENGTH)
        }
        _ => false,
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

/// Returns true if the server leaves the connection open (RFC 9112, section 9.3), provided that the body has an end of its
/// own.
pub(crate) fn persists(method: &Method, head: &ResponseHead) -> bool {
    let says = |option: &str| {
        head.headers.get_all(CONNECTION).iter().any(|field| {
            field
                .as_bytes()
                .split(|b| *b == b',')
                .any(|t| t.trim_ascii().eq_ignore_ascii_case(option.as_bytes()))
        })
    };
    is_framed_for_all(head)
        && !is_tunnel(method, head)
        && !says("close")
        && (head.version == Version::Http11 || says("keep-alive"))
}

/// Returns true for a successful CONNECT: the bytes behind the head belong to the tunnel (RFC 9112, section 6.3, rule 2).
fn is_tunnel(method: &Method, head: &ResponseHead) -> bool {
    *method == Method::CONNECT && (200..300).contains(&head.status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> ResponseHead {
        parse(format!("{text}\r\n\r\n").as_bytes()).unwrap()
    }

    fn body(method: &Method, text: &str) -> Result<ResponseBody, FrameError> {
        body_of(method, &head(text))
    }

    #[test]
    fn what_a_head_says() {
        let head = head("HTTP/1.0 206\r\nX-A:  1 \r\nx-a: \u{e4}2\r\nEmpty:\r\nB: c\td");
        assert_eq!((head.status, head.version), (206, Version::Http10));
        let values: Vec<_> = head
            .headers
            .get_all("x-a")
            .iter()
            .map(http::HeaderValue::as_bytes)
            .collect();
        assert_eq!(values, ["1".as_bytes(), "\u{e4}2".as_bytes()]);
        assert_eq!(head.headers["empty"], "");
        assert_eq!(head.headers["b"], "c\td");
        assert_eq!(parse(b"HTTP/1.1 600 ?\r\n\r\n").map(|head| head.status), Ok(600));
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
        for coding in [
            "CHUNKED",
            "chunked,",
            "identity, chunked",
            "chunked\r\nContent-Length: 5",
        ] {
            let text = format!("HTTP/1.1 404 No\r\nTransfer-Encoding: {coding}");
            assert_eq!(body(&get, &text), Ok(ResponseBody::Chunked), "{coding}");
        }
        for coding in ["identity", "", "Identity, identity"] {
            let text = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: {coding}");
            assert_eq!(body(&get, &text), Ok(ResponseBody::UntilClose), "{coding}");
            let with_length = format!("{text}\r\nContent-Length: 5");
            assert_eq!(body(&get, &with_length), Ok(ResponseBody::Known(5)), "{coding}");
        }
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
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked", true),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5",
                false,
            ),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: identity, chunked", false),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: 5",
                false,
            ),
            (
                "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked",
                false,
            ),
        ] {
            assert_eq!(persists(&Method::GET, &head(text)), expected, "{text}");
            assert!(
                !persists(&Method::CONNECT, &head(text)),
                "a tunnel is no HTTP connection"
            );
        }
    }
}
