//! Many requests for one URL: the same machines and the same pipe as `ferry get` has, bodies counted and forgotten.
//!
//! No queue, no retries of a request that failed, no file, no report of a request: what the machines can do, which is not what a user gets.

mod tally;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use ferry_h2::{Config, Connection as Http2, Handler, HeaderBlock, Interest, StreamId, error_code};
use ferry_http::{BodyLength, Event, RequestHead, ResponseReader, encode_request};
use http::Method;
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue, USER_AGENT};

use ferry_engine::error::Error;
use ferry_engine::net::pipe::{Pipe, PipeError, Received};
use ferry_engine::net::wait::{Ready, Waiter};
use ferry_engine::options::{Common, Remote, TransferOptions, Version};
use ferry_engine::remote::parse_remote;
use ferry_engine::report::Percentiles;
use ferry_engine::transfer::connect::{ConnectOptions, Connection, Protocol, connect};
use ferry_engine::transfer::throttle::Limit;
use ferry_engine::transfer::{Settings, addressed, host, target};
use ferry_engine::{job, platform};
use serde::Serialize;
use tally::Tally;

const READ_BYTES: usize = 256 * 1024;
/// HTTP/1.1 has one request per connection; more connections than this are a mistake, not a benchmark.
const MOST_CONNECTIONS: u32 = 4096;

/// Requests at once from which on wake-ups are moderated.
const LEAST_MODERATED: u32 = 32;
const MOST_MODERATION: Duration = Duration::from_micros(500);

const USAGE: &str =
    "usage: ferry-bench URL -n REQUESTS -p PARALLEL [-c CONNECTIONS] [--cacert FILE] [--http1.1 | --http2]";

/// What is asked for.
struct BenchOptions {
    /// How the server is reached.
    common: Common,
    /// http or https.
    url: Remote,
    /// In all, at least one.
    requests: u64,
    /// Requests at once over all connections; no less than `connections`.
    parallel: u32,
    /// HTTP/1.1 has at least `parallel`, because each carries one request at a time.
    connections: u32,
}

/// The output.
#[derive(Serialize)]
struct Bench {
    url: String,
    protocol: Option<&'static str>,
    /// Connections at once.
    connections: u32,
    /// Requests at once, over all connections.
    parallel: u32,
    requests: u64,
    /// Answered with a status of 2xx.
    succeeded: u64,
    /// Answered otherwise, or lost.
    failed: u64,
    /// Body bytes received.
    bytes: u64,
    /// First request to last answer.
    seconds: f64,
    requests_per_s: f64,
    cpu_us_per_request: f64,
    latency_us: Option<Percentiles>,
}

fn main() -> ExitCode {
    let options = match options(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(why) => return failed(&Error::usage(why)),
    };
    let settings = job::settings(
        &options.common,
        &TransferOptions::default(),
        Limit::None,
        options.parallel as usize,
    );
    let encrypted = options.url.url.scheme() == "https";
    let found = job::connect_options(&options.common, encrypted, options.common.version)
        .and_then(|connect_options| measure(&options, &connect_options, &settings));
    match found {
        Ok(found) => {
            println!("{}", serde_json::json!({ "bench": found }));
            ExitCode::from(if found.failed == 0 { 0 } else { 10 })
        }
        Err(problem) => failed(&problem),
    }
}

fn failed(problem: &Error) -> ExitCode {
    eprintln!("ferry-bench: {problem}");
    ExitCode::from(problem.class.exit_code())
}

