//! The core without a network: the server's packets are written by hand.

use std::io::Write;

use ferry_pacing::Rate;
use tokio::sync::oneshot;

use super::super::flow::Flow;
use super::super::open_file::{Down, End, Up};
use super::super::span::WRITE_SPAN;
use super::*;
use crate::files::{Algorithm, Digest, Sink, Source};
use crate::transfer::receive::Receiver;
use crate::transfer::send::Sender;
use crate::units::Peak;

const MIB: u64 = 1 << 20;

/// A packet as a server sends it: length, type and the rest.
fn packet(kind: u8, rest: &[u8]) -> Vec<u8> {
    let mut packet = u32::try_from(rest.len() + 1).unwrap().to_be_bytes().to_vec();
    packet.push(kind);
    packet.extend_from_slice(rest);
    packet
}

fn data(id: u32, bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap();
    packet(103, &[&id.to_be_bytes()[..], &length.to_be_bytes(), bytes].concat())
}

fn status(id: u32, code: u32) -> Vec<u8> {
    packet(101, &[id.to_be_bytes(), code.to_be_bytes(), [0; 4], [0; 4]].concat())
}

/// The requests that move bytes: type, id, offset, length.
fn asked(output: &[u8]) -> Vec<(u8, u32, u64, u32)> {
    let number = |at: usize| u32::from_be_bytes(output[at..at + 4].try_into().unwrap());
    let mut found = Vec::new();
    let mut at = 0;
    while at < output.len() {
        let (length, kind) = (number(at) as usize, output[at + 4]);
        if matches!(kind, 5 | 6) {
            let handle = number(at + 9) as usize;
            let rest = at + 13 + handle;
            let offset = u64::from_be_bytes(output[rest..rest + 8].try_into().unwrap());
            found.push((kind, number(at + 5), offset, number(rest + 8)));
        }
        at += 4 + length;
    }
    found
}

struct Bench {
    core: Core,
    now: Instant,
}

impl Bench {
    fn new(channels: u32, limit: &Limit) -> Self {
        let core = Core::new(limit, Duration::from_millis(20));
        let now = crate::clock::begin();
        for channel in 0..channels {
            core.add_channel(0, channel);
            core.data(0, channel, &packet(2, &3_u32.to_be_bytes()));
        }
        core.set_limits(&Limits {
            packet: 0,
            read: 255 * 1024,
            write: 255 * 1024,
            handles: 0,
        });
        let bench = Self { core, now };
        for channel in 0..channels as usize {
            // INIT.
            assert!(matches!(bench.core.output(channel, now), Output::Bytes(bytes) if bytes[4] == 1));
        }
        bench
    }

    /// The requests for bytes that the channel sends until it has to wait.
    fn drain(&self, channel: usize) -> Vec<(u8, u32, u64, u32)> {
        let mut all = Vec::new();
        while let Output::Bytes(bytes) | Output::Last(bytes, _) = self.core.output(channel, self.now) {
            all.extend(asked(&bytes));
        }
        all
    }

    fn down(&self, size: u64, limit: &Limit) -> oneshot::Receiver<End> {
        let digest = Some(Digest::new(Algorithm::Sha256));
        let receiver = Receiver::new(Sink::discard(), digest, limit.throttle(), 65_536, Some(size));
        let (trailer, _) = oneshot::channel();
        let direction = Direction::Down(Box::new(Down::new(Box::new(receiver), 0, Some(size), trailer)));
        self.begin(direction, &[0])
    }

    fn up(&self, size: usize, channels: &[usize], limit: &Limit) -> (oneshot::Receiver<End>, tempfile::NamedTempFile) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&vec![7; size]).unwrap();
        let sender = Sender::new(Source::open(file.path()).unwrap(), None, limit.throttle(), 65_536);
        let writes = ferry_sftp::Writes::new(0);
        (
            self.begin(Direction::Up(Box::new(Up { writes, sender })), channels),
            file,
        )
    }

    fn begin(&self, direction: Direction, channels: &[usize]) -> oneshot::Receiver<End> {
        let (done, over) = oneshot::channel();
        self.core.begin(OpenFile {
            path: b"/x".to_vec(),
            home: 0,
            handles: channels
                .iter()
                .map(|channel| (*channel, Handle::new(b"h").unwrap()))
                .collect(),
            direction,
            done,
        });
        over
    }
}

