//! Checksums of files, computed as their bytes move.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use aws_lc_rs::digest;

use super::fault::failed;
use crate::error::Error;

/// The most bytes per read.
const READ_BYTES: usize = 256 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    Sha256,
    Sha384,
    Sha512,
    /// Only to compare with what others publish: it does not withstand an attacker.
    Sha1,
}

impl Algorithm {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha384 => "sha384",
            Self::Sha512 => "sha512",
            Self::Sha1 => "sha1",
        }
    }

    fn implementation(self) -> &'static digest::Algorithm {
        match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha384 => &digest::SHA384,
            Self::Sha512 => &digest::SHA512,
            Self::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
        }
    }
}

/// A checksum being computed.
#[derive(Clone)]
pub struct Digest {
    algorithm: Algorithm,
    context: digest::Context,
}

impl Digest {
    #[must_use]
    pub fn new(algorithm: Algorithm) -> Self {
        Self {
            algorithm,
            context: digest::Context::new(algorithm.implementation()),
        }
    }

    /// Returns the checksum of a file's first `length` bytes, to go on from there (a resumed download).
    ///
    /// # Errors
    /// Class Local when it cannot be read or is shorter.
    pub fn for_file(algorithm: Algorithm, path: &Path, length: u64) -> Result<Self, Error> {
        let mut this = Self::new(algorithm);
        let mut file = File::open(path)
            .map_err(|error| failed("read", path, &error))?
            .take(length);
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let count = match file.read(&mut buffer) {
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed("read", path, &error)),
            };
            if count == 0 {
                break;
            }
            this.update(&buffer[..count]);
        }
        if file.limit() > 0 {
            let found = length - file.limit();
            return Err(Error::local(format!(
                "{} has {found} bytes where {length} were written: something else changes it",
                path.display()
            )));
        }
        Ok(this)
    }

    pub fn update(&mut self, data: &[u8]) {
        self.context.update(data);
    }

    /// `sha256:HEX`, in small letters.
    #[must_use]
    pub fn finish(self) -> String {
        let mut text = format!("{}:", self.algorithm.name());
        for byte in self.context.finish().as_ref() {
            let _ = write!(text, "{byte:02x}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Class;

    /// FIPS 180-2, appendices: the message "abc".
    const ABC: [(Algorithm, &str); 4] = [
        (
            Algorithm::Sha256,
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        ),
        (
            Algorithm::Sha384,
            "sha384:cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7",
        ),
        (
            Algorithm::Sha512,
            "sha512:ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        ),
        (Algorithm::Sha1, "sha1:a9993e364706816aba3e25717850c26c9cd0d89d"),
    ];

    #[test]
    fn known_answers_in_pieces_and_over_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("abc");
        std::fs::write(&path, "ab and more").unwrap();
        for (algorithm, expected) in ABC {
            let mut digest = Digest::for_file(algorithm, &path, 2).unwrap();
            digest.update(b"");
            digest.update(b"c");
            assert_eq!(digest.finish(), expected);
        }
    }

    #[test]
    fn a_file_that_is_shorter_or_missing_is_a_local_problem() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("short");
        std::fs::write(&path, "12345").unwrap();
        for (path, length) in [(path.clone(), 6), (dir.path().join("none"), 0)] {
            let error = Digest::for_file(Algorithm::Sha256, &path, length).err().unwrap();
            assert_eq!(error.class, Class::Local);
        }
    }
}
