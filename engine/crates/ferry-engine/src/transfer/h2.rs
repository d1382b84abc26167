//! HTTP/2 on a connection: several exchanges at once, each with a window that follows its limit.

use std::time::{Duration, Instant};

use ferry_h2::{Config, Connection, FRAME_HEADER, Handler, HeaderBlock, OpenError, StreamId, error_code};
use ferry_pacing::Rate;
use http::header::{HeaderMap, HeaderName, HeaderValue};

use super::exchange::Exchange;
use super::send::Sender;
use super::throttle::Limit;
use super::wire::{Stream, Wire, content_length, host, target};
use super::{Head, Settings};
use crate::error::Error;
use crate::net::pipe::{Pipe, PipeError};

/// Without a limit: 1 Gbit/s at 100 ms keeps 12.5 MB on the way, a full queue as much again, and a window is topped up at its half.
/// Nothing is held here, so a large one costs no memory.
const STREAM_WINDOW: u32 = 64 << 20;
const CONNECTION_WINDOW: u32 = 256 << 20;
/// The lateness of a wake-up that the window covers, so that the sender does not run dry.
const SLACK: Duration = Duration::from_millis(15);
/// With less, a server that fills whole frames would stall between grants.
const LEAST_WINDOW: u64 = 16 * 1024;
/// A grant smaller than this costs more in frames than it smooths.
const LEAST_GRANT: u64 = 4 * 1024;
/// Bytes of DATA frames written in one go per stream, so that several streams take turns. Headers count, so that a turn fills four records of
/// TLS and begins no fifth (RFC 8446, section 5.1).
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
            let streams = if settings.limit.is_shared() {
                settings.parallel as u64
            } else {
                1
            };
            config.stream_window = u32::try_from(window(share(rate, streams), rtt)).unwrap_or(u32::MAX);
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

fn share(rate: Rate, streams: u64) -> Rate {
    Rate::new(rate.byte_s() / streams.max(1)).unwrap_or(rate)
}

