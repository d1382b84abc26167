//! What an upload sends.

use std::path::Path;

use crate::report::Problem;

pub struct Source {}

impl Source {
    /// A file of known length; a pipe or a device is read as standard input is.
    pub fn open(path: &Path) -> Result<Self, Problem> {
        todo!()
    }
    /// Reads block.
    pub fn stdin() -> Result<Self, Problem> {
        todo!()
    }
    /// Null when it is known only at the end.
    pub fn length(&self) -> Option<u64> {
        todo!()
    }
    pub fn position(&self) -> u64 {
        todo!()
    }
    /// At most `max` bytes at the position, at least one unless it is the end. The same again until `consume`.
    pub fn next(&mut self, max: usize) -> Result<&[u8], Problem> {
        todo!()
    }
    pub fn consume(&mut self, count: usize) {
        todo!()
    }
    pub fn can_rewind(&self) -> bool {
        todo!()
    }
    pub fn rewind(&mut self, offset: u64) -> Result<(), Problem> {
        todo!()
    }
    /// Class Integrity when length or modification time are not those of the begin. `next` asks by itself before it hands out the
    /// last bytes, and at the end.
    pub fn check_unchanged(&self) -> Result<(), Problem> {
        todo!()
    }
}
