//! The promises of a [`Shared`] limit, in virtual time: the sum keeps the deadline, and the members their turns.

mod support;

use ferry_pacing::{Member, Nanos, Options, Pacer, Shared};
use proptest::prelude::*;
use support::{MS, S, assert_windows, ideal, rates};

/// The test's own book-keeping of a member, in bytes since the last time anyone's hunger changed.
struct Stream {
    member: Member,
    backlogged: bool,
    moved: u64,
}

/// No backlogged member is more than `quanta` ahead of another since both were backlogged.
fn assert_fair(streams: &[Stream], quanta: u64, quantum: u64) {
    let moved = || {
        streams
            .iter()
            .filter(|stream| stream.backlogged)
            .map(|stream| stream.moved)
    };
    if let (Some(least), Some(most)) = (moved().min(), moved().max()) {
        assert!(most - least <= quanta * quantum, "{least} to {most}, quantum {quantum}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn equal_members_get_equal_shares_of_an_exact_sum(
        rate in rates(), members in 1_usize..12, rounds in 1_u64..30, order in any::<u64>(),
    ) {
        let mut shared = Shared::new(rate, Options::default());
        let quantum = Pacer::new(rate, Options::default()).quantum();
        let mut streams: Vec<Stream> =
            (0..members).map(|_| Stream { member: shared.join(), backlogged: true, moved: 0 }).collect();
        let total = rounds * members as u64 * quantum;
        let (mut now, mut takes, mut looks) = (Nanos(0), Vec::new(), 0_u64);
        let mut sum = 0;
        while sum < total {
            let before = sum;
            for index in 0..members {
                let stream = &mut streams[(index + usize::try_from(order % 64).expect("small") * takes.len()) % members];
                let bytes = shared.allowance(stream.member, now).min(total - sum);
                shared.take(stream.member, now, bytes);
                stream.moved += bytes;
                sum += bytes;
                prop_assert_eq!(shared.taken(stream.member), stream.moved);
                takes.extend((bytes > 0).then_some((now, bytes)));
                assert_fair(&streams, 1, quantum);
            }
            looks += 1;
            if sum == before {
                let next = streams.iter().map(|stream| shared.next_at(stream.member)).min().expect("not empty");
                prop_assert!(next > now, "a busy loop");
                now = next;
            }
        }
        prop_assert_eq!(now.max(shared.due()), Nanos(rate.time_for(sum)));
        prop_assert_eq!((sum, shared.shortfall_ns()), (total, 0));
        prop_assert!(looks <= 2 * total / quantum + 2, "{looks} looks");
        assert_windows(&takes, rate, quantum, 100 * MS);
    }

    #[test]
    fn hunger_comes_and_goes(
        rate in rates(),
        ops in prop::collection::vec((0_usize..6, 0_u32..12, 0..3 * MS, 1_u64..=100), 1..400),
    ) {
        let mut shared = Shared::new(rate, Options::default());
        let quantum = Pacer::new(rate, Options::default()).quantum();
        let mut streams: Vec<Stream> =
            (0..3).map(|_| Stream { member: shared.join(), backlogged: true, moved: 0 }).collect();
        let (mut now, mut takes, mut sum, mut start) = (Nanos(S), Vec::new(), 0, None);
        for (who, what, ns, percent) in ops {
            now = now.saturating_add(ns);
            let who = who % streams.len();
            match what {
                0 if streams.len() < 6 => {
                    streams.push(Stream { member: shared.join(), backlogged: true, moved: 0 });
                }
                1 if streams.len() > 1 => shared.leave(streams.swap_remove(who).member),
                2 => {
                    streams[who].backlogged = !streams[who].backlogged;
                    shared.set_backlogged(streams[who].member, streams[who].backlogged);
                }
                _ => {
                    let stream = &mut streams[who];
                    if !stream.backlogged {
                        continue;
                    }
                    let allowed = shared.allowance(stream.member, now);
                    let bytes = allowed * percent / 100;
                    shared.take(stream.member, now, bytes);
                    stream.moved += bytes;
                    sum += bytes;
                    takes.extend((bytes > 0).then_some((now, bytes)));
                    start = start.or((bytes > 0).then_some(now));
                    // A lead of up to a quantum that was there when the hunger last changed is made good: hence two.
                    assert_fair(&streams, 2, quantum);
                    // A member can always go on: at the latest at the earliest `next_at` of all members.
                    let mut probe = shared.clone();
                    let backlogged = || streams.iter().filter(|stream| stream.backlogged).map(|stream| stream.member);
                    let next = backlogged().map(|member| probe.next_at(member)).min().expect("one just took").max(now);
                    prop_assert!(backlogged().any(|member| probe.allowance(member, next) > 0));
                    continue;
                }
            }
            for stream in &mut streams {
                stream.moved = 0;
            }
        }
        if let Some(start) = start {
            prop_assert!(u128::from(sum) <= ideal(rate, now.since(start) - shared.shortfall_ns()) + u128::from(quantum));
        }
        assert_windows(&takes, rate, quantum, 100 * MS);
    }

    #[test]
    fn a_starved_member_costs_the_sum_nothing(rate in rates(), pieces in 2_u64..100) {
        let mut shared = Shared::new(rate, Options::default());
        let quantum = Pacer::new(rate, Options::default()).quantum();
        let (starved, fed) = (shared.join(), shared.join());
        shared.set_backlogged(starved, false);
        let mut now = Nanos(0);
        while shared.taken(fed) < pieces * quantum {
            let bytes = shared.allowance(fed, now).min(pieces * quantum - shared.taken(fed));
            shared.take(fed, now, bytes);
            now = now.max(shared.next_at(fed));
        }
        prop_assert_eq!(shared.due(), Nanos(rate.time_for(pieces * quantum)));
        prop_assert_eq!((now, shared.shortfall_ns()), (shared.due(), 0));

        shared.set_backlogged(starved, true);
        let bytes = shared.allowance(starved, now);
        // Above 1 GB/s a wake-up can only be rounded up to the nanosecond, and finds what that moved, too.
        let rounding = rate.bytes_in(1) + 1;
        prop_assert!((quantum..=quantum + rounding).contains(&bytes), "no claim on the past: {bytes}");
        shared.take(starved, now, bytes);
        prop_assert_eq!(shared.allowance(starved, shared.due()), 0);
        prop_assert!(shared.allowance(fed, shared.due()) >= quantum);
    }
}
