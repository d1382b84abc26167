//! The rules of RFC 9113 about windows and the life of streams.

mod common;

use common::{Event, Session, frame, frames, get, settings, window_update};
use ferry_h2::{Config, OpenError, error_code as code};

const OK: &[u8] = &[0x88]; // :status 200

#[test]
fn the_peers_window_is_enforced() {
    let config = Config {
        stream_window: 10,
        connection_window: 0,
        ..Config::default()
    };
    let mut session = Session::with(&config, &[]);
    let id = session.open(true);
    session.connection.set_manual(id, true);
    session.receive(&frame(1, 4, id.0, OK)).unwrap();
    session.receive(&frame(0, 0, id.0, &[1; 10])).unwrap();
    assert_eq!(session.connection.receive_window(id), 0);
    session.events();
    session.receive(&frame(0, 0, id.0, &[1; 1])).unwrap();
    assert_eq!(session.events(), [Event::Reset(id.0, code::FLOW_CONTROL_ERROR)]);

    // The connection's 65 535 bytes are used by a gone stream as by any other, and are refilled to 16 KiB only.
    session.receive(&frame(0, 0, id.0, &vec![0; 16_000]).repeat(3)).unwrap();
    session.receive(&frame(0, 0, id.0, &vec![0; 9_000])).unwrap();
    session.expect_error(&frame(0, 0, id.0, &vec![0; 9_000]), code::FLOW_CONTROL_ERROR);
    assert_eq!(session.connection.capacity(id), 0);
}

#[test]
fn windows_are_topped_up_in_batches_and_granted_by_hand() {
    let config = Config {
        stream_window: 100,
        connection_window: 65_535,
        ..Config::default()
    };
    let mut session = Session::with(&config, &[]);
    let id = session.open(true);
    session.receive(&frame(1, 4, id.0, OK)).unwrap();
    session.receive(&frame(0, 0, id.0, &[1; 49])).unwrap();
    assert!(session.sent().is_empty());
    session.receive(&frame(0, 8, id.0, &[0; 1])).unwrap(); // padding counts
    assert_eq!(session.sent(), frames(&window_update(id.0, 50)));
    assert_eq!(session.connection.receive_window(id), 100);

    session.connection.set_manual(id, true);
    session.receive(&frame(0, 0, id.0, &[1; 100])).unwrap();
    assert!(session.sent().is_empty());
    session.connection.grant(id, 7);
    assert_eq!(session.sent(), frames(&window_update(id.0, 7)));
    session.connection.grant(id, u32::MAX);
    assert_eq!(session.sent(), frames(&window_update(id.0, (1 << 31) - 1 - 7)));
    session.connection.grant(id, 1);
    assert!(session.sent().is_empty());

    // The connection's window is topped up whatever happens to the streams.
    session.receive(&frame(0, 0, id.0, &vec![1; 16_384])).unwrap();
    session.connection.reset(id, code::CANCEL);
    assert_eq!(session.sent(), frames(&frame(3, 0, id.0, &[0, 0, 0, 8])));
    session.receive(&frame(0, 1, id.0, &vec![1; 16_384])).unwrap();
    assert_eq!(session.sent(), frames(&window_update(0, 150 + 2 * 16_384)));
    session.connection.grant(id, 1);
    session.connection.set_manual(id, false);
    assert!(session.sent().is_empty());
    assert_eq!(session.connection.receive_window(id), 0);
}

#[test]
fn a_stream_reset_within_a_data_frame_gets_no_more_of_it() {
    let mut session = Session::new();
    let id = session.open(true);
    session.receive(&frame(1, 4, id.0, OK)).unwrap();
    let data = frame(0, 1, id.0, b"abcdef");
    session.receive(&data[..12]).unwrap();
    session.connection.reset(id, code::CANCEL);
    session.receive(&data[12..]).unwrap();
    assert_eq!(session.events().pop(), Some(Event::Data(id.0, b"abc".to_vec())));
    // Other frames in flight are ignored too.
    for late in [
        frame(1, 5, id.0, OK),
        window_update(id.0, 0),
        frame(3, 0, id.0, b"1234"),
        frame(0, 0, id.0, b"x"),
    ] {
        session.receive(&late).unwrap();
    }
    assert!(session.events().is_empty());
}

