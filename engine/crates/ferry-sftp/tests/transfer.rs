//! A download from a server that answers short, out of order and at the end with EOF, over channels that go away.

use ferry_sftp::{RangeError, Reads, Writes};
use proptest::prelude::*;
use proptest::sample::Index;

/// One step of the model.
#[derive(Clone, Debug)]
struct Step {
    /// The number of requests to make first, each of at most `most` bytes.
    ask: u8,
    most: u32,
    /// The request in flight that is answered.
    which: Index,
    /// The share of the request's bytes in the answer.
    share: u8,
    /// True if the request's channel goes away instead, with all requests on it, perhaps in the middle of their data.
    dies: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0..6u8, 1..70u32, any::<Index>(), any::<u8>(), prop::bool::weighted(0.1)).prop_map(
        |(ask, most, which, share, dies)| Step {
            ask,
            most,
            which,
            share,
            dies,
        },
    );
    prop::collection::vec(step, 1..60)
}

struct Model {
    begin: u64,
    end: u64,
    /// The number of times each byte came.
    came: Vec<u8>,
    /// The requests in flight: offset, length, channel.
    flying: Vec<(u64, u32, usize)>,
}

impl Model {
    fn answer(&mut self, reads: &mut Reads, nth: usize, share: u8) {
        let (offset, asked, _) = self.flying.swap_remove(nth);
        let there = u32::try_from(self.end.saturating_sub(offset)).unwrap().min(asked);
        if there == 0 {
            reads.end_of_file(offset, asked).unwrap();
            return;
        }
        // Half of the answers are complete.
        let got = if share < 128 {
            there
        } else {
            there * u32::from(share - 127) / 129
        };
        if got > 0 {
            reads.arrived(offset, asked, got).unwrap();
            self.take(offset, got);
        } else {
            self.flying.push((offset, asked, 0));
        }
    }

    fn die(&mut self, reads: &mut Reads, channel: usize, share: u8) {
        for (offset, asked, of) in std::mem::take(&mut self.flying) {
            let there = u32::try_from(self.end.saturating_sub(offset)).unwrap().min(asked);
            let got = u32::from(share) % 4 * there / 4;
            if of != channel {
                self.flying.push((offset, asked, of));
            } else if got > 0 {
                reads.arrived(offset, asked, got).unwrap();
                self.take(offset, got);
            } else {
                reads.lost(offset, asked);
            }
        }
    }

    fn take(&mut self, offset: u64, got: u32) {
        for at in offset..offset + u64::from(got) {
            self.came[usize::try_from(at - self.begin).unwrap()] += 1;
        }
    }

    fn check(&self, reads: &Reads) {
        let came = self.came.iter().take_while(|count| **count > 0).count() as u64;
        assert_eq!(reads.contiguous(), self.begin + came);
        assert!(self.came.iter().all(|count| *count < 2));
        let flying: u64 = self.flying.iter().map(|(_, length, _)| u64::from(*length)).sum();
        assert_eq!(reads.in_flight(), flying);
        let all = came == self.end - self.begin;
        assert!(!reads.is_complete() || all);
        assert!(reads.size().is_none_or(|size| size >= self.end));
    }
}

