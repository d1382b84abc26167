//! The work of a mirror: the files that differ, and the surplus of the destination. This module decides; others ask servers and
//! disks.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::SystemTime;

use ferry_sftp::FileKind;

use super::inventory::Inventory;
use super::stamp::{Names, Stamp};
use super::walk::WalkedDirectory;
use crate::error::Error;
use crate::files::{is_longest, is_unfinished, upload_targets};
use crate::options::{Mirror, Remote};

/// The remainder of an upload is abandoned after this time without a write: longer than the wait for any writer, and than a
/// clock is wrong by its time zone.
const ABANDONED_S: u64 = 24 * 3600;

/// Something in the destination.
#[derive(Debug, Clone)]
pub struct Thing {
    pub names: Names,
    pub kind: FileKind,
    pub stamp: Stamp,
    /// Never to be removed: excluded, or of a name that ferry does not take.
    pub keep: bool,
}

/// A file that a mirror has to send, unless the destination has it already.
pub struct Pending {
    pub names: Names,
    pub remote: Remote,
    pub path: PathBuf,
    pub stamp: Stamp,
}

/// The verdict on a file of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Transfer,
    Unchanged,
    /// The thing in the file's place, which a mirror does not replace.
    Blocked(&'static str),
}

/// A mirror on its way.
pub struct State {
    pub options: Mirror,
    /// The tree that is mirrored, for messages: the side that is on the server.
    pub remote: Remote,
    pub source: Inventory,
    /// Uploads: the files of the source, until the destination is known.
    pub pending: Vec<Pending>,
    /// Uploads: the content of the destination before anything was sent.
    pub there: Vec<Thing>,
    /// Uploads: the source's directories, parents first, and those that have to be made.
    pub directories: Vec<WalkedDirectory>,
    pub make: Vec<Vec<u8>>,
    /// Downloads: the local destination.
    pub local: Option<PathBuf>,
    /// Downloads: directories in whose place something else is found locally.
    pub blocked: HashSet<Names>,
    /// Uploads: the kind of the destination, if it exists.
    pub root: Option<FileKind>,
    /// Uploads: the last time at which something in the destination was made, renamed or removed, by the server's clock.
    pub root_modified: Option<u64>,
    /// The start of the run, in seconds since 1970.
    pub began: u64,
    /// Uploads: the destination has been listed.
    pub compared: bool,
    /// The surplus has been removed, or will not be.
    pub cleared: bool,
}

impl State {
    pub fn new(options: &Mirror, remote: &Remote) -> Self {
        Self {
            options: options.clone(),
            remote: remote.clone(),
            source: Inventory::default(),
            pending: Vec::new(),
            there: Vec::new(),
            directories: Vec::new(),
            make: Vec::new(),
            local: None,
            blocked: HashSet::new(),
            root: None,
            root_modified: None,
            began: SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs()),
            compared: false,
            cleared: false,
        }
    }

    /// Returns true if a session on the server has something left to do besides transfers. `failed`: some transfers have
    /// failed.
    pub fn owes(&self, failed: bool) -> bool {
        let remove = self.options.delete && !self.cleared && !failed;
        self.local.is_none() && (!self.compared || remove)
    }

    /// Bytes that may have to be sent.
    pub fn to_compare(&self) -> u64 {
        self.pending.iter().filter_map(|file| file.stamp.size).sum()
    }

    /// Returns the verdict on a file, by the thing in its place at the destination.
    pub fn verdict(&self, source: Stamp, there: Option<(FileKind, Stamp)>) -> Verdict {
        match there {
            None => Verdict::Transfer,
            Some((FileKind::Regular | FileKind::Unknown, stamp)) => {
                if source.same(stamp, self.options.modify_window.as_secs()) {
                    Verdict::Unchanged
                } else {
                    Verdict::Transfer
                }
            }
            Some((FileKind::Directory, _)) => Verdict::Blocked("a directory"),
            Some((FileKind::Symlink, _)) => Verdict::Blocked("a symbolic link"),
            Some((FileKind::Other, _)) => Verdict::Blocked("no plain file"),
        }
    }

    /// Returns the surplus that is to be removed, the content of a directory before the directory.
    ///
    /// # Errors
    /// Class Permanent: the surplus is more than the user allows, or the source has nothing at all.
    pub fn surplus<'a>(&self, there: &'a [Thing]) -> Result<Vec<&'a Thing>, Error> {
        let found = surplus(there, &self.source, &self.abandoned(there));
        let count = found.len() as u64;
        if count > 0 && self.source.is_empty() {
            return Err(Error::permanent(format!(
                "the source is empty, and --delete would remove everything ({count}) at the destination of {}; nothing was removed",
                self.remote.url
            )));
        }
        match self.options.max_delete {
            Some(most) if count > most => Err(Error::permanent(format!(
                "--delete would remove {count} at the destination of {}, more than --max-delete {most}; nothing was removed",
                self.remote.url
            ))),
            _ => Ok(found),
        }
    }

    /// Returns the remainders on the server of interrupted uploads of this set's files, if no run goes on with them: every file
    /// has arrived. No server says that another run does not write there at this moment; but the directory has changed a day
    /// after the last byte was written, by the server's own clock, and by ours that day is over too.
    fn abandoned<'a>(&self, there: &'a [Thing]) -> HashSet<&'a Names> {
        if self.local.is_some() {
            return HashSet::new();
        }
        let directories = there.iter().filter(|thing| thing.kind == FileKind::Directory);
        let mut changed: HashMap<&[Vec<u8>], Option<u64>> = directories
            .map(|thing| (thing.names.as_slice(), thing.stamp.modified))
            .collect();
        changed.insert(&[], self.root_modified);
        let is_abandoned = |thing: &&Thing| {
            let Some((name, directory)) = thing.names.split_last() else {
                return false;
            };
            let over = changed
                .get(directory)
                .copied()
                .flatten()
                .map(|then| then.min(self.began));
            let idle = over
                .zip(thing.stamp.modified)
                .and_then(|(over, last)| over.checked_sub(last));
            thing.kind == FileKind::Regular
                && idle.is_some_and(|idle_s| idle_s >= ABANDONED_S)
                && self.is_left_by_upload(name, directory)
        };
        there.iter().filter(is_abandoned).map(|thing| &thing.names).collect()
    }

    /// Returns true for a name that an upload of this set's files leaves in a directory.
    fn is_left_by_upload(&self, name: &[u8], directory: &[Vec<u8>]) -> bool {
        upload_targets(name).any(|file| {
            let names = [directory, &[file.to_vec()]].concat();
            self.source.is_file(&names) || is_longest(name) && self.source.has_file_beginning(directory, file)
        })
    }
}

