//! The source of an upload.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::digest::{Algorithm, Digest};
use super::fault::failed;
use super::mode;
use crate::error::Error;
use crate::platform;

/// The most bytes per read, regardless of the caller's pieces.
const SLAB: usize = 256 * 1024;
/// Pieces of at least this size are read to where they are wanted; smaller ones are cut from a slab. Less than a frame of HTTP/2.
const DIRECT: usize = 8 * 1024;

pub struct Source {
    from: Origin,
    slab: Vec<u8>,
    /// The slab's bytes from `start` to `end` are not consumed yet.
    start: usize,
    end: usize,
    /// The offset of the first byte not consumed.
    position: u64,
}

enum Origin {
    File {
        path: PathBuf,
        file: File,
        length: u64,
        modified: Option<SystemTime>,
        mode: Option<u32>,
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
                mode: mode::of(&found),
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

    /// The length; `None` if it is known only at the end.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        match &self.from {
            Origin::File { length, .. } => Some(*length),
            Origin::Stream { .. } => None,
        }
    }

    /// The file's modification time when it was opened; `None` for a stream.
    #[must_use]
    pub fn modified(&self) -> Option<SystemTime> {
        match &self.from {
            Origin::File { modified, .. } => *modified,
            Origin::Stream { .. } => None,
        }
    }

    /// The file's permission bits when it was opened; `None` for a stream.
    #[must_use]
    pub fn mode(&self) -> Option<u32> {
        match &self.from {
            Origin::File { mode, .. } => *mode,
            Origin::Stream { .. } => None,
        }
    }

    /// Checksum of everything before an offset, to go on from there. It reads the file that is open: its name may be another's by now.
    ///
    /// # Errors
    /// Class Local for a stream and when it cannot be read, class Integrity when it is shorter.
    pub fn digest_before(&self, offset: u64, algorithm: Algorithm) -> Result<Digest, Error> {
        let mut digest = Digest::new(algorithm);
        let (path, file) = match &self.from {
            Origin::File { path, file, .. } => (path, file),
            Origin::Stream { .. } if offset == 0 => return Ok(digest),
            Origin::Stream { name, .. } => return Err(Error::local(format!("{name} cannot be read twice"))),
        };
        let mut buffer = vec![0; SLAB];
        let mut at = 0;
        while at < offset {
            let most = usize::try_from(offset - at).unwrap_or(SLAB).min(SLAB);
            let count = retry(|| platform::read_at(file, &mut buffer[..most], at))
                .map_err(|error| failed("read", path, &error))?;
            if count == 0 {
                return Err(self.changed());
            }
            digest.update(&buffer[..count]);
            at += count as u64;
        }
        Ok(digest)
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
            ..
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
#[path = "source_tests.rs"]
mod tests;