proptest! {
    #[test]
    fn every_byte_comes_once_whatever_the_server_does(
        begin in 0..200u64, length in 0..600u64, told in 0..3u8, steps in steps(),
    ) {
        let end = begin + length;
        let mut reads = Reads::new(begin, (told == 0).then_some(end));
        let came = vec![0; usize::try_from(length).unwrap()];
        let mut model = Model { begin, end, came, flying: Vec::new() };
        let mut turns = 0;
        for (nth, step) in steps.iter().cycle().enumerate() {
            if told == 1 && nth == steps.len() / 2 {
                reads.set_size(end).unwrap();
            }
            for _ in 0..step.ask {
                let Some((offset, length)) = reads.next(step.most) else { break };
                prop_assert!(length > 0 && length <= step.most);
                model.flying.push((offset, length, nth % 3));
            }
            if model.flying.is_empty() {
                if reads.is_complete() {
                    break;
                }
                let (offset, length) = reads.next(step.most).unwrap();
                model.flying.push((offset, length, nth % 3));
            }
            let which = step.which.index(model.flying.len());
            // A server that only ever fails is no model.
            if step.dies && nth < 500 {
                model.die(&mut reads, model.flying[which].2, step.share);
            } else {
                model.answer(&mut reads, which, if nth < 500 { step.share } else { 0 });
            }
            model.check(&reads);
            turns += 1;
            prop_assert!(turns < 5000);
        }
        prop_assert_eq!(reads.size(), Some(end));
        prop_assert!(model.came.iter().all(|count| *count == 1));
    }

    #[test]
    fn the_contiguous_point_of_an_upload_is_what_was_acknowledged(
        begin in 0..50u64, steps in prop::collection::vec((1..40u32, any::<Index>(), 0..8u8), 1..80),
    ) {
        let mut writes = Writes::new(begin);
        let (mut flying, mut have, mut next) = (Vec::new(), vec![true; usize::try_from(begin).unwrap()], begin);
        for (length, which, kind) in steps {
            match kind {
                0..=3 => {
                    writes.sent(next, length);
                    flying.push((next, length));
                    next += u64::from(length);
                    have.resize(usize::try_from(next).unwrap(), false);
                }
                4..=6 if !flying.is_empty() => {
                    let (offset, length) = flying.swap_remove(which.index(flying.len()));
                    writes.acknowledged(offset, length).unwrap();
                    for at in offset..offset + u64::from(length) {
                        have[usize::try_from(at).unwrap()] = true;
                    }
                }
                _ if !flying.is_empty() => {
                    let (offset, length) = flying.swap_remove(which.index(flying.len()));
                    writes.lost(offset, length);
                }
                _ => {
                    // The lowest missing range is sent again, in another length.
                    if let Some(range) = writes.missing().first() {
                        let part = u32::try_from(range.end - range.start).unwrap().min(length);
                        writes.sent(range.start, part);
                        flying.push((range.start, part));
                    }
                }
            }
            let contiguous = have.iter().take_while(|have| **have).count() as u64;
            prop_assert_eq!(writes.contiguous(), contiguous);
            prop_assert_eq!(writes.sent_to(), next);
            prop_assert_eq!(writes.span(), next - contiguous);
            prop_assert_eq!(writes.is_settled(), contiguous == next);
            let sum: u64 = flying.iter().map(|(_, length)| u64::from(*length)).sum();
            prop_assert_eq!(writes.in_flight(), sum);
        }
    }
}

#[test]
fn gaps_come_first_and_the_lowest_of_them() {
    let mut reads = Reads::new(100, Some(400));
    assert_eq!(reads.next(0), None);
    assert_eq!(reads.next(100), Some((100, 100)));
    assert_eq!(reads.next(100), Some((200, 100)));
    assert!(!reads.has_gap());
    reads.arrived(200, 100, 60).unwrap();
    reads.lost(100, 100);
    assert!(reads.has_gap());
    assert_eq!(reads.next(70), Some((100, 70)));
    assert_eq!(reads.next(70), Some((170, 30)));
    assert!(reads.has_gap());
    assert_eq!(reads.next(70), Some((260, 40)));
    assert!(!reads.has_gap());
    assert_eq!(reads.next(u32::MAX), Some((300, 100)));
    assert_eq!(reads.next(1), None);
    assert_eq!((reads.in_flight(), reads.contiguous()), (240, 100));
}

#[test]
fn wrong_replies_have_names_and_change_nothing() {
    let mut reads = Reads::new(0, Some(100));
    reads.next(50);
    let before = format!("{reads:?}");
    assert_eq!(reads.arrived(0, 50, 0), Err(RangeError::Empty { offset: 0 }));
    assert_eq!(
        reads.arrived(0, 50, 51),
        Err(RangeError::TooMuch { asked: 50, got: 51 })
    );
    let other = Err(RangeError::NotInFlight { offset: 1, length: 49 });
    assert_eq!(reads.arrived(1, 49, 1), other);
    assert_eq!(reads.end_of_file(1, 49), other);
    reads.lost(0, 49);
    assert_eq!(format!("{reads:?}"), before);
    assert_eq!(
        reads.end_of_file(0, 50),
        Err(RangeError::Truncated { at: 0, size: 100 })
    );
    assert_eq!(reads.next(100), Some((0, 50)));
}