#[test]
fn everything_is_asked_for_at_once_up_to_the_budget_and_no_more() {
    let bench = Bench::new(1, &Limit::None);
    let _over = bench.down(100 * MIB, &Limit::None);
    let reads = bench.drain(0);
    let total: u64 = reads.iter().map(|(.., length)| u64::from(*length)).sum();
    let budget = Flow::new(bench.now).budget(1);
    assert!(total <= budget + 255 * 1024 && total + 255 * 1024 > budget, "{total}");
    assert!(
        reads
            .iter()
            .all(|(kind, .., length)| (*kind, *length) == (5, 255 * 1024))
    );
    let expected: Vec<u64> = (0..reads.len() as u64).map(|index| index * 255 * 1024).collect();
    assert_eq!(
        reads.iter().map(|(_, _, offset, _)| *offset).collect::<Vec<_>>(),
        expected
    );
    // Bytes handed on make room for as many more, and for four times as many while slow start goes on.
    for (_, id, ..) in &reads[..2] {
        bench.core.data(0, 0, &data(*id, &vec![0; 255 * 1024]));
    }
    assert_eq!(bench.drain(0).len(), 10);
}

#[test]
fn a_gap_is_asked_for_again_whatever_came_early_behind_it() {
    let bench = Bench::new(1, &Limit::None);
    let _over = bench.down(100 * MIB, &Limit::None);
    let mut asked = bench.drain(0);
    let (_, first, _, length) = asked.remove(0);
    // Data that came early waits in memory, which is limited too.
    let mut early = 0;
    while !asked.is_empty() {
        for (_, id, ..) in asked {
            bench.core.data(0, 0, &data(id, &vec![0; 255 * 1024]));
            early += 255 * 1024;
        }
        asked = bench.drain(0);
    }
    assert!(early <= 32 * MIB && early + 2 * 255 * 1024 > 32 * MIB, "{early}");
    bench.core.data(0, 0, &data(first, &vec![0; length as usize - 7]));
    let again: Vec<_> = bench
        .drain(0)
        .into_iter()
        .map(|(_, _, offset, count)| (offset, count))
        .collect();
    assert_eq!(again.first(), Some(&(u64::from(length) - 7, 7)));
    // The bytes handed on make room for one more READ.
    assert!(again.len() <= 2, "{again:?}");
}

#[test]
fn what_comes_out_of_order_and_short_is_handed_on_in_order() {
    let bench = Bench::new(1, &Limit::None);
    let content: Vec<u8> = (0..600_000_u32).map(|at| u8::try_from(at % 251).unwrap()).collect();
    let mut over = bench.down(600_000, &Limit::None);
    let mut waiting = bench.drain(0);
    assert_eq!(waiting.len(), 3);
    let mut turn = 0;
    while let Some((_, id, offset, length)) = waiting.pop() {
        let offset = usize::try_from(offset).unwrap();
        // Every second answer is short, and each is cut in two on the wire.
        let count = if turn % 2 == 0 {
            (length as usize).div_ceil(2)
        } else {
            length as usize
        };
        let answer = data(id, &content[offset..offset + count]);
        bench.core.data(0, 0, &answer[..answer.len() / 3]);
        bench.core.data(0, 0, &answer[answer.len() / 3..]);
        waiting.extend(bench.drain(0));
        turn += 1;
    }
    let end = over.try_recv().expect("it is over");
    end.result.unwrap();
    let Direction::Down(down) = end.direction else { panic!() };
    let mut expected = Digest::new(Algorithm::Sha256);
    expected.update(&content);
    assert_eq!(down.receiver.delivered, 600_000);
    assert_eq!(down.receiver.into_parts().1.unwrap().finish(), expected.finish());
}

#[test]
fn consecutive_pieces_of_an_upload_go_to_whichever_channel_has_room() {
    let bench = Bench::new(3, &Limit::None);
    let (mut over, _file) = bench.up(5 * 255 * 1024, &[0, 1, 2], &Limit::None);
    let mut sent = Vec::new();
    for channel in [2, 0, 0, 1, 2] {
        let (Output::Bytes(bytes) | Output::Last(bytes, _)) = bench.core.output(channel, bench.now) else {
            panic!("nothing for channel {channel}");
        };
        sent.extend(asked(&bytes).into_iter().map(|write| (channel, write)));
    }
    let offsets: Vec<_> = sent
        .iter()
        .map(|(_, (kind, _, offset, _))| (*kind, offset / 1024))
        .collect();
    assert_eq!(offsets, [(6, 0), (6, 255), (6, 510), (6, 765), (6, 1020)]);
    assert!(bench.drain(1).is_empty());
    for (channel, (_, id, ..)) in sent.iter().rev() {
        assert!(over.try_recv().is_err(), "over before everything was acknowledged");
        bench.core.data(0, u32::try_from(*channel).unwrap(), &status(*id, 0));
    }
    over.try_recv().expect("it is over").result.unwrap();
}

