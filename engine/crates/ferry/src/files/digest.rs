//! Checksums of what was moved, computed as it moves.

use std::path::Path;
use std::str::FromStr;

use crate::report::Problem;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    Sha256,
    Sha384,
    Sha512,
    /// Only to compare with what others publish: it does not withstand an attacker.
    Sha1,
}

/// A checksum being computed.
#[derive(Clone)]
pub struct Digest {}

impl Digest {
    pub fn new(algorithm: Algorithm) -> Self {
        todo!()
    }
    /// Of the first `length` bytes of a file, to go on from there (a resumed download).
    pub fn for_file(algorithm: Algorithm, path: &Path, length: u64) -> Result<Self, Problem> {
        todo!()
    }
    pub fn update(&mut self, data: &[u8]) {
        todo!()
    }
    /// `sha256:HEX`.
    pub fn finish(self) -> String {
        todo!()
    }
}

/// What the user says the checksum must be: `sha256:HEX`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {}

impl Expected {
    pub fn algorithm(&self) -> Algorithm {
        todo!()
    }
    /// `found` is what `Digest::finish` returned, `what` names the file or URL. Class Integrity when they differ.
    pub fn check(&self, found: &str, what: &str) -> Result<(), Problem> {
        todo!()
    }
}

impl FromStr for Expected {
    type Err = Problem;
    fn from_str(text: &str) -> Result<Self, Problem> {
        todo!()
    }
}