fn options(mut words: impl Iterator<Item = String>) -> Result<BenchOptions, String> {
    let (mut common, mut url) = (Common::default(), None);
    let (mut requests, mut parallel, mut connections) = (0, 0, 1);
    while let Some(word) = words.next() {
        let mut number = || words.next().and_then(|value| value.parse::<u32>().ok()).ok_or(USAGE);
        match word.as_str() {
            "-n" => requests = number()?.into(),
            "-p" => parallel = number()?,
            "-c" => connections = number()?,
            "--cacert" => common.ca_file = Some(words.next().ok_or(USAGE)?.into()),
            "--http1.1" => common.version = Version::Http11,
            "--http2" => common.version = Version::Http2,
            _ if word.starts_with('-') => return Err(USAGE.into()),
            _ => url = Some(parse_remote(&word)?),
        }
    }
    let url = url.filter(|url| !url.is_sftp()).ok_or(USAGE)?;
    if requests == 0 || connections == 0 || connections > parallel {
        return Err(USAGE.into());
    }
    Ok(BenchOptions {
        common,
        url,
        requests,
        parallel,
        connections,
    })
}

enum Machine {
    H2(Box<Streams>),
    H1(Box<Single>),
}

struct Client {
    pipe: Pipe,
    machine: Machine,
    parallel: u32,
    over: bool,
    /// What this connection has brought: one that brought nothing is not made again.
    answered: u64,
}

struct Streams {
    connection: Http2,
    block: HeaderBlock,
    /// When each stream began, by its number; bounded by the number of requests.
    starts: Vec<u32>,
    active: u32,
    /// The server takes no more requests on this connection.
    going_away: bool,
}

struct Single {
    request: Vec<u8>,
    reader: Option<ResponseReader>,
    rest: Vec<u8>,
    status: u16,
    start: u32,
}

/// Runs until every request was answered or failed. A connection that is lost fails what it carried, and the run ends with the others.
fn measure(options: &BenchOptions, connect_options: &ConnectOptions, settings: &Settings) -> Result<Bench, Error> {
    let url = &options.url.url;
    platform::precise_timers();
    let first = connect(url, connect_options, settings)?;
    let protocol = first.protocol;
    let connections = match protocol {
        Protocol::H2 => options.connections,
        Protocol::Http11 => options.parallel.max(options.connections),
    };
    if connections > MOST_CONNECTIONS {
        return Err(Error::usage(format!(
            "{connections} connections are more than {MOST_CONNECTIONS}"
        )));
    }
    let mut headers = options.common.headers.clone();
    headers
        .entry(USER_AGENT)
        .or_insert(HeaderValue::from_static(concat!("ferry/", env!("CARGO_PKG_VERSION"))));
    if let Some(value) = &options.url.authorization {
        headers.insert(AUTHORIZATION, value.clone());
    }
    let mut waiter = Waiter::new().map_err(|error| Error::local(error.to_string()).with_source(error))?;
    let mut clients = vec![Client::new(first, options, &headers, &waiter, 0)?];
    for index in 1..connections {
        let more = connect(url, connect_options, settings)?;
        clients.push(Client::new(more, options, &headers, &waiter, index)?);
    }
    share(&mut clients, options.parallel, connections);
    let before = platform::process_usage();
    let begin = Instant::now();
    let mut tally = Tally {
        left: options.requests,
        succeeded: 0,
        failed: 0,
        bytes: 0,
        latencies: Vec::new(),
        begin,
    };
    let mut again = |index: u32, waiter: &Waiter| {
        let connection = connect(url, connect_options, settings)?;
        Client::new(connection, options, &headers, waiter, index)
    };
    drive(&mut clients, &mut waiter, &mut tally, settings, &mut again)?;
    let seconds = begin.elapsed().as_secs_f64();
    let after = platform::process_usage();
    let cpu_s = after.cpu_user_s + after.cpu_system_s - before.cpu_user_s - before.cpu_system_s;
    tally.failed += tally.left;
    let answered = tally.succeeded.max(1) as f64;
    Ok(Bench {
        url: ferry_engine::shown_url(url),
        protocol: Some(protocol.name()),
        connections,
        parallel: options.parallel,
        requests: options.requests,
        succeeded: tally.succeeded,
        failed: tally.failed,
        bytes: tally.bytes,
        seconds,
        requests_per_s: tally.succeeded as f64 / seconds,
        cpu_us_per_request: cpu_s * 1e6 / answered,
        latency_us: Percentiles::of(&mut tally.latencies),
    })
}

