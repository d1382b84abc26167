//! The destination of a download.

use std::io;
use std::time::SystemTime;

use super::mode::Complete;
use super::writer::Writer;
use super::{Part, PartialFile, ResumeKey};
use crate::error::Error;
use crate::platform;

// One per transfer and rarely moved, so its size does not matter; a box would be one more hop at every piece.
#[allow(clippy::large_enum_variant)]
pub enum Sink {
    /// Counts, and does nothing else. `Sink::discard()`.
    Discard(u64),
    /// `Sink::stdout()`.
    Stdout(StandardOutput),
    File(PartialFile),
    /// A range of a file that several connections write.
    Part(Part),
}

/// Every piece goes at once, since a reader may be waiting at the other end.
pub struct StandardOutput {
    writer: Writer,
}

impl StandardOutput {
    fn problem(&self, error: &io::Error) -> Error {
        let bytes = self.writer.written();
        Error::local(if error.kind() == io::ErrorKind::BrokenPipe {
            format!("whoever reads standard output has closed it after {bytes} bytes")
        } else if platform::is_disk_full(error) {
            format!("no space left writing to standard output ({bytes} bytes were written): {error}")
        } else {
            format!("cannot write to standard output ({bytes} bytes were written): {error}")
        })
        .with_io(error)
    }
}

impl Sink {
    #[must_use]
    pub fn discard() -> Self {
        Self::Discard(0)
    }

    /// # Errors
    /// Class Local when it is closed.
    pub fn stdout() -> Result<Self, Error> {
        platform::ignore_file_size_signal();
        let file = platform::standard_output()
            .map_err(|error| Error::local(format!("cannot write to standard output: {error}")).with_source(error))?;
        Ok(Self::Stdout(StandardOutput {
            writer: Writer::new(file, 0),
        }))
    }

    /// # Errors
    /// Class Local. Nothing can be written after an error; `abandon` the sink.
    #[inline]
    pub fn write(&mut self, data: &[u8]) -> Result<(), Error> {
        match self {
            Self::Discard(position) => {
                *position += data.len() as u64;
                Ok(())
            }
            Self::Stdout(out) => out.writer.put(data).map_err(|error| out.problem(&error)),
            Self::File(file) => file.write(data),
            Self::Part(part) => part.write(data),
        }
    }

    /// Offset in the whole body of the next byte to be written.
    #[must_use]
    pub fn position(&self) -> u64 {
        match self {
            Self::Discard(position) => *position,
            Self::Stdout(out) => out.writer.written(),
            Self::File(file) => file.position(),
            Self::Part(part) => part.position(),
        }
    }

    /// Hands the gathered bytes to the operating system: before a wait of unknown length, before a retry.
    ///
    /// # Errors
    /// Class Local, as `write`.
    pub fn flush(&mut self) -> Result<(), Error> {
        match self {
            Self::Discard(_) | Self::Stdout(_) => Ok(()),
            Self::File(file) => file.flush(),
            Self::Part(part) => part.flush(),
        }
    }

    /// False for a standard output, a pipe or a device that was written to.
    #[must_use]
    pub fn can_restart(&self) -> bool {
        match self {
            Self::Discard(_) => true,
            Self::Stdout(out) => out.writer.written() == 0,
            Self::File(file) => file.can_restart(),
            Self::Part(_) => false,
        }
    }

    /// Forgets everything and begins at byte 0 (the server sent the whole file instead of the rest). Removes the journal: `describe`
    /// again.
    ///
    /// # Errors
    /// Class Local where `can_restart` says no, and when the file cannot be emptied.
    pub fn restart(&mut self) -> Result<(), Error> {
        match self {
            Self::Discard(position) => {
                *position = 0;
                Ok(())
            }
            Self::Stdout(out) if out.writer.written() == 0 => Ok(()),
            Self::Stdout(_) => Err(Error::local("standard output cannot take back what was written to it")),
            Self::File(file) => file.restart(),
            Self::Part(_) => Err(Error::permanent("a range of a file cannot begin again by itself")),
        }
    }

    /// A file's modification time, once it is complete; nothing to do for the others.
    pub fn set_modified(&mut self, time: SystemTime) {
        if let Self::File(file) = self {
            file.set_modified(time);
        }
    }

    /// A file's permission bits, once it is complete; nothing to do for the others.
    pub fn set_mode(&mut self, mode: Complete) {
        if let Self::File(file) = self {
            file.set_mode(mode);
        }
    }

    /// See `PartialFile::describe`; nothing to do for the others.
    ///
    /// # Errors
    /// Class Local.
    pub fn describe(&mut self, key: ResumeKey) -> Result<(), Error> {
        match self {
            Self::File(file) => file.describe(key),
            Self::Discard(_) | Self::Stdout(_) | Self::Part(_) => Ok(()),
        }
    }

    /// Flush, fsync, rename, fsync of the directory: afterwards the file is complete under its name.
    ///
    /// # Errors
    /// Class Local. Nothing is under the final name then, unless only the directory could not be flushed.
    pub fn finish(self) -> Result<(), Error> {
        match self {
            Self::Discard(_) | Self::Stdout(_) => Ok(()),
            Self::File(file) => file.publish(true),
            Self::Part(part) => part.finish(),
        }
    }

    /// Everything is written: a file that has still to get its name.
    ///
    /// # Errors
    /// Class Local.
    pub fn complete(self) -> Result<Option<PartialFile>, Error> {
        match self {
            Self::File(file) => Ok(Some(file)),
            other => other.finish().map(|()| None),
        }
    }

    /// Nothing appears under the final name; the partial file stays for a resume (if it was described) or goes.
    pub fn abandon(self, keep: bool) {
        if let Self::File(file) = self {
            file.abandon(keep);
        }
    }
}