/// A round trip's worth of the limit, and a reserve that keeps the sender going meanwhile.
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

    fn open(&mut self, exchange: &mut Exchange, _pipe: &mut Pipe) -> Result<u32, Error> {
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
            .map_err(|error| Error::usage(format!("{}: {error}", exchange.shown())).with_source(error))?;
        let end = exchange.sender.as_ref().is_none_or(|sender| sender.exhausted);
        let id = self.connection.open(&block, end).map_err(|error| {
            let why = match error {
                OpenError::AtLimit => "the server takes no more streams",
                OpenError::GoingAway => "the server is closing the connection",
                OpenError::IdsExhausted => "the connection has no stream numbers left",
            };
            Error::transient(format!("{}: {why}", exchange.shown()))
        })?;
        // An answer to an upload is not paced.
        if !matches!(self.settings.limit, Limit::None) && exchange.sender.is_none() {
            self.connection.set_manual(id, true);
        }
        Ok(id.0)
    }

    fn send_body(&mut self, stream: &mut Stream, pipe: &mut Pipe, now: Instant) -> Result<bool, PipeError> {
        let Some(sender) = &mut stream.exchange.sender else {
            return Ok(false);
        };
        if sender.exhausted {
            return Ok(false);
        }
        let moved = match send_turn(&mut self.connection, StreamId(stream.key), sender, now) {
            Ok(moved) => moved,
            Err(problem) => {
                stream.exchange.broken(problem, now);
                return Ok(false);
            }
        };
        let last = sender.exhausted;
        if moved || last {
            self.flush(pipe)?;
        }
        Ok(moved && !last)
    }

    fn grant(&mut self, streams: &mut [Stream]) {
        let Some(rate) = self.settings.limit.rate() else { return };
        let count = if self.settings.limit.is_shared() {
            streams.len() as u64
        } else {
            1
        };
        let target = window(share(rate, count), self.rtt);
        for stream in streams {
            let Some(receiver) = &stream.exchange.receiver else {
                continue;
            };
            if receiver.expected.is_some_and(|expected| receiver.arrived >= expected) || stream.exchange.is_over() {
                continue;
            }
            let id = StreamId(stream.key);
            // Bytes that have arrived but are not due hold the sender back just like bytes that have not arrived.
            let outstanding =
                self.connection.receive_window(id) + i64::try_from(receiver.waiting()).unwrap_or(i64::MAX);
            let missing = i64::try_from(target).unwrap_or(i64::MAX) - outstanding;
            if missing >= i64::try_from(LEAST_GRANT.max(receiver.throttle.quantum() as u64)).unwrap_or(i64::MAX) {
                self.connection.grant(id, u32::try_from(missing).unwrap_or(u32::MAX));
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

    fn feed(&mut self, data: &[u8], streams: &mut [Stream], now: Instant) -> Result<(), Error> {
        let mut handler = H2Handler {
            streams,
            reading: &mut self.reading,
            settings: &self.settings,
            now,
            going_away: false,
            took_some: false,
        };
        let result = self.connection.receive(data, &mut handler);
        self.over |= handler.going_away || result.is_err();
        result.map_err(|error| Error::integrity(format!("HTTP/2: {error}")).with_source(error))
    }

    fn closed(&mut self, streams: &mut [Stream], now: Instant) {
        self.over = true;
        for stream in streams {
            let problem = format!("{}: the server closed the connection", stream.exchange.shown());
            stream.exchange.broken(Error::transient(problem), now);
        }
    }

    fn retire(&mut self, stream: &Stream) {
        if stream.key != 0 && !stream.exchange.was_answered() && !self.over {
            self.connection.reset(StreamId(stream.key), error_code::CANCEL);
        }
    }

    fn abandon(&mut self) {
        self.over = true;
    }

    fn is_reusable(&self) -> bool {
        !self.over
    }

    fn shutdown(&mut self) {
        if !self.over {
            self.connection.go_away(error_code::NO_ERROR);
        }
    }
}

/// Reads the bytes of the body that may move now, at most a turn of them, from its file into the connection's output. Returns
/// true if any moved.
fn send_turn(connection: &mut Connection, id: StreamId, sender: &mut Sender, now: Instant) -> Result<bool, Error> {
    let mut left = TURN_BYTES;
    while !sender.exhausted && left > FRAME_HEADER {
        let most = left - FRAME_HEADER;
        let room = most.min(connection.capacity(id));
        if room == 0 && sender.size != Some(sender.given) {
            break;
        }
        let room = room.min(connection.max_frame());
        let sent = connection.send_data_with(id, room, |out, room| sender.fill(now, room, out))?;
        left -= FRAME_HEADER + sent;
        if sent < room {
            break;
        }
    }
    Ok(left < TURN_BYTES - FRAME_HEADER)
}

struct H2Handler<'a> {
    streams: &'a mut [Stream],
    reading: &'a mut Reading,
    settings: &'a Settings,
    now: Instant,
    going_away: bool,
    /// The server has looked at some request of this connection.
    took_some: bool,
}

impl H2Handler<'_> {
    fn stream(&mut self, id: StreamId) -> Option<&mut Stream> {
        self.streams.iter_mut().find(|stream| stream.key == id.0)
    }
}

