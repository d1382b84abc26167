//! The local side of one SFTP upload.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use super::super::entry::check;
use super::progress::FileProgress;
use crate::error::Error;
use crate::files::{Algorithm, Digest, Source};
use crate::options::Checksum;
use crate::sftp::{Outbound, Resume};
use crate::transfer::Settings;
use crate::transfer::send::Sender;

/// Hexadecimal digits of the name's fingerprint: 64 bits tell a user's files apart.
const FINGERPRINT_DIGITS: usize = 16;

/// The facts about a file that the server gets besides its bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Opened {
    modified: Option<SystemTime>,
    mode: Option<u32>,
}

pub struct Upload {
    /// None for standard input.
    pub path: Option<PathBuf>,
    /// The URL was given for this file, which keeps its name if the URL is a directory's.
    pub into_directory: bool,
    /// The file on the server gets the local one's modification time.
    pub remote_time: bool,
    /// The file on the server gets the local one's permission bits, whatever the server's umask.
    pub perms: bool,
    pub source: Option<Source>,
    /// The facts about the file whose bytes are sent, as it was when it was opened: another may have its name by the time the
    /// last byte is sent.
    pub opened: Opened,
    /// The length that a walk through the tree has found, until the file is opened.
    pub length: Option<u64>,
    pub checksum: Option<Checksum>,
    pub resume: Resume,
    pub digest: Option<String>,
    pub progress: FileProgress,
    /// A random number for a name that is taken nowhere else, used where nothing else tells contents apart.
    pub nonce: u64,
}

impl Outbound for Upload {
    fn prepare(&mut self) -> Result<(), Error> {
        let source = match (self.source.take(), &self.path) {
            (Some(source), _) => source,
            (None, Some(path)) => Source::open(path)?,
            (None, None) => Source::stdin()?,
        };
        self.opened = Opened {
            modified: source.modified(),
            mode: source.mode(),
        };
        self.source = Some(source);
        Ok(())
    }

    fn length(&self) -> Option<u64> {
        match &self.source {
            Some(source) => source.length(),
            None => self.length,
        }
    }

    fn is_alone(&self) -> bool {
        self.into_directory
    }

    fn name(&self) -> Option<Vec<u8>> {
        let path = self.path.as_ref().filter(|_| self.into_directory)?;
        Some(path.file_name()?.as_encoded_bytes().to_vec())
    }

    fn fingerprint(&self) -> String {
        let source = self.source.as_ref();
        let modified = source
            .and_then(Source::modified)
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let mut digest = Digest::new(Algorithm::Sha256);
        match (source.and_then(Source::length), modified) {
            (Some(length), Some(modified)) => {
                digest.update(&length.to_be_bytes());
                digest.update(&modified.as_nanos().to_be_bytes());
                if let Some(path) = &self.path {
                    digest.update(path.as_os_str().as_encoded_bytes());
                }
            }
            _ => digest.update(&self.nonce.to_be_bytes()),
        }
        let text = digest.finish();
        let hex = text.rsplit(':').next().unwrap_or(&text);
        hex[..FINGERPRINT_DIGITS.min(hex.len())].to_owned()
    }

    fn mode(&self) -> Option<u32> {
        self.opened.mode
    }

    fn perms(&self) -> Option<u32> {
        self.mode().filter(|_| self.perms)
    }

    fn modified(&self) -> Option<u32> {
        let time = self.opened.modified.filter(|_| self.remote_time)?;
        u32::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_secs()).ok()
    }

    fn resume(&self) -> Resume {
        self.resume
    }

    fn sender(&mut self, offset: u64, settings: &Settings) -> Result<Sender, Error> {
        let Some(mut source) = self.source.take() else {
            return Err(Error::local("the file to be sent has not been opened"));
        };
        source.rewind(offset)?;
        let algorithm = self.checksum.as_ref().map(|checksum| checksum.algorithm.into());
        let digest = algorithm
            .map(|algorithm| source.digest_before(offset, algorithm))
            .transpose()?;
        self.progress.begin(source.length().map(|length| length - offset));
        Ok(Sender::new(source, digest, settings.outgoing(), settings.buffer_size))
    }

    fn verify(&mut self, sender: &mut Sender) -> Result<(), Error> {
        sender.source.check_unchanged()?;
        self.digest = sender.digest.take().map(Digest::finish);
        check(self.checksum.as_ref(), self.digest.as_deref(), "what was sent")
    }

    fn reclaim(&mut self) -> Option<Source> {
        self.source.take()
    }

    fn digest(&mut self) -> Option<String> {
        self.digest.take()
    }

    fn progress(&mut self, moved: u64) {
        self.progress.set(moved);
    }
}
