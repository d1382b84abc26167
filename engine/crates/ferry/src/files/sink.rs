//! Where a download goes.

use super::{PartialFile, ResumeKey};
use crate::report::Problem;

pub enum Sink {
    /// Counts, and does nothing else. `Sink::discard()`.
    Discard(u64),
    /// `Sink::stdout()`.
    Stdout(StandardOutput),
    File(PartialFile),
}

pub struct StandardOutput {}

impl Sink {
    pub fn discard() -> Self {
        Self::Discard(0)
    }
    pub fn stdout() -> Result<Self, Problem> {
        todo!()
    }
    #[inline]
    pub fn write(&mut self, data: &[u8]) -> Result<(), Problem> {
        todo!()
    }
    /// Offset in the whole body of the next byte to be written.
    pub fn position(&self) -> u64 {
        todo!()
    }
    /// Hands what is gathered to the operating system: before a wait of unknown length, before a retry.
    pub fn flush(&mut self) -> Result<(), Problem> {
        todo!()
    }
    /// False for a standard output that was written to.
    pub fn can_restart(&self) -> bool {
        todo!()
    }
    /// Forgets everything and begins at byte 0 (the server sent the whole file instead of the rest). Removes the journal: `describe` again.
    pub fn restart(&mut self) -> Result<(), Problem> {
        todo!()
    }
    /// See `PartialFile::describe`; nothing to do for the others.
    pub fn describe(&mut self, key: ResumeKey) -> Result<(), Problem> {
        todo!()
    }
    /// Flush, fsync, rename, fsync of the directory: afterwards the file is complete under its name.
    pub fn finish(self) -> Result<(), Problem> {
        todo!()
    }
    /// Nothing appears under the final name; the partial file stays for a resume (if it was described) or goes.
    pub fn abandon(self, keep: bool) {
        todo!()
    }
}
