//! The state of a path after samples that are made by hand, one every 10 ms.

use super::{BLIND_BYTES, HISTORY_MOST, MS, PACKET, Path, S, Shown, WARM_UP_BYTES};
use crate::Nanos;

const LOOK_NS: u64 = 10 * MS;
const CROWD_NS: u64 = 4 * MS;

/// A path and what it was told last.
struct Walk {
    path: Path,
    now: u64,
    total: u64,
}

impl Walk {
    /// After a second in which ten packets arrived between two looks.
    fn over(rtt_ns: u64) -> Self {
        let mut walk = Self {
            path: Path::default(),
            now: 0,
            total: 0,
        };
        walk.path.sample(Nanos(0), rtt_ns, 0);
        walk.on(S, 10 * PACKET, rtt_ns);
        walk
    }

    fn on(&mut self, ns: u64, bytes: u64, rtt_ns: u64) {
        for _ in 0..ns / LOOK_NS {
            self.now += LOOK_NS;
            self.total += bytes;
            self.path.sample(Nanos(self.now), rtt_ns, self.total);
        }
    }

    /// A calm in which the round trip is as `rtt_ns` says of the time since its beginning: what it shows, and when.
    fn calm(&mut self, rtt_ns: impl Fn(u64) -> u64) -> (Shown, u64) {
        let began = self.now;
        self.path.begin_calm(Nanos(began));
        while self.now - began < 20 * S {
            self.on(LOOK_NS, 10 * PACKET, rtt_ns(self.now + LOOK_NS - began));
            match self.path.look_at_calm(Nanos(self.now), CROWD_NS) {
                Shown::Nothing => {}
                shown => return (shown, (self.now - began) / MS),
            }
        }
        (Shown::Nothing, u64::MAX)
    }
}

/// Goes up and down by 6 ms, slower than a round trip.
fn swing(ns: u64) -> u64 {
    let ms = ns / MS % 400;
    50 * MS + ms.min(400 - ms) * MS * 3 / 100
}

#[test]
fn the_round_trip_of_small_packets_is_not_that_of_the_path() {
    let mut path = Path::default();
    assert!(path.sample(Nanos(0), 10 * MS, 5000));
    assert!(!path.sample(Nanos(LOOK_NS), 20 * MS, 5000 + WARM_UP_BYTES - 1));
    assert_eq!((path.base_ns(), path.usual_ns(), path.delay_ns()), (None, 20 * MS, 0));
    path.sample(Nanos(2 * LOOK_NS), 30 * MS, 5000 + WARM_UP_BYTES);
    assert_eq!(path.base_ns(), Some(30 * MS));
}

#[test]
fn the_least_round_trip_is_forgotten_after_two_minutes() {
    let mut walk = Walk::over(50 * MS);
    walk.on(LOOK_NS, PACKET, 40 * MS);
    walk.on(118 * S, PACKET, 50 * MS);
    assert_eq!(walk.path.base_ns(), Some(40 * MS), "after 119 s");
    walk.on(2 * S, PACKET, 50 * MS);
    assert_eq!(walk.path.base_ns(), Some(50 * MS), "after 121 s");
}

#[test]
fn what_arrived_is_counted_over_the_time_asked_for() {
    let mut path = Path::default();
    path.sample(Nanos(0), 50 * MS, 0);
    assert_eq!(path.arrived(Nanos(0), 100 * MS), None, "no time has passed");
    let mut walk = Walk { path, now: 0, total: 0 };
    walk.on(500 * MS, 10_000, 50 * MS);
    walk.on(100 * MS, 5000, 50 * MS);
    let arrived = |ms| walk.path.arrived(Nanos(walk.now), ms * MS);
    assert_eq!(arrived(100), Some(500_000));
    assert_eq!(arrived(200), Some(750_000));
    assert_eq!(arrived(3_600_000), Some(550_000 * 1000 / 600), "since it began");
}