#[test]
fn an_upload_does_not_run_away_from_its_acknowledgements() {
    let bench = Bench::new(1, &Limit::None);
    let (_over, _file) = bench.up(usize::try_from(WRITE_SPAN + 8 * MIB).unwrap(), &[0], &Limit::None);
    let writes = bench.drain(0);
    let total: u64 = writes.iter().map(|(.., length)| u64::from(*length)).sum();
    assert!((WRITE_SPAN - 255 * 1024..=WRITE_SPAN).contains(&total), "{total}");
    bench.core.data(0, 0, &status(writes[1].1, 0));
    assert!(bench.drain(0).is_empty(), "a hole at the front holds everything back");
    bench.core.data(0, 0, &status(writes[0].1, 0));
    assert_eq!(bench.drain(0).len(), 2);
}

#[test]
fn a_limited_download_asks_for_little_more_than_the_round_trip_holds() {
    let limit = Limit::Each(Rate::new(1_000_000).unwrap(), Peak::default());
    let bench = Bench::new(1, &limit);
    let _over = bench.down(5_000_000, &limit);
    let total: u64 = bench.drain(0).iter().map(|(.., length)| u64::from(*length)).sum();
    // 1 MB/s for 20 ms of round trip and 30 ms ahead, plus the excess of the last request.
    assert!((50_000..=60_000).contains(&total), "{total}");
}

#[test]
fn a_write_that_fails_ends_its_file_and_no_other() {
    let bench = Bench::new(1, &Limit::None);
    let (mut one, _file) = bench.up(1000, &[0], &Limit::None);
    let (mut other, _other_file) = bench.up(1000, &[0], &Limit::None);
    let writes = bench.drain(0);
    bench.core.data(0, 0, &status(writes[0].1, 4));
    bench.core.data(0, 0, &status(writes[1].1, 0));
    let problem = one.try_recv().unwrap().result.unwrap_err();
    assert_eq!(problem.class, crate::error::Class::Permanent);
    assert!(problem.message.contains("/x"), "{problem}");
    other.try_recv().unwrap().result.unwrap();
}

#[test]
fn a_file_that_is_shorter_than_the_server_said_is_no_file() {
    let bench = Bench::new(1, &Limit::None);
    let mut over = bench.down(1000, &Limit::None);
    let reads = bench.drain(0);
    bench.core.data(0, 0, &data(reads[0].1, &[0; 400]));
    let rest = bench.drain(0);
    assert_eq!((rest[0].2, rest[0].3), (400, 600));
    bench.core.data(0, 0, &status(rest[0].1, 1));
    let problem = over.try_recv().unwrap().result.unwrap_err();
    assert_eq!(problem.class, crate::error::Class::Integrity);
}

#[test]
fn a_connection_that_is_lost_ends_everything_with_its_reason() {
    let bench = Bench::new(2, &Limit::None);
    let mut file = bench.down(1000, &Limit::None);
    let call = bench.core.call(1, &Request::Stat { path: b"/x" });
    bench.core.fail(&Error::transient("reset"));
    assert_eq!(file.try_recv().unwrap().result.unwrap_err().message, "reset");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert!(runtime.block_on(call).is_err());
    assert!(matches!(bench.core.output(0, bench.now), Output::Stop));
    let (late, _file) = bench.up(10, &[0], &Limit::None);
    assert_eq!(runtime.block_on(late).unwrap().result.unwrap_err().message, "reset");
}

#[test]
fn a_server_that_talks_nonsense_breaks_the_protocol() {
    let bench = Bench::new(1, &Limit::None);
    let mut over = bench.down(1000, &Limit::None);
    bench.core.data(0, 0, &status(4711, 0));
    let problem = over.try_recv().unwrap().result.unwrap_err();
    assert_eq!(problem.class, crate::error::Class::Integrity);
    assert!(problem.message.contains("SFTP protocol"), "{problem}");
}

#[test]
fn a_server_that_leaves_all_unanswered_ends_the_connection_and_not_the_program() {
    let bench = Bench::new(1, &Limit::None);
    for _ in 0..=MAX_IN_FLIGHT {
        bench.core.post(0, &Request::Remove { path: b"" });
    }
    let problem = bench.core.failure().unwrap();
    assert_eq!(problem.class, crate::error::Class::Integrity);
    assert!(problem.message.contains("unanswered"), "{problem}");
}
