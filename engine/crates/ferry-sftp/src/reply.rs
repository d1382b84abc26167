//! Replies (section 7).

use std::fmt;
use std::sync::Arc;

use crate::attrs::Attrs;
use crate::error::ProtocolError;
use crate::slab::Expect;
use crate::wire::{Fields, kind};

/// The longest handle (section 6.3).
const MAX_HANDLE: usize = 256;
/// The most characters of a status message that are kept.
const MAX_MESSAGE: usize = 256;

/// The server's name for an open file or directory. Clones share the bytes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Handle(Arc<[u8]>);

impl Handle {
    /// A handle of these bytes, which only a server can give a meaning.
    ///
    /// # Errors
    /// [`ProtocolError::HandleTooLong`] above 256 bytes (section 6.3).
    pub fn new(bytes: &[u8]) -> Result<Self, ProtocolError> {
        if bytes.len() > MAX_HANDLE {
            return Err(ProtocolError::HandleTooLong { length: bytes.len() });
        }
        Ok(Self(bytes.into()))
    }

    /// The bytes, as the server sent them.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({})", self.0.escape_ascii())
    }
}

/// One entry of a directory, or a path (section 7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The name as the server sent it: it may be `..`, or have slashes, see [`Name::is_plain`].
    pub file_name: Vec<u8>,
    /// A line like those of `ls -l`, in the server's own form.
    pub long_name: Vec<u8>,
    /// The attributes of the entry itself: for a link, those of the link.
    pub attrs: Attrs,
}

impl Name {
    /// Returns true if the name stays in its directory: it is not empty, not `.` or `..`, and has no `/` and no NUL.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        !matches!(&self.file_name[..], b"" | b"." | b"..")
            && !self.file_name.iter().any(|byte| matches!(byte, 0 | b'/'))
    }
}

/// The codes of section 7.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum StatusCode {
    /// The request succeeded.
    Ok,
    /// The end of the file, or of the directory.
    Eof,
    /// There is no such file.
    NoSuchFile,
    /// The request is not allowed.
    PermissionDenied,
    /// Something went wrong; OpenSSH's answer to anything without a code of its own.
    Failure,
    /// The server did not understand the packet.
    BadMessage,
    /// Never on the wire (section 7).
    NoConnection,
    /// Never on the wire (section 7).
    ConnectionLost,
    /// The server cannot do this.
    OpUnsupported,
    /// A code of a later version.
    Other(u32),
}

impl From<u32> for StatusCode {
    fn from(code: u32) -> Self {
        match code {
            0 => Self::Ok,
            1 => Self::Eof,
            2 => Self::NoSuchFile,
            3 => Self::PermissionDenied,
            4 => Self::Failure,
            5 => Self::BadMessage,
            6 => Self::NoConnection,
            7 => Self::ConnectionLost,
            8 => Self::OpUnsupported,
            other => Self::Other(other),
        }
    }
}

impl fmt::Display for StatusCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Eof => "end of file",
            Self::NoSuchFile => "no such file",
            Self::PermissionDenied => "permission denied",
            Self::Failure => "failure",
            Self::BadMessage => "bad message",
            Self::NoConnection => "no connection",
            Self::ConnectionLost => "connection lost",
            Self::OpUnsupported => "operation not supported",
            Self::Other(code) => return write!(f, "status {code}"),
        })
    }
}

/// The outcome of a request (section 7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The server's code for the outcome.
    pub code: StatusCode,
    /// The server's message: at most 256 characters, with U+FFFD in place of invalid UTF-8, control characters and format
    /// characters that reorder the line. Always empty for `Ok` and `Eof`, so that an acknowledgement allocates nothing.
    pub message: String,
}

/// Shows `code`, and the message in parentheses unless it is empty.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        if !self.message.is_empty() {
            write!(f, " ({})", self.message)?;
        }
        Ok(())
    }
}

/// The answer to a request. Its type is checked against the request before it is handed on: `Status` may answer any
/// request, but never with `Ok` where something else was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The answer to any request.
    Status(Status),
    /// The answer to OPEN and OPENDIR.
    Handle(Handle),
    /// The answer to READ, after the last [`Event::Data`](crate::Event::Data).
    Data {
        /// The number of bytes, at most the requested length. A broken server may send 0.
        length: u32,
    },
    /// The answer to READDIR and REALPATH. May be empty.
    Names(Vec<Name>),
    /// The answer to STAT, LSTAT and FSTAT.
    Attrs(Attrs),
    /// The answer to an extension, unparsed.
    Extended(Vec<u8>),
}

impl Status {
    fn parse(fields: &mut Fields<'_>) -> Result<Self, ProtocolError> {
        let code = StatusCode::from(fields.u32()?);
        let message = match code {
            StatusCode::Ok | StatusCode::Eof => String::new(),
            // Servers that were written for version 2 send the code alone; the language tag is of no use here.
            _ if fields.is_empty() => String::new(),
            _ => printable(fields.string()?),
        };
        Ok(Self { code, message })
    }
}