#[test]
fn frames_behind_the_end_of_a_half_closed_stream() {
    for late in [frame(0, 0, 1, b"x"), frame(1, 4, 1, OK)] {
        let mut session = Session::new();
        let id = session.open(false);
        session.receive(&frame(1, 5, id.0, OK)).unwrap();
        session.events();
        assert_eq!(
            (session.connection.active(), session.connection.capacity(id)),
            (1, 65_535)
        );
        session.receive(&late).unwrap();
        assert_eq!(session.events(), [Event::Reset(id.0, code::STREAM_CLOSED)]);
    }
    let mut session = Session::new();
    let id = session.open(true);
    session.receive(&frame(0, 0, id.0, b"x")).unwrap();
    assert_eq!(session.events(), [Event::Reset(id.0, code::PROTOCOL_ERROR)]);
}

#[test]
fn sending_keeps_to_both_windows_and_the_frame_size() {
    let mut session = Session::with(&Config::default(), &[(4, 20_000)]);
    let (first, second) = (session.open(false), session.open(false));
    assert_eq!(session.connection.capacity(first), 20_000);
    session.connection.send_data(first, &vec![7; 20_000], false);
    let lengths: Vec<usize> = session.sent().iter().map(|f| f.payload.len()).collect();
    assert_eq!(lengths, [16_384, 3616]);
    assert_eq!(session.connection.capacity(first), 0);

    // Lowered, and negative for one of them.
    session.receive(&settings(&[(4, 10_000), (5, 1 << 20)])).unwrap();
    assert_eq!(
        (session.connection.capacity(first), session.connection.capacity(second)),
        (0, 10_000)
    );
    session.receive(&window_update(first.0, 10_001)).unwrap();
    assert_eq!(session.connection.capacity(first), 1);

    // The connection's window is the smaller one now; frames may be larger.
    session.receive(&settings(&[(4, 1 << 20)])).unwrap();
    assert_eq!(session.connection.capacity(second), 45_535);
    session.sent();
    session.connection.send_data(second, &vec![7; 45_535], false);
    session.connection.send_data(second, &[], false);
    assert_eq!(session.sent().len(), 1);
    session.connection.send_data(second, &[], true);
    assert_eq!(session.sent(), frames(&frame(0, 1, second.0, b"")));
    assert_eq!(
        (session.connection.capacity(second), session.connection.active()),
        (0, 2)
    );
    session.connection.send_data(second, &[], true);
    assert_eq!(
        session.connection.send_data_with(second, 9, |_, _| Ok::<_, ()>(true)),
        Ok(0)
    );
    assert!(session.sent().is_empty());

    // Overflows: of a stream, by SETTINGS, and of the connection.
    session.receive(&window_update(first.0, (1 << 31) - 1)).unwrap();
    assert_eq!(session.events(), [Event::Reset(first.0, code::FLOW_CONTROL_ERROR)]);
    let third = session.open(false);
    session.receive(&window_update(third.0, 1 << 30)).unwrap();
    session.expect_error(&settings(&[(4, (1 << 31) - 1)]), code::FLOW_CONTROL_ERROR);
    let mut session = Session::new();
    session.expect_error(&window_update(0, (1 << 31) - 1), code::FLOW_CONTROL_ERROR);
}

#[test]
fn content_made_in_place_is_framed_like_content_that_is_given() {
    let mut session = Session::with(&Config::default(), &[(4, 20_000)]);
    let id = session.open(false);
    let mut offer = |most: usize, bytes: &[u8], end: Result<bool, &'static str>| {
        let mut rooms = 0;
        let sent = session.connection.send_data_with(id, most, |out, room| {
            rooms = room;
            out.extend(bytes);
            end
        });
        (rooms, sent, session.sent())
    };
    // A failed write, and an empty one without an end, leave no trace in the output and take no window.
    assert_eq!(
        offer(100, b"half", Err("the file is gone")),
        (100, Err("the file is gone"), Vec::new())
    );
    assert_eq!(offer(100, b"", Ok(false)), (100, Ok(0), Vec::new()));
    let full = vec![7; 16_384];
    // The frame's size is the bound first, then the window.
    let (room, sent, on_the_wire) = offer(usize::MAX, &full, Ok(false));
    assert_eq!((room, sent), (16_384, Ok(16_384)));
    assert_eq!(on_the_wire, frames(&frame(0, 0, id.0, &full)));
    assert_eq!(
        offer(usize::MAX, b"xy", Ok(true)),
        (3616, Ok(2), frames(&frame(0, 1, id.0, b"xy")))
    );
    assert_eq!(offer(usize::MAX, b"", Ok(true)), (0, Ok(0), Vec::new()));
}

