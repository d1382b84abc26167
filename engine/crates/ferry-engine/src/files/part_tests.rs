//! Parts of a file: their distribution among connections, bytes that come twice, and losses.

use super::*;

#[test]
fn parts_make_the_file_in_any_order_and_what_is_dropped_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let content: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251).to_le_bytes()[0]).collect();
    let path = dir.path().join("x");
    let size = content.len() as u64;
    let parts = Parts::new(Missing::one(0..size));
    parts.open(Some(File::create(&path).unwrap()));
    fastrand::seed(3);
    let mut rounds = 0;
    while !parts.is_complete() {
        rounds += 1;
        let mut taken: Vec<Part> = std::iter::from_fn(|| parts.take(4, 0, Duration::ZERO)).collect();
        fastrand::shuffle(&mut taken);
        for mut part in taken {
            let range = part.range();
            let mut rest = &content[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()];
            while !rest.is_empty() && fastrand::u8(..) > 2 {
                let (now, later) = rest.split_at(fastrand::usize(1..=400_000).min(rest.len()));
                part.write(now).unwrap();
                rest = later;
            }
            if rest.is_empty() || fastrand::bool() {
                part.finish().unwrap();
            }
        }
        let missing = parts.missing();
        assert!(missing.is_empty() || missing.is_sound(size) || missing.bytes() == size);
    }
    assert!(rounds > 1, "nothing was ever dropped");
    assert!(parts.bytes() >= size);
    assert!(std::fs::read(&path).unwrap() == content);
}

#[test]
fn a_part_is_wanted_until_all_of_it_is_there() {
    let parts = Parts::new(Missing::one(0..100));
    parts.open(None);
    let mut part = parts.take(1, 0, Duration::ZERO).unwrap();
    assert_eq!((part.range(), part.position(), parts.ranges()), (0..100, 0, 0));
    assert!(parts.is_wanted(part.id()), "nothing has come");
    part.write(&[0; 60]).unwrap();
    assert_eq!((part.position(), parts.ranges()), (60, 0));
    assert!(parts.is_wanted(part.id()), "40 bytes are missing");
    part.write(&[0; 40]).unwrap();
    assert_eq!((part.position(), parts.ranges(), parts.bytes()), (100, 1, 100));
    part.flush().unwrap();
    assert!(!parts.is_wanted(part.id()), "all of it is there");
    assert!(parts.is_complete());
}

#[test]
fn a_part_takes_no_more_than_its_range_and_nothing_once_it_is_over() {
    let parts = Parts::new(Missing::default());
    parts.open(None);
    drop(parts.guess(10));
    assert!(parts.missing().is_empty(), "nobody has said that there are ten bytes");
    let mut part = parts.guess(10);
    part.of_file(4);
    assert_eq!(part.range(), 0..4);
    part.write(b"123").unwrap();
    assert_eq!(part.write(b"45").unwrap_err().class, crate::error::Class::Integrity);
    parts.close();
    assert!(part.write(b"4").is_err());
    drop(part);
    assert_eq!(parts.missing(), Missing::one(0..4), "gathered is not on the disk");
}

/// The server was asked for that part so long ago, and nothing has come since.
fn asked_ago(parts: &Parts, id: u64, ago: Duration) {
    let mut state = lock(&parts.state);
    let flight = state.flying.get_mut(&id).unwrap();
    flight.asked(Instant::now().checked_sub(ago).unwrap());
}

#[test]
fn a_piece_is_a_share_of_what_is_left_or_what_four_round_trips_bring() {
    const MB: u64 = 1_000_000;
    let second = Duration::from_secs(1);
    let parts = Parts::new(Missing::one(0..100 * MB));
    parts.open(None);
    let mut first = parts.take(4, 0, second).unwrap();
    assert_eq!(first.range(), 0..100 * MB / 8, "half of a connection's share");
    first.write(&vec![0; 12_000_000]).unwrap();
    // 12 MB in a round trip of a second, a quarter of it by each connection: four round trips bring 12 MB.
    let next = parts.take(4, 0, second).unwrap();
    assert_eq!(next.range(), 12_500_000..24_500_000);
    let more = parts.take(2, 0, second).unwrap();
    assert_eq!(more.range(), 24_500_000..48_500_000, "two of them bring 24 MB");
    let other = parts.take(8, 0, second).unwrap();
    assert_eq!(other.range(), 48_500_000..54_500_000, "eight of them bring 6 MB each");
}

