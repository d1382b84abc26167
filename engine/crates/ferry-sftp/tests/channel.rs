//! A conversation with a server that is written by hand, and the ways a server may break the rules.

mod common;

use common::{Told, attrs, data, feed, handle, names, number, open, packet, reply, requests, status, version};
use ferry_sftp::{
    Attrs, Channel, Event, FeedError, FileKind, Handle, Limits, MAX_DATA_PACKET, MAX_PACKET, OpenFlags, ProtocolError,
    Reply, Request, Status, StatusCode,
};

fn read(channel: &mut Channel<u32>, offset: u64, length: u32, context: u32) -> u32 {
    let handle = &Handle::new(b"h").unwrap();
    let request = Request::Read { handle, offset, length };
    channel.request(&request, context, &mut Vec::new())
}

fn said(code: StatusCode, message: &str) -> Reply {
    let message = message.to_owned();
    Reply::Status(Status { code, message })
}

#[test]
fn everything_may_leave_in_one_flight_and_come_back_in_any_order() {
    let (mut channel, mut out, mut told) = (Channel::new(), Vec::new(), Vec::new());
    channel.hello(&mut out);
    channel.request(&Request::Limits, 1, &mut out);
    channel.request(&Request::Stat { path: b"/a" }, 2, &mut out);
    let flags = OpenFlags::READ | OpenFlags::CREATE;
    let none = Attrs::default();
    channel.request(
        &Request::Open {
            path: b"/a",
            flags,
            attrs: &none,
        },
        3,
        &mut out,
    );
    assert!(channel.extensions().is_none());
    let seen = requests(&out);
    assert_eq!((seen[0].kind, seen[0].id), (1, 3));
    let [_, limits, stat, open] = &seen[..] else {
        panic!("{seen:?}")
    };
    assert_eq!(open.rest, [0, 0, 0, 2, b'/', b'a', 0, 0, 0, 9, 0, 0, 0, 0]);

    let about = Attrs {
        size: Some(5),
        permissions: Some(0o100_644),
        ..none
    };
    let mut answer = version(&[("limits@openssh.com", "1"), ("fsync@openssh.com", "1")]);
    answer.extend(handle(open.id, b"\0\0\0\0"));
    answer.extend(reply(105, stat.id, &attrs(&about, &[])));
    answer.extend(reply(201, limits.id, &[0; 32]));
    feed(&mut channel, &answer, &mut told).unwrap();
    let Told::Reply(3, Reply::Handle(file)) = &told[1] else {
        panic!("{told:?}")
    };
    assert_eq!(file.as_bytes(), [0; 4]);
    assert_eq!(about.kind(), FileKind::Regular);
    assert_eq!(told[2], Told::Reply(2, Reply::Attrs(about)));
    let Told::Reply(1, Reply::Extended(limits)) = &told[3] else {
        panic!("{told:?}")
    };
    assert_eq!(Limits::parse(limits), Ok(Limits::default()));
    let known = channel.extensions().unwrap();
    assert!(known.limits() && known.fsync() && !known.posix_rename());

    let file = file.clone();
    out.clear();
    told.clear();
    for (context, offset) in [(10, 0), (11, 3), (12, 6)] {
        channel.request(
            &Request::Read {
                handle: &file,
                offset,
                length: 3,
            },
            context,
            &mut out,
        );
    }
    channel.write_header(&file, 9, 2, 13, &mut out);
    out.extend(b"yz");
    channel.request(&Request::Close { handle: &file }, 14, &mut out);
    let ids: Vec<u32> = requests(&out).iter().map(|seen| seen.id).collect();
    assert_eq!(channel.in_flight(), 5);
    let answer = [
        status(ids[4], 0, "Success"),
        status(ids[2], 1, "End of file"),
        data(ids[1], b"de"),
        status(ids[3], 4, "no space"),
        data(ids[0], b"abc"),
    ];
    feed(&mut channel, &answer.concat(), &mut told).unwrap();
    let expected = [
        Told::Reply(14, said(StatusCode::Ok, "")),
        Told::Reply(12, said(StatusCode::Eof, "")),
        Told::Data(11, b"de".to_vec()),
        Told::Reply(11, Reply::Data { length: 2 }),
        Told::Reply(13, said(StatusCode::Failure, "no space")),
        Told::Data(10, b"abc".to_vec()),
        Told::Reply(10, Reply::Data { length: 3 }),
    ];
    assert_eq!(told, expected);
    assert_eq!(channel.in_flight(), 0);
}

