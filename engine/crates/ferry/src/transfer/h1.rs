//! HTTP/1.1 on a connection: one exchange at a time, bodies framed by length or in chunks.

use std::time::Instant;

use ferry_http::{
    BodyLength, Event, FrameError, RequestHead, ResponseBody, ResponseReader, encode_chunk, encode_last_chunk,
    encode_request,
};
use url::Url;

use super::exchange::Exchange;
use super::session::{Lane, Wire};
use super::{Head, Settings};
use crate::net::pipe::{Pipe, PipeError};
use crate::report::Problem;

pub(super) struct Http1 {
    settings: Settings,
    reader: Option<ResponseReader>,
    /// What came of a head, a chunk's size or a trailer that is not complete yet.
    rest: Vec<u8>,
    chunked_upload: bool,
    /// The request has been written to its end.
    body_ended: bool,
    reusable: bool,
    scratch: Vec<u8>,
}

impl Http1 {
    pub fn new(settings: &Settings) -> Self {
        Self {
            settings: settings.clone(),
            reader: None,
            rest: Vec::new(),
            chunked_upload: false,
            body_ended: true,
            reusable: true,
            scratch: Vec::new(),
        }
    }

    /// The reader's next event for the lane. False when it needs more bytes or the answer is complete.
    fn step(&mut self, input: &mut &[u8], lane: &mut Lane, now: Instant) -> Result<bool, FrameError> {
        let Some(reader) = &mut self.reader else {
            return Ok(false);
        };
        let (used, event) = reader.next(input)?;
        *input = &input[used..];
        match event {
            Event::NeedMore => return Ok(false),
            Event::Informational(_) => {}
            Event::Head(head) => {
                let content_length = match reader.body_length() {
                    Some(ResponseBody::Known(length)) => Some(length),
                    _ => None,
                };
                lane.exchange.head(
                    Head {
                        status: head.status,
                        headers: head.headers,
                        content_length,
                    },
                    &self.settings,
                    now,
                );
            }
            Event::Data(data) => lane.exchange.data(data, now),
            Event::End => {
                if lane.exchange.sender.is_none() {
                    reader.behind(input)?;
                }
                self.reusable = reader.keep_alive() && self.body_ended && input.is_empty();
                self.reader = None;
                lane.exchange.answered(now);
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Wire for Http1 {
    fn slots(&self, lanes: usize) -> usize {
        usize::from(lanes == 0 && self.reusable)
    }

    fn open(&mut self, exchange: &mut Exchange, pipe: &mut Pipe) -> Result<u32, Problem> {
        let task = &exchange.task;
        let body = match &exchange.sender {
            None => BodyLength::None,
            Some(sender) => sender.size.map_or(BodyLength::Chunked, BodyLength::Known),
        };
        self.chunked_upload = matches!(body, BodyLength::Chunked);
        self.body_ended = matches!(body, BodyLength::None | BodyLength::Known(0));
        let target = target(&task.url);
        let head = RequestHead {
            method: &task.method,
            target: &target,
            host: &host(&task.url),
            headers: &task.headers,
            body,
        };
        self.scratch.clear();
        encode_request(&mut self.scratch, &head).map_err(|error| Problem::usage(format!("{}: {error}", task.url)))?;
        self.reader = Some(ResponseReader::new(&task.method));
        self.rest.clear();
        pipe.write(&self.scratch)
            .map_err(|error| Problem::transient(format!("{}: {error}", task.url)))?;
        Ok(0)
    }

    fn send_body(&mut self, lane: &mut Lane, pipe: &mut Pipe, now: Instant) -> Result<bool, PipeError> {
        let Some(sender) = &mut lane.exchange.sender else {
            return Ok(false);
        };
        if self.body_ended {
            return Ok(false);
        }
        self.scratch.clear();
        let (piece, last) = match sender.next(now, usize::MAX) {
            Ok(next) => next,
            Err(problem) => {
                lane.exchange.broken(problem, now);
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

    fn grant(&mut self, _lanes: &mut [Lane]) {}

    fn flush(&mut self, _pipe: &mut Pipe) -> Result<(), PipeError> {
        Ok(())
    }

    fn feed(&mut self, data: &[u8], lanes: &mut [Lane], now: Instant) -> Result<(), Problem> {
        let Some(lane) = lanes.first_mut() else {
            // Bytes nobody asked for: an answer to nothing (a time-out notice) is the end of the connection's use.
            self.reusable = false;
            return Ok(());
        };
        if self.reader.is_none() {
            // Behind the answer, in a record of its own: whose the next answer would be is unknown (RFC 9112, section 9.2).
            self.reusable = false;
            return Ok(());
        }
        lane.exchange.first_byte(now);
        let joined;
        let mut input = data;
        if !self.rest.is_empty() {
            self.rest.extend_from_slice(data);
            joined = std::mem::take(&mut self.rest);
            input = &joined;
        }
        loop {
            match self.step(&mut input, lane, now) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.reusable = false;
                    return Err(Problem::integrity(format!("{}: {error}", lane.exchange.task.url)));
                }
            }
        }
        self.rest = input.to_vec();
        Ok(())
    }

    fn closed(&mut self, lanes: &mut [Lane], now: Instant) {
        self.reusable = false;
        let Some(lane) = lanes.first_mut() else { return };
        if let Some(Ok(())) = self.reader.as_mut().map(ResponseReader::closed) {
            lane.exchange.answered(now);
        } else {
            let problem = format!("{}: the server closed the connection", lane.exchange.task.url);
            lane.exchange.broken(Problem::transient(problem), now);
        }
    }

    fn retire(&mut self, lane: &Lane) {
        if !lane.exchange.was_answered() {
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

    fn goodbye(&mut self) {}
}

/// Path and query, as the request line has it.
pub(super) fn target(url: &Url) -> String {
    url.query()
        .map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()))
}

/// Host, with the port where it is not the scheme's own.
pub(super) fn host(url: &Url) -> String {
    let name = url.host_str().unwrap_or_default();
    url.port()
        .map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"))
}
