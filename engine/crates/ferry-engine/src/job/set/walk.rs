//! A local directory that is to be sent.

use std::ffi::OsString;
use std::fs::{self, FileType};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::inventory::{Inventory, Kind};
use super::stamp::{Names, Stamp};
use crate::error::Error;
use crate::files::mode;
use crate::filter::Filter;
use crate::sftp::join;

/// Directories deeper than this are taken for a loop.
const DEEPEST: usize = 128;

#[derive(Default)]
pub struct Walked {
    /// Parents first.
    pub directories: Vec<WalkedDirectory>,
    /// The names of a mirror's source.
    pub names: Option<Inventory>,
    pub files: Vec<WalkedFile>,
    pub skipped: u64,
    /// Files and directories that the filter keeps out.
    pub filtered: u64,
}

impl Walked {
    fn note(&mut self, names: Names, kind: Kind) {
        if let Some(inventory) = &mut self.names {
            inventory.add(names, kind);
        }
    }
}

pub struct WalkedDirectory {
    /// From the root down.
    pub names: Names,
    pub remote: Vec<u8>,
    /// Permission bits.
    pub mode: Option<u32>,
}

pub struct WalkedFile {
    /// From the root down.
    pub below: Box<Path>,
    pub stamp: Stamp,
}

/// Everything below `root`, in the order of names. Symbolic links to files are sent as the files they name; those to directories could be
/// loops and are skipped, as are devices, sockets and pipes, and what has gone meanwhile. For a `mirror`, all names are kept.
pub fn walk(root: &Path, remote: &[u8], filter: &Filter, mirror: bool) -> Result<Walked, Error> {
    let mut walked = Walked {
        names: mirror.then(Inventory::default),
        ..Walked::default()
    };
    walked.directories.push(WalkedDirectory {
        names: Names::new(),
        remote: remote.to_vec(),
        mode: mode_of(root),
    });
    descend(root, remote, filter, &mut Vec::new(), &mut walked)?;
    Ok(walked)
}

fn mode_of(directory: &Path) -> Option<u32> {
    mode::of(&fs::metadata(directory).ok()?)
}

fn descend(
    directory: &Path,
    remote: &[u8],
    filter: &Filter,
    names: &mut Vec<OsString>,
    walked: &mut Walked,
) -> Result<(), Error> {
    let failed = |path: &Path, error: &std::io::Error| {
        Error::local(format!("cannot read {}: {error}", path.display())).with_io(error)
    };
    if names.len() > DEEPEST {
        return Err(Error::local(format!(
            "{} is more than {DEEPEST} directories deep",
            directory.display()
        )));
    }
    let mut entries = fs::read_dir(directory)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| failed(directory, &error))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let kind = entry.file_type().map_err(|error| failed(&path, &error))?;
        let name = entry.file_name();
        let there = join(remote, name.as_encoded_bytes());
        names.push(name);
        let below: Names = names.iter().map(|name| name.as_encoded_bytes().to_vec()).collect();
        let takes_part = filter.takes_name(&below, kind.is_dir());
        if !takes_part {
            tracing::info!(path = %path.display(), "filtered");
            walked.filtered += 1;
            walked.note(below, Kind::PassedOver);
        } else if kind.is_dir() {
            walked.note(below.clone(), Kind::Listed);
            walked.directories.push(WalkedDirectory {
                names: below,
                remote: there.clone(),
                mode: mode_of(&path),
            });
            descend(&path, &there, filter, names, walked)?;
        } else {
            let (found, stamp) = look_at(&path, kind, filter);
            walked.note(below, found);
            match stamp {
                Some(stamp) if found == Kind::File => walked.files.push(WalkedFile {
                    below: names.iter().collect::<PathBuf>().into_boxed_path(),
                    stamp,
                }),
                Some(_) => {
                    tracing::info!(path = %path.display(), "filtered");
                    walked.filtered += 1;
                }
                None => walked.skipped += 1,
            }
        }
        names.pop();
    }
    Ok(())
}

/// Returns the kind and the stamp of something other than a directory; only files have a stamp.
fn look_at(path: &Path, kind: FileType, filter: &Filter) -> (Kind, Option<Stamp>) {
    match fs::metadata(path) {
        Ok(found) if found.is_file() => {
            let takes_part = filter.takes_file(Some(found.len()), found.modified().ok());
            let kind = if takes_part { Kind::File } else { Kind::PassedOver };
            (kind, Some(Stamp::of(&found)))
        }
        // Its own transfer fails by this error, and then nothing is removed anywhere.
        Err(error) if kind.is_file() && error.kind() != ErrorKind::NotFound => (Kind::File, Some(Stamp::default())),
        _ => (Kind::PassedOver, None),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_tree_is_walked_in_order_without_loops() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir_all(root.join("b/empty")).unwrap();
        fs::write(root.join("b/two"), "22").unwrap();
        fs::write(root.join("a"), "1").unwrap();
        symlink(root, root.join("loop")).unwrap();
        symlink(root.join("a"), root.join("link")).unwrap();
        symlink(root.join("gone"), root.join("broken")).unwrap();
        let walked = walk(root, b"/up", &Filter::default(), true).unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let directories: Vec<_> = walked.directories.iter().map(|each| text(&each.remote)).collect();
        assert_eq!(directories, ["/up", "/up/b", "/up/b/empty"]);
        let files: Vec<_> = walked
            .files
            .iter()
            .map(|file| (file.below.to_str().unwrap().to_owned(), file.stamp.size.unwrap()))
            .collect();
        assert_eq!(
            files,
            [("a".to_owned(), 1), ("b/two".to_owned(), 2), ("link".to_owned(), 1)]
        );
        assert_eq!(walked.skipped, 2);
        let known = walked.names.unwrap();
        assert_eq!(known.names().count(), 7);
        for (name, opaque) in [
            ("a", true),
            ("b", false),
            ("loop", true),
            ("link", true),
            ("broken", true),
        ] {
            assert_eq!(known.is_opaque(&[name.into()]), opaque, "{name}");
        }
    }
}