/// Returns the error of a place where the source has a file or a directory, and the destination something else.
pub fn in_the_way(path: &str, what: &str) -> Error {
    Error::local(format!(
        "{path} is {what}, and not what the source has; a mirror replaces only files by files: remove it"
    ))
}

/// Returns true if `names` are one of the directories, or lie below one.
pub fn is_below(names: &Names, directories: &HashSet<Names>) -> bool {
    let mut above = (1..=names.len()).filter_map(|depth| names.get(..depth));
    !directories.is_empty() && above.any(|above| directories.contains(above))
}

/// Returns the things that have no counterpart in the source, without those that stay and the directories above these.
fn surplus<'a>(there: &'a [Thing], source: &Inventory, abandoned: &HashSet<&Names>) -> Vec<&'a Thing> {
    let names: HashSet<&Names> = there.iter().map(|thing| &thing.names).collect();
    let mut spelled: HashMap<String, Vec<&Names>> = HashMap::new();
    for names in source.names() {
        spelled.entry(folded(names)).or_default().push(names);
    }
    // A file system that ignores case may have the source's own thing under this spelling: both cannot be seen there at once.
    let respelled = |thing: &Thing| {
        let same = spelled.get(&folded(&thing.names)).map_or(&[][..], Vec::as_slice);
        same.iter().filter(|other| !names.contains(*other)).copied()
    };
    let respelled_opaque: HashSet<&[Vec<u8>]> = there
        .iter()
        .filter(|thing| respelled(thing).any(|other| source.is_opaque(other)))
        .map(|thing| thing.names.as_slice())
        .collect();
    let mut kept: HashSet<&[Vec<u8>]> = HashSet::new();
    let mut found: Vec<&Thing> = Vec::new();
    for thing in there.iter().filter(|thing| !source.contains(&thing.names)) {
        if thing.names.is_empty() {
            continue;
        }
        let parent = thing.names.split_last().map_or(&[][..], |(_, parent)| parent);
        let lives_on = parent.is_empty() || source.contains(parent);
        let unfinished =
            lives_on && thing.names.last().is_some_and(|name| is_unfinished(name)) && !abandoned.contains(&thing.names);
        let mut itself_and_above = (1..=thing.names.len()).filter_map(|depth| thing.names.get(..depth));
        let hidden = source.hides(&thing.names) || itself_and_above.any(|above| respelled_opaque.contains(above));
        if thing.keep || unfinished || hidden || respelled(thing).next().is_some() {
            kept.extend((1..=thing.names.len()).filter_map(|depth| thing.names.get(..depth)));
        } else {
            found.push(thing);
        }
    }
    found.retain(|thing| !kept.contains(thing.names.as_slice()));
    // The content of a directory sorts behind it.
    found.sort_by(|one, other| other.names.cmp(&one.names));
    found
}

fn folded(names: &Names) -> String {
    String::from_utf8_lossy(&names.join(&b'/')).to_lowercase()
}

#[cfg(test)]
mod tests;