#[test]
fn without_a_round_trip_a_share_is_all_that_counts() {
    let parts = Parts::new(Missing::one(0..80_000_000));
    parts.open(None);
    let mut first = parts.take(4, 0, Duration::ZERO).unwrap();
    first.write(&[0; 1_000]).unwrap();
    assert_eq!(
        parts.take(4, 0, Duration::ZERO).unwrap().range(),
        10_000_000..18_750_000
    );
}

#[test]
fn what_was_gathered_and_is_lost_is_asked_for_again_and_counts_again() {
    let parts = Parts::new(Missing::one(0..1_000));
    parts.open(None);
    let mut part = parts.take(1, 0, Duration::ZERO).unwrap();
    part.write(&[0; 300]).unwrap();
    part.flush().unwrap();
    part.write(&[0; 500]).unwrap();
    assert_eq!((parts.bytes(), parts.flying()), (800, 1));
    assert_eq!(parts.missing(), Missing::one(300..1_000), "500 bytes are gathered");
    assert!(parts.take(1, 0, Duration::ZERO).is_none(), "all is asked for");
    drop(part);
    assert_eq!(parts.flying(), 0);
    let mut again = parts.take(1, 0, Duration::ZERO).unwrap();
    assert_eq!((again.range(), parts.ranges()), (300..1_000, 0));
    again.write(&[0; 700]).unwrap();
    assert_eq!((parts.bytes(), parts.ranges()), (1_500, 1));
    again.finish().unwrap();
    assert!(parts.is_complete());
}

#[test]
fn a_relieved_part_ends_where_another_goes_on() {
    let parts = Parts::new(Missing::one(0..1_000_000));
    parts.open(None);
    let mut slow = parts.take(1, 0, Duration::ZERO).unwrap();
    let mut rest = parts.take(1, 0, Duration::ZERO).unwrap();
    assert_eq!((slow.range(), rest.range()), (0..500_000, 500_000..1_000_000));
    rest.write(&vec![0; 500_000]).unwrap();
    rest.finish().unwrap();
    assert!(
        parts.take(1, 1, Duration::ZERO).is_none(),
        "its server has not been asked"
    );
    parts.asked(slow.id());
    assert!(parts.take(1, 1, Duration::ZERO).is_none(), "it has only begun");
    asked_ago(&parts, slow.id(), Duration::from_secs(60));
    assert!(parts.take(1, 0, Duration::ZERO).is_none(), "no connection is idle");
    let mut relief = parts.take(1, 1, Duration::ZERO).unwrap();
    assert_eq!(
        relief.range(),
        0..500_000,
        "of a part that brings nothing all is asked for again"
    );
    assert!(parts.is_wanted(slow.id()), "the byte that it brings next has not come");
    assert!(parts.is_wanted(relief.id()));
    relief.write(&vec![0; 200_000]).unwrap();
    assert!(!parts.is_wanted(slow.id()), "another is ahead of it");
    slow.write(&vec![0; 300_000]).unwrap();
    assert_eq!(parts.bytes(), 800_000, "each byte counts once");
    assert_eq!(
        parts.missing(),
        Missing::one(300_000..500_000),
        "what a relieved part has is written at once"
    );
    assert!(parts.is_wanted(relief.id()));
    drop(slow);
    assert!(
        parts.take(1, 0, Duration::ZERO).is_none(),
        "the relief has asked for it"
    );
    drop(relief);
    assert_eq!(parts.take(1, 0, Duration::ZERO).unwrap().range(), 300_000..500_000);
}

#[test]
fn a_part_of_no_use_is_not_wanted() {
    let parts = Parts::new(Missing::one(0..100));
    parts.open(None);
    let part = parts.take(1, 0, Duration::ZERO).unwrap();
    assert!(!parts.is_wanted(part.id() + 1), "nobody has it");
    parts.close();
    assert!(!parts.is_wanted(part.id()), "the download is over");
    let unknown = Parts::new(Missing::default());
    unknown.open(None);
    let guessed = unknown.guess(10);
    assert!(unknown.is_wanted(guessed.id()), "nobody knows yet how much there is");
    assert!(!unknown.is_complete());
}

