//! Against another implementation: the h2 crate's server, over a pipe in memory.

mod common;

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use ferry_h2::{Config, Connection, Handler, HeaderBlock, OpenError, StreamId, error_code};
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};

/// The body of `length` bytes that both sides know.
fn body(length: usize) -> Vec<u8> {
    (0..length)
        .map(|at| u8::try_from((at * 31 + at / 251 + length) % 256).unwrap())
        .collect()
}

/// Every byte that a value may have, so that every code of the Huffman table but those of control characters occurs.
fn all_bytes() -> Vec<u8> {
    let visible: Vec<u8> = (0x21..=0x7e).chain(0x80..=0xff).collect();
    [&visible[..], b" \t ", &visible].concat()
}

async fn send_all(mut stream: SendStream<Bytes>, data: Vec<u8>, trailers: bool) {
    let mut data = Bytes::from(data);
    while !data.is_empty() {
        stream.reserve_capacity(data.len());
        let Some(Ok(room)) = std::future::poll_fn(|context| stream.poll_capacity(context)).await else {
            return;
        };
        let piece = data.split_to(room.min(data.len()));
        let end = data.is_empty() && !trailers;
        if stream.send_data(piece, end).is_err() {
            return;
        }
    }
    if trailers {
        let mut map = http::HeaderMap::new();
        map.insert("x-checksum", http::HeaderValue::from_static("abc"));
        stream.send_trailers(map).unwrap();
    }
}

async fn receive_all(mut stream: RecvStream) -> usize {
    let mut received = Vec::new();
    while let Some(piece) = stream.data().await {
        let piece = piece.unwrap();
        stream.flow_control().release_capacity(piece.len()).unwrap();
        received.extend_from_slice(&piece);
    }
    assert_eq!(received, body(received.len()));
    received.len()
}

async fn answer(request: http::Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let mut path = request.uri().path().split('/').skip(1).map(str::to_owned);
    let (kind, number) = (path.next().unwrap(), path.next().unwrap().parse::<usize>().unwrap());
    assert_eq!(request.headers()["user-agent"], "ferry");
    let head = |length: usize| {
        http::Response::builder()
            .status(if length.is_multiple_of(3) { 200 } else { 418 })
            .header("content-length", length)
            .header("x-number", format!("{number}"))
            .header("x-all", http::HeaderValue::from_bytes(&all_bytes()).unwrap())
            .header("server", "h2")
            .body(())
            .unwrap()
    };
    match kind.as_str() {
        "get" => {
            let stream = respond.send_response(head(number), number == 0).unwrap();
            send_all(stream, body(number), false).await;
        }
        "trailers" => send_all(respond.send_response(head(number), false).unwrap(), body(number), true).await,
        "put" => {
            let received = receive_all(request.into_body()).await;
            assert_eq!(received, number);
            respond.send_response(head(received), true).unwrap();
        }
        "reset" => {
            let mut stream = respond.send_response(head(number), false).unwrap();
            stream.send_data(Bytes::from(body(100)), false).unwrap();
            stream.send_reset(Reason::INTERNAL_ERROR);
        }
        "refuse" => respond.send_reset(Reason::REFUSED_STREAM),
        _ => unreachable!("{kind}"),
    }
}

/// Serves until the client is gone; goes away gracefully after `goaway_after` requests.
async fn serve(io: DuplexStream, goaway_after: usize) {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(100)
        .initial_window_size(40_000)
        .initial_connection_window_size(100_000);
    let mut connection = builder.handshake::<_, Bytes>(io).await.unwrap();
    let mut count = 0;
    while let Some(request) = connection.accept().await {
        let Ok((request, respond)) = request else { return };
        tokio::spawn(answer(request, respond));
        count += 1;
        if count == goaway_after {
            connection.graceful_shutdown();
        }
    }
}

#[derive(Default, Debug)]
struct Answer {
    fields: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
    blocks: u32,
    ended: bool,
    reset: Option<u32>,
}

#[derive(Default)]
struct Answers {
    by_stream: HashMap<StreamId, Answer>,
    finished: VecDeque<StreamId>,
    goaway: Option<StreamId>,
}

