//! However the input is cut, the calls are the same; and whatever the input is, nothing panics.

mod common;

use common::{Event, Session, frame, settings, window_update};
use ferry_h2::{Config, StreamId};
use proptest::prelude::*;
use proptest::sample::Index;

/// A frame that may or may not be allowed where it comes.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let stream = prop_oneof![6 => prop::sample::select(vec![1u32, 3, 5, 7]), 1 => 0u32..12];
    let block = prop::sample::select(vec![
        &b"\x88"[..],
        b"\x08\x03103",
        b"\x88\x40\x01a\x01b",
        b"\x88\x5c\x0510240\x00\x01t\x01v",
        b"\x00\x01t\x01v",
        b"",
    ]);
    let body = prop::collection::vec(any::<u8>(), 0..50);
    prop_oneof![
        4 => (stream.clone(), block.clone(), any::<bool>(), prop::bool::weighted(0.8))
            .prop_map(|(id, block, end, last)| frame(1, u8::from(end) | u8::from(last) << 2, id, block)),
        1 => (stream.clone(), block, prop::bool::weighted(0.8))
            .prop_map(|(id, block, last)| frame(9, u8::from(last) << 2, id, block)),
        8 => (stream.clone(), body.clone(), prop::bool::weighted(0.1))
            .prop_map(|(id, body, end)| frame(0, u8::from(end), id, &body)),
        4 => (stream.clone(), body.clone(), 0u8..10, any::<bool>()).prop_map(|(id, mut body, padding, end)| {
            body.insert(0, padding);
            body.extend(vec![0; usize::from(padding)]);
            frame(0, 8 | u8::from(end), id, &body)
        }),
        1 => (stream.clone(), 0u32..99).prop_map(|(id, code)| frame(3, 0, id, &code.to_be_bytes())),
        1 => (1u16..8, 0u32..200_000).prop_map(|(id, value)| settings(&[(id, value)])),
        1 => any::<[u8; 8]>().prop_map(|payload| frame(6, payload[0] & 1, 0, &payload)),
        1 => (stream.clone(), 0u32..99).prop_map(|(id, increment)| window_update(id, increment)),
        1 => (stream.clone(), body.clone()).prop_map(|(last, debug)| {
            frame(7, 0, 0, &[&last.to_be_bytes()[..], &[0; 4], &debug].concat())
        }),
        1 => (any::<u8>(), any::<u8>(), stream, body).prop_map(|(kind, flags, id, body)| frame(kind, flags, id, &body)),
    ]
}

fn input() -> impl Strategy<Value = Vec<u8>> {
    let noise = prop::collection::vec(any::<u8>(), 0..30);
    (
        prop::collection::vec(any_frame(), 0..40),
        noise,
        prop::bool::weighted(0.2),
    )
        .prop_map(|(frames, noise, noisy)| {
            if noisy {
                [frames.concat(), noise].concat()
            } else {
                frames.concat()
            }
        })
}

/// The calls, the result, the output and the receive windows, for an input that comes in these pieces.
fn run<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Event>, Result<(), String>, Vec<u8>, Vec<i64>) {
    let config = Config {
        stream_window: 300,
        connection_window: 70_000,
        ..Config::default()
    };
    let mut session = Session::with(&config, &[]);
    for end in [true, false, true, false] {
        let id = session.open(end);
        session.connection.set_manual(id, id.0 == 5);
    }
    let mut result = Ok(());
    for piece in pieces {
        result = session.receive(piece).map_err(|error| error.to_string());
        if result.is_err() {
            break;
        }
    }
    let windows = (0..5)
        .map(|n| session.connection.receive_window(StreamId(n * 2 + 1)))
        .collect();
    let output = std::mem::take(session.connection.output());
    (session.events(), result, output, windows)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn cuts_change_nothing(input in input(), cuts in prop::collection::vec(any::<Index>(), 0..20)) {
        let whole = run([&input[..]]);
        prop_assert_eq!(&run(input.chunks(1)), &whole);
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(input.len() + 1)).collect();
        at.extend([0, input.len()]);
        at.sort_unstable();
        prop_assert_eq!(&run(at.windows(2).map(|pair| &input[pair[0]..pair[1]])), &whole);
    }

    #[test]
    fn arbitrary_bytes_never_panic(input in prop::collection::vec(any::<u8>(), 0..2000)) {
        let _ = run(input.chunks(7));
    }

    /// After the end or the reset of a stream there are no more calls for it, except a reset after its end.
    #[test]
    fn calls_come_in_order(input in input()) {
        let (events, ..) = run([&input[..]]);
        let mut over = std::collections::HashMap::new();
        for event in events {
            let (id, state) = match event {
                Event::Header(id, ..) | Event::HeadersDone(id, _) | Event::Data(id, _) => (id, 0),
                Event::End(id) => (id, 1),
                Event::Reset(id, _) => (id, 2),
                Event::Goaway(..) | Event::Pong(_) => continue,
            };
            let before = over.insert(id, state).unwrap_or(0);
            prop_assert!(before == 0 || (before == 1 && state == 2), "{} {} {}", id, before, state);
        }
    }
}
