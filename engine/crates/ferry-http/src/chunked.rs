//! The chunked transfer coding (RFC 9112, section 7.1), read byte by byte between the data and in one step within it.

/// The most bytes of extensions that are skipped for each chunk. Servers send none; endless ones are an attack.
const MAX_EXTENSION: usize = 4096;
/// The most bytes of trailer fields.
const MAX_TRAILERS: usize = 16 * 1024;
/// The number of hex digits of a u64; more could only be padding, or an overflow in a reader that counts on wrapping.
const MAX_DIGITS: u8 = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Size,
    /// Blanks between the size and its extension: "bad whitespace" that a recipient has to accept there and only there.
    Blank,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLf,
    LastLf,
    Done,
}

#[derive(Debug)]
pub(crate) struct Chunked {
    state: State,
    /// The size being read, then the bytes of the chunk still to come.
    left: u64,
    digits: u8,
    /// Bytes of this chunk's extension, then of all trailers.
    skipped: usize,
}

/// The meaning of the bytes that were used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    NeedMore,
    /// The bytes used end with this many bytes of data.
    Data(usize),
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Chunk(&'static str),
    Trailer(&'static str),
}

impl Chunked {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Size,
            left: 0,
            digits: 0,
            skipped: 0,
        }
    }

    /// Uses bytes up to the end of the first piece of data, or all of them. Framing bytes are never asked for again.
    pub(crate) fn next(&mut self, input: &[u8]) -> Result<(usize, Step), Fault> {
        let mut at = 0;
        while self.state != State::Done {
            let Some(&byte) = input.get(at) else {
                return Ok((at, Step::NeedMore));
            };
            if self.state == State::Data {
                let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(input.len() - at);
                self.left -= length as u64;
                if self.left == 0 {
                    self.state = State::DataCr;
                }
                return Ok((at + length, Step::Data(length)));
            }
            self.state = self.framing(byte)?;
            at += 1;
        }
        Ok((at, Step::End))
    }

    /// The state after one byte that is not data.
    fn framing(&mut self, byte: u8) -> Result<State, Fault> {
        match (self.state, byte) {
            (State::Size, _) if byte.is_ascii_hexdigit() => self.digit(byte),
            (State::Size, _) if self.digits == 0 => Err(Fault::Chunk("size does not begin with a hex digit")),
            // Blanks before CRLF are not in the grammar. Servers that pad sizes to a fixed width send them, and hyper and curl
            // take them: no other reading of the bytes is possible.
            (State::Size | State::Blank | State::Extension, b'\r') => Ok(State::SizeLf),
            (State::Size | State::Blank, b';') => self.skip(State::Extension),
            (State::Size | State::Blank, b' ' | b'\t') => self.skip(State::Blank),
            (State::Size | State::Blank, _) => Err(Fault::Chunk("size is followed by neither an extension nor CRLF")),
            (State::Extension, _) if is_field_byte(byte) => self.skip(State::Extension),
            (State::Extension, _) => Err(Fault::Chunk("control character in an extension")),
            (State::SizeLf, b'\n') => Ok(self.chunk_begins()),
            (State::SizeLf, _) => Err(Fault::Chunk("CR without LF after the size")),
            (State::DataCr, b'\r') => Ok(State::DataLf),
            (State::DataLf, b'\n') => Ok(State::Size),
            (State::DataCr | State::DataLf, _) => Err(Fault::Chunk("data is not followed by CRLF")),
            (State::TrailerStart, b'\r') => Ok(State::LastLf),
            // A line that begins with a blank is a fold.
            (State::TrailerStart, b' ' | b'\t' | b':') | (State::TrailerName, b':') => {
                self.skip_trailer(State::TrailerValue)
            }
            (State::TrailerStart | State::TrailerName, b'\r' | b'\n' | b'\0') => {
                Err(Fault::Trailer("line without a colon"))
            }
            (State::TrailerStart | State::TrailerName, _) => self.skip_trailer(State::TrailerName),
            (State::TrailerValue, b'\r') => self.skip_trailer(State::TrailerLf),
            (State::TrailerValue, b'\n' | b'\0') => Err(Fault::Trailer("LF or NUL in a line")),
            (State::TrailerValue, _) => self.skip_trailer(State::TrailerValue),
            (State::TrailerLf, b'\n') => self.skip_trailer(State::TrailerStart),
            (State::LastLf, b'\n') => Ok(State::Done),
            (State::TrailerLf | State::LastLf, _) => Err(Fault::Trailer("CR without LF")),
            (State::Data | State::Done, _) => Err(Fault::Chunk("a byte behind the end")),
        }
    }

    fn digit(&mut self, byte: u8) -> Result<State, Fault> {
        if self.digits == MAX_DIGITS {
            return Err(Fault::Chunk("size has more than 16 digits"));
        }
        self.digits += 1;
        let value = match byte {
            b'0'..=b'9' => byte - b'0',
            _ => (byte | 0x20) - b'a' + 10,
        };
        self.left = self.left << 4 | u64::from(value);
        Ok(State::Size)
    }

    fn chunk_begins(&mut self) -> State {
        self.digits = 0;
        self.skipped = 0;
        if self.left == 0 {
            State::TrailerStart
        } else {
            State::Data
        }
    }

    fn skip(&mut self, next: State) -> Result<State, Fault> {
        self.skipped += 1;
        if self.skipped > MAX_EXTENSION {
            Err(Fault::Chunk("extension longer than 4096 bytes"))
        } else {
            Ok(next)
        }
    }

    fn skip_trailer(&mut self, next: State) -> Result<State, Fault> {
        self.skipped += 1;
        if self.skipped > MAX_TRAILERS {
            Err(Fault::Trailer("longer than 16384 bytes"))
        } else {
            Ok(next)
        }
    }
}

