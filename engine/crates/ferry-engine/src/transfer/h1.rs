//! HTTP/1.1 on a connection: one exchange at a time, bodies framed by length or in chunks.

use std::time::Instant;

use ferry_http::{
    BodyLength, Event, FrameError, RequestHead, ResponseBody, ResponseReader, encode_chunk, encode_last_chunk,
    encode_request,
};

use super::exchange::Exchange;
use super::wire::{Stream, Wire, addressed, host};
use super::{Head, Settings};
use crate::error::Error;
use crate::net::dial::Forward;
use crate::net::pipe::{Pipe, PipeError};

pub(super) struct Http1 {
    settings: Settings,
    forward: Option<Forward>,
    reader: Option<ResponseReader>,
    /// The bytes that have come of an incomplete head, chunk size or trailer.
    rest: Vec<u8>,
    chunked_upload: bool,
    /// The request has been written to its end.
    body_ended: bool,
    reusable: bool,
    scratch: Vec<u8>,
}

impl Http1 {
    pub fn new(settings: &Settings, forward: Option<Forward>) -> Self {
        Self {
            settings: settings.clone(),
            forward,
            reader: None,
            rest: Vec::new(),
            chunked_upload: false,
            body_ended: true,
            reusable: true,
            scratch: Vec::new(),
        }
    }

    /// Passes the reader's next event to the stream. Returns false if the reader needs more bytes or the answer is complete.
    fn step(&mut self, input: &mut &[u8], stream: &mut Stream, now: Instant) -> Result<bool, FrameError> {
        let Some(reader) = &mut self.reader else {
            return Ok(false);
        };
        let (used, event) = reader.next(input)?;
        *input = input.get(used..).unwrap_or_default();
        match event {
            Event::NeedMore => return Ok(false),
            Event::Informational(_) => {}
            Event::Head(head) => {
                let content_length = match reader.body_length() {
                    Some(ResponseBody::Known(length)) => Some(length),
                    _ => None,
                };
                stream.exchange.head(
                    Head {
                        status: head.status,
                        headers: head.headers,
                        content_length,
                        delimited: !matches!(reader.body_length(), Some(ResponseBody::UntilClose)),
                    },
                    &self.settings,
                    now,
                );
            }
            Event::Data(data) => stream.exchange.data(data, now),
            Event::End => {
                if stream.exchange.sender.is_none() {
                    reader.behind(input)?;
                }
                self.reusable = reader.keep_alive() && self.body_ended && input.is_empty();
                self.reader = None;
                stream.exchange.answered(now);
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Wire for Http1 {
    fn slots(&self, streams: usize) -> usize {
        usize::from(streams == 0 && self.reusable)
    }

    fn open(&mut self, exchange: &mut Exchange, pipe: &mut Pipe) -> Result<u32, Error> {
        let task = &exchange.task;
        let body = match &exchange.sender {
            None => BodyLength::None,
            Some(sender) => sender.size.map_or(BodyLength::Chunked, BodyLength::Known),
        };
        self.chunked_upload = matches!(body, BodyLength::Chunked);
        self.body_ended = matches!(body, BodyLength::None | BodyLength::Known(0));
        let (target, headers) = addressed(&task.url, &task.headers, self.forward.as_ref());
        let head = RequestHead {
            method: &task.method,
            target: &target,
            host: &host(&task.url),
            headers: &headers,
            body,
        };
        self.scratch.clear();
        encode_request(&mut self.scratch, &head)
            .map_err(|error| Error::usage(format!("{}: {error}", exchange.shown())).with_source(error))?;
        self.reader = Some(ResponseReader::new(&task.method));
        self.rest.clear();
        pipe.write(&self.scratch)
            .map_err(|error| Error::transient(format!("{}: {error}", exchange.shown())).with_source(error))?;
        Ok(0)
    }

    fn send_body(&mut self, stream: &mut Stream, pipe: &mut Pipe, now: Instant) -> Result<bool, PipeError> {
        let Some(sender) = &mut stream.exchange.sender else {
            return Ok(false);
        };
        if self.body_ended {
            return Ok(false);
        }
        self.scratch.clear();
        let (piece, last) = match sender.next(now, usize::MAX) {
            Ok(next) => next,
            Err(problem) => {
                stream.exchange.broken(problem, now);
                return Ok(false);
            }
        };
        let moved = !piece.is_empty();
        if self.chunked_upload {
            encode_chunk(&mut self.scratch, piece);
        } else {
            pipe.write(piece)?;
        }
        if last {
            self.body_ended = true;
            if self.chunked_upload {
                encode_last_chunk(&mut self.scratch);
            }
        }
        pipe.write(&self.scratch)?;
        Ok(moved && !self.body_ended)
    }

    fn grant(&mut self, _lanes: &mut [Stream]) {}

    fn flush(&mut self, _pipe: &mut Pipe) -> Result<(), PipeError> {
        Ok(())
    }

    fn feed(&mut self, data: &[u8], streams: &mut [Stream], now: Instant) -> Result<(), Error> {
        let Some(stream) = streams.first_mut() else {
            // Bytes without a request: an answer to nothing (a time-out notice) is the end of the connection's use.
            self.reusable = false;
            return Ok(());
        };
        if self.reader.is_none() {
            // Bytes behind the answer, in a record of their own: the request of the next answer would be unknown (RFC 9112,
            // section 9.2).
            self.reusable = false;
            return Ok(());
        }
        stream.exchange.first_byte(now);
        let joined;
        let mut input = data;
        if !self.rest.is_empty() {
            self.rest.extend_from_slice(data);
            joined = std::mem::take(&mut self.rest);
            input = &joined;
        }
        loop {
            match self.step(&mut input, stream, now) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.reusable = false;
                    return Err(Error::integrity(format!("{}: {error}", stream.exchange.shown())).with_source(error));
                }
            }
        }
        self.rest = input.to_vec();
        Ok(())
    }

    fn closed(&mut self, streams: &mut [Stream], now: Instant) {
        self.reusable = false;
        let Some(stream) = streams.first_mut() else { return };
        if let Some(Ok(())) = self.reader.as_mut().map(ResponseReader::closed) {
            stream.exchange.answered(now);
        } else {
            let problem = format!("{}: the server closed the connection", stream.exchange.shown());
            stream.exchange.broken(Error::transient(problem), now);
        }
    }

    fn retire(&mut self, stream: &Stream) {
        if !stream.exchange.was_answered() {
            self.reusable = false;
        }
        self.reader = None;
    }

    fn abandon(&mut self) {
        self.reusable = false;
    }

    fn is_reusable(&self) -> bool {
        self.reusable
    }

    fn shutdown(&mut self) {}
}
