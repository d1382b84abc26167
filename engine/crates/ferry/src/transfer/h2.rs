//! HTTP/2 on a connection: several exchanges at once, each with a window that follows its limit.

use std::time::{Duration, Instant};

use ferry_h2::{Config, Connection, Handler, HeaderBlock, OpenError, StreamId, error_code};
use ferry_pacing::Rate;
use http::header::{HeaderMap, HeaderName, HeaderValue};

use super::exchange::Exchange;
use super::h1::{host, target};
use super::session::{Lane, Wire};
use super::throttle::Limit;
use super::{Head, Settings};
use crate::net::pipe::{Pipe, PipeError};
use crate::report::Problem;

/// Without a limit: 1 Gbit/s at 100 ms keeps 12.5 MB on the way, a full queue as much again, and a window is topped up at its half.
/// Nothing is held here, so a large one costs no memory.
const STREAM_WINDOW: u32 = 64 << 20;
const CONNECTION_WINDOW: u32 = 256 << 20;
/// What a late wake-up may cost before the sender runs dry.
const SLACK: Duration = Duration::from_millis(15);
/// Less than this and a server that fills whole frames would stall between grants.
const LEAST_WINDOW: u64 = 16 * 1024;
/// A grant smaller than this costs more in frames than it smooths.
const LEAST_GRANT: u64 = 4 * 1024;
/// Body bytes written in one go per stream, so that several streams take turns.
const TURN_BYTES: usize = 64 * 1024;

pub(super) struct Http2 {
    settings: Settings,
    connection: Connection,
    rtt: Duration,
    reading: Reading,
    /// The peer has said that it takes no more streams, or the machine is over.
    over: bool,
}

/// The head that is being received; blocks of different streams never interleave (RFC 9113, section 4.3).
#[derive(Default)]
struct Reading {
    status: u16,
    headers: HeaderMap,
}

impl Http2 {
    pub fn new(rtt: Duration, settings: &Settings) -> Self {
        let mut config = Config {
            stream_window: STREAM_WINDOW,
            connection_window: CONNECTION_WINDOW,
            ..Config::default()
        };
        if let Some(rate) = settings.limit.rate() {
            let lanes = if settings.limit.is_shared() {
                settings.parallel as u64
            } else {
                1
            };
            config.stream_window = u32::try_from(window(share(rate, lanes), rtt)).unwrap_or(u32::MAX);
        }
        Self {
            settings: settings.clone(),
            connection: Connection::new(&config),
            rtt,
            reading: Reading::default(),
            over: false,
        }
    }
}

fn share(rate: Rate, lanes: u64) -> Rate {
    Rate::new(rate.byte_s() / lanes.max(1)).unwrap_or(rate)
}

/// A round trip's worth of the limit, and what keeps the sender going meanwhile.
fn window(rate: Rate, rtt: Duration) -> u64 {
    let time = rtt.mul_f64(1.25) + SLACK;
    rate.bytes_in(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
        .clamp(LEAST_WINDOW, 1 << 30)
}

impl Wire for Http2 {
    fn slots(&self, _lanes: usize) -> usize {
        if self.over {
            return 0;
        }
        self.connection.open_limit().saturating_sub(self.connection.active()) as usize
    }

    fn open(&mut self, exchange: &mut Exchange, _pipe: &mut Pipe) -> Result<u32, Problem> {
        let task = &exchange.task;
        let (authority, path) = (host(&task.url), target(&task.url));
        let length = exchange
            .sender
            .as_ref()
            .and_then(|sender| sender.size)
            .map(|size| size.to_string());
        let pseudo = [
            (&b":method"[..], task.method.as_str().as_bytes()),
            (b":scheme", task.url.scheme().as_bytes()),
            (b":authority", authority.as_bytes()),
            (b":path", path.as_bytes()),
        ];
        let fields = task
            .headers
            .iter()
            .map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
        let length = length.as_ref().map(|text| (&b"content-length"[..], text.as_bytes()));
        let block = HeaderBlock::new(pseudo.into_iter().chain(fields).chain(length))
            .map_err(|error| Problem::usage(format!("{}: {error}", task.url)))?;
        let end = exchange.sender.as_ref().is_none_or(|sender| sender.exhausted);
        let stream = self.connection.open(&block, end).map_err(|error| {
            let why = match error {
                OpenError::AtLimit => "the server takes no more streams",
                OpenError::GoingAway => "the server is closing the connection",
                OpenError::IdsExhausted => "the connection has no stream numbers left",
            };
            Problem::transient(format!("{}: {why}", task.url))
        })?;
        // An answer to an upload is not paced.
        if !matches!(self.settings.limit, Limit::None) && exchange.sender.is_none() {
            self.connection.set_manual(stream, true);
        }
        Ok(stream.0)
    }

    fn send_body(&mut self, lane: &mut Lane, pipe: &mut Pipe, now: Instant) -> Result<bool, PipeError> {
        let Some(sender) = &mut lane.exchange.sender else {
            return Ok(false);
        };
        if sender.exhausted {
            return Ok(false);
        }
        let stream = StreamId(lane.key);
        let room = self.connection.capacity(stream).min(TURN_BYTES);
        if room == 0 && sender.size != Some(sender.given) {
            return Ok(false);
        }
        let (piece, last) = match sender.next(now, room) {
            Ok(next) => next,
            Err(problem) => {
                lane.exchange.broken(problem, now);
                return Ok(false);
            }
        };
        let moved = !piece.is_empty();
        if moved || last {
            self.connection.send_data(stream, piece, last);
            self.flush(pipe)?;
        }
        Ok(moved && !last)
    }

    fn grant(&mut self, lanes: &mut [Lane]) {
        let Some(rate) = self.settings.limit.rate() else { return };
        let count = if self.settings.limit.is_shared() {
            lanes.len() as u64
        } else {
            1
        };
        let target = window(share(rate, count), self.rtt);
        for lane in lanes {
            let Some(receiver) = &lane.exchange.receiver else {
                continue;
            };
            if receiver.expected.is_some_and(|expected| receiver.arrived >= expected) || lane.exchange.is_over() {
                continue;
            }
            let stream = StreamId(lane.key);
            // What has arrived but is not due holds the sender back just as what has not arrived does.
            let outstanding =
                self.connection.receive_window(stream) + i64::try_from(receiver.waiting()).unwrap_or(i64::MAX);
            let missing = i64::try_from(target).unwrap_or(i64::MAX) - outstanding;
            if missing >= i64::try_from(LEAST_GRANT.max(receiver.throttle.quantum() as u64)).unwrap_or(i64::MAX) {
                self.connection
                    .grant(stream, u32::try_from(missing).unwrap_or(u32::MAX));
            }
        }
    }

    fn flush(&mut self, pipe: &mut Pipe) -> Result<(), PipeError> {
        let output = self.connection.output();
        if !output.is_empty() {
            pipe.write(output)?;
            output.clear();
        }
        Ok(())
    }

    fn feed(&mut self, data: &[u8], lanes: &mut [Lane], now: Instant) -> Result<(), Problem> {
        let mut hands = Hands {
            lanes,
            reading: &mut self.reading,
            settings: &self.settings,
            now,
            going_away: false,
            took_some: false,
        };
        let result = self.connection.receive(data, &mut hands);
        self.over |= hands.going_away || result.is_err();
        result.map_err(|error| Problem::integrity(format!("HTTP/2: {error}")))
    }

    fn closed(&mut self, lanes: &mut [Lane], now: Instant) {
        self.over = true;
        for lane in lanes {
            let problem = format!("{}: the server closed the connection", lane.exchange.task.url);
            lane.exchange.broken(Problem::transient(problem), now);
        }
    }

    fn retire(&mut self, lane: &Lane) {
        if lane.key != 0 && !lane.exchange.was_answered() && !self.over {
            self.connection.reset(StreamId(lane.key), error_code::CANCEL);
        }
    }

    fn abandon(&mut self) {
        self.over = true;
    }

    fn is_reusable(&self) -> bool {
        !self.over
    }

    fn goodbye(&mut self) {
        if !self.over {
            self.connection.go_away(error_code::NO_ERROR);
        }
    }
}

/// Digits, and the same in every field (RFC 9110, section 8.6; RFC 9113, section 8.1.1).
fn content_length(headers: &HeaderMap) -> Result<Option<u64>, ()> {
    let mut found = None;
    for value in headers.get_all(http::header::CONTENT_LENGTH) {
        let text = value.to_str().map_err(|_| ())?;
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(());
        }
        let length: u64 = text.parse().map_err(|_| ())?;
        if found.replace(length).is_some_and(|before| before != length) {
            return Err(());
        }
    }
    Ok(found)
}