#[test]
fn what_arrived_is_remembered_for_ten_seconds_and_some_thousand_looks() {
    let mut walk = Walk::over(50 * MS);
    walk.on(10 * S, 10_000, 50 * MS);
    walk.on(10 * S, 1000, 50 * MS);
    assert_eq!(walk.path.arrived(Nanos(walk.now), 60 * S), Some(100_000));
    for _ in 0..5000 {
        walk.now += MS;
        walk.total += 1000;
        walk.path.sample(Nanos(walk.now), 50 * MS, walk.total);
    }
    assert_eq!(walk.path.history.len(), HISTORY_MOST);
    assert_eq!(walk.path.arrived(Nanos(walk.now), 60 * S), Some(1_000_000));
}

#[test]
fn delay_is_what_the_whole_last_round_trip_is_above_the_least() {
    let mut walk = Walk::over(50 * MS);
    walk.on(100 * MS, PACKET, 60 * MS);
    assert_eq!(walk.path.delay_ns(), 10 * MS);
    walk.on(LOOK_NS, PACKET, 55 * MS);
    assert_eq!(walk.path.delay_ns(), 5 * MS);
    walk.on(60 * MS, PACKET, 60 * MS);
    assert_eq!(walk.path.delay_ns(), 5 * MS, "still in the last 60 ms");
    walk.on(LOOK_NS, PACKET, 60 * MS);
    assert_eq!(walk.path.delay_ns(), 10 * MS);
}

#[test]
fn nothing_for_150_ms_and_two_round_trips_is_a_silence() {
    for (rtt_ms, longest_ms) in [(50, 150), (200, 400)] {
        let mut walk = Walk::over(rtt_ms * MS);
        walk.on(longest_ms * MS, 0, rtt_ms * MS);
        assert!(!walk.path.is_blind(Nanos(walk.now)), "{rtt_ms} ms");
        assert!(walk.path.is_blind(Nanos(walk.now + MS)), "{rtt_ms} ms");
    }
}

#[test]
fn what_ends_a_silence_teaches_nothing_until_the_average_has_forgotten_it() {
    let mut walk = Walk::over(50 * MS);
    walk.on(S, 0, 50 * MS);
    let before = walk.total;
    walk.on(LOOK_NS, PACKET, 20 * MS);
    assert!(walk.path.is_blind(Nanos(walk.now)));
    walk.on(2 * LOOK_NS, BLIND_BYTES / 2 - 1, 20 * MS);
    assert!(
        walk.path.is_blind(Nanos(walk.now)),
        "{} bytes later",
        walk.total - before
    );
    assert_eq!(walk.path.base_ns(), Some(50 * MS));
    walk.on(LOOK_NS, 2, 70 * MS);
    assert!(
        !walk.path.is_blind(Nanos(walk.now)),
        "{} bytes later",
        walk.total - before
    );
    assert_eq!((walk.path.base_ns(), walk.path.delay_ns()), (Some(50 * MS), 20 * MS));
    assert_eq!(walk.path.arrived(Nanos(walk.now), S), None, "counted anew");
}

#[test]
fn a_calm_that_shows_the_known_round_trip_lasts_six_of_them() {
    let mut walk = Walk::over(50 * MS);
    assert_eq!(
        walk.path.look_at_calm(Nanos(walk.now), CROWD_NS),
        Shown::Nothing,
        "none has begun"
    );
    assert!(walk.path.is_new() && !walk.path.is_settled(Nanos(walk.now), 1));
    // One for what is queued, one to compare with, and four.
    assert_eq!(walk.calm(|_| 50 * MS), (Shown::Same, 300));
    assert_eq!(
        (walk.path.base_ns(), walk.path.usual_ns(), walk.path.scatter_ns()),
        (Some(50 * MS), 50 * MS, 0)
    );
    // Ten packets in 10 ms; up to three times that needs no second look, for five seconds.
    let most = 3 * 1000 * PACKET;
    let settled = |ns, byte_s| walk.path.is_settled(Nanos(walk.now + ns), byte_s);
    assert!(!walk.path.is_new());
    assert_eq!([settled(5 * S - 1, most), settled(5 * S, most)], [true, false]);
    assert_eq!([settled(0, most + 2), settled(0, most + 3)], [true, false]);
}

