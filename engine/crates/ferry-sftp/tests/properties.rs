//! Properties that hold for any requests, any replies and any bytes.

mod common;

use common::{Told, feed, open};
use ferry_sftp::{Attrs, Channel, Event, Handle, OpenFlags, ProtocolError, Reply, Request};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

fn attributes() -> impl Strategy<Value = Attrs> {
    (
        option::of(any::<u64>()),
        option::of(any::<(u32, u32)>()),
        option::of(any::<u32>()),
        option::of(any::<(u32, u32)>()),
    )
        .prop_map(|(size, owner, permissions, times)| Attrs {
            size,
            owner,
            permissions,
            times,
        })
}

/// The material of a request; `which` selects its kind.
#[derive(Clone, Debug)]
struct Parts {
    which: u8,
    one: Vec<u8>,
    two: Vec<u8>,
    attrs: Attrs,
    flags: u32,
    offset: u64,
    length: u32,
}

fn parts() -> impl Strategy<Value = Parts> {
    let strings = (vec(any::<u8>(), 0..=256), vec(any::<u8>(), 0..40));
    (
        0..19u8,
        strings,
        attributes(),
        any::<u32>(),
        any::<u64>(),
        0..100_000u32,
    )
        .prop_map(|(which, (one, two), attrs, flags, offset, length)| Parts {
            which,
            one,
            two,
            attrs,
            flags,
            offset,
            length,
        })
}

/// Makes the request; returns the type it should have, its id, and the fields it should have behind the id.
fn make(channel: &mut Channel<u32>, parts: &Parts, out: &mut Vec<u8>) -> (u8, u32, Vec<u8>) {
    let Parts {
        which,
        one,
        two,
        attrs,
        flags,
        offset,
        length,
    } = parts;
    let (path, from, to) = (&one[..], &one[..], &two[..]);
    let handle = &Handle::new(one).unwrap();
    let (first, second, about) = (common::string(one), common::string(two), common::attrs(attrs, &[]));
    let (place, count) = (offset.to_be_bytes(), length.to_be_bytes());
    let named = |name: &str, rest: &[Vec<u8>]| [common::string(name.as_bytes()), rest.concat()].concat();
    let (request, kind, fields) = match which {
        0 => {
            let flags = OpenFlags(*flags);
            let fields = [&first[..], &flags.0.to_be_bytes(), &about].concat();
            (Request::Open { path, flags, attrs }, 3, fields)
        }
        1 => (Request::Close { handle }, 4, first),
        2 => {
            let (offset, length) = (*offset, *length);
            (
                Request::Read { handle, offset, length },
                5,
                [&first[..], &place, &count].concat(),
            )
        }
        3 => (Request::Stat { path }, 17, first),
        4 => (Request::Lstat { path }, 7, first),
        5 => (Request::Fstat { handle }, 8, first),
        6 => (Request::Setstat { path, attrs }, 9, [first, about].concat()),
        7 => (Request::Fsetstat { handle, attrs }, 10, [first, about].concat()),
        8 => (Request::Opendir { path }, 11, first),
        9 => (Request::Readdir { handle }, 12, first),
        10 => (Request::Remove { path }, 13, first),
        11 => (Request::Mkdir { path, attrs }, 14, [first, about].concat()),
        12 => (Request::Rmdir { path }, 15, first),
        13 => (Request::Rename { from, to }, 18, [first, second].concat()),
        14 => (Request::Realpath { path }, 16, first),
        15 => (
            Request::PosixRename { from, to },
            200,
            named("posix-rename@openssh.com", &[first, second]),
        ),
        16 => (Request::Fsync { handle }, 200, named("fsync@openssh.com", &[first])),
        17 => (Request::Limits, 200, named("limits@openssh.com", &[])),
        _ => {
            let id = channel.write_header(handle, *offset, *length, 0, out);
            let data = vec![0xda; *length as usize];
            out.extend(&data);
            return (6, id, [&first[..], &place, &count, &data].concat());
        }
    };
    (kind, channel.request(&request, 0, out), fields)
}

/// Cuts the input into pieces of these sizes, in turn.
fn pieces<'a>(mut input: &'a [u8], sizes: &[usize]) -> Vec<&'a [u8]> {
    let mut all = Vec::new();
    for size in sizes.iter().cycle() {
        if input.is_empty() {
            break;
        }
        let (piece, rest) = input.split_at(input.len().min(*size));
        all.push(piece);
        input = rest;
    }
    all
}

