//! Any bytes from an SFTP server, with requests of every kind in flight: no panic, never more data than was asked for, one
//! reply for each request at most, and how the bytes are cut changes nothing.
#![no_main]

use ferry_sftp::{Attrs, Channel, Event, Handle, Limits, OpenFlags, Reads, Reply, Request};
use libfuzzer_sys::fuzz_target;

/// What a request was, and what came of it.
#[derive(Clone, Default, PartialEq, Debug)]
struct Sent {
    /// Bytes that a READ asked for; 0 for everything else.
    asked: u32,
    data: Vec<u8>,
    /// The reply, spelled out.
    reply: Option<String>,
}

/// The context is the index in `sent`.
struct Caller {
    channel: Channel<usize>,
    sent: Vec<Sent>,
    order: Vec<usize>,
}

impl Caller {
    fn new() -> Self {
        let mut channel = Channel::new();
        channel.hello(&mut Vec::new());
        Self {
            channel,
            sent: Vec::new(),
            order: Vec::new(),
        }
    }

    fn ask(&mut self, which: usize) {
        let (handle, attrs, out) = (&Handle::new(b"h").unwrap(), &Attrs::default(), &mut Vec::new());
        let (path, from, to, flags, offset) = (b"p", b"p", b"q", OpenFlags::READ, 0);
        let length = [10, 70_000, 1][which / 10 % 3];
        let context = self.sent.len();
        let request = match which % 10 {
            0 | 1 => Request::Read { handle, offset, length },
            2 => Request::Open { path, flags, attrs },
            3 => Request::Stat { path },
            4 => Request::Readdir { handle },
            5 => Request::Limits,
            6 => Request::Close { handle },
            7 => Request::PosixRename { from, to },
            8 => Request::Realpath { path },
            _ => {
                self.channel.write_header(handle, offset, length, context, out);
                self.sent.push(Sent::default());
                return;
            }
        };
        let asked = if let Request::Read { length, .. } = request {
            length
        } else {
            0
        };
        self.channel.request(&request, context, out);
        self.sent.push(Sent {
            asked,
            ..Sent::default()
        });
    }

    fn feed(&mut self, piece: &[u8]) -> Result<(), String> {
        let Self { channel, sent, order } = self;
        let result = channel.feed(piece, |event| {
            match event {
                Event::Version => assert!(order.is_empty()),
                Event::Data {
                    context,
                    length,
                    at,
                    bytes,
                } => {
                    let sent = &mut sent[*context];
                    assert!(sent.reply.is_none() && !bytes.is_empty());
                    assert_eq!(sent.data.len(), at as usize);
                    sent.data.extend(bytes);
                    assert!(sent.data.len() <= length as usize && length <= sent.asked);
                }
                Event::Reply { context, reply } => {
                    let sent = &mut sent[context];
                    if let Reply::Data { length } = reply {
                        assert_eq!(sent.data.len(), length as usize);
                        assert!(length <= sent.asked);
                    } else {
                        assert!(sent.data.is_empty());
                    }
                    if let Reply::Extended(bytes) = &reply {
                        let _ = Limits::parse(bytes);
                    }
                    if let Reply::Status(status) = &reply {
                        assert!(status.message.chars().count() <= 256);
                        assert!(!status.message.contains(char::is_control));
                    }
                    if let Reply::Names(names) = &reply {
                        assert!(
                            names
                                .iter()
                                .all(|name| !name.is_plain() || !name.file_name.contains(&b'/'))
                        );
                    }
                    assert!(sent.reply.replace(format!("{reply:?}")).is_none(), "two replies");
                    order.push(context);
                }
            }
            Ok::<(), std::convert::Infallible>(())
        });
        result.map_err(|error| error.to_string())
    }

    fn end(mut self, result: Result<(), String>) -> Outcome {
        let extensions = format!("{:?}", self.channel.extensions());
        let open = self.sent.iter().filter(|sent| sent.reply.is_none()).count();
        assert_eq!(self.channel.in_flight(), open);
        for context in self.channel.abandon() {
            assert!(self.sent[context].reply.is_none());
        }
        assert_eq!(self.channel.in_flight(), 0);
        assert!(self.channel.feed(b"", |_| Ok::<(), ()>(())).is_err());
        (self.sent, self.order, extensions, result)
    }
}

type Outcome = (Vec<Sent>, Vec<usize>, String, Result<(), String>);

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

fn version() -> Vec<u8> {
    b"\0\0\0\x05\x02\0\0\0\x03".to_vec()
}

/// All requests before the first reply. `greeted`: VERSION is not left to the input.
fn passive(input: &[u8], sizes: &[u8], greeted: bool) -> Outcome {
    let mut caller = Caller::new();
    (0..20).for_each(|which| caller.ask(which));
    if greeted {
        caller.feed(&version()).unwrap();
    }
    let result = pieces(input, sizes)
        .into_iter()
        .try_for_each(|piece| caller.feed(piece));
    caller.end(result)
}

/// A caller that asks on between the pieces, so that slots are used again.
fn active(input: &[u8], sizes: &[u8]) {
    let mut caller = Caller::new();
    caller.feed(&version()).unwrap();
    (0..4).for_each(|which| caller.ask(which));
    for (nth, piece) in pieces(input, sizes).into_iter().enumerate() {
        if let Err(error) = caller.feed(piece) {
            let _ = caller.end(Err(error));
            return;
        }
        if caller.channel.in_flight() < 8 {
            caller.ask(nth);
        }
    }
    let _ = caller.end(Ok(()));
}

/// The books under anything that a broken caller or server may say.
fn books(input: &[u8]) {
    let mut reads = Reads::new(0, input.first().map(|size| u64::from(*size) * 4));
    let mut flying = Vec::new();
    for step in input.chunks_exact(3) {
        let before = reads.contiguous();
        let [what, one, two] = *step else { unreachable!() };
        let (offset, asked) = match flying.get(usize::from(one)) {
            Some(range) => *range,
            None => (u64::from(one), u32::from(two)),
        };
        match what % 6 {
            0 | 1 => flying.extend(reads.next(u32::from(two))),
            2 => drop(reads.arrived(offset, asked, u32::from(two))),
            3 => drop(reads.end_of_file(offset, asked)),
            4 => reads.lost(offset, asked),
            _ => drop(reads.set_size(u64::from(one) * 4)),
        }
        assert!(reads.contiguous() >= before);
        assert!(reads.size().is_none_or(|size| reads.contiguous() <= size));
    }
}

// The last four bytes say how the input is cut; at the end, so that a seed is a readable sequence of packets.
fuzz_target!(|data: &[u8]| {
    let Some((input, sizes)) = data.split_last_chunk::<4>() else {
        return;
    };
    for greeted in [true, false] {
        let whole = passive(input, &[255; 1], greeted);
        assert_eq!(passive(input, sizes, greeted), whole);
        assert_eq!(passive(input, &[0], greeted), whole);
    }
    active(input, sizes);
    books(input);
});
