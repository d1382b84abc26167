//! Checks the target of a download before anything is asked of a server.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA256, digest};

use super::Resumable;
use super::fault::failed;
use super::journal;
use crate::error::Error;
use crate::platform::{self, WindowsName};

/// The longest name that file systems take.
const MOST_NAME_BYTES: usize = 255;
pub(super) const PARTIAL: &str = ".ferry-partial";
pub(super) const JOURNAL: &str = ".ferry-partial.json";
pub(super) const ASIDE: &str = ".ferry-partial.json.new";

/// The place that the bytes are written to.
pub(super) enum Location {
    /// Under another name first.
    Beside(Names),
    /// A device or a pipe: there is nothing to rename.
    InPlace(PathBuf),
}

/// All in one directory, so that a rename is atomic.
pub(super) struct Names {
    pub(super) target: PathBuf,
    pub(super) directory: PathBuf,
    pub(super) partial: PathBuf,
    pub(super) journal: PathBuf,
    /// The journal while it is written.
    pub(super) aside: PathBuf,
}

impl Names {
    fn new(target: PathBuf, name: &OsStr) -> Self {
        let directory = platform::directory_of(&target).to_owned();
        let stem = stem(name);
        let beside = |suffix: &str| {
            let mut name = OsString::from(".");
            name.push(&stem);
            name.push(suffix);
            directory.join(name)
        };
        Self {
            partial: beside(PARTIAL),
            journal: beside(JOURNAL),
            aside: beside(ASIDE),
            target,
            directory,
        }
    }
}

/// The name itself where the longest suffix fits; else its beginning and a checksum of all of it, the same in every run.
fn stem(name: &OsStr) -> OsString {
    let most = MOST_NAME_BYTES - 1 - ASIDE.len();
    let bytes = name.as_encoded_bytes();
    if bytes.len() <= most {
        return name.to_owned();
    }
    let mut sum = String::new();
    for byte in &digest(&SHA256, bytes).as_ref()[..8] {
        let _ = write!(sum, "{byte:02x}");
    }
    let text = name.to_string_lossy();
    OsString::from(format!(
        "{}~{sum}",
        &text[..text.floor_char_boundary_at(most - 1 - sum.len())]
    ))
}

trait FloorCharBoundary {
    fn floor_char_boundary_at(&self, index: usize) -> usize;
}

impl FloorCharBoundary for str {
    // `str::floor_char_boundary` is younger than the oldest compiler we take.
    fn floor_char_boundary_at(&self, index: usize) -> usize {
        (0..=index.min(self.len()))
            .rev()
            .find(|&at| self.is_char_boundary(at))
            .unwrap_or(0)
    }
}