/// Returns true for a byte that a field value or a quoted string may have (RFC 9110, section 5.5).
fn is_field_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= 0x20 && byte != 0x7f)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The data, the unused bytes, and true if the body has ended.
    fn decode(mut input: &[u8]) -> Result<(Vec<u8>, &[u8], bool), Fault> {
        let (mut chunked, mut data) = (Chunked::new(), Vec::new());
        loop {
            let (used, step) = chunked.next(input)?;
            let (now, rest) = input.split_at(used);
            input = rest;
            match step {
                Step::Data(length) => data.extend_from_slice(&now[now.len() - length..]),
                Step::NeedMore => return Ok((data, input, false)),
                Step::End => return Ok((data, input, true)),
            }
        }
    }

    #[test]
    fn sizes_extensions_and_trailers() {
        let wire = b"5\r\nhello\r\n00B;a;b=\"c;\xff\"\r\n, big world\r\n1 \t;x\r\n!\r\n000\r\nSum: 1\r\nX:\r\n\r\nnext";
        assert_eq!(decode(wire), Ok((b"hello, big world!".to_vec(), &b"next"[..], true)));
        for cut in 0..wire.len() - 4 {
            assert!(
                matches!(decode(&wire[..cut]), Ok((_, [], false))),
                "nothing is kept back at {cut}"
            );
        }
    }

    #[test]
    fn one_call_per_chunk() {
        let mut chunked = Chunked::new();
        assert_eq!(chunked.next(b"3\r\nabc\r\n4\r\ndefg\r\n"), Ok((6, Step::Data(3))));
        assert_eq!(chunked.next(b"\r\n4\r\nde"), Ok((7, Step::Data(2))));
        assert_eq!(chunked.next(b"fg"), Ok((2, Step::Data(2))));
        assert_eq!(chunked.next(b"\r\n0\r\n\r\n"), Ok((7, Step::End)));
    }

    #[test]
    fn limits() {
        let with_extension = |length| decode(format!("1;{}\r\na\r\n", "x".repeat(length)).repeat(2).as_bytes()).is_ok();
        assert!(with_extension(MAX_EXTENSION - 1), "each chunk may have as much");
        assert!(!with_extension(MAX_EXTENSION));
        let with_trailer = |length| decode(format!("0\r\nA:{}\r\n\r\n", "x".repeat(length)).as_bytes()).is_ok();
        assert!(with_trailer(MAX_TRAILERS - 4));
        assert!(!with_trailer(MAX_TRAILERS - 3));
        assert!(with_trailer(16_380) && !with_trailer(16_381), "as the message says");
        assert!(decode(b"0000000000000001\r\na\r\n").is_ok());
        assert_eq!(
            decode(b"00000000000000001"),
            Err(Fault::Chunk("size has more than 16 digits"))
        );
    }
}