#[test]
fn a_size_may_become_known_and_be_corrected_but_not_below_what_came() {
    let mut reads = Reads::new(0, None);
    for _ in 0..4 {
        reads.next(10);
    }
    reads.arrived(10, 10, 10).unwrap();
    assert_eq!(reads.set_size(19), Err(RangeError::Shrunk { size: 19, arrived: 20 }));
    reads.end_of_file(30, 10).unwrap();
    assert_eq!(reads.size(), Some(30));
    assert_eq!(reads.set_size(31), Err(RangeError::Truncated { at: 30, size: 31 }));
    reads.end_of_file(20, 10).unwrap();
    assert_eq!((reads.size(), reads.next(10)), (Some(20), None));
    reads.arrived(0, 10, 10).unwrap();
    assert!(reads.is_complete());
    assert_eq!(reads.contiguous(), 20);
    assert_eq!(reads.set_size(20), Ok(()));
}

#[test]
fn a_size_that_falls_and_rises_again_forgets_no_byte() {
    let mut reads = Reads::new(0, Some(30));
    reads.next(30);
    reads.lost(0, 30);
    reads.set_size(10).unwrap();
    assert_eq!(reads.next(30), Some((0, 10)));
    reads.arrived(0, 10, 10).unwrap();
    assert!(reads.is_complete());
    reads.set_size(40).unwrap();
    assert_eq!((reads.next(30), reads.next(30)), (Some((10, 20)), Some((30, 10))));
    assert_eq!((reads.contiguous(), reads.is_complete()), (10, false));
}

#[test]
fn what_is_behind_the_end_does_not_count() {
    let mut reads = Reads::new(0, None);
    reads.next(100);
    reads.set_size(50).unwrap();
    reads.arrived(0, 100, 100).unwrap();
    assert_eq!(
        (reads.contiguous(), reads.is_complete(), reads.next(9)),
        (50, true, None)
    );

    let mut reads = Reads::new(0, None);
    for _ in 0..4 {
        reads.next(10);
    }
    reads.end_of_file(20, 10).unwrap();
    reads.end_of_file(30, 10).unwrap();
    assert_eq!(reads.size(), Some(20));
    reads.arrived(10, 10, 10).unwrap();
    reads.arrived(0, 10, 10).unwrap();
    assert!(reads.is_complete());
    let shrunk = Err(RangeError::Shrunk { size: 15, arrived: 20 });
    assert_eq!(reads.set_size(15), shrunk);
}

#[test]
fn nothing_to_read_is_complete() {
    assert!(Reads::new(0, Some(0)).is_complete());
    assert!(Reads::new(9, Some(5)).is_complete());
    let mut reads = Reads::new(7, None);
    let (offset, length) = reads.next(5).unwrap();
    reads.end_of_file(offset, length).unwrap();
    assert!(reads.is_complete());
    let mut far = Reads::new(u64::MAX - 3, None);
    assert_eq!((far.next(9), far.next(9)), (Some((u64::MAX - 3, 3)), None));
}

#[test]
fn a_write_that_jumps_or_replaces_leaves_what_is_missing() {
    let mut writes = Writes::new(10);
    assert!(writes.is_settled());
    writes.sent(20, 10);
    writes.acknowledged(20, 10).unwrap();
    assert_eq!(
        (writes.contiguous(), writes.span(), writes.is_settled()),
        (10, 20, false)
    );
    assert_eq!(writes.missing().first(), Some(10..20));
    writes.sent(10, 10);
    writes.sent(10, 4);
    assert_eq!(
        writes.acknowledged(10, 10),
        Err(RangeError::NotInFlight { offset: 10, length: 10 })
    );
    writes.acknowledged(10, 4).unwrap();
    assert_eq!((writes.contiguous(), writes.in_flight()), (10, 0));
    writes.sent(30, 0);
    assert_eq!(writes.sent_to(), 30);
}