impl Handler for Answers {
    fn header(&mut self, stream: StreamId, name: &[u8], value: &[u8]) {
        let name = String::from_utf8(name.to_vec()).unwrap();
        self.by_stream
            .entry(stream)
            .or_default()
            .fields
            .push((name, value.to_vec()));
    }
    fn headers_done(&mut self, stream: StreamId, _: bool) {
        self.by_stream.entry(stream).or_default().blocks += 1;
    }
    fn data(&mut self, stream: StreamId, data: &[u8]) {
        self.by_stream.get_mut(&stream).unwrap().body.extend_from_slice(data);
    }
    fn end(&mut self, stream: StreamId) {
        self.by_stream.get_mut(&stream).unwrap().ended = true;
        self.finished.push_back(stream);
    }
    fn reset(&mut self, stream: StreamId, code: u32) {
        self.by_stream.entry(stream).or_default().reset = Some(code);
        self.finished.push_back(stream);
    }
    fn goaway(&mut self, last: StreamId, _: u32, _: &[u8]) {
        self.goaway = Some(last);
    }
}

struct Client {
    connection: Connection,
    answers: Answers,
    from_server: ReadHalf<DuplexStream>,
    to_server: WriteHalf<DuplexStream>,
    /// The remainder of each upload.
    uploads: HashMap<StreamId, Vec<u8>>,
    /// The step, in bytes, by which the windows of streams are granted by hand; `None` for automatic windows.
    manual: Option<u32>,
}

impl Client {
    fn open(&mut self, kind: &str, number: usize) -> Result<StreamId, OpenError> {
        let path = format!("/{kind}/{number}");
        let put = kind == "put";
        let block = HeaderBlock::new([
            (&b":method"[..], if put { &b"PUT"[..] } else { b"GET" }),
            (b":scheme", b"https"),
            (b":authority", b"example.net"),
            (b":path", path.as_bytes()),
            (b"user-agent", b"ferry"),
        ])
        .unwrap();
        let stream = self.connection.open(&block, !put)?;
        if put {
            self.uploads.insert(stream, body(number));
        }
        self.connection.set_manual(stream, self.manual.is_some());
        Ok(stream)
    }

    /// Sends and receives once.
    async fn turn(&mut self) -> bool {
        for (&stream, rest) in &mut self.uploads {
            let now = rest.len().min(self.connection.capacity(stream));
            self.connection.send_data(stream, &rest[..now], now == rest.len());
            rest.drain(..now);
        }
        self.uploads.retain(|_, rest| !rest.is_empty());
        if let Some(step) = self.manual {
            for &stream in self.answers.by_stream.keys() {
                if self.connection.receive_window(stream) < i64::from(step) / 4 {
                    self.connection.grant(stream, step);
                }
            }
        }
        let mut buffer = vec![0; 50_000];
        let output = std::mem::take(self.connection.output());
        tokio::select! {
            read = self.from_server.read(&mut buffer) => {
                let read = read.unwrap();
                self.connection.receive(&buffer[..read], &mut self.answers).unwrap();
                self.connection.output().splice(..0, output);
                read > 0
            }
            wrote = self.to_server.write(&output), if !output.is_empty() => {
                self.connection.output().extend_from_slice(&output[wrote.unwrap()..]);
                true
            }
        }
    }
}

fn client(config: &Config, manual: Option<u32>, goaway_after: usize) -> Client {
    // Smaller than a frame, so that frames arrive in pieces.
    let (io, server) = tokio::io::duplex(10_000);
    tokio::spawn(serve(server, goaway_after));
    let (from_server, to_server) = tokio::io::split(io);
    let connection = Connection::new(config);
    Client {
        connection,
        answers: Answers::default(),
        from_server,
        to_server,
        uploads: HashMap::new(),
        manual,
    }
}

/// Sends the requests, at most 100 at a time, and returns the answer to each, with its index.
async fn run(client: &mut Client, requests: &[(&str, usize)]) -> Vec<(usize, Answer)> {
    let mut streams = HashMap::new();
    let mut results = Vec::new();
    let mut next = 0;
    while results.len() < requests.len() {
        while let Some((kind, number)) = requests.get(next) {
            match client.open(kind, *number) {
                Ok(stream) => assert!(streams.insert(stream, next).is_none()),
                Err(OpenError::AtLimit) => break,
                Err(other) => panic!("{other}"),
            }
            next += 1;
        }
        assert!(client.turn().await, "the server hung up");
        while let Some(stream) = client.answers.finished.pop_front() {
            let answer = client.answers.by_stream.remove(&stream).unwrap();
            results.push((streams[&stream], answer));
        }
    }
    assert_eq!(client.connection.active(), 0);
    results
}

