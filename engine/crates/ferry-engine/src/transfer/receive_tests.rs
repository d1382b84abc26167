use std::time::Duration;

use ferry_pacing::Rate;

use super::*;
use crate::transfer::throttle::Limit;
use crate::units::Peak;

const RATE: u64 = 1_000_000;

fn receiver(limit: &Limit) -> Receiver {
    Receiver::new(Sink::discard(), None, limit.throttle(), 4096, None)
}

fn limited() -> Receiver {
    receiver(&Limit::Each(Rate::new(RATE).unwrap(), Peak::default()))
}

#[test]
fn without_a_limit_everything_moves_at_once_and_the_clock_stops_with_the_last_byte() {
    let mut receiver = receiver(&Limit::None);
    let begin = crate::clock::begin();
    receiver.accept(&vec![0; 100_000], begin).unwrap();
    assert_eq!(receiver.delivered, 100_000);
    assert_eq!(receiver.read_budget(true, begin), usize::MAX);
    receiver.complete(begin + Duration::from_secs(1));
    assert_eq!(receiver.ended, Some(begin));
}

#[test]
fn what_came_at_once_is_handed_on_by_deadlines() {
    let mut receiver = limited();
    let begin = crate::clock::begin();
    receiver.accept(&vec![0; 50_000], begin).unwrap();
    receiver.complete(begin);
    let quantum = receiver.throttle.quantum() as u64;
    assert_eq!(receiver.delivered, quantum);
    let mut now = begin;
    while receiver.ended.is_none() {
        let next = receiver.next_at().expect("something is due until the end");
        assert!(next > now, "no progress");
        now = next;
        receiver.poll_paced(now).unwrap();
        let due = u64::try_from((now - begin).as_micros()).unwrap();
        assert!(
            receiver.delivered <= due + quantum,
            "{} bytes after {due} us",
            receiver.delivered
        );
    }
    assert_eq!(receiver.delivered, 50_000);
    let took = receiver.ended.unwrap() - begin;
    assert!(
        took >= Duration::from_millis(50) && took < Duration::from_micros(50_010),
        "{took:?}"
    );
}

#[test]
fn a_limited_body_leaves_bytes_in_the_kernel_while_it_has_some_in_hand() {
    let mut receiver = limited();
    let begin = crate::clock::begin();
    assert!(receiver.read_budget(false, begin) > 0);
    receiver.accept(&vec![0; 50_000], begin).unwrap();
    assert_eq!(receiver.read_budget(false, begin), 0);
    assert!(!receiver.depends_on_network());
}

/// Reads a body of `size` bytes in records of 16 KiB and 22 bytes, all of it in the kernel from the begin, as a session does.
/// Returns the time and the size of each read.
fn read_all(receiver: &mut Receiver, size: usize, begin: Instant) -> Vec<(Instant, usize)> {
    let (mut now, mut reads) = (begin, Vec::new());
    let (mut left, mut plain) = (size + size.div_ceil(16384) * 22, size);
    let mut undecoded = 0;
    while left > 0 {
        let room = receiver.read_budget(true, now).min(left);
        if room == 0 {
            let next = receiver.next_at().expect("held back by the limit");
            assert!(next > now && !receiver.depends_on_network());
            now = next;
            receiver.poll_paced(now).unwrap();
            continue;
        }
        reads.push((now, room));
        left -= room;
        undecoded += room;
        while undecoded >= plain.min(16384) + 22 && plain > 0 {
            let record = plain.min(16384);
            receiver.accept(&vec![0; record], now).unwrap();
            (undecoded, plain) = (undecoded - record - 22, plain - record);
        }
        if plain == 0 {
            receiver.complete(now);
        } else {
            receiver.read_off(undecoded, now);
        }
    }
    reads
}

#[test]
fn a_body_that_is_alone_is_read_when_it_is_due() {
    for size in [100_000, 163_840] {
        let limit = Limit::Each(Rate::new(RATE).unwrap(), Peak::default());
        let mut receiver = Receiver::new(Sink::discard(), None, limit.throttle(), 4096, Some(size as u64));
        let begin = crate::clock::begin();
        let reads = read_all(&mut receiver, size, begin);
        let quantum = receiver.throttle.quantum();
        let mut sum = 0;
        for (at, count) in &reads {
            sum += count;
            let due = usize::try_from((*at - begin).as_micros()).unwrap();
            assert!(sum <= due + quantum + 16384 / 10, "{sum} bytes after {due} us");
        }
        let end = begin + Duration::from_micros(size as u64);
        assert_eq!(receiver.delivered, size as u64);
        assert_eq!((receiver.began, receiver.ended), (Some(begin), Some(end)));
        assert_eq!(
            reads.last().map(|read| read.0),
            Some(end),
            "the last byte stays in the kernel until it is due"
        );
    }
}

#[test]
fn a_body_of_unknown_size_ends_with_its_last_read() {
    let mut receiver = limited();
    let begin = crate::clock::begin();
    let reads = read_all(&mut receiver, 100_000, begin);
    let (took, last) = (receiver.ended.unwrap() - begin, reads.last().unwrap().0 - begin);
    assert_eq!(took, last);
    let quantum = Duration::from_micros(receiver.throttle.quantum() as u64);
    let exact = Duration::from_millis(100);
    assert!(took >= exact && took <= exact + quantum, "{took:?}");
}

#[test]
fn an_empty_body_ends_at_once() {
    let mut receiver = limited();
    let now = Instant::now();
    receiver.complete(now);
    assert_eq!(receiver.ended, Some(now));
    assert_eq!(receiver.next_at(), None);
}

#[test]
fn a_shared_limit_is_kept_by_both_together() {
    let limit = Limit::shared(Rate::new(RATE).unwrap(), Peak::default());
    let (mut one, mut two) = (receiver(&limit), receiver(&limit));
    let begin = crate::clock::begin();
    for receiver in [&mut one, &mut two] {
        receiver.accept(&vec![0; 50_000], begin).unwrap();
    }
    for step in 0..50 {
        let now = begin + Duration::from_millis(step);
        one.poll_paced(now).unwrap();
        two.poll_paced(now).unwrap();
    }
    let quantum = one.throttle.quantum() as u64;
    let both = one.delivered + two.delivered;
    assert!(both <= 49_000 + 2 * quantum && both + 2 * quantum >= 49_000, "{both}");
    assert!(
        one.delivered.abs_diff(two.delivered) <= 2 * quantum,
        "{} and {}",
        one.delivered,
        two.delivered
    );
}