/// Streams in all, dealt out evenly.
fn share(clients: &mut [Client], parallel: u32, connections: u32) {
    for (index, client) in clients.iter_mut().enumerate() {
        let extra = u32::from((index as u64) < u64::from(parallel % connections));
        client.parallel = (parallel / connections + extra).max(1);
    }
}

/// `again` makes a connection anew, in place of one that the server has ended after so many requests (nginx: 1000).
fn drive(
    clients: &mut [Client],
    waiter: &mut Waiter,
    tally: &mut Tally,
    settings: &Settings,
    again: &mut dyn FnMut(u32, &Waiter) -> Result<Client, Error>,
) -> Result<(), Error> {
    let mut last_progress = Instant::now();
    let mut known = 0;
    let mut rested = false;
    loop {
        let mut moved = false;
        for (index, client) in (0..).zip(clients.iter_mut()) {
            if client.over && client.answered > 0 && tally.left > 0 {
                let parallel = client.parallel;
                *client = Client {
                    parallel,
                    ..again(index, waiter)?
                };
            }
            if client.over {
                continue;
            }
            let before = tally.succeeded;
            match client.turn(tally) {
                Ok(more) => moved |= more,
                Err(_) => client.over = true,
            }
            client.answered += tally.succeeded - before;
            if client.over && client.answered > 0 {
                // Servers close connections with requests on their way (RFC 9110, section 9.2.2 lets a GET be repeated).
                tally.left += u64::from(client.active());
            } else if client.over {
                tally.failed += u64::from(client.active());
            }
            moved |= client.over && client.answered > 0 && tally.left > 0;
        }
        let finished = tally.succeeded + tally.failed;
        let busy = clients.iter().any(|client| !client.over && client.active() > 0);
        if !busy && (tally.left == 0 || clients.iter().all(|client| client.over && client.answered == 0)) {
            return Ok(());
        }
        if moved {
            rested = false;
            continue;
        }
        let now = Instant::now();
        if !rested && let Some(nap) = moderation(clients, tally, now) {
            rested = true;
            std::thread::sleep(nap);
            for client in clients.iter_mut() {
                client.pipe.wake(Ready {
                    readable: true,
                    writable: false,
                });
            }
            continue;
        }
        rested = false;
        if let Some(problem) = settings.stop.problem() {
            return Err(problem);
        }
        if finished > known {
            known = finished;
            last_progress = now;
        } else if now.saturating_duration_since(last_progress) > settings.timeouts.stall {
            return Err(Error::transient(format!(
                "no answer within {:.1} s (--stall) after {finished} requests",
                settings.timeouts.stall.as_secs_f64()
            )));
        }
        waiter
            .wait(Some(now + Duration::from_millis(200)), |token, ready| {
                if let Some(client) = clients.get_mut(token) {
                    client.pipe.wake(ready);
                }
            })
            .map_err(|error| Error::local(error.to_string()).with_source(error))?;
    }
}

/// Instead of a wake-up for every write of the server, which costs both ends more than the answers it brings: the time in which an eighth
/// of what is outstanding comes, going by the rate so far. `None` when too little is outstanding for that to keep the server busy.
fn moderation(clients: &[Client], tally: &Tally, now: Instant) -> Option<Duration> {
    let outstanding: u32 = clients.iter().map(Client::active).sum();
    let answered = u32::try_from(tally.succeeded).unwrap_or(u32::MAX);
    if outstanding < LEAST_MODERATED || answered < LEAST_MODERATED {
        return None;
    }
    let each = now.saturating_duration_since(tally.begin) / answered;
    Some((each * outstanding / 8).min(MOST_MODERATION))
}