#[test]
fn what_is_behind_a_guess_is_left_for_others() {
    let parts = Parts::new(Missing::default());
    parts.open(None);
    let mut part = parts.guess(10);
    part.of_file(1_000_000);
    part.of_file(5);
    assert_eq!(part.range(), 0..10, "the first answer counts");
    assert_eq!(parts.missing(), Missing::one(0..1_000_000));
    assert_eq!(parts.take(1, 0, Duration::ZERO).unwrap().range(), 10..500_005);
    part.write(&[0; 10]).unwrap();
    assert_eq!((parts.bytes(), parts.ranges()), (10, 1));
    part.finish().unwrap();
    assert_eq!(parts.missing(), Missing::one(10..1_000_000));
}

#[test]
fn bytes_are_written_where_they_belong_as_soon_as_a_slab_is_full() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    let parts = Parts::new(Missing::one(0..2_000_000));
    parts.open(Some(File::create(&path).unwrap()));
    parts.open(None);
    drop(parts.take(1, 0, Duration::ZERO));
    let mut part = parts.take(1, 0, Duration::ZERO).unwrap();
    part.write(&[1; 10]).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0, "gathered");
    part.write(&vec![2; SLAB - 11]).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0, "a byte is missing");
    part.write(&[3; 1]).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), SLAB as u64);
    part.write(&vec![4; SLAB]).unwrap();
    assert_eq!(
        std::fs::metadata(&path).unwrap().len(),
        2 * SLAB as u64,
        "a slab at once"
    );
    assert_eq!(parts.missing(), Missing::one(2 * SLAB as u64..2_000_000));
    let content = std::fs::read(&path).unwrap();
    assert_eq!(
        (content[9], content[10], content[SLAB - 1], content[SLAB]),
        (1, 2, 3, 4)
    );
    parts.sync().unwrap();
    part.write(&[5; 10]).unwrap();
    parts.close();
    part.finish().unwrap();
    assert_eq!(
        std::fs::metadata(&path).unwrap().len(),
        2 * SLAB as u64,
        "it may already have its final name"
    );
}

#[test]
fn a_file_that_cannot_be_written_is_a_local_problem() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    std::fs::write(&path, b"").unwrap();
    let parts = Parts::new(Missing::one(0..10));
    parts.open(Some(File::open(&path).unwrap()));
    let mut part = parts.take(1, 0, Duration::ZERO).unwrap();
    let problem = part.write(&[1; 10]).unwrap_err();
    assert_eq!(problem.class, crate::error::Class::Local);
    assert!(
        problem.message.starts_with("cannot write the file"),
        "{}",
        problem.message
    );
    drop(part);
    assert_eq!(parts.missing(), Missing::one(0..10));
}

#[test]
fn a_part_that_is_finished_has_written_what_it_gathered() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    let parts = Parts::new(Missing::one(0..10));
    parts.open(Some(File::create(&path).unwrap()));
    let mut part = parts.take(1, 0, Duration::ZERO).unwrap();
    part.write(&[7; 4]).unwrap();
    assert_eq!(parts.missing(), Missing::one(0..10), "it is gathered");
    part.finish().unwrap();
    assert_eq!(parts.missing(), Missing::one(4..10));
    assert_eq!(std::fs::read(&path).unwrap(), [7; 4]);
}

#[cfg(target_os = "linux")]
#[test]
fn what_the_disk_does_not_take_is_not_passed_over() {
    let parts = Parts::new(Missing::one(0..10));
    assert!(parts.sync().is_ok(), "there is nothing yet");
    // A device that has no disk behind it.
    parts.open(Some(File::open("/dev/null").unwrap()));
    assert!(parts.sync().is_err());
}

#[test]
fn times_and_series_are_those_of_new_bytes() {
    let parts = Parts::new(Missing::one(0..100));
    parts.open(None);
    assert!(parts.times().is_none(), "nothing has come");
    let before = Instant::now();
    let mut part = parts.take(1, 0, Duration::ZERO).unwrap();
    part.write(&[0; 60]).unwrap();
    part.write(&[0; 40]).unwrap();
    let (began, ended, _) = parts.times().unwrap();
    assert!(before <= began && began <= ended && ended <= Instant::now());
    assert!(parts.times().is_none(), "they are given once");
}
