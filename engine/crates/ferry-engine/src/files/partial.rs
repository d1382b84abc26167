//! A file on its way: under a temporary name until it is complete.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::path::Path;
use std::time::SystemTime;

use super::fault::failed;
use super::group::{CompleteFile, publish};
use super::mode::{self, Complete};
use super::target::{Location, Names, found, locate, open_partial};
use super::writer::Writer;
use super::{Missing, Resumable, ResumeKey, journal};
use crate::error::Error;
use crate::platform;

/// Written by `Sink`. Dropped without an end, it stays for a resume if it was described, and goes otherwise.
pub struct PartialFile {
    location: Location,
    writer: Writer,
    overwrite: bool,
    /// The modification time that the file is to have.
    modified: Option<SystemTime>,
    /// The permission bits that the file is to have.
    mode: Complete,
    /// The content of the journal, written or to be written; `None` without one.
    key: Option<ResumeKey>,
    /// Nothing is left to be done when this is dropped.
    over: bool,
}

impl PartialFile {
    /// Begins at the first byte; a partial file of another run is emptied. Without a key nothing is kept for a resume until
    /// `describe` was called. Takes no part of the network's time when it is called before the request.
    ///
    /// # Errors
    /// Class Local: it exists, another ferry writes it, no permission.
    pub fn create(target: &Path, overwrite: bool, key: Option<ResumeKey>) -> Result<Self, Error> {
        let mut this = Self::open(target, overwrite)?;
        this.restart()?;
        if let Some(key) = key {
            this.describe(key)?;
        }
        Ok(this)
    }

    /// Goes on at `from.offset`, if the partial file is still as `existing` has seen it.
    ///
    /// # Errors
    /// Class Local, as `create`; and when it was changed in between.
    pub fn resume(target: &Path, overwrite: bool, from: &Resumable) -> Result<Self, Error> {
        let mut this = Self::open(target, overwrite)?;
        let Location::Beside(names) = &this.location else {
            return Err(Error::local(format!(
                "{} is no file that can be continued",
                target.display()
            )));
        };
        // Looked at again with the lock held.
        if found(names).as_ref() != Some(from) {
            // Not ours to judge: leave everything as it is.
            this.over = true;
            return Err(Error::local(format!(
                "{} was changed meanwhile: run ferry again to begin from what is there now",
                names.partial.display()
            )));
        }
        this.key = Some(from.key.clone());
        let mut file = this.writer.file();
        if from.missing.is_empty() {
            file.set_len(from.offset)
                .and_then(|()| file.seek(SeekFrom::Start(from.offset)))
                .map_err(|error| failed("write", &names.partial, &error))?;
        }
        this.writer.reset(from.offset);
        Ok(this)
    }

    fn open(target: &Path, overwrite: bool) -> Result<Self, Error> {
        platform::ignore_file_size_signal();
        let location = locate(target, overwrite)?;
        let file = match &location {
            Location::Beside(names) => open_partial(names)?,
            Location::InPlace(path) => OpenOptions::new()
                .write(true)
                .open(path)
                .map_err(|error| failed("write", path, &error))?,
        };
        Ok(Self {
            location,
            writer: Writer::new(file, 0),
            overwrite,
            modified: None,
            mode: Complete::default(),
            key: None,
            over: false,
        })
    }

    /// Writes the journal: from here on a resume is possible. A device or a pipe has none.
    ///
    /// # Errors
    /// Class Local.
    pub fn describe(&mut self, key: ResumeKey) -> Result<(), Error> {
        self.write_journal(&key, &Missing::default())?;
        self.key = Some(key);
        Ok(())
    }

    /// Sets the content of the journal that `describe_missing` will write.
    pub fn will_be(&mut self, key: ResumeKey) {
        self.key = Some(key);
    }

    fn write_journal(&self, key: &ResumeKey, missing: &Missing) -> Result<(), Error> {
        let Location::Beside(names) = &self.location else {
            return Ok(());
        };
        journal::write(&names.journal, &names.aside, key, missing).map_err(|error| {
            if platform::is_disk_full(&error) {
                Error::local(format!("no space left beside {}: {error}", names.target.display())).with_source(error)
            } else {
                failed("write", &names.journal, &error)
            }
        })
    }