impl Client {
    fn new(
        connection: Connection,
        options: &BenchOptions,
        headers: &HeaderMap,
        waiter: &Waiter,
        index: u32,
    ) -> Result<Self, Error> {
        let url = &options.url.url;
        let refused = |why: String| Error::usage(format!("{}: {why}", ferry_engine::shown_url(url)));
        let Connection {
            mut pipe,
            waiter: own,
            protocol,
            forward,
            ..
        } = connection;
        let lost = |error: std::io::Error| Error::local(error.to_string()).with_source(error);
        pipe.deregister(&own).map_err(lost)?;
        pipe.register(waiter, index as usize).map_err(lost)?;
        let (target, host) = (target(url), host(url));
        let machine = match protocol {
            Protocol::H2 => {
                let pseudo = [
                    (&b":method"[..], &b"GET"[..]),
                    (b":scheme", url.scheme().as_bytes()),
                    (b":authority", host.as_bytes()),
                    (b":path", target.as_bytes()),
                ];
                let fields = headers
                    .iter()
                    .map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
                let block =
                    HeaderBlock::new(pseudo.into_iter().chain(fields)).map_err(|error| refused(error.to_string()))?;
                let connection = Http2::new(&Config::default());
                Machine::H2(Box::new(Streams {
                    connection,
                    block,
                    starts: Vec::new(),
                    active: 0,
                    going_away: false,
                }))
            }
            Protocol::Http11 => {
                let mut request = Vec::new();
                let (target, headers) = addressed(url, headers, forward.as_ref());
                let head = RequestHead {
                    method: &Method::GET,
                    target: &target,
                    host: &host,
                    headers: &headers,
                    body: BodyLength::None,
                };
                encode_request(&mut request, &head).map_err(|error| refused(error.to_string()))?;
                Machine::H1(Box::new(Single {
                    request,
                    reader: None,
                    rest: Vec::new(),
                    status: 0,
                    start: 0,
                }))
            }
        };
        Ok(Self {
            pipe,
            machine,
            parallel: 1,
            over: false,
            answered: 0,
        })
    }

    fn active(&self) -> u32 {
        match &self.machine {
            Machine::H2(streams) => streams.active,
            Machine::H1(single) => u32::from(single.reader.is_some()),
        }
    }

    /// Begins what may begin, sends, and reads once. True when there may be more to read.
    fn turn(&mut self, tally: &mut Tally) -> Result<bool, PipeError> {
        let now = Instant::now();
        let pipe = &mut self.pipe;
        match &mut self.machine {
            Machine::H2(streams) => streams.begin(pipe, tally, self.parallel, now)?,
            Machine::H1(single) => single.begin(pipe, tally, now)?,
        }
        if pipe.unsent() > 0 && pipe.writable() {
            pipe.flush()?;
        }
        if !pipe.readable() {
            return Ok(false);
        }
        let mut problem = false;
        let machine = &mut self.machine;
        let received = pipe.receive(READ_BYTES, |data| {
            let now = Instant::now();
            problem |= match machine {
                Machine::H2(streams) => streams.feed(data, tally, now),
                Machine::H1(single) => single.feed(data, tally, now),
            };
        })?;
        let retired = matches!(&self.machine, Machine::H2(streams) if streams.going_away && streams.active == 0);
        match received {
            Received::Some(_) if !problem && !retired && !pipe.peer_closed() => Ok(true),
            Received::Blocked => Ok(false),
            _ => {
                self.over = true;
                Ok(false)
            }
        }
    }
}

impl Streams {
    fn begin(&mut self, pipe: &mut Pipe, tally: &mut Tally, parallel: u32, now: Instant) -> Result<(), PipeError> {
        let start = tally.micros(now);
        while tally.left > 0 && self.active < parallel && self.connection.open(&self.block, true).is_ok() {
            self.starts.push(start);
            self.active += 1;
            tally.left -= 1;
        }
        let output = self.connection.output();
        if !output.is_empty() {
            pipe.write(output)?;
            output.clear();
        }
        Ok(())
    }

