//! Lines of a head. Mistakes of servers that every client overlooks are accepted; a head that two recipients could
//! understand as different messages is refused.

use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::FrameError;

/// The meaning of a line behind the status line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// The empty line, with which the head ends.
    End,
    /// A line that continues the field before it (RFC 9112, section 5.2).
    Fold(&'a [u8]),
    Field {
        name: &'a [u8],
        value: &'a [u8],
    },
    /// A line without a valid name, which has no effect.
    Nothing,
}

/// Judges one complete line, its end included; `first` is true for the line behind the status line.
pub(crate) fn judge(line: &[u8], first: bool) -> Result<Line<'_>, FrameError> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.iter().any(|byte| matches!(byte, b'\r' | b'\0')) {
        // To some recipients a line ends there (RFC 9112, section 2.2; RFC 9110, section 5.5).
        return Err(FrameError::BadHead("CR or NUL in a line"));
    }
    if line.is_empty() {
        return Ok(Line::End);
    }
    let folded = line.starts_with(b" ") || line.starts_with(b"\t");
    if folded && !first {
        return Ok(Line::Fold(line.trim_ascii()));
    }
    let Some(colon) = line.iter().position(|byte| *byte == b':') else {
        return if folded {
            Ok(Line::Nothing)
        } else {
            Err(FrameError::BadHead("line without a colon"))
        };
    };
    let (name, value) = line.split_at(colon);
    let value = value.get(1..).unwrap_or_default().trim_ascii();
    // Bytes that a name cannot have are left out of the search for the fields that decide where the message ends:
    // other recipients may leave them out too.
    let letters: Vec<u8> = name.iter().copied().filter(|byte| is_token(*byte)).collect();
    let frames = [CONTENT_LENGTH, TRANSFER_ENCODING]
        .iter()
        .any(|field| field.as_str().as_bytes().eq_ignore_ascii_case(&letters));
    if frames && (letters.len() != name.len() || value.iter().any(|byte| is_control(*byte))) {
        return Err(FrameError::BadHead(
            "a field that frames the message is not well-formed",
        ));
    }
    // In front of all fields, a recipient is to drop lines that begin with a blank (RFC 9112, section 2.2).
    let trimmed = name.trim_ascii_end();
    if folded || trimmed.is_empty() || !trimmed.iter().all(|byte| is_token(*byte)) {
        return Ok(Line::Nothing);
    }
    Ok(Line::Field { name: trimmed, value })
}

/// The fields of a complete head, without the status line.
pub(crate) fn parse(lines: &[u8]) -> Result<HeaderMap, FrameError> {
    let mut headers = HeaderMap::new();
    let mut open: Option<(HeaderName, Vec<u8>)> = None;
    for (number, line) in lines.split_inclusive(|byte| *byte == b'\n').enumerate() {
        match judge(line, number == 0)? {
            Line::Fold(more) => {
                // Every fold is one blank (RFC 9112, section 5.2).
                if let Some((_, value)) = &mut open {
                    value.push(b' ');
                    value.extend_from_slice(more);
                }
            }
            Line::Field { name, value } => {
                close(&mut headers, open.take())?;
                let name = HeaderName::from_bytes(name).map_err(|_| FrameError::BadHead("header name"))?;
                open = Some((name, value.to_vec()));
            }
            Line::Nothing | Line::End => close(&mut headers, open.take())?,
        }
    }
    close(&mut headers, open)?;
    Ok(headers)
}

/// Control characters become blanks: no field needs them (RFC 9110, section 5.5).
fn close(headers: &mut HeaderMap, field: Option<(HeaderName, Vec<u8>)>) -> Result<(), FrameError> {
    let Some((name, mut value)) = field else { return Ok(()) };
    for byte in value.iter_mut().filter(|byte| is_control(**byte)) {
        *byte = b' ';
    }
    let value = HeaderValue::from_bytes(value.trim_ascii()).map_err(|_| FrameError::BadHead("header value"))?;
    headers.append(name, value);
    Ok(())
}

/// Returns true for a control character that a value cannot have: any but the tab.
fn is_control(byte: u8) -> bool {
    byte.is_ascii_control() && byte != b'\t'
}

/// tchar (RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_line_means() {
        let field = |name: &'static str, value: &'static str| Line::Field {
            name: name.as_bytes(),
            value: value.as_bytes(),
        };
        for (line, first, meaning) in [
            ("\r\n", false, Line::End),
            ("\n", true, Line::End),
            ("A: b \r\n", false, field("A", "b")),
            ("A \t:b\n", false, field("A", "b")),
            (" a: b\r\n", false, Line::Fold(b"a: b")),
            (" \r\n", false, Line::Fold(b"")),
            (" a: b\r\n", true, Line::Nothing),
            ("\ta\r\n", true, Line::Nothing),
            (": b\r\n", false, Line::Nothing),
            ("A b: c\r\n", false, Line::Nothing),
            ("A\u{e4}: c\r\n", false, Line::Nothing),
        ] {
            assert_eq!(judge(line.as_bytes(), first), Ok(meaning), "{line:?}");
        }
        for (line, first) in [
            ("no colon\r\n", false),
            ("A: b\rc\r\n", false),
            ("A: b\0\r\n", false),
            ("A\0: b\r\n", false),
            ("Content-Length : 5\r\n", false),
            ("content-length\u{b}: 5\r\n", false),
            (" Content-Length: 5\r\n", true),
            ("Transfer-Encoding\t: chunked\r\n", false),
            ("Transfer-Encoding: \u{b}chunked\r\n", false),
            ("Content-Length: 5\u{1}\r\n", false),
        ] {
            assert!(judge(line.as_bytes(), first).is_err(), "{line:?}");
        }
    }

    #[test]
    fn what_is_no_field_takes_its_folds_with_it() {
        let headers = parse(b" a: b\r\nA: b\x01\x7fc\r\n \x02d\r\nX Y: z\r\n folded\r\nB: e\r\n\r\n").unwrap();
        assert_eq!(headers.len(), 2);
        assert_eq!(
            (&headers["a"], &headers["b"]),
            (&HeaderValue::from_static("b  c  d"), &HeaderValue::from_static("e"))
        );
    }
}