struct Hands<'a> {
    lanes: &'a mut [Lane],
    reading: &'a mut Reading,
    settings: &'a Settings,
    now: Instant,
    going_away: bool,
    /// The server has looked at some request of this connection.
    took_some: bool,
}

impl Hands<'_> {
    fn lane(&mut self, stream: StreamId) -> Option<&mut Lane> {
        self.lanes.iter_mut().find(|lane| lane.key == stream.0)
    }
}

impl Handler for Hands<'_> {
    fn header(&mut self, _stream: StreamId, name: &[u8], value: &[u8]) {
        if name == b":status" {
            self.reading.status = std::str::from_utf8(value)
                .ok()
                .and_then(|text| text.parse().ok())
                .unwrap_or(0);
        } else if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            self.reading.headers.append(name, value);
        }
    }

    fn headers_done(&mut self, stream: StreamId, _end_stream: bool) {
        let Reading { status, headers } = std::mem::take(self.reading);
        let (settings, now) = (self.settings, self.now);
        let Some(lane) = self.lane(stream) else { return };
        lane.exchange.first_byte(now);
        // 1xx says nothing final; trailers have no status, and nothing in them is acted on.
        if status >= 200 {
            let Ok(content_length) = content_length(&headers) else {
                let problem = format!(
                    "{}: the answer has a Content-Length that is no length",
                    lane.exchange.task.url
                );
                lane.exchange.broken(Problem::integrity(problem), now);
                return;
            };
            lane.exchange.head(
                Head {
                    status,
                    headers,
                    content_length,
                },
                settings,
                now,
            );
        }
    }

    fn data(&mut self, stream: StreamId, data: &[u8]) {
        let now = self.now;
        if let Some(lane) = self.lane(stream) {
            lane.exchange.data(data, now);
        }
    }

    fn end(&mut self, stream: StreamId) {
        let now = self.now;
        if let Some(lane) = self.lane(stream) {
            lane.exchange.answered(now);
        }
    }

    fn reset(&mut self, stream: StreamId, code: u32) {
        // A block that was found malformed was told as far as it was right: nothing of it belongs to the next one.
        *self.reading = Reading::default();
        let (now, took_some) = (self.now, self.took_some);
        let Some(lane) = self.lane(stream) else { return };
        let name = error_code::name(code);
        let url = &lane.exchange.task.url;
        let mut problem = Problem::transient(format!("{url}: the server reset the stream ({name})"));
        problem.untouched = took_some && code == error_code::REFUSED_STREAM;
        lane.exchange.broken(problem, now);
    }

    fn goaway(&mut self, last: StreamId, _code: u32, _debug: &[u8]) {
        self.going_away = true;
        // A server that closes every connection before its first request is not to be asked again at once.
        self.took_some = last.0 > 0;
    }
}
