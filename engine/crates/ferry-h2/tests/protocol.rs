//! The rules of RFC 9113, one by one, with frames made by hand.

mod common;

use common::{Event, Frame, Session, frame, frames, get, settings, window_update};
use ferry_h2::{Config, Connection, HeaderBlock, StreamId, error_code as code};

const OK: &[u8] = &[0x88]; // :status 200

#[test]
fn the_first_bytes_are_the_preface_and_what_was_configured() {
    let mut connection = Connection::new(&Config::default());
    let output = std::mem::take(connection.output());
    let rest = output.strip_prefix(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    let sent = frames(rest);
    assert_eq!(
        frame(4, 0, 0, &sent[0].payload),
        settings(&[(1, 4096), (2, 0), (4, 16 << 20), (6, 64 << 10)])
    );
    assert_eq!(sent[1], frames(&window_update(0, (64 << 20) - 65_535))[0]);
    assert_eq!(connection.open_limit(), 100);
}

#[test]
fn a_server_that_does_not_speak_http2_is_told_apart() {
    let mut session = Session::new();
    session.connection = Connection::new(&Config::default());
    session.connection.output().clear();
    session.expect_error(b"HTTP/1.1 400 Bad Request\r\n\r\n", code::PROTOCOL_ERROR);
}

#[test]
fn a_response_with_interim_body_and_trailers() {
    let mut session = Session::new();
    let id = session.open(true).0;
    assert_eq!(session.connection.active(), 1);
    let mut input = frame(1, 4, id, b"\x08\x03103\x0f\x1e\x01l"); // :status 103, link: l
    input.extend(frame(1, 4 | 8 | 0x20, id, b"\x02\0\0\0\0\x0f\x88pp"));
    input.extend(frame(0, 0, id, b"one "));
    input.extend(frame(0, 8, id, b"\x03twoppp"));
    input.extend(frame(0, 0, id, b""));
    input.extend(frame(1, 4 | 1, id, b"\x00\x01t\x01v"));
    session.receive(&input).unwrap();
    let text = |name: &str, value: &str| Event::Header(id, name.into(), value.into());
    assert_eq!(
        session.events(),
        [
            text(":status", "103"),
            text("link", "l"),
            Event::HeadersDone(id, false),
            text(":status", "200"),
            Event::HeadersDone(id, false),
            Event::Data(id, b"one two".to_vec()),
            text("t", "v"),
            Event::HeadersDone(id, true),
            Event::End(id),
        ]
    );
    assert_eq!(session.connection.active(), 0);
    assert!(session.sent().is_empty());
}

#[test]
fn malformed_responses_end_their_stream_only() {
    let cases: [(&[u8], u8); 15] = [
        (b"", 4),                                // no :status
        (b"\x88\x88", 4),                        // twice
        (b"\x00\x01a\x01b\x88", 4),              // behind a field
        (b"\x82", 4),                            // :method
        (b"\x08\x02OK", 4),                      // not a number
        (b"\x08\x03099", 4),                     // too small
        (b"\x08\x03101", 4),                     // switching protocols
        (b"\x08\x03100", 4 | 1),                 // an end without a response
        (b"\x88\x00\x01A\x01b", 4),              // upper case
        (b"\x88\x00\x00\x01b", 4),               // no name
        (b"\x88\x00\x02 a\x01b", 4),             // white space in a name
        (b"\x88\x00\x01a\x03b\r\n", 4),          // a line break
        (b"\x88\x00\x0aconnection\x05close", 4), // of HTTP/1.1
        (b"\x88\xb9", 4),                        // transfer-encoding of the static table
        (b"\x88\x0f\x2a\x07chunked", 4),         // the same with a value
    ];
    for (block, flags) in cases {
        let mut session = Session::new();
        let bad = session.open(true).0;
        let good = session.open(true).0;
        session.receive(&frame(1, flags, bad, block)).unwrap();
        assert_eq!(
            session.events().pop(),
            Some(Event::Reset(bad, code::PROTOCOL_ERROR)),
            "{block:?}"
        );
        assert_eq!(session.sent(), frames(&frame(3, 0, bad, &[0, 0, 0, 1])));
        session.receive(&frame(1, 5, good, OK)).unwrap();
        assert_eq!(session.events().pop(), Some(Event::End(good)));
    }
}

#[test]
fn trailers_must_end_the_stream_and_have_no_status() {
    for (flags, block) in [(4, &b"\x00\x01t\x01v"[..]), (5, OK)] {
        let mut session = Session::new();
        let id = session.open(true).0;
        session.receive(&frame(1, 4, id, OK)).unwrap();
        session.receive(&frame(1, flags, id, block)).unwrap();
        assert_eq!(session.events().pop(), Some(Event::Reset(id, code::PROTOCOL_ERROR)));
    }
}

#[test]
fn status_only_reports_nothing_else_and_keeps_the_table() {
    let mut session = Session::new();
    let (first, second) = (session.open(true).0, session.open(true).0);
    session.handler.status_only = true;
    // "a: b" is indexed, "c: d" is not, "server: x" neither.
    session
        .receive(&frame(
            1,
            5,
            first,
            b"\x08\x03418\x40\x01a\x01b\x00\x01c\x01d\x0f\x27\x01x",
        ))
        .unwrap();
    let status = |id: u32, value: &str| Event::Header(id, ":status".into(), value.into());
    assert_eq!(
        session.events(),
        [status(first, "418"), Event::HeadersDone(first, true), Event::End(first)]
    );
    session.handler.status_only = false;
    session.receive(&frame(1, 5, second, b"\x88\xbe")).unwrap();
    assert_eq!(session.events()[1], Event::Header(second, "a".into(), "b".into()));
}

#[test]
fn connection_errors() {
    let long = vec![0; 16_385];
    let cases: [(Vec<u8>, u32); 30] = [
        (frame(0, 0, 0, b"x"), code::PROTOCOL_ERROR),
        (frame(0, 0, 7, b"x"), code::PROTOCOL_ERROR),
        (frame(0, 0, 2, b"x"), code::PROTOCOL_ERROR),
        (frame(0, 8, 1, b""), code::FRAME_SIZE_ERROR),
        (frame(0, 8, 1, b"\x01"), code::PROTOCOL_ERROR),
        (frame(0, 0, 1, &long), code::FRAME_SIZE_ERROR),
        (frame(1, 4, 0, OK), code::PROTOCOL_ERROR),
        (frame(1, 4, 7, OK), code::PROTOCOL_ERROR),
        (frame(1, 4, 2, OK), code::PROTOCOL_ERROR),
        (frame(1, 4 | 8, 1, b"\x02\x88"), code::PROTOCOL_ERROR),
        (frame(1, 4 | 8, 1, b""), code::FRAME_SIZE_ERROR),
        (frame(1, 4 | 0x20, 1, b"1234"), code::FRAME_SIZE_ERROR),
        (frame(1, 4, 1, b"\xff"), code::COMPRESSION_ERROR),
        (frame(1, 4, 1, b"\x80"), code::COMPRESSION_ERROR),
        (frame(1, 4, 1, b"\xbe"), code::COMPRESSION_ERROR),
        (frame(2, 0, 0, b"12345"), code::PROTOCOL_ERROR),
        (frame(2, 0, 1, b"1234"), code::FRAME_SIZE_ERROR),
        (frame(3, 0, 1, b"123"), code::FRAME_SIZE_ERROR),
        (frame(3, 0, 7, b"1234"), code::PROTOCOL_ERROR),
        (frame(4, 0, 1, b""), code::PROTOCOL_ERROR),
        (frame(4, 0, 0, b"1"), code::FRAME_SIZE_ERROR),
        (frame(4, 1, 0, b"123456"), code::FRAME_SIZE_ERROR),
        (settings(&[(2, 1)]), code::PROTOCOL_ERROR),
        (settings(&[(4, 1 << 31)]), code::FLOW_CONTROL_ERROR),
        (settings(&[(5, 16_383)]), code::PROTOCOL_ERROR),
        (frame(5, 4, 1, b"\0\0\0\x02"), code::PROTOCOL_ERROR),
        (frame(6, 0, 0, b"1234567"), code::FRAME_SIZE_ERROR),
        (frame(7, 0, 0, b"1234567"), code::FRAME_SIZE_ERROR),
        (window_update(0, 0), code::PROTOCOL_ERROR),
        (frame(9, 4, 1, OK), code::PROTOCOL_ERROR),
    ];
    for (bytes, expected) in cases {
        let mut session = Session::new();
        session.open(true);
        session.expect_error(&bytes, expected);
    }
}

#[test]
fn continuations_come_at_once_and_are_bounded() {
    let start = |session: &mut Session| {
        let id = session.open(true).0;
        session.receive(&frame(1, 1, id, &OK[..0])).unwrap();
        id
    };
    let mut session = Session::new();
    let id = start(&mut session);
    session.receive(&frame(9, 0, id, b"\x88\x00\x01")).unwrap();
    session.receive(&frame(9, 4, id, b"a\x01b")).unwrap();
    assert_eq!(session.events().pop(), Some(Event::End(id)));

    for interruption in [
        frame(9, 0, 3, b""),
        frame(6, 0, 0, b"12345678"),
        frame(0, 0, 1, b"x"),
        frame(99, 0, 0, b""),
    ] {
        let mut session = Session::new();
        start(&mut session);
        session.expect_error(&interruption, code::PROTOCOL_ERROR);
    }

    let mut session = Session::new();
    let id = start(&mut session);
    session.expect_error(&frame(9, 0, id, b"").repeat(33), code::ENHANCE_YOUR_CALM);

    let mut session = Session::new();
    let id = start(&mut session);
    session.receive(&frame(9, 0, id, b"").repeat(31)).unwrap();
    session.receive(&frame(9, 4, id, OK)).unwrap();
    assert_eq!(session.events().pop(), Some(Event::End(id)), "32 are allowed");

    let mut session = Session::new();
    let id = start(&mut session);
    session.expect_error(&frame(9, 0, id, &vec![0; 16_384]).repeat(5), code::ENHANCE_YOUR_CALM);
}

#[test]
fn a_header_list_beyond_the_limit_ends_the_stream_and_keeps_the_table() {
    let mut session = Session::with(
        &Config {
            max_header_list: 16 << 10,
            ..Config::default()
        },
        &[],
    );
    let (first, second) = (session.open(true).0, session.open(true).0);
    // One field of 3000 bytes goes into the table, and then 6 references to it are one byte each.
    let length = 3000;
    let mut block = b"\x88\x40\x01a\x7f\xb9\x16".to_vec();
    block.resize(block.len() + length, b'v');
    block.extend([0xbe; 6]);
    session.receive(&frame(1, 5, first, &block)).unwrap();
    assert_eq!(
        session.events().pop(),
        Some(Event::Reset(first, code::ENHANCE_YOUR_CALM))
    );
    session.receive(&frame(1, 5, second, b"\x88\xbe")).unwrap();
    assert!(matches!(&session.events()[1], Event::Header(_, name, value) if name == "a" && value.len() == length));
}

#[test]
fn pings_both_ways_and_floods() {
    let mut session = Session::new();
    session.receive(&frame(6, 0, 0, b"question")).unwrap();
    assert_eq!(session.sent(), frames(&frame(6, 1, 0, b"question")));
    session.connection.ping(*b"12345678");
    assert_eq!(session.sent(), frames(&frame(6, 0, 0, b"12345678")));
    session.receive(&frame(6, 1, 0, b"12345678")).unwrap();
    assert_eq!(session.events(), [Event::Pong(*b"12345678")]);

    for flood in [frame(6, 0, 0, b"question"), settings(&[])] {
        let thousand = flood.repeat(1000);
        for _ in 0..200 {
            session.receive(&thousand).unwrap();
            session.sent();
        }
        let error = (0..200).find_map(|_| session.receive(&thousand).err()).unwrap();
        assert_eq!(error.code, code::ENHANCE_YOUR_CALM);
        assert!(session.connection.output().len() < (1 << 20) + 100);
        session = Session::new();
    }

    let id = session.open(true).0;
    session.receive(&frame(1, 4, id, OK)).unwrap();
    session.expect_error(&frame(0, 0, id, b"").repeat(1001), code::ENHANCE_YOUR_CALM);
}

#[test]
fn unknown_frames_are_skipped() {
    let mut session = Session::new();
    let id = session.open(true).0;
    let mut input = frame(0x42, 0xff, id, &[1; 5000]);
    input.extend(frame(0x43, 0xff, 0, b""));
    input.extend(frame(2, 0, 99, b"12345"));
    input.extend(frame(1, 5, id, OK));
    session.receive(&input).unwrap();
    assert_eq!(session.events().pop(), Some(Event::End(id)));
}

#[test]
fn table_sizes_are_agreed_upon() {
    // The peer lowers its decoder's table: the next block, and only that, begins with an update to 0.
    let mut session = Session::with(&Config::default(), &[(1, 100)]);
    session.receive(&settings(&[(1, 4096)])).unwrap();
    session.sent();
    session.connection.open(&get(), true).unwrap();
    session.connection.open(&get(), true).unwrap();
    let sent = session.sent();
    assert_eq!(sent[0].payload[0], 0x20);
    assert_eq!(sent[0].payload[1..], sent[1].payload[..]);

    // This side lowers its own: from the acknowledgement on, the peer must agree.
    let config = Config {
        header_table: 0,
        ..Config::default()
    };
    let mut session = Session::with(&config, &[]);
    let ids: Vec<u32> = (0..4).map(|_| session.open(true).0).collect();
    session.receive(&frame(1, 5, ids[0], b"\x88\x40\x01a\x01b")).unwrap();
    session.receive(&frame(4, 1, 0, b"")).unwrap();
    session
        .receive(&frame(1, 5, ids[1], b"\x20\x88\x40\x01a\x01b"))
        .unwrap();
    session.expect_error(&frame(1, 5, ids[2], b"\x88\xbe"), code::COMPRESSION_ERROR);
    let mut session = Session::with(&config, &[]);
    session.open(true);
    session.receive(&frame(4, 1, 0, b"")).unwrap();
    session.expect_error(&frame(1, 5, 1, b"\x88"), code::COMPRESSION_ERROR);
}

#[test]
fn large_blocks_are_continued() {
    let long = vec![b'x'; 40_000];
    let block = HeaderBlock::new([
        (&b":method"[..], &b"GET"[..]),
        (b":scheme", b"https"),
        (b":path", b"/"),
        (b"x-long", &long),
    ])
    .unwrap();
    let mut session = Session::with(&Config::default(), &[(1, 0)]);
    assert_eq!(session.connection.open(&block, true), Ok(StreamId(1)));
    let sent: Vec<Frame> = session.sent();
    let shape: Vec<_> = sent
        .iter()
        .map(|f| (f.kind, f.flags, f.stream, f.payload.len()))
        .collect();
    assert_eq!(shape[..2], [(1, 1, 1, 16_384), (9, 0, 1, 16_384)]);
    assert_eq!((shape.len(), shape[2].0, shape[2].1), (3, 9, 4));
}
