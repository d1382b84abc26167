//! Reading one response: head, body, end.

use http::Method;

use crate::FrameError;
use crate::chunked::{Chunked, Fault, Step};
use crate::fields::{self, Line};
use crate::head::{self, MAX_HEAD, MAX_HEADERS, ResponseBody, ResponseHead};

/// The most interim responses before a final one. Servers that say "still working" do so every few seconds at most.
pub const MAX_INFORMATIONAL: u32 = 256;

/// The most empty lines before a head that are skipped.
const MAX_EMPTY_LINES: usize = 2;

/// The meaning of the next bytes of a connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// Nothing yet: call again with the bytes that were not used and more behind them.
    NeedMore,
    /// An interim response, 1xx but never 101 (RFC 9110, section 15.2); the final one follows.
    Informational(ResponseHead),
    /// The final head. [`ResponseReader::body_length`] is known from now on.
    Head(ResponseHead),
    /// Body bytes, at least one.
    Data(&'a [u8]),
    /// The response is complete; bytes that were not used belong to the next response.
    End,
}

/// Reads one response (RFC 9112, section 4) from bytes as they arrive.
#[derive(Debug)]
pub struct ResponseReader {
    method: Method,
    state: State,
    body: Option<ResponseBody>,
    received: u64,
    persists: bool,
    /// The status is 2xx: the body is the requested content, not an error page.
    success: bool,
    /// Bytes of interim heads that are done with, and their number.
    interim_bytes: u64,
    interim_heads: u32,
    /// Bytes of an incomplete head that have been looked at.
    scanned: usize,
    /// Bytes of the complete lines of an incomplete head, and the number of these lines.
    judged: usize,
    lines: usize,
}

#[derive(Debug)]
enum State {
    Head,
    Known { left: u64 },
    Chunked(Chunked),
    UntilClose,
    Done,
    Failed(FrameError),
}

impl ResponseReader {
    /// A reader for the response to one request; the method decides whether there can be a body.
    #[must_use]
    pub fn new(method: &Method) -> Self {
        Self {
            method: method.clone(),
            state: State::Head,
            body: None,
            received: 0,
            persists: false,
            success: false,
            interim_bytes: 0,
            interim_heads: 0,
            scanned: 0,
            judged: 0,
            lines: 0,
        }
    }

    /// Looks at `input` and returns the number of bytes used and their meaning.
    ///
    /// An incomplete head is not used: the caller keeps it and gives it again with more bytes behind. Data borrows from `input`.
    /// After [`Event::End`], every call returns it again and uses no bytes.
    ///
    /// # Errors
    /// When the bytes are not a response by RFC 9112; the reader then repeats the error for ever.
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Result<(usize, Event<'a>), FrameError> {
        let result = self.step(input);
        if let Err(error) = result {
            self.state = State::Failed(error);
        }
        result
    }

