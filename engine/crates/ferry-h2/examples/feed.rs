//! The cost of the state machine: nanoseconds for a request and its response of 10 KB, 100 at a time, on one core.
//!
//! The responses look like nginx's: literals without indexing, some of them Huffman coded, DATA in two frames, cut
//! into records of 16 KiB as TLS delivers them. `cargo run --release --example feed`

use std::hint::black_box;
use std::time::Instant;

use ferry_h2::{Config, Connection, Handler, HeaderBlock, Interest, StreamId};

struct Count {
    interest: Interest,
    bytes: u64,
    ended: u64,
}

impl Handler for Count {
    fn interest(&self, _: StreamId) -> Interest {
        self.interest
    }
    fn header(&mut self, _: StreamId, name: &[u8], value: &[u8]) {
        black_box((name, value));
    }
    fn headers_done(&mut self, _: StreamId, _: bool) {}
    fn data(&mut self, _: StreamId, data: &[u8]) {
        self.bytes += data.len() as u64;
    }
    fn end(&mut self, _: StreamId) {
        self.ended += 1;
    }
    fn reset(&mut self, stream: StreamId, code: u32) {
        panic!("{stream:?} was reset: {code}");
    }
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, payload: &[u8]) {
    out.extend(&u32::try_from(payload.len()).expect("small").to_be_bytes()[1..]);
    out.extend([kind, flags, 0, 0, 0, 0]);
    out.extend(payload);
}

/// One response; the number of its stream is written in later, at the offsets returned.
fn response() -> (Vec<u8>, Vec<usize>) {
    let mut head = vec![0x88];
    // The date of RFC 7541, C.6, Huffman coded, as `date` and as `last-modified`.
    let date = [
        0x96, 0xd0, 0x7a, 0xbe, 0x94, 0x10, 0x54, 0xd4, 0x44, 0xa8, 0x20, 0x05, 0x95, 0x04, 0x0b, 0x81, 0x66, 0xe0,
        0x82, 0xa6, 0x2d, 0x1b, 0xff,
    ];
    for (index, value) in [
        (0x27, &b"\x0cnginx/1.22.1"[..]),
        (0x12, &date),
        (0x10, b"\x18application/octet-stream"),
        (0x0d, b"\x0510240"),
        (0x1d, &date),
        (0x13, b"\x10\"60000000-2800\" "),
        (0x03, b"\x05bytes"),
    ] {
        head.extend([0x0f, index]);
        head.extend(value);
    }
    let mut out = Vec::new();
    let mut places = vec![5];
    frame(&mut out, 1, 4, &head);
    for (flags, length) in [(0, 8192), (1, 2048)] {
        places.push(out.len() + 5);
        frame(&mut out, 0, flags, &vec![7; length]);
    }
    (out, places)
}

fn main() {
    const AT_ONCE: usize = 100;
    const ROUNDS: usize = 5000;
    let block = HeaderBlock::new([
        (&b":method"[..], &b"GET"[..]),
        (b":scheme", b"https"),
        (b":authority", b"127.0.0.1:8443"),
        (b":path", b"/10k"),
        (b"user-agent", b"ferry/0.1"),
    ])
    .expect("a good request");
    let (one, places) = response();
    for interest in [Interest::All, Interest::StatusOnly] {
        let mut connection = Connection::new(&Config::default());
        let mut handler = Count {
            interest,
            bytes: 0,
            ended: 0,
        };
        connection
            .receive(&[0, 0, 0, 4, 0, 0, 0, 0, 0], &mut handler)
            .expect("SETTINGS");
        let mut input = one.repeat(AT_ONCE);
        let (mut opening, mut receiving) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let start = Instant::now();
            let ids: Vec<StreamId> = (0..AT_ONCE)
                .map(|_| connection.open(&block, true).expect("room"))
                .collect();
            black_box(connection.output()).clear();
            opening.push(start.elapsed().as_secs_f64());
            for (nth, id) in ids.iter().enumerate() {
                for place in &places {
                    let at = nth * one.len() + place;
                    input[at..at + 4].copy_from_slice(&id.0.to_be_bytes());
                }
            }
            let start = Instant::now();
            for record in input.chunks(16 << 10) {
                connection.receive(record, &mut handler).expect("good frames");
            }
            receiving.push(start.elapsed().as_secs_f64());
        }
        assert_eq!(
            (handler.ended, handler.bytes),
            ((AT_ONCE * ROUNDS) as u64, (AT_ONCE * ROUNDS * 10_240) as u64)
        );
        // Per request: the 5th percentile, which other processes on the machine do not disturb, and the median.
        let figures = |mut rounds: Vec<f64>| {
            rounds.sort_by(f64::total_cmp);
            [ROUNDS / 20, ROUNDS / 2].map(|nth| rounds[nth] / AT_ONCE as f64 * 1e9)
        };
        let ([open_low, open], [low, median]) = (figures(opening), figures(receiving));
        println!(
            "{interest:?}: ns per request: open {open:.0} (low {open_low:.0}), receive {median:.0} (low {low:.0})"
        );
    }
}