#[test]
fn a_write_header_counts_the_data_that_follows() {
    let mut out = Vec::new();
    let id = open().write_header(&Handle::new(b"hh").unwrap(), 1 << 40, 3, 0, &mut out);
    out.extend(b"abc");
    let seen = requests(&out);
    assert_eq!((seen.len(), seen[0].kind, seen[0].id), (1, 6, id));
    assert_eq!(seen[0].rest, b"\0\0\0\x02hh\0\0\x01\0\0\0\0\0\0\0\0\x03abc");
}

#[test]
fn data_is_handed_on_from_the_callers_own_bytes() {
    let mut channel = open();
    let id = read(&mut channel, 0, 100, 7);
    let answer = data(id, &[9; 60]);
    let mut parts = Vec::new();
    for piece in answer.chunks(40) {
        let inside = piece.as_ptr_range();
        channel
            .feed(piece, |event| {
                if let Event::Data { context, at, bytes, .. } = event {
                    assert!(inside.contains(&bytes.as_ptr()));
                    *context += 1;
                    parts.push((at, bytes.len()));
                } else if let Event::Reply { context, .. } = event {
                    assert_eq!(context, 9);
                }
                Ok::<(), ()>(())
            })
            .unwrap();
    }
    assert_eq!(parts, [(0, 27), (27, 33)]);
}

/// The error of feeding this after VERSION, with a READ of 10 bytes and an OPENDIR in flight.
fn broken(answer: impl Fn(u32, u32) -> Vec<u8>) -> ProtocolError {
    let mut channel = open();
    let first = read(&mut channel, 0, 10, 1);
    let second = channel.request(&Request::Opendir { path: b"." }, 2, &mut Vec::new());
    let error = feed(&mut channel, &answer(first, second), &mut Vec::new()).unwrap_err();
    assert!(!error.to_string().contains('\n'));
    assert_eq!(feed(&mut channel, b"", &mut Vec::new()), Err(ProtocolError::Dead));
    assert!(!channel.abandon().is_empty());
    error
}

#[test]
fn broken_rules_have_names() {
    use ProtocolError as E;
    let kind = |error| match error {
        E::UnknownKind { kind } | E::WrongReply { kind, .. } => kind,
        other => panic!("{other}"),
    };
    assert_eq!(broken(|_, _| version(&[])), E::SecondVersion);
    assert_eq!(broken(|a, _| status(a + 9, 4, "")), E::UnknownId { id: 9 });
    assert_eq!(broken(|a, _| data(a + 9, b"")), E::UnknownId { id: 9 });
    assert_eq!(kind(broken(|a, _| handle(a, b"h"))), 102);
    assert_eq!(kind(broken(|_, b| data(b, b"h"))), 103);
    assert_eq!(kind(broken(|_, b| names(b, &[]))), 104);
    assert_eq!(kind(broken(|_, b| reply(5, b, &[]))), 5);
    assert_eq!(kind(broken(|_, b| reply(200, b, &[]))), 200);
    assert_eq!(
        broken(|a, _| data(a, &[0; 11])),
        E::TooMuchData { asked: 10, length: 11 }
    );
    let beyond = |a, _| reply(103, a, &[0, 0, 0, 9, 1, 2]);
    assert_eq!(broken(beyond), E::DataBeyondPacket { length: 9, room: 2 });
    assert_eq!(
        broken(|a, _| status(a, 0, "Success")),
        E::EmptySuccess { request: "READ" }
    );
    assert_eq!(broken(|_, b| handle(b, &[1; 257])), E::HandleTooLong { length: 257 });
    assert_eq!(broken(|_, b| reply(102, b, &[0, 0, 0, 9, 1])), E::Truncated);
    assert_eq!(broken(|_, b| reply(101, b, &[0, 0])), E::Truncated);
    assert_eq!(broken(|_, _| packet(101, &[0, 0, 0])), E::Truncated);
    assert_eq!(broken(|_, _| packet(103, &[0; 7])), E::Truncated);
    assert_eq!(broken(|_, _| vec![0, 0, 0, 0, 101]), E::Truncated);
    for (kind, most) in [(101, MAX_PACKET), (103, MAX_DATA_PACKET)] {
        let length = most + 1;
        let long = |_, _| [&length.to_be_bytes()[..], &[kind]].concat();
        assert_eq!(broken(long), E::PacketTooLong { length, most });
    }
}

