//! The local side of a mirror: it looks at places, lists directories and removes things. Symbolic links are never followed.

use std::fs::{self, Metadata};
use std::io::{Error as IoError, ErrorKind};
use std::path::{Path, PathBuf};

use ferry_sftp::FileKind;

use super::mirror::{Thing, in_the_way};
use super::stamp::{Names, Stamp};
use crate::error::Error;
use crate::files::mode;
use crate::filter::Filter;

/// Directories deeper than this are taken for a loop.
const DEEPEST: usize = 128;
/// The bits to read, write and enter a directory as its owner.
const OWNER: u32 = 0o700;

/// Returns the kind and the stamp of the thing with this name, if there is one.
pub fn in_place(path: &Path) -> Result<Option<(FileKind, Stamp)>, Error> {
    match fs::symlink_metadata(path) {
        Ok(found) => Ok(Some((kind_of(&found), Stamp::of(&found)))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("look at", path, error)),
    }
}

fn kind_of(found: &Metadata) -> FileKind {
    let kind = found.file_type();
    if kind.is_symlink() {
        FileKind::Symlink
    } else if kind.is_dir() {
        FileKind::Directory
    } else if kind.is_file() {
        FileKind::Regular
    } else {
        FileKind::Other
    }
}

/// Returns true if the directory has to be made.
pub fn lacks_directory(path: &Path) -> Result<bool, Error> {
    match in_place(path)? {
        None => Ok(true),
        Some((FileKind::Directory, _)) => Ok(false),
        Some((FileKind::Symlink, _)) => Err(in_the_way(&path.display().to_string(), "a symbolic link")),
        Some(_) => Err(in_the_way(&path.display().to_string(), "no directory")),
    }
}

/// Lists everything below `root`, without the content of excluded directories. The list is empty where there is no `root`.
pub fn list(root: &Path, filter: &Filter) -> Result<Vec<(PathBuf, Thing)>, Error> {
    let mut found = Vec::new();
    if fs::exists(root).map_err(|error| failed("look at", root, error))? {
        descend(root, filter, &Names::new(), &mut found)?;
    }
    Ok(found)
}

fn descend(directory: &Path, filter: &Filter, above: &Names, things: &mut Vec<(PathBuf, Thing)>) -> Result<(), Error> {
    if above.len() > DEEPEST {
        let why = IoError::other(format!("more than {DEEPEST} directories deep"));
        return Err(failed("list", directory, why));
    }
    let entries = fs::read_dir(directory).map_err(|error| failed("list", directory, error))?;
    for entry in entries {
        let entry = entry.map_err(|error| failed("list", directory, error))?;
        let path = entry.path();
        let facts = fs::symlink_metadata(&path).map_err(|error| failed("look at", &path, error))?;
        let kind = kind_of(&facts);
        let mut names = above.clone();
        names.push(entry.file_name().as_encoded_bytes().to_vec());
        let excluded = !filter.takes_name(&names, kind == FileKind::Directory);
        let thing = Thing {
            names: names.clone(),
            kind,
            stamp: Stamp::of(&facts),
            keep: excluded,
        };
        things.push((path.clone(), thing));
        if kind == FileKind::Directory && !excluded {
            descend(&path, filter, &names, things)?;
        }
    }
    Ok(())
}

/// Lets the owner of a directory read, write and enter it.
pub fn open_directory(path: &Path) -> Result<(), Error> {
    let found = fs::metadata(path).map_err(|error| failed("look at", path, error))?;
    match mode::of(&found) {
        Some(mode) if mode & OWNER != OWNER => set_mode(path, mode | OWNER),
        _ => Ok(()),
    }
}

/// Sets the permission bits of something other than a link.
pub fn set_mode(path: &Path, mode: u32) -> Result<(), Error> {
    mode::set_path(path, mode).map_err(|error| failed("set the permissions of", path, error))
}

/// Removes a file, a link or an empty directory.
pub fn remove(path: &Path, kind: FileKind) -> Result<(), Error> {
    let removed = match kind {
        FileKind::Directory => fs::remove_dir(path),
        // On Windows a link to a directory is removed as one.
        FileKind::Symlink => fs::remove_file(path).or_else(|_| fs::remove_dir(path)),
        _ => fs::remove_file(path),
    };
    removed.map_err(|error| failed("remove", path, error))
}

fn failed(what: &str, path: &Path, error: IoError) -> Error {
    Error::local(format!("cannot {what} {}: {error}", path.display())).with_source(error)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::filter::Rule;

    #[test]
    fn links_are_leaves() {
        let dir = tempfile::tempdir().unwrap();
        let (root, elsewhere) = (dir.path().join("root"), dir.path().join("elsewhere"));
        fs::create_dir_all(root.join("sub")).unwrap();
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("precious"), "x").unwrap();
        symlink(&elsewhere, root.join("link")).unwrap();
        symlink("..", root.join("sub/up")).unwrap();
        let mut found = list(&root, &Filter::default()).unwrap();
        found.sort_by(|one, other| one.0.cmp(&other.0));
        let kinds: Vec<_> = found.iter().map(|(_, thing)| thing.kind).collect();
        assert_eq!(kinds, [FileKind::Symlink, FileKind::Directory, FileKind::Symlink]);
        for (path, thing) in found.iter().rev() {
            remove(path, thing.kind).unwrap();
        }
        assert!(list(&root, &Filter::default()).unwrap().is_empty());
        assert!(elsewhere.join("precious").exists());
        assert!(
            list(&dir.path().join("nowhere"), &Filter::default())
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn what_is_excluded_is_kept_and_not_looked_into() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("cache")).unwrap();
        fs::write(dir.path().join("cache/a"), "").unwrap();
        let filter = Filter::new(vec![Rule::parse(false, "cache/").unwrap()]).unwrap();
        let found = list(dir.path(), &filter).unwrap();
        assert!(found.len() == 1 && found[0].1.keep);
    }

    #[test]
    fn a_mirror_makes_no_directory_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (link, file) = (dir.path().join("link"), dir.path().join("file"));
        symlink(dir.path(), &link).unwrap();
        fs::write(&file, "").unwrap();
        assert!(lacks_directory(&link).is_err() && lacks_directory(&file).is_err());
        assert!(lacks_directory(&dir.path().join("new")).unwrap());
        assert!(!lacks_directory(dir.path()).unwrap());
    }
}
