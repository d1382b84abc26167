//! The server's side, written apart from the crate: a decoder of requests, an encoder of replies.
#![allow(dead_code, reason = "each test file uses a part")]

use ferry_sftp::{Attrs, Channel, Event, FeedError, ProtocolError, Reply};

pub fn string(bytes: &[u8]) -> Vec<u8> {
    let mut out = u32::try_from(bytes.len()).unwrap().to_be_bytes().to_vec();
    out.extend(bytes);
    out
}

pub fn packet(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![kind];
    out.extend(body);
    string(&out)
}

/// A packet that begins with an id.
pub fn reply(kind: u8, id: u32, body: &[u8]) -> Vec<u8> {
    packet(kind, &[&id.to_be_bytes(), body].concat())
}

pub fn version(extensions: &[(&str, &str)]) -> Vec<u8> {
    let mut body = 3u32.to_be_bytes().to_vec();
    for (name, data) in extensions {
        body.extend(string(name.as_bytes()));
        body.extend(string(data.as_bytes()));
    }
    packet(2, &body)
}

pub fn status(id: u32, code: u32, message: &str) -> Vec<u8> {
    reply(
        101,
        id,
        &[&code.to_be_bytes()[..], &string(message.as_bytes()), &string(b"en")].concat(),
    )
}

pub fn handle(id: u32, bytes: &[u8]) -> Vec<u8> {
    reply(102, id, &string(bytes))
}

pub fn data(id: u32, bytes: &[u8]) -> Vec<u8> {
    reply(103, id, &string(bytes))
}

pub fn attrs(attrs: &Attrs, extended: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut flags = 0;
    let mut body = Vec::new();
    if let Some(size) = attrs.size {
        flags |= 1;
        body.extend(size.to_be_bytes());
    }
    for (bit, pair) in [
        (2, attrs.owner),
        (4, attrs.permissions.map(|mode| (mode, 0))),
        (8, attrs.times),
    ] {
        let Some((first, second)) = pair else { continue };
        flags |= bit;
        body.extend(first.to_be_bytes());
        if bit != 4 {
            body.extend(second.to_be_bytes());
        }
    }
    if !extended.is_empty() {
        flags |= 1 << 31;
        body.extend(u32::try_from(extended.len()).unwrap().to_be_bytes());
        for (name, value) in extended {
            body.extend(string(name));
            body.extend(string(value));
        }
    }
    [&u32::to_be_bytes(flags)[..], &body].concat()
}

pub fn names(id: u32, names: &[(Vec<u8>, Vec<u8>, Attrs)]) -> Vec<u8> {
    let mut body = u32::try_from(names.len()).unwrap().to_be_bytes().to_vec();
    for (file, long, about) in names {
        body.extend([string(file), string(long), attrs(about, &[])].concat());
    }
    reply(104, id, &body)
}

/// A request as the server sees it: its type, its id, and the bytes behind the id.
#[derive(Debug, PartialEq, Eq)]
pub struct Seen {
    pub kind: u8,
    pub id: u32,
    pub rest: Vec<u8>,
}

/// Cuts a stream into packets; panics if it does not end with one. INIT's version is read as its id.
pub fn requests(mut out: &[u8]) -> Vec<Seen> {
    let mut all = Vec::new();
    while !out.is_empty() {
        let length = number(&mut out) as usize;
        let (mut body, rest) = out.split_at(length);
        out = rest;
        let kind = body[0];
        body = &body[1..];
        let id = number(&mut body);
        let rest = body.to_vec();
        all.push(Seen { kind, id, rest });
    }
    all
}

pub fn number(from: &mut &[u8]) -> u32 {
    let (number, rest) = from.split_first_chunk().unwrap();
    *from = rest;
    u32::from_be_bytes(*number)
}

pub fn long(from: &mut &[u8]) -> u64 {
    let (number, rest) = from.split_first_chunk().unwrap();
    *from = rest;
    u64::from_be_bytes(*number)
}

pub fn bytes(from: &mut &[u8]) -> Vec<u8> {
    let length = number(from) as usize;
    let (string, rest) = from.split_at(length);
    *from = rest;
    string.to_vec()
}

/// An event without its borrows. The parts of one reply's data are put together.
#[derive(Debug, PartialEq, Eq)]
pub enum Told {
    Version,
    Data(u32, Vec<u8>),
    Reply(u32, Reply),
}

/// A channel that has said hello and was answered.
pub fn open() -> Channel<u32> {
    let mut channel = Channel::new();
    channel.hello(&mut Vec::new());
    channel.feed(&version(&[]), |_| Ok::<(), ()>(())).unwrap();
    channel
}

/// Feeds, checks that data comes in order, and writes events down.
pub fn feed(channel: &mut Channel<u32>, bytes: &[u8], told: &mut Vec<Told>) -> Result<(), ProtocolError> {
    let result = channel.feed(bytes, |event| {
        match event {
            Event::Version => told.push(Told::Version),
            Event::Reply { context, reply } => told.push(Told::Reply(context, reply)),
            Event::Data {
                context,
                length,
                at,
                bytes,
            } => {
                assert!(!bytes.is_empty() && at as usize + bytes.len() <= length as usize);
                match told.last_mut() {
                    Some(Told::Data(whose, before)) if at > 0 => {
                        assert_eq!((*whose, before.len()), (*context, at as usize));
                        before.extend(bytes);
                    }
                    _ => {
                        assert_eq!(at, 0);
                        told.push(Told::Data(*context, bytes.to_vec()));
                    }
                }
            }
        }
        Ok::<(), ()>(())
    });
    result.map_err(|error| match error {
        FeedError::Protocol(error) => error,
        FeedError::Caller(()) => panic!("the caller did not fail"),
    })
}
