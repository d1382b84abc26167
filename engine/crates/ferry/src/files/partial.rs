//! A file on its way: under a temporary name until it is complete.

use std::path::{Path, PathBuf};

use super::{Resumable, ResumeKey};
use crate::report::Problem;

pub struct PartialFile {}

impl PartialFile {
    /// Begins at the first byte; what another run left is emptied. Without a key nothing is kept for a resume until `describe` was called.
    pub fn create(target: &Path, overwrite: bool, key: Option<ResumeKey>) -> Result<Self, Problem> {
        todo!()
    }
    /// Goes on at `from.offset`, if what is there is still what `existing` has seen.
    pub fn resume(target: &Path, overwrite: bool, from: &Resumable) -> Result<Self, Problem> {
        todo!()
    }
    /// Writes the journal: from here on a resume is possible.
    pub fn describe(&mut self, key: ResumeKey) -> Result<(), Problem> {
        todo!()
    }
    /// Where the bytes are until `finish`: what `Digest::for_file` reads after `flush`.
    pub fn path(&self) -> &Path {
        todo!()
    }
}