#[test]
fn a_stream_is_over_when_both_sides_are() {
    let mut session = Session::new();
    let id = session.open(false);
    session.receive(&frame(1, 4, id.0, OK)).unwrap();
    session.receive(&frame(0, 1, id.0, b"early answer")).unwrap();
    assert_eq!(
        (session.connection.active(), session.connection.receive_window(id)),
        (1, 0)
    );
    session.connection.grant(id, 100);
    assert!(session.sent().is_empty());
    let made = session.connection.send_data_with(id, 2, |out, room| {
        out.extend(b"up");
        Ok::<_, ()>(room == 2)
    });
    assert_eq!(made, Ok(2));
    assert_eq!(session.sent(), frames(&frame(0, 1, id.0, b"up")));
    assert_eq!(session.connection.active(), 0);

    let id = session.open(false);
    session.receive(&frame(1, 5, id.0, OK)).unwrap();
    session.receive(&frame(3, 0, id.0, &[0; 4])).unwrap();
    assert_eq!(
        session.events().split_off(6),
        [Event::End(id.0), Event::Reset(id.0, code::NO_ERROR)]
    );
    assert_eq!(session.connection.active(), 0);
}

#[test]
fn nothing_is_sent_on_a_connection_that_failed() {
    let mut session = Session::new();
    let id = session.open(false);
    session.expect_error(&window_update(0, (1 << 31) - 1), code::FLOW_CONTROL_ERROR);
    session.sent();
    session.connection.send_data(id, &[], true);
    assert_eq!(
        session.connection.send_data_with(id, 9, |_, _| Ok::<_, ()>(true)),
        Ok(0)
    );
    assert!(session.sent().is_empty());
}

#[test]
fn limits_of_opening() {
    let mut session = Session::with(&Config::default(), &[(3, 2)]);
    let first = session.open(true);
    session.open(true);
    assert_eq!(session.connection.open(&get(), true), Err(OpenError::AtLimit));
    session.receive(&frame(1, 5, first.0, OK)).unwrap();
    session.open(true);
    session.receive(&settings(&[(3, 0)])).unwrap();
    assert_eq!((session.connection.open_limit(), session.connection.active()), (0, 2));
    assert_eq!(session.connection.open(&get(), true), Err(OpenError::AtLimit));
    assert_eq!(Session::new().connection.open_limit(), u32::MAX);
}

#[test]
fn a_goaway_refuses_what_is_above_it() {
    let mut session = Session::new();
    let ids: Vec<u32> = (0..4).map(|_| session.open(true).0).collect();
    session.receive(&frame(7, 0, 0, b"\0\0\0\x03\0\0\0\0bye")).unwrap();
    assert_eq!(
        session.events(),
        [
            Event::Goaway(3, 0, b"bye".to_vec()),
            Event::Reset(ids[2], code::REFUSED_STREAM),
            Event::Reset(ids[3], code::REFUSED_STREAM),
        ]
    );
    assert!(session.connection.peer_going_away());
    assert_eq!(session.connection.open(&get(), true), Err(OpenError::GoingAway));
    session.receive(&frame(1, 5, ids[1], OK)).unwrap();
    assert_eq!(session.connection.active(), 1);

    let mut session = Session::new();
    session.connection.go_away(code::NO_ERROR);
    assert_eq!(session.sent(), frames(&frame(7, 0, 0, &[0; 8])));
    assert_eq!(session.connection.open(&get(), true), Err(OpenError::GoingAway));
}
