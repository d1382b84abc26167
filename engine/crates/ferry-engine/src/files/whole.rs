//! A file of the run itself, such as its report.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::mode::{self, Complete};
use crate::platform;

/// A file has either its old content or all of the new one, and stays as open to others as it was. A path that exists and is no
/// plain file (`/dev/null`, a pipe) is written to instead: replacing it would destroy it.
#[derive(Debug)]
pub struct WholeFile {
    file: File,
    /// `None` for a path that is no plain file.
    names: Option<Names>,
}

#[derive(Debug)]
struct Names {
    unfinished: PathBuf,
    target: PathBuf,
}

impl WholeFile {
    /// # Errors
    /// The system's own.
    pub fn create(path: &Path) -> io::Result<Self> {
        let target = match fs::metadata(path) {
            Ok(there) if !there.is_file() => {
                let file = OpenOptions::new().write(true).open(path)?;
                return Ok(Self { file, names: None });
            }
            // Through a symbolic link, so that the link stays one.
            Ok(_) => fs::canonicalize(path)?,
            Err(_) => path.to_owned(),
        };
        let name = target
            .file_name()
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidFilename))?;
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.tmp", std::process::id()));
        let unfinished = target.with_file_name(hidden);
        let file = platform::create_private(&unfinished)?;
        Ok(Self {
            file,
            names: Some(Names { unfinished, target }),
        })
    }

    /// The file appears under its name.
    ///
    /// # Errors
    /// The system's own.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.flush()?;
        if let Some(names) = &self.names {
            mode::complete(&self.file, &names.target, Complete::default())?;
            fs::rename(&names.unfinished, &names.target)?;
            self.names = None;
        }
        Ok(())
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some(names) = &self.names {
            let _ = fs::remove_file(&names.unfinished);
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    fn written(path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = WholeFile::create(path)?;
        file.write_all(bytes)?;
        file.finish()
    }

    #[test]
    fn nothing_that_was_planted_is_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let (path, victim) = (dir.path().join("report"), dir.path().join("victim"));
        let planted = dir.path().join(format!(".report.{}.tmp", std::process::id()));
        fs::write(&victim, "mine").unwrap();
        for plant in [
            |from: &Path, to: &Path| symlink(from, to),
            |from: &Path, to: &Path| fs::hard_link(from, to),
        ] {
            plant(&victim, &planted).unwrap();
            written(&path, b"new").unwrap();
            assert_eq!(
                (fs::read(&victim).unwrap(), fs::read(&path).unwrap()),
                (b"mine".to_vec(), b"new".to_vec())
            );
            assert!(fs::symlink_metadata(&path).unwrap().is_file());
            assert_eq!(fs::metadata(&path).unwrap().nlink(), 1);
            assert!(fs::symlink_metadata(&planted).is_err());
        }
        // Nothing that cannot be removed is written to either.
        fs::create_dir(&planted).unwrap();
        assert!(written(&path, b"newer").is_err());
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn a_file_stays_as_open_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let (path, usual) = (dir.path().join("report"), dir.path().join("usual"));
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
        fs::write(&usual, "").unwrap();
        written(&path, b"1").unwrap();
        assert_eq!(mode(&path), mode(&usual));
        for kept in [0o600, 0o666, 0o440] {
            fs::set_permissions(&path, fs::Permissions::from_mode(kept)).unwrap();
            written(&path, b"2").unwrap();
            assert_eq!(mode(&path), kept);
        }
    }
}
