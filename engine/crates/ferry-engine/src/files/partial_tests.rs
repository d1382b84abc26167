//! A file from its creation to its end: published, kept or removed. Full disks and closed directories are in `partial_faults.rs`.

use super::*;
use crate::error::Class;
use crate::files::{Sink, Stated, Validators, check_target, existing};

pub(in crate::files) fn key() -> ResumeKey {
    ResumeKey {
        url: "http://h/x".to_owned(),
        validators: Validators {
            size: Some(1_000_000),
            etag: Some("\"tag\"".to_owned()),
            last_modified: None,
        },
        stated: Stated::default(),
    }
}

pub(in crate::files) fn content() -> Vec<u8> {
    (0..1_000_000_u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24).to_le_bytes()[0])
        .collect()
}

pub(in crate::files) fn names_in(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

pub(in crate::files) fn create(target: &Path) -> Sink {
    Sink::File(PartialFile::create(target, false, Some(key())).unwrap())
}

#[test]
fn a_file_appears_whole_and_alone() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("x");
    let mut sink = create(&target);
    for piece in content().chunks(12_345) {
        sink.write(piece).unwrap();
        assert!(!target.exists());
    }
    assert_eq!(sink.position(), 1_000_000);
    assert_eq!(names_in(dir.path()), [".x.ferry-partial", ".x.ferry-partial.json"]);
    sink.finish().unwrap();
    assert_eq!(names_in(dir.path()), ["x"]);
    assert!(fs::read(&target).unwrap() == content());
}

#[test]
fn an_empty_file_is_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("x");
    create(&target).finish().unwrap();
    assert_eq!(names_in(dir.path()), ["x"]);
}

#[test]
fn what_was_kept_is_continued_at_its_length() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("x");
    assert_eq!(existing(&target), None);
    let content = content();
    let mut at = 0;
    // Dropped, abandoned, and cut at places that are no multiple of anything.
    for upto in [1, 300_000, 300_001, 777_777, 1_000_000] {
        let mut sink = match existing(&target) {
            None => create(&target),
            Some(from) => {
                assert_eq!(
                    (
                        from.offset,
                        from.key.validators.etag.as_deref(),
                        from.key.validators.size
                    ),
                    (at as u64, Some("\"tag\""), Some(1_000_000))
                );
                Sink::File(PartialFile::resume(&target, false, &from).unwrap())
            }
        };
        assert_eq!(sink.position(), at as u64);
        sink.write(&content[at..upto]).unwrap();
        if upto % 2 == 0 {
            drop(sink);
        } else {
            sink.abandon(true);
        }
        at = upto;
        assert!(!target.exists());
    }
    // All there, not published: the last byte is asked for again.
    let from = existing(&target).unwrap();
    assert_eq!(from.offset, 999_999);
    let mut sink = Sink::File(PartialFile::resume(&target, false, &from).unwrap());
    sink.write(&content[999_999..]).unwrap();
    sink.finish().unwrap();
    assert_eq!(names_in(dir.path()), ["x"]);
    assert!(fs::read(&target).unwrap() == content);
}

#[test]
fn what_is_not_kept_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("x");
    let mut sink = create(&target);
    sink.write(&content()).unwrap();
    sink.abandon(false);
    assert_eq!(names_in(dir.path()), [""; 0]);
    // Nothing to go on from: the file was not described, or nothing arrived.
    let mut sink = Sink::File(PartialFile::create(&target, false, None).unwrap());
    sink.write(&content()).unwrap();
    sink.abandon(true);
    create(&target).abandon(true);
    assert_eq!(names_in(dir.path()), [""; 0]);
}

#[test]
fn restart_forgets_and_create_does_not_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("x");
    let mut sink = create(&target);
    sink.write(&content()).unwrap();
    assert!(sink.can_restart());
    sink.restart().unwrap();
    assert_eq!((sink.position(), existing(&target)), (0, None));
    sink.write(b"new").unwrap();
    sink.describe(key()).unwrap();
    sink.abandon(true);
    assert_eq!(existing(&target).unwrap().offset, 3);
    let mut sink = create(&target);
    sink.write(b"other").unwrap();
    sink.finish().unwrap();
    assert_eq!(fs::read(&target).unwrap(), b"other");
}

#[test]
fn two_ferries_do_not_write_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("x");
    let mut first = create(&target);
    first.write(&content()).unwrap();
    first.flush().unwrap();
    let from = existing(&target).unwrap();
    let attempts = [
        PartialFile::create(&target, false, Some(key())),
        PartialFile::resume(&target, false, &from),
    ]
    .map(Result::err);
    for problem in attempts.into_iter().chain([check_target(&target, false).err()]) {
        let problem = problem.unwrap();
        assert_eq!(problem.class, Class::Local);
        assert!(
            problem.message.contains("another ferry is writing"),
            "{}",
            problem.message
        );
    }
    first.finish().unwrap();
    assert!(fs::read(&target).unwrap() == content());
}