#[test]
fn a_longer_path_is_believed_when_it_stood_still_and_is_not_much_longer() {
    for (base_ms, more_ms, believed) in [
        (50, 24, true),
        (50, 27, false),
        (10, 19, true),
        (10, 22, false),
        (400, 99, true),
        (400, 103, false),
    ] {
        let mut walk = Walk::over(base_ms * MS);
        walk.on(S, 10 * PACKET, (base_ms + more_ms) * MS);
        let (shown, ms) = walk.calm(|_| (base_ms + more_ms) * MS);
        let (expected, base) = if believed {
            (Shown::Other, base_ms + more_ms)
        } else {
            (Shown::Crowd, base_ms)
        };
        assert_eq!(
            (shown, walk.path.base_ns()),
            (expected, Some(base * MS)),
            "{base_ms} ms and {more_ms} more"
        );
        // The queue leaves in the time by which it lengthened the round trip, and that is seen one later; then 600 ms, and four
        // rounds.
        let from = base_ms + 2 * more_ms;
        let rounds = 4 * (base_ms + more_ms);
        let least = from + rounds.max(600);
        assert!(
            (least..=least + base_ms + more_ms + 40).contains(&ms),
            "{ms} ms, not {least}"
        );
    }
}

#[test]
fn a_neighbours_queue_that_moves_is_not_the_path() {
    let mut walk = Walk::over(50 * MS);
    let (shown, _) = walk.calm(|ns| 2 * swing(ns) - 34 * MS);
    assert_eq!((shown, walk.path.base_ns()), (Shown::Crowd, Some(50 * MS)));
}

#[test]
fn a_path_that_scatters_is_known_to_from_then_on() {
    let mut walk = Walk::over(50 * MS);
    let (shown, ms) = walk.calm(swing);
    assert_eq!(shown, Shown::Other);
    assert!(ms >= 450, "{ms} ms: eight round trips, not four");
    let scatter_ns = walk.path.scatter_ns();
    assert!((4 * MS..=6 * MS + MS / 4).contains(&scatter_ns), "{scatter_ns}");
    let usual_ns = walk.path.usual_ns();
    assert!((52 * MS..=54 * MS).contains(&usual_ns), "{usual_ns}");
    for _ in 0..3 {
        assert_eq!(walk.calm(swing).0, Shown::Same);
    }
    walk.on(S, 10 * PACKET, 50 * MS + scatter_ns);
    assert_eq!(walk.path.delay_ns(), 0, "no queue: its scatter");
    walk.on(S, 10 * PACKET, 53 * MS + scatter_ns);
    assert_eq!(walk.path.delay_ns(), 3 * MS);
    // A round trip that is shorter still is the scatter's, too: what is usual stays where it was.
    let (scatter_ns, usual_ns) = (walk.path.scatter_ns(), walk.path.usual_ns());
    walk.on(LOOK_NS, 10 * PACKET, walk.path.base_ns().unwrap_or(0) - MS);
    assert_eq!(
        (walk.path.scatter_ns(), walk.path.usual_ns()),
        (scatter_ns + MS, usual_ns)
    );
}

#[test]
fn no_path_scatters_by_more_than_an_eighth() {
    let mut walk = Walk::over(16 * MS);
    walk.calm(|ns| swing(ns) - 34 * MS);
    assert_eq!(Some(walk.path.scatter_ns()), walk.path.base_ns().map(|base| base / 8));
}

#[test]
fn a_queue_that_drains_is_neither_scatter_nor_path() {
    let mut walk = Walk::over(50 * MS);
    walk.on(S, 10 * PACKET, 90 * MS);
    let (shown, _) = walk.calm(|ns| (90 * MS).saturating_sub(ns / 12).max(50 * MS));
    assert_eq!(
        (shown, walk.path.base_ns(), walk.path.scatter_ns()),
        (Shown::Same, Some(50 * MS), 0)
    );
}
