//! Any bytes from a server, with a few streams open and the caller busy: no panic, and how they are cut changes nothing.
#![no_main]

use ferry_h2::{Config, Connection, Handler, HeaderBlock, Interest, StreamId, error_code};
use libfuzzer_sys::fuzz_target;

/// Writes the calls down, and asserts that they come in order.
#[derive(Default, PartialEq, Debug)]
struct Calls {
    log: Vec<u8>,
    /// Where the last call was `data` for this stream: pieces of one frame are one call.
    data_of: u32,
    /// By stream: 1 after `end`, 2 after `reset`.
    over: [u8; 32],
}

impl Calls {
    fn note(&mut self, what: u8, stream: StreamId, rest: &[u8]) {
        assert!(stream.0 % 2 == 1 && stream.0 < 64, "{stream:?} was never opened");
        let over = &mut self.over[stream.0 as usize / 2];
        assert!(
            *over == 0 || (*over == 1 && what == b'r'),
            "a call on {stream:?}, which is over"
        );
        match what {
            b'e' => *over = 1,
            b'r' => *over = 2,
            _ => {}
        }
        self.log.push(what);
        self.log.extend(stream.0.to_be_bytes());
        self.log.extend(rest);
        self.data_of = 0;
    }
}

impl Handler for Calls {
    fn interest(&self, stream: StreamId) -> Interest {
        if stream.0 % 4 == 1 {
            Interest::All
        } else {
            Interest::StatusOnly
        }
    }
    fn header(&mut self, stream: StreamId, name: &[u8], value: &[u8]) {
        assert!(!name.is_empty() && !name.iter().any(u8::is_ascii_uppercase));
        assert!(!value.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n')));
        self.note(b'h', stream, &[name, b"=", value].concat());
    }
    fn headers_done(&mut self, stream: StreamId, end_stream: bool) {
        self.note(b'H', stream, &[u8::from(end_stream)]);
    }
    fn data(&mut self, stream: StreamId, data: &[u8]) {
        assert!(!data.is_empty());
        if self.data_of == stream.0 {
            self.log.extend(data);
        } else {
            self.note(b'd', stream, data);
            self.data_of = stream.0;
        }
    }
    fn end(&mut self, stream: StreamId) {
        self.note(b'e', stream, &[]);
    }
    fn reset(&mut self, stream: StreamId, code: u32) {
        self.note(b'r', stream, &code.to_be_bytes());
    }
}

fn open(connection: &mut Connection, count: u32) {
    let fields = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "a"),
        (":path", "/"),
    ];
    let block = HeaderBlock::new(fields.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes()))).unwrap();
    for nth in 0..count {
        let _ = connection.open(&block, nth % 2 == 0);
    }
}

/// Cuts the input into pieces of these sizes, in turn.
fn pieces<'a>(mut input: &'a [u8], sizes: &[u8]) -> Vec<&'a [u8]> {
    let mut all = Vec::new();
    for size in sizes.iter().cycle() {
        if input.is_empty() {
            break;
        }
        let (piece, rest) = input.split_at(input.len().min(usize::from(*size) + 1));
        all.push(piece);
        input = rest;
    }
    all
}

type Outcome = (Calls, Result<(), String>, Vec<u8>);

fn passive(input: &[u8], sizes: &[u8]) -> Outcome {
    let config = Config {
        stream_window: 1000,
        connection_window: 66_000,
        header_table: 256,
        ..Config::default()
    };
    let mut connection = Connection::new(&config);
    let mut calls = Calls::default();
    connection.receive(&[0, 0, 0, 4, 0, 0, 0, 0, 0], &mut calls).unwrap();
    open(&mut connection, 8);
    connection.set_manual(StreamId(5), true);
    for piece in pieces(input, sizes) {
        if let Err(error) = connection.receive(piece, &mut calls) {
            return (calls, Err(error.to_string()), std::mem::take(connection.output()));
        }
    }
    (calls, Ok(()), std::mem::take(connection.output()))
}

/// A caller that does something on its own after each piece; what it does follows from the piece's number.
fn active(input: &[u8], sizes: &[u8]) {
    let mut connection = Connection::new(&Config::default());
    let mut calls = Calls::default();
    open(&mut connection, 4);
    connection.receive(&[0, 0, 0, 4, 0, 0, 0, 0, 0], &mut calls).unwrap();
    for (nth, piece) in pieces(input, sizes).into_iter().enumerate() {
        let result = connection.receive(piece, &mut calls);
        let stream = StreamId((nth as u32 * 2 + 1) % 16);
        assert!(connection.capacity(stream) < 1 << 31);
        assert!((0..1 << 31).contains(&connection.receive_window(stream)));
        match nth % 8 {
            0 => {
                let room = connection.capacity(stream).min(100_000);
                connection.send_data(stream, &vec![0; room], room == 0);
            }
            1 => connection.grant(stream, u32::MAX),
            2 => connection.set_manual(stream, nth % 3 == 0),
            3 if nth % 5 == 0 => {
                connection.reset(stream, error_code::CANCEL);
                calls.over[stream.0 as usize / 2] = 2;
            }
            4 if connection.active() < 8 && calls.over.iter().filter(|over| **over > 0).count() < 20 => {
                open(&mut connection, 1)
            }
            5 => connection.output().clear(),
            6 => connection.ping([0; 8]),
            _ => {}
        }
        if result.is_err() {
            return;
        }
    }
}

// The last four bytes say how the input is cut; at the end, so that a seed is a readable sequence of frames.
fuzz_target!(|data: &[u8]| {
    let Some((input, sizes)) = data.split_last_chunk::<4>() else {
        return;
    };
    let whole = passive(input, &[255; 1]);
    assert_eq!(passive(input, sizes), whole);
    assert_eq!(passive(input, &[0]), whole);
    active(input, sizes);
});