impl Reply {
    /// Parses a reply other than DATA; `fields` begin after the id. Bytes behind the last field are left alone.
    pub(crate) fn parse(packet: u8, expect: Expect, fields: &mut Fields<'_>) -> Result<Self, ProtocolError> {
        let request = expect.request;
        if packet != kind::STATUS && packet != expect.kind {
            return Err(ProtocolError::WrongReply { kind: packet, request });
        }
        Ok(match packet {
            kind::STATUS => {
                let status = Status::parse(fields)?;
                if status.code == StatusCode::Ok && expect.kind != kind::STATUS {
                    return Err(ProtocolError::EmptySuccess { request });
                }
                Self::Status(status)
            }
            kind::HANDLE => Self::Handle(Handle::new(fields.string()?)?),
            kind::NAME => Self::Names(names(fields)?),
            kind::ATTRS => Self::Attrs(Attrs::parse(fields)?),
            kind::EXTENDED_REPLY => Self::Extended(fields.0.to_vec()),
            kind => return Err(ProtocolError::UnknownKind { kind }),
        })
    }
}

fn names(fields: &mut Fields<'_>) -> Result<Vec<Name>, ProtocolError> {
    let count = fields.u32()? as usize;
    // The count is the server's word; two lengths and the attributes' flags are the least that an entry takes.
    let mut names = Vec::with_capacity(count.min(fields.0.len() / 12));
    for _ in 0..count {
        names.push(Name {
            file_name: fields.string()?.to_vec(),
            long_name: fields.string()?.to_vec(),
            attrs: Attrs::parse(fields)?,
        });
    }
    Ok(names)
}

/// Makes a server's message fit for a terminal and a log line.
fn printable(bytes: &[u8]) -> String {
    // Four bytes are the longest character: no more need be looked at.
    let bytes = bytes.get(..MAX_MESSAGE * 4).unwrap_or(bytes);
    let harmless = |character: char| {
        // Controls move the cursor; the format characters of the bidirectional algorithm reorder the line.
        let reorders = matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if character.is_control() || reorders {
            char::REPLACEMENT_CHARACTER
        } else {
            character
        }
    };
    String::from_utf8_lossy(bytes)
        .chars()
        .take(MAX_MESSAGE)
        .map(harmless)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{put_string, put_u32};

    fn status(expect: Expect, code: u32, message: &[u8]) -> Result<Reply, ProtocolError> {
        let mut out = Vec::new();
        put_u32(&mut out, code);
        put_string(&mut out, message);
        Reply::parse(kind::STATUS, expect, &mut Fields(&out))
    }

    const CLOSE: Expect = Expect::new("CLOSE", kind::STATUS);
    const OPEN: Expect = Expect::new("OPEN", kind::HANDLE);

    #[test]
    fn messages_are_short_and_printable() {
        let said = |bytes: &[u8]| match status(CLOSE, 4, bytes) {
            Ok(Reply::Status(status)) => status.message,
            other => panic!("{other:?}"),
        };
        assert_eq!(said(b"no \x1b[2J way\n\xff"), "no \u{fffd}[2J way\u{fffd}\u{fffd}");
        assert_eq!(said("\u{9b}a\u{202e}b".as_bytes()), "\u{fffd}a\u{fffd}b");
        assert_eq!(said("\u{1f980}".repeat(1000).as_bytes()), "\u{1f980}".repeat(256));
        assert_eq!(said(&[0xff; 5000]).chars().count(), 256);
    }

    #[test]
    fn success_is_silent_and_only_where_nothing_was_asked_for() {
        let ok = Reply::Status(Status {
            code: StatusCode::Ok,
            message: String::new(),
        });
        assert_eq!(status(CLOSE, 0, b"Success"), Ok(ok));
        let request = "OPEN";
        assert_eq!(status(OPEN, 0, b""), Err(ProtocolError::EmptySuccess { request }));
        assert!(status(OPEN, 2, b"").is_ok());
    }

    #[test]
    fn a_status_may_be_a_code_alone() {
        let reply = Reply::parse(kind::STATUS, CLOSE, &mut Fields(&[0, 0, 0, 3])).unwrap();
        let Reply::Status(status) = reply else {
            panic!("{reply:?}")
        };
        assert_eq!(status.to_string(), "permission denied");
    }

    #[test]
    fn handles_end_at_256_bytes() {
        for (length, fits) in [(0, true), (256, true), (257, false)] {
            let mut out = Vec::new();
            put_string(&mut out, &vec![7; length]);
            let reply = Reply::parse(kind::HANDLE, OPEN, &mut Fields(&out));
            assert_eq!(reply.is_ok(), fits, "{reply:?}");
        }
    }

    #[test]
    fn a_count_that_is_a_lie_costs_nothing() {
        let expect = Expect::new("READDIR", kind::NAME);
        let reply = Reply::parse(kind::NAME, expect, &mut Fields(&[0xff; 40]));
        assert_eq!(reply, Err(ProtocolError::Truncated));
        let none = Reply::parse(kind::NAME, expect, &mut Fields(&[0; 4]));
        assert_eq!(none, Ok(Reply::Names(Vec::new())));
    }

    #[test]
    fn names_that_leave_their_directory_are_not_plain() {
        let plain = |name: &[u8]| {
            let file_name = name.to_vec();
            let (long_name, attrs) = (Vec::new(), Attrs::default());
            Name {
                file_name,
                long_name,
                attrs,
            }
            .is_plain()
        };
        assert!(plain(b"a") && plain(b"...") && plain(b"\xff"));
        assert!(!plain(b"") && !plain(b".") && !plain(b"..") && !plain(b"../a") && !plain(b"a\0"));
    }

    #[test]
    fn a_handle_is_shown_as_it_was_sent_and_cannot_break_a_line() {
        let handle = Handle::new(b"a\n\xff").expect("short");
        assert_eq!(format!("{handle:?}"), r"Handle(a\n\xff)");
    }
}