    /// Returns a handle for writers at other places of the file; `None` for a device or a pipe.
    ///
    /// # Errors
    /// Class Local.
    pub fn shared(&self) -> Result<Option<File>, Error> {
        match &self.location {
            Location::InPlace(_) => Ok(None),
            Location::Beside(names) => {
                let file = self.writer.file().try_clone();
                file.map(Some).map_err(|error| failed("write", &names.partial, &error))
            }
        }
    }

    /// Records in the journal that the disk has all of the file's `size` bytes but `missing`.
    ///
    /// # Errors
    /// Class Local.
    pub fn describe_missing(&mut self, missing: &Missing, size: u64) -> Result<(), Error> {
        let Some(key) = self.key.clone() else { return Ok(()) };
        self.write_journal(&key, missing)?;
        self.writer.reset(size.saturating_sub(missing.bytes()));
        Ok(())
    }

    /// The file's modification time, once it is complete.
    pub fn set_modified(&mut self, time: SystemTime) {
        self.modified = Some(time);
    }

    /// The file's permission bits, once it is complete.
    pub fn set_mode(&mut self, mode: Complete) {
        self.mode = mode;
    }

    /// The path of the bytes until `publish`, for `Digest::for_file` to read after `flush`.
    #[must_use]
    pub fn path(&self) -> &Path {
        match &self.location {
            Location::Beside(names) => &names.partial,
            Location::InPlace(path) => path,
        }
    }

    fn target(&self) -> &Path {
        match &self.location {
            Location::Beside(names) => &names.target,
            Location::InPlace(path) => path,
        }
    }

    pub(super) fn position(&self) -> u64 {
        self.writer.position()
    }

    pub(super) fn write(&mut self, data: &[u8]) -> Result<(), Error> {
        self.writer.write(data).map_err(|error| self.write_problem(&error))
    }

    pub(super) fn flush(&mut self) -> Result<(), Error> {
        self.writer.flush().map_err(|error| self.write_problem(&error))
    }

    fn write_problem(&self, error: &io::Error) -> Error {
        let (target, bytes) = (self.target().display(), self.writer.written());
        let rest = match &self.location {
            Location::InPlace(_) => format!("({bytes} bytes were written)"),
            Location::Beside(names) if self.key.is_some() => {
                format!(
                    "({bytes} bytes so far kept in {} for --resume)",
                    names.partial.display()
                )
            }
            Location::Beside(_) => format!("({bytes} bytes so far, not kept)"),
        };
        if platform::is_disk_full(error) {
            Error::local(format!("no space left writing {target} {rest}: {error}"))
        } else {
            Error::local(format!("cannot write {target} {rest}: {error}"))
        }
        .with_io(error)
    }

    pub(super) fn can_restart(&self) -> bool {
        matches!(self.location, Location::Beside(_)) || self.position() == 0
    }

