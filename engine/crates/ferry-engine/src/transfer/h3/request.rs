//! One request and its answer on a stream; moves the parts of their bodies that may move now.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::{Buf, Bytes};
use h3::client::{RequestStream, SendRequest};
use h3::error::{Code, StreamError};
use http::{Request, Uri};
use quinn_proto::StreamId;

use super::link::{Half, Link, Sending};
use super::nginx;
use crate::error::Error;
use crate::transfer::exchange::Exchange;
use crate::transfer::wire::{content_length, host, target};
use crate::transfer::{Head, Settings};

/// Read from a stream in one round, so that several take turns.
const TURN_BYTES: usize = 256 * 1024;
/// Pieces in one round: small ones come of small datagrams.
const TURN_PIECES: usize = 512;
/// The most bytes of an upload given to the server at once.
const PIECE_BYTES: usize = 64 * 1024;

pub type Requests = SendRequest<Link, Bytes>;

pub struct Stream {
    id: Option<StreamId>,
    request: Option<RequestStream<Half, Bytes>>,
    pub exchange: Exchange,
    /// The head of the answer is there.
    has_head: bool,
    /// The answer's content has come to its end.
    has_body: bool,
    /// The end of the request's body was given to h3.
    ended: bool,
}

/// Polls once, without a waker, because the loop asks again.
fn now<T>(future: impl Future<Output = T>) -> Poll<T> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

impl Stream {
    /// Sends the head of the request. The link has room for it.
    pub fn open(mut exchange: Exchange, link: &Link, requests: &mut Requests, at: Instant) -> Self {
        let opened = head(&exchange).and_then(|head| match now(requests.send_request(head)) {
            Poll::Ready(Ok(request)) => Ok(request),
            Poll::Ready(Err(error)) => Err(problem(&exchange, link, &error)),
            Poll::Pending => Err(Error::transient(format!(
                "{}: the server takes no more streams",
                exchange.shown()
            ))),
        });
        let request = match opened {
            Ok(request) => Some(request),
            Err(problem) => {
                exchange.broken(problem, at);
                None
            }
        };
        let id = request.as_ref().and_then(|_| link.last_request());
        let mut opened = Self {
            id,
            request,
            exchange,
            has_head: false,
            has_body: false,
            ended: false,
        };
        if opened.exchange.sender.is_none() {
            opened.end();
        }
        opened
    }

    fn fail(&mut self, link: &Link, error: &StreamError, at: Instant) {
        let problem = problem(&self.exchange, link, error);
        self.exchange.broken(problem, at);
    }

    /// Nothing follows in this direction.
    fn end(&mut self) {
        if let Some(request) = &mut self.request
            && !self.ended
        {
            self.ended = true;
            // The end waits in the link like everything before it.
            let _ = now(request.finish());
        }
    }

    /// Gives the server the bytes of the request's body that are due.
    pub fn send(&mut self, link: &Link, at: Instant) {
        let (Some(id), Some(sender)) = (self.id, &mut self.exchange.sender) else {
            return;
        };
        let sending = link.sending(id);
        match sending {
            Sending::Delivered => {
                sender.ends_at = Some(0);
                sender.left(link.with(|quic| quic.sent_stream()).unwrap_or(at));
            }
            // An answer says why, or the stream is reset.
            Sending::Stopped(_) => sender.ends_at = None,
            Sending::Ready | Sending::Blocked => {}
        }
        if self.exchange.awaits_delivery() {
            let host = self.exchange.task.url.host_str().unwrap_or("?");
            let is_out = self.ended && sending == Sending::Ready;
            match link.problem(host).filter(|_| is_out) {
                Some(problem) => self.exchange.broken(problem, at),
                // The body has left, and its arrival will still become known.
                None if is_out => {}
                None => self.exchange.delivered(0, at),
            }
        } else if sending == Sending::Ready {
            self.give(link, at);
        }
    }

    fn give(&mut self, link: &Link, at: Instant) {
        let (Some(request), Some(sender)) = (&mut self.request, &mut self.exchange.sender) else {
            return;
        };
        let mut piece = Vec::new();
        match sender.fill(at, PIECE_BYTES, &mut piece) {
            Ok(_) if piece.is_empty() => {}
            Ok(_) => {
                if let Poll::Ready(Err(error)) = now(request.send_data(Bytes::from(piece))) {
                    return self.fail(link, &error, at);
                }
            }
            Err(problem) => return self.exchange.broken(problem, at),
        }
        if self.exchange.sender.as_ref().is_some_and(|sender| sender.exhausted) {
            self.end();
        }
    }

    /// Reads the bytes that have come and may be read.
    pub fn receive(&mut self, link: &Link, settings: &Settings) {
        let Some(id) = self.id else { return };
        let mut left = TURN_BYTES;
        for _ in 0..TURN_PIECES {
            let at = Instant::now();
            let budget = self.exchange.read_budget(false, at).min(left);
            if budget == 0 || self.has_body {
                return;
            }
            let came = match self.next(id, link, budget, settings, at) {
                Poll::Ready(Ok(came)) => came,
                Poll::Ready(Err(error)) => return self.fail(link, &error, at),
                Poll::Pending => return,
            };
            link.understood(id, came);
            left = left.saturating_sub(came);
        }
    }