fn sizes() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![Just(vec![1]), vec(1..40usize, 1..6), vec(1..600usize, 1..6)]
}

/// A reply that a server may send, and the request it answers.
#[derive(Clone, Debug)]
enum Answer {
    Status(u32, String),
    Handle(Vec<u8>),
    Data(Vec<u8>),
    Names(Vec<(Vec<u8>, Vec<u8>, Attrs)>),
    Attrs(Attrs, Vec<(Vec<u8>, Vec<u8>)>),
    Extended(Vec<u8>),
}

fn answer() -> impl Strategy<Value = Answer> {
    let short = || vec(any::<u8>(), 0..20);
    prop_oneof![
        (0..12u32, "[a-z ]{0,20}").prop_map(|(code, message)| Answer::Status(code, message)),
        vec(any::<u8>(), 0..=256).prop_map(Answer::Handle),
        vec(any::<u8>(), 0..2000).prop_map(Answer::Data),
        vec((short(), short(), attributes()), 0..5).prop_map(Answer::Names),
        (attributes(), vec((short(), short()), 0..3)).prop_map(|(attrs, more)| Answer::Attrs(attrs, more)),
        vec(any::<u8>(), 0..50).prop_map(Answer::Extended),
    ]
}

/// Makes the request that the answer is for; returns the answer's bytes.
fn ask(channel: &mut Channel<u32>, answer: &Answer, context: u32) -> Vec<u8> {
    let handle = &Handle::new(b"h").unwrap();
    let (path, offset, none) = (&b"p"[..], 0, &mut Vec::new());
    let request = match answer {
        Answer::Status(..) => Request::Close { handle },
        Answer::Handle(_) => Request::Opendir { path },
        Answer::Data(_) => Request::Read {
            handle,
            offset,
            length: 2000,
        },
        Answer::Names(_) => Request::Readdir { handle },
        Answer::Attrs(..) => Request::Lstat { path },
        Answer::Extended(_) => Request::Limits,
    };
    let id = channel.request(&request, context, none);
    match answer {
        Answer::Status(code, message) => common::status(id, *code, message),
        Answer::Handle(bytes) => common::handle(id, bytes),
        Answer::Data(bytes) => common::data(id, bytes),
        Answer::Names(names) => common::names(id, names),
        Answer::Attrs(attrs, more) => common::reply(105, id, &common::attrs(attrs, more)),
        Answer::Extended(bytes) => common::reply(201, id, bytes),
    }
}

fn check(reply: &Reply, answer: &Answer) {
    match (reply, answer) {
        (Reply::Status(status), Answer::Status(code, message)) => {
            assert_eq!(status.code, (*code).into());
            let kept: &str = if *code < 2 { "" } else { message };
            assert_eq!(status.message, kept);
        }
        (Reply::Handle(handle), Answer::Handle(bytes)) => assert_eq!(handle.as_bytes(), bytes),
        (Reply::Data { length }, Answer::Data(bytes)) => assert_eq!(*length as usize, bytes.len()),
        (Reply::Names(names), Answer::Names(sent)) => {
            let names: Vec<_> = names
                .iter()
                .map(|name| (name.file_name.clone(), name.long_name.clone(), name.attrs.clone()))
                .collect();
            assert_eq!(&names, sent);
        }
        (Reply::Attrs(attrs), Answer::Attrs(sent, _)) => assert_eq!(attrs, sent),
        (Reply::Extended(bytes), Answer::Extended(sent)) => assert_eq!(bytes, sent),
        other => panic!("{other:?}"),
    }
}

fn drive(channel: &mut Channel<u32>, input: &[u8], sizes: &[usize]) -> (Vec<Told>, Result<(), ProtocolError>) {
    let mut told = Vec::new();
    let result = pieces(input, sizes)
        .into_iter()
        .try_for_each(|piece| feed(channel, piece, &mut told));
    (told, result)
}