#[test]
fn a_partial_file_that_changed_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("x");
    let mut sink = create(&target);
    sink.write(b"12345").unwrap();
    sink.abandon(true);
    let from = existing(&target).unwrap();
    fs::write(dir.path().join(".x.ferry-partial"), "123").unwrap();
    let problem = PartialFile::resume(&target, false, &from).err().unwrap();
    assert!(problem.message.contains("was changed meanwhile"), "{}", problem.message);
    assert_eq!(existing(&target).unwrap().offset, 3);
}

#[test]
fn what_exists_is_replaced_only_when_asked() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("x");
    fs::write(&target, "old").unwrap();
    let problem = PartialFile::create(&target, false, None).err().unwrap();
    assert!(
        problem
            .message
            .ends_with("exists; --overwrite replaces it, nothing was changed"),
        "{}",
        problem.message
    );
    assert_eq!(names_in(dir.path()), ["x"]);
    let mut sink = Sink::File(PartialFile::create(&target, true, None).unwrap());
    sink.write(b"new").unwrap();
    assert_eq!(fs::read(&target).unwrap(), b"old");
    sink.finish().unwrap();
    assert_eq!(fs::read(&target).unwrap(), b"new");
    assert_eq!(names_in(dir.path()), ["x"]);
}

#[test]
fn a_target_that_appears_meanwhile_is_left_alone_and_nothing_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("x");
    let mut sink = create(&target);
    sink.write(&content()).unwrap();
    fs::write(&target, "theirs").unwrap();
    let problem = sink.finish().unwrap_err();
    assert_eq!(problem.class, Class::Local);
    assert!(
        problem.message.contains("appeared while it was being fetched"),
        "{}",
        problem.message
    );
    assert_eq!(fs::read(&target).unwrap(), b"theirs");
    assert!(fs::read(dir.path().join(".x.ferry-partial")).unwrap() == content());
    assert_eq!(existing(&target).unwrap().offset, 999_999);
}

#[cfg(unix)]
#[test]
fn a_link_stays_a_link_and_the_mode_stays_too() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let dir = tempfile::tempdir().unwrap();
    let (real, link) = (dir.path().join("real"), dir.path().join("link"));
    fs::write(&real, "old").unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    symlink("real", &link).unwrap();
    let mut sink = Sink::File(PartialFile::create(&link, true, None).unwrap());
    sink.write(b"new").unwrap();
    sink.finish().unwrap();
    assert_eq!(fs::read_link(&link).unwrap(), Path::new("real"));
    assert_eq!(fs::read(&real).unwrap(), b"new");
    assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(names_in(dir.path()), ["link", "real"]);
}

#[test]
fn a_journal_that_cannot_be_removed_is_a_local_problem() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join(".x.ferry-partial.json")).unwrap();
    let problem = PartialFile::create(&dir.path().join("x"), false, None).err().unwrap();
    assert_eq!(problem.class, Class::Local);
    assert!(problem.message.contains(".x.ferry-partial.json"), "{}", problem.message);
}

#[test]
fn a_directory_that_cannot_be_flushed_is_a_local_problem() {
    let dir = tempfile::tempdir().unwrap();
    let Location::Beside(names) = locate(&dir.path().join("x"), false).unwrap() else {
        panic!("a file has names beside it")
    };
    sync_directory(&names).unwrap();
    drop(dir);
    if cfg!(unix) {
        assert_eq!(sync_directory(&names).unwrap_err().class, Class::Local);
    }
}

#[test]
fn a_complete_file_has_the_time_that_it_was_given() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("x");
    let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_007);
    let mut partial = PartialFile::create(&target, false, Some(key())).unwrap();
    partial.set_modified(time);
    partial.write(b"content").unwrap();
    partial.publish(true).unwrap();
    assert_eq!(fs::metadata(&target).unwrap().modified().unwrap(), time);
}

#[cfg(target_os = "linux")]
#[test]
fn devices_are_written_in_place() {
    let mut sink = Sink::File(PartialFile::create(Path::new("/dev/null"), false, Some(key())).unwrap());
    sink.write(&content()).unwrap();
    assert_eq!(sink.position(), 1_000_000);
    assert!(!sink.can_restart());
    assert!(sink.restart().is_err());
    sink.finish().unwrap();

    let mut full = Sink::File(PartialFile::create(Path::new("/dev/full"), false, None).unwrap());
    let problem = full.write(&content()).unwrap_err();
    assert_eq!(problem.class, Class::Local);
    assert!(
        problem
            .message
            .contains("no space left writing /dev/full (0 bytes were written)"),
        "{}",
        problem.message
    );
    assert!(full.write(b"more").is_err());
    full.abandon(true);
    assert!(!Path::new("/dev/.full.ferry-partial").exists());
}
