//! Helpers that the tests share: frames made by hand, and a handler that records its calls.
#![allow(dead_code, reason = "each test file uses a part of it")]

use ferry_h2::{Config, Connection, ConnectionError, Handler, HeaderBlock, Interest, OpenError, StreamId};

#[derive(Clone, Eq, PartialEq, Debug)]
pub enum Event {
    Header(u32, String, String),
    HeadersDone(u32, bool),
    /// Neighbouring pieces are joined, so that recordings of differently cut inputs can be compared.
    Data(u32, Vec<u8>),
    End(u32),
    Reset(u32, u32),
    Goaway(u32, u32, Vec<u8>),
    Pong([u8; 8]),
}

#[derive(Default, Debug)]
pub struct Recorder {
    pub events: Vec<Event>,
    /// True if only the status is wanted.
    pub status_only: bool,
}

impl Handler for Recorder {
    fn interest(&self, _: StreamId) -> Interest {
        if self.status_only {
            Interest::StatusOnly
        } else {
            Interest::All
        }
    }
    fn header(&mut self, stream: StreamId, name: &[u8], value: &[u8]) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.events.push(Event::Header(stream.0, text(name), text(value)));
    }
    fn headers_done(&mut self, stream: StreamId, end_stream: bool) {
        self.events.push(Event::HeadersDone(stream.0, end_stream));
    }
    fn data(&mut self, stream: StreamId, data: &[u8]) {
        assert!(!data.is_empty());
        match self.events.last_mut() {
            Some(Event::Data(last, bytes)) if *last == stream.0 => bytes.extend_from_slice(data),
            _ => self.events.push(Event::Data(stream.0, data.to_vec())),
        }
    }
    fn end(&mut self, stream: StreamId) {
        self.events.push(Event::End(stream.0));
    }
    fn reset(&mut self, stream: StreamId, code: u32) {
        self.events.push(Event::Reset(stream.0, code));
    }
    fn goaway(&mut self, last: StreamId, code: u32, debug: &[u8]) {
        self.events.push(Event::Goaway(last.0, code, debug.to_vec()));
    }
    fn pong(&mut self, payload: [u8; 8]) {
        self.events.push(Event::Pong(payload));
    }
}

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
    out
}

pub fn settings(values: &[(u16, u32)]) -> Vec<u8> {
    let payload: Vec<u8> = values
        .iter()
        .flat_map(|(id, value)| id.to_be_bytes().into_iter().chain(value.to_be_bytes()))
        .collect();
    frame(4, 0, 0, &payload)
}

pub fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(8, 0, stream, &increment.to_be_bytes())
}

/// A frame cut out of an output.
#[derive(Clone, Eq, PartialEq, Debug)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    pub fn number(&self) -> u32 {
        u32::from_be_bytes(self.payload[..4].try_into().unwrap())
    }
}

pub fn frames(mut bytes: &[u8]) -> Vec<Frame> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let length = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]) as usize;
        let stream = u32::from_be_bytes(bytes[5..9].try_into().unwrap());
        all.push(Frame {
            kind: bytes[3],
            flags: bytes[4],
            stream,
            payload: bytes[9..9 + length].to_vec(),
        });
        bytes = &bytes[9 + length..];
    }
    all
}

pub fn get() -> HeaderBlock {
    HeaderBlock::new([
        (&b":method"[..], &b"GET"[..]),
        (b":scheme", b"https"),
        (b":authority", b"example.net"),
        (b":path", b"/file"),
    ])
    .unwrap()
}

/// A connection with its first frames sent and the peer's empty SETTINGS received, and its handler.
pub struct Session {
    pub connection: Connection,
    pub handler: Recorder,
}

impl Session {
    pub fn new() -> Self {
        Self::with(&Config::default(), &[])
    }

    pub fn with(config: &Config, peer: &[(u16, u32)]) -> Self {
        let mut session = Self {
            connection: Connection::new(config),
            handler: Recorder::default(),
        };
        session.connection.output().clear();
        session.receive(&settings(peer)).unwrap();
        assert_eq!(
            session.sent(),
            [Frame {
                kind: 4,
                flags: 1,
                stream: 0,
                payload: Vec::new()
            }]
        );
        session
    }

    pub fn open(&mut self, end: bool) -> StreamId {
        let stream = self.connection.open(&get(), end).unwrap();
        self.connection.output().clear();
        stream
    }

    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), ConnectionError> {
        self.connection.receive(bytes, &mut self.handler)
    }

    /// The frames queued since the last call.
    pub fn sent(&mut self) -> Vec<Frame> {
        frames(&std::mem::take(self.connection.output()))
    }

    /// The calls since the last call.
    pub fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.handler.events)
    }

    /// The bytes end the connection with this code.
    pub fn expect_error(&mut self, bytes: &[u8], expected: u32) {
        let error = self.receive(bytes).unwrap_err();
        assert_eq!(error.code, expected, "{error}");
        let last = self.sent().pop().unwrap();
        assert_eq!((last.kind, &last.payload[4..8]), (7, &expected.to_be_bytes()[..]));
        assert_eq!(self.receive(&[]).unwrap_err(), error);
        assert_eq!(self.connection.open(&get(), true), Err(OpenError::GoingAway));
    }
}