#[test]
fn the_beginning_is_init_and_then_version() {
    let mut early: Channel<u32> = Channel::default();
    assert_eq!(
        feed(&mut early, &version(&[]), &mut Vec::new()),
        Err(ProtocolError::BeforeInit)
    );
    let hello = || {
        let mut channel: Channel<u32> = Channel::new();
        channel.hello(&mut Vec::new());
        channel
    };
    let id = read(&mut hello(), 0, 1, 1);
    let first = feed(&mut hello(), &data(id, b"a"), &mut Vec::new());
    assert_eq!(first, Err(ProtocolError::BeforeVersion { kind: 103 }));
    for version in [2, 4] {
        let answer = packet(2, &u32::to_be_bytes(version));
        assert_eq!(
            feed(&mut hello(), &answer, &mut Vec::new()),
            Err(ProtocolError::WrongVersion { version })
        );
    }
    let banner = feed(&mut hello(), b"Welcome to this machine", &mut Vec::new());
    assert_eq!(banner, Err(ProtocolError::BeforeVersion { kind: b'o' }));
}

#[test]
fn a_late_duplicate_is_an_error_and_nobody_elses_reply() {
    let mut channel = open();
    let first = read(&mut channel, 0, 4, 1);
    feed(&mut channel, &data(first, b"abcd"), &mut Vec::new()).unwrap();
    let second = read(&mut channel, 4, 4, 2);
    assert_ne!(first, second);
    let mut told = Vec::new();
    let error = feed(&mut channel, &data(first, b"abcd"), &mut told);
    assert_eq!(error, Err(ProtocolError::UnknownId { id: first }));
    assert!(told.is_empty());
    assert_eq!(channel.abandon(), [2]);
}

#[test]
fn bytes_behind_the_last_field_are_skipped() {
    let (mut channel, mut told) = (open(), Vec::new());
    let (a, b) = (read(&mut channel, 0, 4, 1), read(&mut channel, 4, 4, 2));
    let mut longer = common::string(b"abcd");
    longer.extend(b"???");
    let answer = [reply(103, a, &longer), status(b, 1, "")].concat();
    for byte in answer {
        feed(&mut channel, &[byte], &mut told).unwrap();
    }
    assert_eq!(told.last(), Some(&Told::Reply(2, said(StatusCode::Eof, ""))));
}

#[test]
fn the_longest_packet_may_come_byte_by_byte() {
    let (mut channel, mut told) = (open(), Vec::new());
    let handle = &Handle::new(b"h").unwrap();
    let id = channel.request(&Request::Readdir { handle }, 1, &mut Vec::new());
    let entry = (vec![b'n'; 100], vec![b'l'; 144], Attrs::default());
    let listing = names(id, &vec![entry; 1024]);
    let mut front = &listing[..];
    assert!((262_000..MAX_PACKET).contains(&number(&mut front)));
    for byte in listing {
        feed(&mut channel, &[byte], &mut told).unwrap();
    }
    let [Told::Reply(1, Reply::Names(names))] = &told[..] else {
        panic!("{} events", told.len())
    };
    assert_eq!(names.len(), 1024);
}

#[test]
fn a_caller_that_fails_ends_the_channel_and_gets_its_contexts_back() {
    let mut channel = open();
    let id = read(&mut channel, 0, 4, 1);
    read(&mut channel, 4, 4, 2);
    let result = channel.feed(&data(id, b"abcd"), |_| Err("disk full"));
    assert_eq!(result, Err(FeedError::Caller("disk full")));
    assert_eq!(channel.abandon(), [1, 2]);
    assert_eq!(channel.in_flight(), 0);
    read(&mut channel, 0, 1, 3);
    assert_eq!(channel.abandon(), [3]);
}
