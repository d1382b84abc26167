//! Reads of a file that is replaced meanwhile, changed, or no file at all.

use std::fs;
use std::io::Write;
#[cfg(unix)]
use std::time::Duration;

use super::*;
use crate::error::Class;

fn content(length: usize) -> Vec<u8> {
    (0..length)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24).to_le_bytes()[0])
        .collect()
}

fn drain(source: &mut Source, max: usize) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let piece = source.next(max).unwrap();
        assert!(piece.len() <= max);
        if piece.is_empty() {
            return all;
        }
        let count = piece.len().div_ceil(2);
        all.extend_from_slice(&piece[..count]);
        source.consume(count);
    }
}

#[test]
fn every_piece_size_gives_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    for length in [0, 1, SLAB - 1, SLAB, SLAB + 1, 1_000_003] {
        fs::write(&path, content(length)).unwrap();
        for max in [777, 4096, 16 << 20] {
            let mut source = Source::open(&path).unwrap();
            assert_eq!(source.length(), Some(length as u64));
            assert!(drain(&mut source, max) == content(length));
            assert_eq!(source.position(), length as u64);
            assert!(source.next(max).unwrap().is_empty());
            // A retry.
            let offset = length / 3;
            source.rewind(offset as u64).unwrap();
            assert!(drain(&mut source, max) == content(length)[offset..]);
        }
    }
    let mut source = Source::open(&path).unwrap();
    assert_eq!(source.rewind(1_000_004).unwrap_err().class, Class::Integrity);
}

#[test]
fn a_piece_is_appended_behind_what_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    for length in [0, 1, DIRECT - 1, DIRECT, DIRECT + 1, 1_000_003] {
        fs::write(&path, content(length)).unwrap();
        for max in [777, DIRECT - 1, DIRECT, SLAB + 1] {
            let mut source = Source::open(&path).unwrap();
            let mut all = b"header".to_vec();
            loop {
                let before = all.len();
                let count = source.append(max, &mut all).unwrap();
                assert_eq!(all.len(), before + count);
                assert!(count <= max);
                if count == 0 {
                    break;
                }
            }
            assert!(all.strip_prefix(b"header") == Some(&content(length)[..]));
        }
    }
    // The system's refusal leaves the bytes before it alone.
    let mut out = b"header".to_vec();
    let folder = File::open(dir.path());
    assert!(folder.map_or(true, |folder| platform::append_at(&folder, &mut out, 9, 0).is_err()));
    assert_eq!(out, b"header");
}

#[test]
fn a_file_that_changes_is_not_sent_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let grow = |path: &Path| {
        fs::OpenOptions::new()
            .append(true)
            .open(path)
            .unwrap()
            .write_all(b"x")
            .unwrap();
    };
    let shrink = |path: &Path| {
        fs::OpenOptions::new()
            .write(true)
            .open(path)
            .unwrap()
            .set_len(SLAB as u64)
            .unwrap();
    };
    let touch = |path: &Path| {
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    };
    for change in [&grow as &dyn Fn(&Path), &shrink, &touch] {
        let length = 2 * SLAB + 5;
        fs::write(&path, content(length)).unwrap();
        let mut source = Source::open(&path).unwrap();
        let first = source.next(usize::MAX).unwrap().len();
        source.consume(first);
        change(&path);
        let mut sent = first;
        let error = loop {
            match source.next(usize::MAX) {
                Ok(piece) => {
                    let count = piece.len();
                    assert!(count > 0);
                    source.consume(count);
                    sent += count;
                }
                Err(error) => break error,
            }
        };
        assert_eq!(error.class, Class::Integrity);
        assert!(
            error.message.contains("was changed while it was being sent"),
            "{}",
            error.message
        );
        assert!(sent < length, "the last bytes stay here");
    }
}

#[cfg(unix)]
#[test]
fn a_pipe_has_no_length_and_no_way_back() {
    let (reader, mut writer) = io::pipe().unwrap();
    let path = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
    let mut source = Source::open(Path::new(&path)).unwrap();
    let thread = std::thread::spawn(move || writer.write_all(&content(500_000)).unwrap());
    assert_eq!(source.length(), None);
    assert!(source.can_rewind());
    source.next(10).unwrap();
    source.rewind(0).unwrap();
    assert!(drain(&mut source, 4096) == content(500_000));
    thread.join().unwrap();
    assert!(!source.can_rewind());
    assert_eq!(source.rewind(0).unwrap_err().class, Class::Local);
    assert!(source.next(1).unwrap().is_empty());
}

#[test]
fn what_cannot_be_read_has_its_line() {
    let dir = tempfile::tempdir().unwrap();
    for (path, line) in [
        (dir.path().to_owned(), "is a directory"),
        (dir.path().join("none"), "it does not exist"),
    ] {
        let error = Source::open(&path).err().unwrap();
        assert_eq!(error.class, Class::Local);
        // Windows refuses to open a directory at all.
        assert!(error.message.contains(line) || cfg!(windows), "{}", error.message);
    }
}

/// Two versions of one length; the second takes the first one's name while it is open.
#[cfg(unix)]
fn replaced(path: &Path) -> Source {
    let (old, new) = (path.to_owned(), path.with_extension("new"));
    for (path, version, time_s) in [(&old, 1_u8, 1000), (&new, 2, 2000)] {
        fs::write(path, vec![version; 3 * SLAB]).unwrap();
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(time_s))
            .unwrap();
        mode::set(&file, if version == 1 { 0o640 } else { 0o604 }).unwrap();
    }
    let source = Source::open(path).unwrap();
    fs::rename(new, path).unwrap();
    source
}

#[cfg(unix)]
#[test]
fn a_file_that_is_replaced_is_sent_as_the_one_that_was_opened() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let mut source = replaced(&path);
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
    assert_eq!((source.modified(), source.mode()), (Some(time), Some(0o640)));
    let offset = SLAB as u64 + 5;
    let mut expected = Digest::new(Algorithm::Sha256);
    expected.update(&vec![1; SLAB + 5]);
    let found = source.digest_before(offset, Algorithm::Sha256).unwrap();
    assert_eq!(found.finish(), expected.finish());
    assert!(drain(&mut source, usize::MAX) == vec![1; 3 * SLAB]);
    source.check_unchanged().unwrap();
}

#[test]
fn a_beginning_that_is_no_longer_there_has_no_checksum() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    fs::write(&path, content(SLAB)).unwrap();
    let source = Source::open(&path).unwrap();
    fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(5)
        .unwrap();
    let error = source.digest_before(6, Algorithm::Sha256).err().unwrap();
    assert_eq!(error.class, Class::Integrity);
    assert!(source.digest_before(5, Algorithm::Sha256).is_ok());
}