/// Finds the place and refuses what cannot become a file.
pub(super) fn locate(target: &Path, overwrite: bool) -> Result<Location, Error> {
    let shown = target.display();
    let is_a_directory = || Error::local(format!("{shown} is a directory: add the name of a file"));
    let ends_as_directory = target
        .as_os_str()
        .as_encoded_bytes()
        .last()
        .is_some_and(|&byte| std::path::is_separator(char::from(byte)));
    let Some(name) = target.file_name().filter(|_| !ends_as_directory) else {
        return Err(is_a_directory());
    };
    if cfg!(windows) {
        match platform::windows_name(&name.to_string_lossy()) {
            WindowsName::File => {}
            WindowsName::Null => return Ok(Location::InPlace(target.to_owned())),
            WindowsName::Refused(why) => {
                return Err(Error::local(format!(
                    "{shown} cannot be a file's name: {why}; choose another"
                )));
            }
        }
    }
    let exists = || Error::local(format!("{shown} exists; --overwrite replaces it, nothing was changed"));
    match fs::metadata(target) {
        Ok(found) if found.is_dir() => Err(is_a_directory()),
        Ok(found) if found.is_file() => {
            if !overwrite {
                return Err(exists());
            }
            // A link stays a link: what it leads to is replaced.
            let real = fs::canonicalize(target).map_err(|error| failed("find", target, &error))?;
            let name = real.file_name().unwrap_or(name).to_owned();
            Ok(Location::Beside(Names::new(real, &name)))
        }
        Ok(found) if is_socket(&found) => Err(Error::local(format!("{shown} is a socket, which cannot be written to"))),
        Ok(found) if is_disk(&found) && !overwrite => Err(exists()),
        Ok(_) => Ok(Location::InPlace(target.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if fs::symlink_metadata(target).is_ok() {
                return Err(Error::local(format!(
                    "{shown} is a symbolic link that leads nowhere: remove it first"
                )));
            }
            let directory = platform::directory_of(target);
            match fs::metadata(directory) {
                Ok(found) if found.is_dir() => Ok(Location::Beside(Names::new(target.to_owned(), name))),
                Ok(_) => Err(Error::local(format!(
                    "{} is not a directory, {shown} cannot be in it",
                    directory.display()
                ))),
                Err(_) => Err(Error::local(format!(
                    "the directory {} does not exist: make it first, ferry makes none",
                    directory.display()
                ))),
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            Err(Error::local(format!("a part of {shown} is a file and not a directory")))
        }
        Err(error) => Err(failed("look at", target, &error)),
    }
}

#[cfg(unix)]
fn is_socket(found: &fs::Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_socket(&found.file_type())
}

#[cfg(unix)]
fn is_disk(found: &fs::Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_block_device(&found.file_type())
}

#[cfg(not(unix))]
fn is_socket(_found: &fs::Metadata) -> bool {
    false
}

#[cfg(not(unix))]
fn is_disk(_found: &fs::Metadata) -> bool {
    false
}

fn busy(names: &Names) -> Error {
    Error::local(format!(
        "another ferry is writing {} (it holds {}): wait for it or stop it",
        names.target.display(),
        names.partial.display()
    ))
}

/// Opens the partial file as its only writer.
///
/// # Errors
/// Class Local.
pub(super) fn open_partial(names: &Names) -> Result<fs::File, Error> {
    platform::open_exclusive(&names.partial).map_err(|error| match error.kind() {
        io::ErrorKind::ResourceBusy => busy(names),
        // The error has a text of its own, which `failed` would drop.
        io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => {
            Error::local(format!("cannot write {}: {error}", names.partial.display())).with_source(error)
        }
        _ => failed("write", &names.partial, &error),
    })
}

/// Checks for everything that would stop the file from being written there, as far as it shows beforehand. Changes nothing.
///
/// # Errors
/// Class Local.
pub fn check_target(target: &Path, overwrite: bool) -> Result<(), Error> {
    let Location::Beside(names) = locate(target, overwrite)? else {
        return Ok(());
    };
    platform::may_create_in(&names.directory).map_err(|error| failed("write in", &names.directory, &error))?;
    // Opening a missing partial file would make it.
    if names.partial.exists() {
        open_partial(&names)?;
    }
    Ok(())
}

/// Returns the partial file that an earlier run left for this target.
///
/// The offset is the partial file's length: bytes are written in order and never beyond what was received, and the usual file
/// systems (ext4, XFS, btrfs, NTFS) lengthen a file only when the data is there, so that it holds after a crash of the machine
/// too; a file that `Sink::abandon` keeps is flushed to the disk besides. If several connections write, the journal lists the
/// missing bytes, and all others were flushed to the disk before the journal was written. A process that is killed loses the
/// bytes that it had gathered, at most 256 KiB.
#[must_use]
pub fn existing(target: &Path) -> Option<Resumable> {
    let Ok(Location::Beside(names)) = locate(target, true) else {
        return None;
    };
    found(&names)
}

pub(super) fn found(names: &Names) -> Option<Resumable> {
    // No byte of a stranger's file may get into this one.
    let own = |path: &Path| {
        fs::symlink_metadata(path)
            .ok()
            .filter(|found| platform::is_own(path, found))
    };
    own(&names.journal)?;
    let (key, missing) = journal::read(&names.journal)?;
    let partial = own(&names.partial)?;
    let offset = match key.validators.size {
        Some(size) if partial.len() > size => return None,
        Some(size) if !missing.is_empty() => {
            // The existing bytes end at the start of the last hole, unless that hole ends before the file does.
            let there = missing
                .ranges()
                .last()
                .filter(|last| last.end == size)
                .map_or(size, |last| last.start);
            if partial.len() < there {
                return None;
            }
            size - missing.bytes()
        }
        Some(size) => partial.len().min(size.saturating_sub(1)),
        None => partial.len(),
    };
    (offset > 0).then_some(Resumable { offset, key, missing })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_names_fit_and_stay_apart() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "x".repeat(255),
            format!("{}ä", "x".repeat(253)),
            "ä".repeat(127),
            "€".repeat(85),
            "x".repeat(231),
        ] {
            let Ok(Location::Beside(names)) = locate(&dir.path().join(&name), false) else {
                panic!("{name}")
            };
            for path in [&names.partial, &names.journal, &names.aside] {
                assert!(path.file_name().unwrap().len() <= 255, "{}", path.display());
                fs::write(path, "").unwrap();
            }
        }
        let stems = [stem(OsStr::new(&"x".repeat(255))), stem(OsStr::new(&"x".repeat(254)))];
        assert_ne!(stems[0], stems[1]);
        assert_eq!(stem(OsStr::new("short")), "short");
    }

    #[test]
    fn each_wrong_target_has_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "old").unwrap();
        fs::create_dir(at("dir")).unwrap();
        for (path, line) in [
            (at("dir"), "is a directory"),
            (at("new/"), "is a directory"),
            (PathBuf::from("/"), "is a directory"),
            (PathBuf::from(".."), "is a directory"),
            (PathBuf::from(""), "is a directory"),
            (at("none/file"), "none does not exist: make it first"),
            (at("file/x"), "is a file and not a directory"),
            (at("file"), "exists; --overwrite replaces it, nothing was changed"),
        ] {
            let error = check_target(&path, false).unwrap_err();
            assert_eq!(error.class, crate::error::Class::Local);
            assert!(error.message.contains(line), "{}", error.message);
        }
        check_target(&at("file"), true).unwrap();
        check_target(&at("new"), false).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "looking changes nothing");
    }

    #[cfg(unix)]
    #[test]
    fn links_and_special_files() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        symlink("nowhere", at("dangling")).unwrap();
        assert!(
            check_target(&at("dangling"), true)
                .unwrap_err()
                .message
                .contains("leads nowhere")
        );
        let _listener = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        assert!(
            check_target(&at("socket"), true)
                .unwrap_err()
                .message
                .contains("is a socket")
        );
        symlink("/dev/null", at("null")).unwrap();
        for path in [PathBuf::from("/dev/null"), at("null")] {
            assert!(matches!(locate(&path, false), Ok(Location::InPlace(_))));
        }
        assert_eq!(existing(Path::new("/dev/null")), None);
    }
}