    /// One event of the answer, out of what h3 holds already or of at most `budget` bytes more. h3 reads before it looks at what it holds, and would
    /// hold more with every frame: content that the limit does not know of.
    fn next(
        &mut self,
        id: StreamId,
        link: &Link,
        budget: usize,
        settings: &Settings,
        at: Instant,
    ) -> Poll<Result<usize, StreamError>> {
        link.allow(id, 0);
        if let Poll::Ready(event) = self.step(link, settings, at) {
            return Poll::Ready(event);
        }
        link.allow(id, budget);
        self.step(link, settings, at)
    }

    /// Takes one event of the answer, and returns the bytes of content in it.
    fn step(&mut self, link: &Link, settings: &Settings, at: Instant) -> Poll<Result<usize, StreamError>> {
        let Some(request) = &mut self.request else {
            return Poll::Pending;
        };
        if !self.has_head {
            let answer = std::task::ready!(now(request.recv_response()))?;
            self.exchange.first_byte(at);
            // 1xx says nothing final.
            if !answer.status().is_informational() {
                self.has_head = true;
                if nginx::keeps_few_frames(answer.headers()) {
                    link.keep_few_frames();
                }
                self.begin(answer, settings, at);
            }
            return Poll::Ready(Ok(0));
        }
        let mut context = Context::from_waker(Waker::noop());
        if let Some(mut content) = std::task::ready!(request.poll_recv_data(&mut context))? {
            let mut came = 0;
            while content.has_remaining() {
                let piece = content.chunk();
                self.exchange.data(piece, at);
                came += piece.len();
                let count = piece.len();
                content.advance(count);
            }
            return Poll::Ready(Ok(came));
        }
        // Nothing in trailers is acted on, but they must be right.
        std::task::ready!(request.poll_recv_trailers(&mut context))?;
        self.has_body = true;
        self.exchange.answered(at);
        Poll::Ready(Ok(0))
    }

    fn begin(&mut self, answer: http::Response<()>, settings: &Settings, at: Instant) {
        let (parts, ()) = answer.into_parts();
        let Ok(content_length) = content_length(&parts.headers) else {
            let problem = format!(
                "{}: the answer has a Content-Length that is no length",
                self.exchange.shown()
            );
            return self.exchange.broken(Error::integrity(problem), at);
        };
        let head = Head {
            status: parts.status.as_u16(),
            headers: parts.headers,
            content_length,
            delimited: true,
        };
        self.exchange.head(head, settings, at);
    }

    /// Ends a request, and refuses the remainder of one that was not answered.
    pub fn retire(&mut self, link: &Link) {
        if let Some(request) = &mut self.request
            && !self.exchange.was_answered()
        {
            request.stop_sending(Code::H3_REQUEST_CANCELLED);
            request.stop_stream(Code::H3_REQUEST_CANCELLED);
        }
        if let Some(id) = self.id {
            link.forget(id);
        }
    }
}

fn head(exchange: &Exchange) -> Result<Request<()>, Error> {
    let task = &exchange.task;
    let wrong = |why: &dyn std::fmt::Display| Error::usage(format!("{}: {why}", exchange.shown()));
    let url = &task.url;
    let whole = format!("{}://{}{}", url.scheme(), host(url), target(url));
    let uri: Uri = whole.parse().map_err(|error| wrong(&error))?;
    let mut request = Request::new(());
    *request.method_mut() = task.method.clone();
    *request.uri_mut() = uri;
    *request.headers_mut() = task.headers.clone();
    if let Some(size) = exchange.sender.as_ref().and_then(|sender| sender.size) {
        request.headers_mut().insert(http::header::CONTENT_LENGTH, size.into());
    }
    Ok(request)
}

/// Translates an error of a stream into the error of its request.
fn problem(exchange: &Exchange, link: &Link, error: &StreamError) -> Error {
    let url = exchange.shown();
    if let (StreamError::ConnectionError { .. }, Some(problem)) =
        (error, link.problem(exchange.task.url.host_str().unwrap_or("?")))
    {
        return problem;
    }
    match error {
        StreamError::RemoteTerminate { code, .. } => {
            let mut problem = Error::transient(format!("{url}: the server reset the stream ({code})"));
            problem.not_processed = *code == Code::H3_REQUEST_REJECTED;
            problem
        }
        StreamError::RemoteClosing { .. } => {
            let mut problem = Error::transient(format!("{url}: the server is closing the connection"));
            problem.not_processed = true;
            problem
        }
        StreamError::StreamError { code, reason, .. } => Error::integrity(format!("{url}: HTTP/3: {reason} ({code})")),
        StreamError::HeaderTooBig { actual_size, .. } => {
            Error::integrity(format!("{url}: HTTP/3: the answer's head has {actual_size} bytes"))
        }
        other => Error::integrity(format!("{url}: HTTP/3: {other}")),
    }
}
