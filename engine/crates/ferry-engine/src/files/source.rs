//! What an upload sends.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::fault::failed;
use crate::error::Error;
use crate::platform;

/// What one read takes, whatever the caller's pieces are.
const SLAB: usize = 256 * 1024;
/// Pieces of at least this size are read to where they are wanted; smaller ones are cut from a slab. Less than a frame of HTTP/2.
const DIRECT: usize = 8 * 1024;

pub struct Source {
    from: Origin,
    slab: Vec<u8>,
    /// The slab holds what is not consumed from `start` to `end`.
    start: usize,
    end: usize,
    /// Of the first byte not consumed.
    position: u64,
}

enum Origin {
    File {
        path: PathBuf,
        file: File,
        length: u64,
        modified: Option<SystemTime>,
    },
    Stream {
        name: String,
        file: File,
        ended: bool,
    },
}

impl Source {
    /// A file of known length; a pipe or a device is read as standard input is.
    ///
    /// # Errors
    /// Class Local.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(|error| failed("read", path, &error))?;
        let found = file.metadata().map_err(|error| failed("read", path, &error))?;
        if found.is_dir() {
            return Err(Error::local(format!(
                "{} is a directory: ferry sends one file",
                path.display()
            )));
        }
        Ok(Self::new(if found.is_file() {
            Origin::File {
                path: path.to_owned(),
                file,
                length: found.len(),
                modified: modified(&found),
            }
        } else {
            Origin::Stream {
                name: path.display().to_string(),
                file,
                ended: false,
            }
        }))
    }

    /// Reads block.
    ///
    /// # Errors
    /// Class Local when it is closed.
    pub fn stdin() -> Result<Self, Error> {
        let file = platform::standard_input()
            .map_err(|error| Error::local(format!("cannot read standard input: {error}")).with_source(error))?;
        Ok(Self::new(Origin::Stream {
            name: "standard input".to_owned(),
            file,
            ended: false,
        }))
    }

    fn new(from: Origin) -> Self {
        Self {
            from,
            slab: Vec::new(),
            start: 0,
            end: 0,
            position: 0,
        }
    }

    /// None when it is known only at the end.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        match &self.from {
            Origin::File { length, .. } => Some(*length),
            Origin::Stream { .. } => None,
        }
    }

    /// When the file was last written to, as it was when it was opened; none for a stream.
    #[must_use]
    pub fn modified(&self) -> Option<SystemTime> {
        match &self.from {
            Origin::File { modified, .. } => *modified,
            Origin::Stream { .. } => None,
        }
    }

    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// At most `max` bytes at the position, at least one unless it is the end (or `max` is 0). The same again until `consume`.
    ///
    /// # Errors
    /// Class Local when it cannot be read, class Integrity when the file was changed.
    pub fn next(&mut self, max: usize) -> Result<&[u8], Error> {
        if self.start == self.end {
            self.fill()?;
        }
        Ok(&self.slab[self.start..self.end.min(self.start.saturating_add(max))])
    }

    /// Appends at most `max` bytes from the position on, and consumes them; none at the end.
    ///
    /// # Errors
    /// As `next`.
    pub fn append(&mut self, max: usize, out: &mut Vec<u8>) -> Result<usize, Error> {
        if max >= DIRECT
            && self.start == self.end
            && let Origin::File { path, file, length, .. } = &self.from
        {
            let left = usize::try_from(*length - self.position).unwrap_or(usize::MAX);
            let count = match max.min(left) {
                0 => 0,
                most => retry(|| platform::append_at(file, out, most, self.position))
                    .map_err(|error| failed("read", path, &error))?,
            };
            self.check_end(count, left)?;
            self.position += count as u64;
            return Ok(count);
        }
        let piece = self.next(max)?;
        let count = piece.len();
        out.extend_from_slice(piece);
        self.consume(count);
        Ok(count)
    }

    /// Before the last bytes go out: the other end must not take a file for whole that is a mixture of two.
    fn check_end(&self, count: usize, left: usize) -> Result<(), Error> {
        if count == 0 || count == left {
            self.check_unchanged()?;
            if count == 0 && left > 0 {
                return Err(self.changed());
            }
        }
        Ok(())
    }

    fn fill(&mut self) -> Result<(), Error> {
        self.slab.resize(SLAB, 0);
        self.start = 0;
        self.end = 0;
        match &mut self.from {
            Origin::File { path, file, length, .. } => {
                let left = usize::try_from(*length - self.position).unwrap_or(usize::MAX);
                if left > 0 {
                    let slab = &mut self.slab[..left.min(SLAB)];
                    self.end = retry(|| platform::read_at(file, slab, self.position))
                        .map_err(|error| failed("read", path, &error))?;
                }
                self.check_end(self.end, left)?;
            }
            Origin::Stream { name, file, ended } => {
                if !*ended {
                    self.end = retry(|| file.read(&mut self.slab))
                        .map_err(|error| Error::local(format!("cannot read {name}: {error}")).with_source(error))?;
                    // A terminal would ask again.
                    *ended = self.end == 0;
                }
            }
        }
        Ok(())
    }

    /// # Panics
    /// When it is more than `next` has shown.
    pub fn consume(&mut self, count: usize) {
        assert!(count <= self.end - self.start, "more was consumed than there is");
        self.start += count;
        self.position += count as u64;
    }

    #[must_use]
    pub fn can_rewind(&self) -> bool {
        matches!(self.from, Origin::File { .. }) || self.position == 0
    }

    /// Goes to an offset of the file. A stream of which nothing was consumed is at its begin already.
    ///
    /// # Errors
    /// Class Local for a stream, class Integrity when the file is no longer that long.
    pub fn rewind(&mut self, offset: u64) -> Result<(), Error> {
        if offset == self.position {
            return Ok(());
        }
        match &self.from {
            Origin::File { path, length, .. } if offset > *length => Err(Error::integrity(format!(
                "{} has {length} bytes and cannot be sent from byte {offset} on",
                path.display()
            ))),
            Origin::File { .. } => {
                self.position = offset;
                self.start = 0;
                self.end = 0;
                Ok(())
            }
            Origin::Stream { name, .. } => Err(Error::local(format!(
                "{name} cannot be read twice, so this upload cannot be tried again: send a file instead"
            ))),
        }
    }

    /// `next` asks this by itself before it hands out the last bytes, and at the end.
    ///
    /// # Errors
    /// Class Integrity when length or modification time are not those of the begin.
    pub fn check_unchanged(&self) -> Result<(), Error> {
        let Origin::File {
            path,
            file,
            length,
            modified: before,
        } = &self.from
        else {
            return Ok(());
        };
        let now = file.metadata().map_err(|error| failed("read", path, &error))?;
        if now.len() == *length && modified(&now) == *before {
            Ok(())
        } else {
            Err(self.changed())
        }
    }

    fn changed(&self) -> Error {
        match &self.from {
            Origin::File { path, .. } => Error::integrity(format!(
                "{} was changed while it was being sent: send it again",
                path.display()
            )),
            Origin::Stream { name, .. } => Error::integrity(format!("{name} was changed while it was being sent")),
        }
    }
}

fn modified(found: &Metadata) -> Option<SystemTime> {
    found.modified().ok()
}

/// Repeats a read that a signal interrupted, or that another program made non-blocking by sharing our standard input.
fn retry(mut read: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match read() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

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
}