impl Handler for H2Handler<'_> {
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

    fn headers_done(&mut self, id: StreamId, _end_stream: bool) {
        let Reading { status, headers } = std::mem::take(self.reading);
        let (settings, now) = (self.settings, self.now);
        let Some(stream) = self.stream(id) else { return };
        stream.exchange.first_byte(now);
        // 1xx says nothing final; trailers have no status, and nothing in them is acted on.
        if status >= 200 {
            let Ok(content_length) = content_length(&headers) else {
                let problem = format!(
                    "{}: the answer has a Content-Length that is no length",
                    stream.exchange.shown()
                );
                stream.exchange.broken(Error::integrity(problem), now);
                return;
            };
            stream.exchange.head(
                Head {
                    status,
                    headers,
                    content_length,
                    delimited: true,
                },
                settings,
                now,
            );
        }
    }

    fn data(&mut self, id: StreamId, data: &[u8]) {
        let now = self.now;
        if let Some(stream) = self.stream(id) {
            stream.exchange.data(data, now);
        }
    }

    fn end(&mut self, id: StreamId) {
        let now = self.now;
        if let Some(stream) = self.stream(id) {
            stream.exchange.answered(now);
        }
    }

    fn reset(&mut self, id: StreamId, code: u32) {
        // A block that was found malformed was told as far as it was right: nothing of it belongs to the next one.
        *self.reading = Reading::default();
        let (now, took_some) = (self.now, self.took_some);
        let Some(stream) = self.stream(id) else { return };
        let name = error_code::name(code);
        let url = stream.exchange.shown();
        let mut problem = Error::transient(format!("{url}: the server reset the stream ({name})"));
        problem.not_processed = took_some && code == error_code::REFUSED_STREAM;
        stream.exchange.broken(problem, now);
    }

    fn setting(&mut self, identifier: u16, value: u32) {
        tracing::debug!(identifier, value, "HTTP/2 setting of the server");
    }

    fn goaway(&mut self, last: StreamId, code: u32, debug: &[u8]) {
        let (last_stream, code, words) = (last.0, error_code::name(code), String::from_utf8_lossy(debug));
        tracing::debug!(last_stream, code, ?words, "the server ends the connection (GOAWAY)");
        self.going_away = true;
        // A server that closes every connection before its first request is not to be asked again at once.
        self.took_some = last.0 > 0;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::files::Source;

    struct Silent;

    impl Handler for Silent {
        fn header(&mut self, _: StreamId, _: &[u8], _: &[u8]) {}
        fn headers_done(&mut self, _: StreamId, _: bool) {}
        fn data(&mut self, _: StreamId, _: &[u8]) {}
        fn end(&mut self, _: StreamId) {}
        fn reset(&mut self, _: StreamId, _: u32) {}
        fn goaway(&mut self, _: StreamId, _: u32, _: &[u8]) {}
    }

    /// A connection with a stream whose windows are large, to a peer with this `SETTINGS_MAX_FRAME_SIZE`.
    fn connection(max_frame: u32) -> (Connection, StreamId) {
        let mut connection = Connection::new(&Config::default());
        let mut settings = vec![0, 0, 12, 4, 0, 0, 0, 0, 0];
        for (identifier, value) in [(4_u16, 1_u32 << 30), (5, max_frame)] {
            settings.extend(identifier.to_be_bytes());
            settings.extend(value.to_be_bytes());
        }
        settings.extend([0, 0, 4, 8, 0, 0, 0, 0, 0, 0x3f, 0, 0, 0]);
        connection.receive(&settings, &mut Silent).unwrap();
        let fields = [
            (":method", "PUT"),
            (":scheme", "https"),
            (":authority", "server"),
            (":path", "/upload"),
        ];
        let block = HeaderBlock::new(fields.map(|(name, value)| (name.as_bytes(), value.as_bytes()))).unwrap();
        let id = connection.open(&block, false).unwrap();
        connection.output().clear();
        (connection, id)
    }

    fn sender(content: &[u8]) -> (Sender, tempfile::NamedTempFile) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content).unwrap();
        let source = Source::open(file.path()).unwrap();
        (Sender::new(source, None, Limit::None.throttle(), 64 * 1024), file)
    }

    /// The payloads of DATA frames, and whether the last one ends the stream.
    fn payloads(mut output: &[u8]) -> (Vec<u8>, bool) {
        let (mut all, mut ended) = (Vec::new(), false);
        while let [l0, l1, l2, kind, flags, _, _, _, _, rest @ ..] = output {
            let length = u32::from_be_bytes([0, *l0, *l1, *l2]) as usize;
            assert_eq!((*kind, ended), (0, false));
            all.extend_from_slice(&rest[..length]);
            ended = *flags == 1;
            output = &rest[length..];
        }
        assert!(output.is_empty());
        (all, ended)
    }

    #[test]
    fn a_turn_fills_four_records_and_the_file_arrives() {
        let content: Vec<u8> = (0..200_001_u32).map(|at| (at % 251) as u8).collect();
        for max_frame in [16_384, 1 << 20] {
            let (mut connection, id) = connection(max_frame);
            let (mut sender, _file) = sender(&content);
            let mut sent = Vec::new();
            while !sender.exhausted {
                assert!(send_turn(&mut connection, id, &mut sender, Instant::now()).unwrap());
                let output = connection.output();
                assert!(output.len() == 4 * 16_384 || sender.exhausted);
                sent.append(output);
            }
            let (all, ended) = payloads(&sent);
            assert!(all == content && ended);
        }
    }

    #[test]
    fn a_file_that_is_gone_wrong_leaves_whole_frames_behind() {
        let (mut connection, id) = connection(16_384);
        let (mut sender, file) = sender(&vec![7; 30_000]);
        file.as_file().set_len(20_000).unwrap();
        assert!(send_turn(&mut connection, id, &mut sender, Instant::now()).is_err());
        let (all, ended) = payloads(connection.output());
        assert!(!ended && all.iter().all(|byte| *byte == 7));
    }
}