fn check(kind: &str, number: usize, answer: &Answer) {
    let field = |name: &str| {
        answer
            .fields
            .iter()
            .find(|field| field.0 == name)
            .map(|field| &field.1[..])
    };
    match kind {
        "reset" => assert_eq!((answer.reset, answer.ended), (Some(error_code::INTERNAL_ERROR), false)),
        "refuse" => assert_eq!(answer.reset, Some(error_code::REFUSED_STREAM)),
        _ => {
            assert_eq!((answer.reset, answer.ended), (None, true));
            assert_eq!(
                field(":status"),
                Some(if number.is_multiple_of(3) { &b"200"[..] } else { b"418" })
            );
            assert_eq!(field("content-length"), Some(number.to_string().as_bytes()));
            assert_eq!(field("x-number"), Some(number.to_string().as_bytes()));
            assert_eq!(field("x-all"), Some(&all_bytes()[..]));
            assert_eq!(field("server"), Some(&b"h2"[..]));
            let trailers = kind == "trailers";
            assert_eq!(answer.blocks, 1 + u32::from(trailers));
            assert_eq!(field("x-checksum").is_some(), trailers);
            assert_eq!(answer.body, if kind == "put" { Vec::new() } else { body(number) });
        }
    }
}

fn mixed(count: usize, largest: usize) -> Vec<(&'static str, usize)> {
    let kinds = [
        "get", "get", "trailers", "put", "get", "reset", "get", "put", "get", "refuse",
    ];
    (0..count)
        .map(|n| (kinds[n % kinds.len()], if n % 7 == 0 { 0 } else { n * 7919 % largest }))
        .collect()
}

async fn run_and_check(config: &Config, manual: Option<u32>, requests: &[(&str, usize)]) {
    let mut client = client(config, manual, usize::MAX);
    for (nth, answer) in run(&mut client, requests).await {
        let (kind, number) = requests[nth];
        check(kind, number, &answer);
    }
}

#[tokio::test]
async fn three_hundred_requests_a_hundred_at_a_time() {
    run_and_check(&Config::default(), None, &mixed(300, 200_000)).await;
}

#[tokio::test]
async fn small_windows_topped_up() {
    let config = Config {
        stream_window: 5000,
        connection_window: 70_000,
        ..Config::default()
    };
    run_and_check(&config, None, &mixed(150, 60_000)).await;
}

#[tokio::test]
async fn small_windows_granted_by_hand() {
    let config = Config {
        stream_window: 3000,
        connection_window: 70_000,
        ..Config::default()
    };
    run_and_check(&config, Some(16_384), &mixed(150, 60_000)).await;
}

#[tokio::test]
async fn tables_of_other_sizes() {
    for header_table in [0, 200, 65_536] {
        let config = Config {
            header_table,
            ..Config::default()
        };
        run_and_check(&config, None, &mixed(60, 3000)).await;
    }
}

#[tokio::test]
async fn a_graceful_goaway_lets_open_streams_finish() {
    let mut client = client(&Config::default(), None, 10);
    let requests = mixed(10, 100_000);
    for (nth, answer) in run(&mut client, &requests).await {
        check(requests[nth].0, requests[nth].1, &answer);
    }
    while client.turn().await {}
    assert!(client.connection.peer_going_away());
    assert_eq!(client.answers.goaway, Some(StreamId(19)));
    assert_eq!(client.open("get", 0), Err(OpenError::GoingAway));
}

#[tokio::test]
async fn streams_reset_in_the_middle_leave_the_connection_intact() {
    let config = Config {
        connection_window: 100_000,
        ..Config::default()
    };
    let mut client = client(&config, None, usize::MAX);
    for round in 0..20 {
        let stream = client.open("get", 150_000).unwrap();
        while client
            .answers
            .by_stream
            .get(&stream)
            .is_none_or(|answer| answer.body.len() < round * 1000)
        {
            assert!(client.turn().await);
        }
        client.connection.reset(stream, error_code::CANCEL);
        client.answers.by_stream.remove(&stream);
    }
    let requests = mixed(20, 100_000);
    for (nth, answer) in run(&mut client, &requests).await {
        check(requests[nth].0, requests[nth].1, &answer);
    }
}