    fn step<'a>(&mut self, input: &'a [u8]) -> Result<(usize, Event<'a>), FrameError> {
        let (used, length) = match &mut self.state {
            State::Failed(error) => return Err(*error),
            State::Done | State::Known { left: 0 } => {
                self.state = State::Done;
                return Ok((0, Event::End));
            }
            State::Head => return self.head(input),
            State::Known { left } => {
                let length = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                *left -= length as u64;
                (length, length)
            }
            State::UntilClose => (input.len(), input.len()),
            State::Chunked(chunked) => match chunked.next(input) {
                Ok((used, Step::Data(length))) => (used, length),
                Ok((used, Step::NeedMore)) => (used, 0),
                Ok((used, Step::End)) => {
                    self.state = State::Done;
                    return Ok((used, Event::End));
                }
                Err(Fault::Chunk(reason)) => {
                    return Err(FrameError::BadChunk {
                        reason,
                        received: self.received,
                    });
                }
                Err(Fault::Trailer(reason)) => {
                    return Err(FrameError::BadTrailer {
                        reason,
                        received: self.received,
                    });
                }
            },
        };
        if length == 0 {
            return Ok((used, Event::NeedMore));
        }
        self.received += length as u64;
        let data = input.get(used - length..used).unwrap_or_default();
        Ok((used, Event::Data(data)))
    }

    fn head<'a>(&mut self, input: &'a [u8]) -> Result<(usize, Event<'a>), FrameError> {
        let Some((used, head)) = self.complete_head(input)? else {
            return Ok((0, Event::NeedMore));
        };
        (self.scanned, self.judged, self.lines) = (0, 0, 0);
        if head.status == 101 {
            return Err(FrameError::UnexpectedUpgrade);
        }
        if head.status < 200 {
            self.interim_heads += 1;
            self.interim_bytes += used as u64;
            if self.interim_heads > MAX_INFORMATIONAL {
                return Err(FrameError::TooManyInformational(MAX_INFORMATIONAL));
            }
            return Ok((used, Event::Informational(head)));
        }
        let body = head::body_of(&self.method, &head)?;
        self.persists = body != ResponseBody::UntilClose && head::persists(&self.method, &head);
        self.success = (200..300).contains(&head.status);
        self.body = Some(body);
        self.state = match body {
            // Not yet done: the end is an event of its own.
            ResponseBody::None => State::Known { left: 0 },
            ResponseBody::Known(left) => State::Known { left },
            ResponseBody::Chunked => State::Chunked(Chunked::new()),
            ResponseBody::UntilClose => State::UntilClose,
        };
        Ok((used, Event::Head(head)))
    }

    /// The head at the beginning of `input`, once it is complete.
    ///
    /// Each line is judged once, when it is complete: a head that drips in costs no more, and the verdict does not depend on
    /// the cuts of the bytes.
    fn complete_head(&mut self, input: &[u8]) -> Result<Option<(usize, ResponseHead)>, FrameError> {
        // Some servers append an empty line to a response, so it stands before the next one, or before the final one behind a 1xx.
        // RFC 9112, 2.2 has a server overlook one before a request; here the same holds for a client.
        let (skipped, rest) = without_empty_lines(input);
        // Refuses TLS, HTTP/2 and the remainder of a previous response at once, where waiting for a line could take for ever.
        if rest.iter().zip(b"HTTP/1.").any(|(got, wanted)| got != wanted) {
            return Err(FrameError::BadHead("not an HTTP/1 response"));
        }
        let window = input.get(..MAX_HEAD).unwrap_or(input);
        loop {
            let begin = self.judged.max(skipped);
            let fresh = window.get(begin.max(self.scanned)..).unwrap_or_default();
            let Some(length) = fresh.iter().position(|byte| *byte == b'\n') else {
                break;
            };
            let end = begin.max(self.scanned) + length + 1;
            let line = window.get(begin..end).unwrap_or_default();
            self.judged = end;
            self.scanned = end;
            if self.is_last(line)? {
                let head = window.get(skipped..end).unwrap_or_default();
                return Ok(Some((end, head::parse(head)?)));
            }
        }
        self.scanned = window.len();
        if window.len() == MAX_HEAD {
            Err(FrameError::HeadTooLong(MAX_HEAD))
        } else {
            Ok(None)
        }
    }

    /// Judges the next line of a head; true if the head ends with it.
    fn is_last(&mut self, line: &[u8]) -> Result<bool, FrameError> {
        let number = self.lines;
        self.lines += 1;
        if number == 0 {
            return head::status_line(line).map(|_| false);
        }
        if fields::judge(line, number == 1)? == Line::End {
            return Ok(true);
        }
        if number > MAX_HEADERS {
            return Err(FrameError::TooManyHeaders(MAX_HEADERS));
        }
        Ok(false)
    }

    /// Ends the response because the peer closed the connection; all bytes before that have been given to [`Self::next`].
    ///
    /// # Errors
    /// If the close is not a proper end (RFC 9112, section 8): after the last byte, or of a body that lasts until the close.
    pub fn closed(&mut self) -> Result<(), FrameError> {
        let error = match &self.state {
            State::Done | State::UntilClose | State::Known { left: 0 } => {
                self.state = State::Done;
                return Ok(());
            }
            State::Failed(error) => *error,
            State::Head => FrameError::ClosedInHead {
                bytes: self.interim_bytes + self.scanned as u64,
            },
            State::Known { left } => FrameError::Truncated {
                received: self.received,
                expected: Some(self.received + left),
            },
            State::Chunked(_) => FrameError::Truncated {
                received: self.received,
                expected: None,
            },
        };
        self.state = State::Failed(error);
        Err(error)
    }

    /// Judges the bytes behind a complete response in the same read: they can be the rest of a body whose length was too short.
    ///
    /// An empty line, which some servers append, and another response (a timeout notice) are accepted.
    ///
    /// # Errors
    /// If there are other bytes behind a body with a Content-Length, and the status is 2xx.
    pub fn behind(&self, rest: &[u8]) -> Result<(), FrameError> {
        let harmless = rest.iter().all(|byte| matches!(byte, b'\r' | b'\n')) && rest.len() <= 2;
        let answer = rest.iter().zip(b"HTTP/1.").all(|(got, wanted)| got == wanted);
        match self.body {
            Some(ResponseBody::Known(expected)) if self.success && !harmless && !answer => {
                Err(FrameError::Excess { expected })
            }
            _ => Ok(()),
        }
    }

    /// The framing of the body (RFC 9112, section 6.3): known once the final head is.
    #[must_use]
    pub fn body_length(&self) -> Option<ResponseBody> {
        self.body
    }

    /// Body bytes handed out so far, without framing.
    #[must_use]
    pub fn body_received(&self) -> u64 {
        self.received
    }

    /// Returns true if the connection may carry another request (RFC 9112, section 9.3): only ever after [`Event::End`].
    #[must_use]
    pub fn keep_alive(&self) -> bool {
        self.persists && matches!(self.state, State::Done)
    }
}

/// The length of the empty lines before a head, and the bytes behind them. A CR at the end of the input counts as an empty
/// line, because its LF may still come.
fn without_empty_lines(input: &[u8]) -> (usize, &[u8]) {
    let mut rest = input;
    for _ in 0..MAX_EMPTY_LINES {
        rest = match rest {
            [b'\n', behind @ ..] | [b'\r', b'\n', behind @ ..] => behind,
            [b'\r'] => &[],
            _ => break,
        };
    }
    (input.len() - rest.len(), rest)
}

#[cfg(test)]
mod tests;