    /// Empties the file, and removes its journal.
    pub(super) fn restart(&mut self) -> Result<(), Error> {
        let Location::Beside(names) = &self.location else {
            if self.can_restart() {
                return Ok(());
            }
            return Err(Error::local(format!(
                "{} cannot take back what was written to it",
                self.target().display()
            )));
        };
        self.key = None;
        // The journal first, and for good: after a crash an old journal must not vouch for new bytes.
        match fs::remove_file(&names.journal) {
            Ok(()) => sync_directory(names)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed("remove", &names.journal, &error)),
        }
        let mut file = self.writer.file();
        file.set_len(0)
            .and_then(|()| file.rewind())
            .map_err(|error| failed("write", &names.partial, &error))?;
        self.writer.reset(0);
        Ok(())
    }

    /// Flush, fsync, permission bits, rename, fsync of the directory; no fsync without `sync`.
    ///
    /// # Errors
    /// Class Local.
    pub fn publish(self, sync: bool) -> Result<(), Error> {
        publish(vec![CompleteFile::of(self)], sync).pop().unwrap_or(Ok(()))
    }

    /// Flushes a file of which everything has come, and sets its modification time.
    pub(super) fn complete(&mut self) -> Result<(), Error> {
        self.flush()?;
        self.writer.release();
        let Location::Beside(names) = &self.location else {
            return Ok(());
        };
        if let Some(time) = self.modified {
            let set = self.writer.file().set_modified(time);
            set.map_err(|error| failed("set the time of", &names.partial, &error))?;
        }
        Ok(())
    }

    /// Begins to write the file to the disk, without a wait.
    pub(super) fn start_writing(&self) {
        if matches!(self.location, Location::Beside(_)) {
            platform::start_writing(self.writer.file());
        }
    }

    /// Writes the file to the disk, and waits for that.
    pub(super) fn sync(&mut self) -> Result<(), Error> {
        if matches!(self.location, Location::InPlace(_)) {
            return Ok(());
        }
        self.writer.file().sync_all().map_err(|error| {
            // The system may have dropped the bytes that it could not write, and report nothing the next time: no byte of the
            // file can be trusted.
            let problem = if platform::is_disk_full(&error) {
                "no space left writing"
            } else {
                "the disk did not take"
            };
            self.end(false);
            Error::local(format!("{problem} {} (not kept): {error}", self.target().display())).with_source(error)
        })
    }

    /// Gives the file its permission bits and its name.
    pub(super) fn take_name(&mut self) -> Result<(), Error> {
        let Location::Beside(names) = &self.location else {
            self.over = true;
            return Ok(());
        };
        // The permissions come as late as possible: until here no other user had any use for the file.
        mode::complete(self.writer.file(), &names.target, self.mode)
            .map_err(|error| failed("set the permissions of", &names.partial, &error))?;
        self.over = true;
        // Before the rename: afterwards another ferry may begin under the same temporary names.
        let _ = fs::remove_file(&names.journal);
        let Err(error) = self.rename(names) else { return Ok(()) };
        mode::withdraw(self.writer.file());
        if let Some(key) = &self.key {
            let _ = journal::write(&names.journal, &names.aside, key, &Missing::default());
        }
        let (target, partial) = (names.target.display(), names.partial.display());
        Err(Error::local(if error.kind() == io::ErrorKind::AlreadyExists {
            format!("{target} appeared while it was being fetched and was left alone; what was fetched is in {partial}")
        } else {
            format!("{target} is complete but cannot get its name, and is in {partial}: {error}")
        })
        .with_source(error))
    }

    /// The directory that the file's name is in; `None` for a device or a pipe.
    pub(super) fn directory(&self) -> Option<&Path> {
        match &self.location {
            Location::Beside(names) => Some(&names.directory),
            Location::InPlace(_) => None,
        }
    }

    /// Flushes the names in the file's directory to the disk.
    pub(super) fn sync_directory(&self) -> Result<(), Error> {
        match &self.location {
            Location::Beside(names) => sync_directory(names),
            Location::InPlace(_) => Ok(()),
        }
    }

    /// Renames the file with the lock held, so that no other ferry empties it in between.
    fn rename(&self, names: &Names) -> io::Result<()> {
        if !self.overwrite {
            return platform::publish_new(&names.partial, &names.target);
        }
        platform::replace(&names.partial, &names.target)
    }

    /// Nothing appears under the final name.
    pub fn abandon(mut self, keep: bool) {
        self.end(keep);
    }

    fn end(&mut self, keep: bool) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        if keep {
            // After a failed write the writer refuses: the bytes on disk are in order, and the gathered ones have lost their
            // place.
            let _ = self.writer.flush();
        }
        let keep = keep && self.key.is_some() && self.writer.written() > 0;
        let Location::Beside(names) = &self.location else {
            return;
        };
        if keep && self.writer.file().sync_data().is_ok() {
            return;
        }
        let _ = fs::remove_file(&names.journal);
        let _ = fs::remove_file(&names.partial);
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        self.end(true);
    }
}

fn sync_directory(names: &Names) -> Result<(), Error> {
    match platform::sync_directory(&names.directory) {
        Ok(()) => Ok(()),
        // Some file systems have nothing to flush there; a directory that may be written but not read cannot be opened.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied
            ) =>
        {
            Ok(())
        }
        Err(error) => Err(failed("flush the directory", &names.directory, &error)),
    }
}

#[cfg(all(test, unix))]
#[path = "partial_faults.rs"]
mod faults;
#[cfg(test)]
#[path = "partial_tests.rs"]
pub(super) mod tests;