    /// True when the connection is broken.
    fn feed(&mut self, data: &[u8], tally: &mut Tally, now: Instant) -> bool {
        let mut counter = Counter {
            tally,
            starts: &self.starts,
            active: &mut self.active,
            now,
            failed: None,
            going_away: &mut self.going_away,
        };
        self.connection.receive(data, &mut counter).is_err()
    }
}

struct Counter<'a> {
    tally: &'a mut Tally,
    starts: &'a [u32],
    active: &'a mut u32,
    now: Instant,
    /// The stream whose answer is no success.
    failed: Option<StreamId>,
    going_away: &'a mut bool,
}

impl Counter<'_> {
    fn over(&mut self, stream: StreamId, ok: bool) {
        let start = self.starts.get(((stream.0 - 1) / 2) as usize).copied().unwrap_or(0);
        let latency = self.tally.micros(self.now).saturating_sub(start);
        *self.active = self.active.saturating_sub(1);
        self.tally.done(ok, latency);
    }
}

impl Handler for Counter<'_> {
    fn interest(&self, _stream: StreamId) -> Interest {
        Interest::StatusOnly
    }

    fn header(&mut self, stream: StreamId, name: &[u8], value: &[u8]) {
        if name == b":status" && value.first() != Some(&b'2') && value.first() != Some(&b'1') {
            self.failed = Some(stream);
        }
    }

    fn headers_done(&mut self, _stream: StreamId, _end_stream: bool) {}

    fn data(&mut self, _stream: StreamId, data: &[u8]) {
        self.tally.bytes += data.len() as u64;
    }

    fn end(&mut self, stream: StreamId) {
        let ok = self.failed.take_if(|failed| *failed == stream).is_none();
        self.over(stream, ok);
    }

    fn reset(&mut self, stream: StreamId, code: u32) {
        if code == error_code::REFUSED_STREAM && *self.going_away {
            // Never looked at (RFC 9113, section 6.8): the next connection takes it.
            *self.active = self.active.saturating_sub(1);
            self.tally.left += 1;
        } else {
            self.over(stream, false);
        }
    }

    fn goaway(&mut self, _last: StreamId, _code: u32, _debug: &[u8]) {
        *self.going_away = true;
    }
}

impl Single {
    fn begin(&mut self, pipe: &mut Pipe, tally: &mut Tally, now: Instant) -> Result<(), PipeError> {
        if self.reader.is_some() || tally.left == 0 {
            return Ok(());
        }
        tally.left -= 1;
        self.start = tally.micros(now);
        self.status = 0;
        self.reader = Some(ResponseReader::new(&Method::GET));
        pipe.write(&self.request)
    }

    /// True when the connection is broken.
    fn feed(&mut self, data: &[u8], tally: &mut Tally, now: Instant) -> bool {
        let joined;
        let mut input = data;
        if self.reader.is_none() {
            return true;
        }
        if !self.rest.is_empty() {
            self.rest.extend_from_slice(data);
            joined = std::mem::take(&mut self.rest);
            input = &joined;
        }
        while let Some(reader) = &mut self.reader {
            let Ok((used, event)) = reader.next(input) else {
                return true;
            };
            input = &input[used..];
            match event {
                Event::NeedMore => break,
                Event::Informational(_) => {}
                Event::Head(head) => self.status = head.status,
                Event::Data(data) => tally.bytes += data.len() as u64,
                Event::End => {
                    let keep = reader.keep_alive();
                    self.reader = None;
                    let latency = tally.micros(now).saturating_sub(self.start);
                    tally.done((200..300).contains(&self.status), latency);
                    // Bytes that nobody asked for would be taken for the next answer (RFC 9112, section 9.2).
                    if !keep || !input.is_empty() {
                        return true;
                    }
                }
            }
        }
        self.rest = input.to_vec();
        false
    }
}