/// A channel after VERSION with requests in flight for each kind of answer, and the number of these requests.
fn busy() -> (Channel<u32>, usize) {
    let mut channel = open();
    let answers = [
        Answer::Data(Vec::new()),
        Answer::Names(Vec::new()),
        Answer::Attrs(Attrs::default(), Vec::new()),
        Answer::Handle(Vec::new()),
        Answer::Extended(Vec::new()),
        Answer::Status(0, String::new()),
        Answer::Data(Vec::new()),
    ];
    for (context, answer) in (0..).zip(&answers) {
        ask(&mut channel, answer, context);
    }
    (channel, answers.len())
}

/// Bytes that look like packets, so that more than the first check is reached.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let kinds = prop_oneof![100..106u8, Just(201), any::<u8>()];
    let lengths = prop_oneof![4 => Just(None), 1 => (0..60u32).prop_map(Some)];
    let body = vec(prop_oneof![3 => 0..3u8, 1 => any::<u8>()], 0..60);
    let one = (kinds, 0..9u32, lengths, body).prop_map(|(kind, id, length, body)| {
        let mut packet = common::reply(kind, id, &body);
        if let Some(length) = length {
            packet[..4].copy_from_slice(&length.to_be_bytes());
        }
        packet
    });
    prop_oneof![vec(one, 1..8).prop_map(|all| all.concat()), vec(any::<u8>(), 0..200)]
}

proptest! {
    #[test]
    fn requests_survive_another_decoder(all in vec(parts(), 0..12)) {
        let (mut channel, mut out, mut expected) = (open(), Vec::new(), Vec::new());
        for parts in &all {
            let (kind, id, rest) = make(&mut channel, parts, &mut out);
            expected.push(common::Seen { kind, id, rest });
        }
        prop_assert_eq!(channel.in_flight(), all.len());
        prop_assert_eq!(common::requests(&out), expected);
    }

    #[test]
    fn replies_in_any_order_and_any_pieces_are_the_same_events(
        answers in vec((answer(), any::<u16>()), 0..12), sizes in sizes(),
    ) {
        let mut results = Vec::new();
        for sizes in [&sizes[..], &[usize::MAX], &[1]] {
            let mut channel = open();
            let mut packets: Vec<_> = (0..)
                .zip(&answers)
                .map(|(context, (answer, order))| (order, ask(&mut channel, answer, context)))
                .collect();
            packets.sort_by_key(|(order, _)| *order);
            let input: Vec<u8> = packets.into_iter().flat_map(|(_, packet)| packet).collect();
            results.push(drive(&mut channel, &input, sizes));
            prop_assert_eq!(channel.in_flight(), 0);
        }
        prop_assert_eq!(&results[0], &results[1]);
        prop_assert_eq!(&results[0], &results[2]);
        let (told, result) = &results[0];
        prop_assert_eq!(result, &Ok(()));
        let mut seen = vec![false; answers.len()];
        for event in told {
            match event {
                Told::Version => panic!("VERSION was before"),
                Told::Data(context, bytes) => {
                    let Answer::Data(sent) = &answers[*context as usize].0 else { panic!("{event:?}") };
                    prop_assert_eq!(bytes, sent);
                }
                Told::Reply(context, reply) => {
                    prop_assert!(!std::mem::replace(&mut seen[*context as usize], true));
                    check(reply, &answers[*context as usize].0);
                }
            }
        }
        prop_assert!(seen.into_iter().all(|seen| seen));
    }

    #[test]
    fn no_bytes_make_it_panic_and_cuts_change_nothing(input in nearly(), sizes in sizes()) {
        let (mut whole, count) = busy();
        let expected = drive(&mut whole, &input, &[usize::MAX]);
        for sizes in [&sizes[..], &[1]] {
            let (mut channel, _) = busy();
            prop_assert_eq!(&drive(&mut channel, &input, sizes), &expected);
            let replies = expected.0.iter().filter(|told| matches!(told, Told::Reply(..))).count();
            prop_assert_eq!(channel.in_flight(), count - replies);
            prop_assert_eq!(channel.abandon().len(), count - replies);
        }
    }

    #[test]
    fn any_bytes_before_version_are_refused_or_version(input in vec(any::<u8>(), 0..80), sizes in sizes()) {
        let mut channel: Channel<u32> = Channel::new();
        channel.hello(&mut Vec::new());
        for piece in pieces(&input, &sizes) {
            let result = channel.feed(piece, |event| {
                assert!(matches!(event, Event::Version));
                Ok::<(), ()>(())
            });
            if result.is_err() {
                break;
            }
        }
    }
}
