//! The work of the session's thread: files to transfer and trees to list. The calling thread records the attempts.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender as Channel;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ferry_sftp::{Attrs, FileKind};

use super::super::download::Destination;
use super::super::entry::Entry;
use super::events::{Event, Tree};
use super::factory::TaskFactory;
use super::inventory::Kind;
use super::known::Known;
use super::local;
use super::mirror::{State, Verdict, in_the_way, is_below};
use super::stamp::Stamp;
use super::waiting::Waiting;
use crate::error::{Class, Error};
use crate::files::{mode, safe_component};
use crate::filter::Filter;
use crate::options::Remote;
use crate::report::Action;
use crate::sftp::{Doomed, FileTask, Found, Outcome, Worklist};

/// The largest number of files of trees that have been found and wait for their turn; listing rests at this number.
const MOST_WAITING: usize = 1024;
/// The largest number of files that are over and not recorded: each is open until it is recorded, and a disk may be slow.
const MOST_UNRECORDED: usize = 256;

pub struct Runner<'a> {
    pub tasks: VecDeque<FileTask>,
    /// Files of a local tree: each becomes a task when its turn comes.
    pub waiting: &'a mut VecDeque<Waiting>,
    /// Files that are over and not recorded yet.
    pub unrecorded: Arc<AtomicUsize>,
    pub directories: Vec<Vec<u8>>,
    pub trees: Vec<(usize, Tree)>,
    /// The files found so far, in this session or an earlier one.
    pub known: &'a mut Known,
    pub factory: &'a TaskFactory,
    pub events: Channel<Event>,
    /// The number of entries so far.
    pub count: usize,
    pub upload_bytes: u64,
    pub mirror: Option<&'a mut State>,
    /// Permission bits of what is on the server, parents first.
    pub modes: &'a mut Vec<(Vec<u8>, u32)>,
    /// Permission bits of directories here, parents first.
    pub local_modes: &'a mut Vec<(PathBuf, u32)>,
    /// Something of the run cannot be done: nothing is removed then.
    pub failed: bool,
}

impl Worklist for Runner<'_> {
    fn directories(&self) -> Vec<Vec<u8>> {
        let make = self.mirror.iter().flat_map(|mirror| mirror.make.iter());
        self.directories.iter().chain(make).cloned().collect()
    }

    fn trees(&self) -> Vec<(usize, Vec<u8>)> {
        self.trees
            .iter()
            .map(|(number, tree)| (*number, tree.remote.path.clone()))
            .collect()
    }

    fn filter(&self) -> Arc<Filter> {
        Arc::clone(&self.factory.options.filter)
    }

    fn found(&mut self, tree: usize, found: Found) {
        let filtered = self.filters_out(&found);
        // A directory with an unsafe name is not listed; a directory that is reported a second time could not be listed.
        let safe = found.names.last().is_none_or(|name| safe_component(name).is_ok());
        let kind = match found.attrs.kind() {
            _ if filtered || !safe || found.unlisted.is_some() => Kind::PassedOver,
            FileKind::Directory => Kind::Listed,
            FileKind::Regular | FileKind::Unknown => Kind::File,
            FileKind::Symlink | FileKind::Other => Kind::PassedOver,
        };
        if let Some(mirror) = self.mirror.as_deref_mut()
            && !found.names.is_empty()
        {
            mirror.source.add(found.names.clone(), kind);
            if is_below(&found.names, &mirror.blocked) {
                return;
            }
        }
        if !self.known.insert(tree, &found.path, found.unlisted.is_some()) {
            return;
        }
        let Some((_, tree)) = self.trees.iter().find(|(number, _)| *number == tree) else {
            return;
        };
        let remote = remote_of(&tree.remote, &found);
        if let Some(problem) = found.unlisted {
            self.failed(&remote, problem);
            return;
        }
        if filtered {
            tracing::info!(url = %remote.url, "filtered");
            let _ = self.events.send(Event::Filtered);
            return;
        }
        match (local_of(tree, &found), found.attrs.kind()) {
            (Ok(local), FileKind::Directory) => {
                let bits = found.attrs.permissions;
                let made = local.map_or(Ok(()), |path| self.make_local(&path, bits));
                if let Err(problem) = made {
                    if let Some(mirror) = self.mirror.as_deref_mut() {
                        mirror.blocked.insert(found.names);
                    }
                    self.failed(&remote, problem);
                }
            }
            (Ok(local), FileKind::Regular | FileKind::Unknown) => {
                if self.mirror.is_some() && found.names.is_empty() {
                    self.failed(
                        &remote,
                        Error::permanent(format!("{} is a file; --mirror takes directories", remote.url)),
                    );
                    return;
                }
                if local.as_deref().is_some_and(|path| !self.wants(path, &found, &remote)) {
                    return;
                }
                let destination = local.map_or(Destination::Discard, Destination::File);
                match self.factory.download(&remote, destination) {
                    Ok(entry) => {
                        self.begin(entry, Some(found.attrs));
                    }
                    Err(problem) => self.failed(&remote, problem),
                }
            }
            (Ok(_), _) => {
                let _ = self.events.send(Event::Skipped);
            }
            (Err(problem), _) => self.failed(&remote, problem),
        }
    }

    fn listed(&mut self, tree: usize, result: Result<(), Error>) {
        if let Err(problem) = result {
            if problem.class == Class::Transient {
                return;
            }
            if let Some((_, tree)) = self.trees.iter().find(|(number, _)| *number == tree) {
                let remote = tree.remote.clone();
                self.failed(&remote, problem);
            }
        }
        let _ = self.events.send(Event::Listed(tree));
    }

    fn next(&mut self) -> Option<FileTask> {
        if self.tasks.is_empty()
            && let Some(waiting) = self.waiting.pop_front()
        {
            let (remote, local) = waiting.unpacked(self.factory);
            let entry = self.factory.upload(&remote, local);
            self.begin(entry, None);
        }
        self.tasks.pop_front()
    }

    fn give_back(&mut self) -> Option<FileTask> {
        self.tasks.pop_front()
    }

    fn has_room(&self) -> bool {
        self.tasks.len() < MOST_WAITING
    }

    fn is_behind(&self) -> bool {
        self.unrecorded.load(Ordering::Relaxed) >= MOST_UNRECORDED
    }

    fn done(&mut self, outcome: Outcome) {
        self.failed |= outcome.result.is_err();
        self.unrecorded.fetch_add(1, Ordering::Relaxed);
        let _ = self.events.send(Event::Done(Box::new(outcome)));
    }

    fn upload_bytes(&self) -> u64 {
        self.upload_bytes
    }

    fn destination(&self) -> Option<Vec<u8>> {
        let mirror = self.mirror.as_deref()?;
        let wanted = mirror.local.is_none() && !mirror.compared;
        wanted.then(|| mirror.remote.path.clone())
    }

    fn modes(&mut self) -> Vec<(Vec<u8>, u32)> {
        self.modes.iter().rev().cloned().collect()
    }

    fn modes_set(&mut self, result: Result<(), Error>) -> Result<(), Error> {
        if let Err(problem) = result {
            if matches!(problem.class, Class::Transient | Class::Interrupted) {
                return Err(problem);
            }
            let remote = self.factory.root.clone();
            self.failed(&remote, problem);
        }
        self.modes.clear();
        Ok(())
    }

    fn there(&mut self, found: Found) {
        self.remember_there(found);
    }

    fn compared(&mut self, result: Result<(), Error>) -> Result<(), Error> {
        self.compare(result)
    }

    fn surplus(&mut self) -> (Vec<Vec<u8>>, Vec<Doomed>) {
        self.doom()
    }

    fn removed(&mut self, doomed: &Doomed) {
        tracing::info!(path = %String::from_utf8_lossy(&doomed.path), "deleted");
        let _ = self.events.send(Event::Deleted);
    }

    fn cleared(&mut self, result: Result<(), Error>) -> Result<(), Error> {
        self.clear(result)
    }
}

impl Runner<'_> {
    fn filters_out(&self, found: &Found) -> bool {
        let filter = &self.factory.options.filter;
        match found.attrs.kind() {
            _ if found.excluded => true,
            FileKind::Regular | FileKind::Unknown => {
                // A file where a tree was asked for has only the name of its path.
                let alone = found.names.is_empty() && !filter.takes_name(&[name_of(&found.path)], false);
                alone || !filter.takes_file(found.attrs.size, modified(&found.attrs))
            }
            _ => false,
        }
    }

    /// Makes the local directory for one in a tree that is fetched.
    fn make_local(&mut self, path: &Path, mode: Option<u32>) -> Result<(), Error> {
        let Some(mirror) = self.mirror.as_deref() else {
            make_directory(path, mode)?;
            return self.remember_mode(path, mode);
        };
        // The user may have put a link at the destination of the tree itself.
        let root = mirror.local.as_deref() == Some(path);
        let lacking = if root {
            !path.is_dir()
        } else {
            local::lacks_directory(path)?
        };
        if mirror.options.dry_run {
            if lacking {
                self.plan(Action::Make, path.as_os_str().as_encoded_bytes(), None);
            }
            return Ok(());
        }
        if lacking {
            make_directory(path, mode)?;
        }
        self.remember_mode(path, mode)
    }

    /// A directory gets its permission bits when everything is in it; until then its owner may write there.
    fn remember_mode(&mut self, path: &Path, mode: Option<u32>) -> Result<(), Error> {
        if let Some(mode) = mode.filter(|_| self.factory.options.perms) {
            local::open_directory(path)?;
            self.local_modes.push((path.to_owned(), mode::bits(mode)));
        }
        Ok(())
    }

    /// Returns true if a file is to be fetched: without a mirror all are.
    fn wants(&mut self, path: &Path, found: &Found, remote: &Remote) -> bool {
        let Some(mirror) = self.mirror.as_deref() else {
            return true;
        };
        let dry_run = mirror.options.dry_run;
        let source = Stamp::told(&found.attrs);
        let there = local::in_place(path);
        let has = there
            .as_ref()
            .ok()
            .and_then(|there| there.and_then(|(_, stamp)| stamp.mode));
        let verdict = there.map(|there| mirror.verdict(source, there));
        match verdict {
            Ok(Verdict::Transfer) if dry_run => {
                self.plan(Action::Receive, path.as_os_str().as_encoded_bytes(), found.attrs.size);
            }
            Ok(Verdict::Transfer) => return true,
            Ok(Verdict::Unchanged) => {
                tracing::info!(url = %remote.url, "unchanged");
                let _ = self.events.send(Event::Unchanged);
                let wanted = source
                    .mode
                    .filter(|_| self.factory.options.perms && !dry_run && has != source.mode);
                if let Some(Err(problem)) = wanted.map(|mode| local::set_mode(path, mode)) {
                    self.failed(remote, problem);
                }
            }
            Ok(Verdict::Blocked(what)) => self.failed(remote, in_the_way(&path.display().to_string(), what)),
            Err(problem) => self.failed(remote, problem),
        }
        false
    }

    pub(super) fn begin(&mut self, entry: Entry, attrs: Option<Attrs>) {
        let task = self.factory.task(self.count, &entry, attrs);
        self.tell(entry);
        self.tasks.push_back(task);
    }

    fn tell(&mut self, entry: Entry) {
        self.count += 1;
        let _ = self.events.send(Event::New(Box::new(entry)));
    }

    /// Records a problem as a transfer that was never begun.
    pub(super) fn failed(&mut self, remote: &Remote, problem: Error) {
        self.failed = true;
        self.tell(Entry::refused(remote, problem));
    }
}

/// The URL of something in a tree.
pub(super) fn remote_of(root: &Remote, found: &Found) -> Remote {
    let mut remote = root.clone();
    if let Ok(mut segments) = remote.url.path_segments_mut() {
        segments.pop_if_empty();
        for name in &found.names {
            segments.push(&String::from_utf8_lossy(name));
        }
    }
    remote.path.clone_from(&found.path);
    remote
}

/// Returns the local path, or `None` where nothing is kept.
fn local_of(tree: &Tree, found: &Found) -> Result<Option<PathBuf>, Error> {
    let Some(root) = &tree.local else {
        return found
            .names
            .iter()
            .try_for_each(|name| safe_component(name).map(|_| ()))
            .map(|()| None);
    };
    let mut path = root.clone();
    for name in &found.names {
        path.push(safe_component(name)?);
    }
    // A file where a tree was asked for goes by its own name into the directory that the tree would have become.
    if found.names.is_empty() && found.attrs.kind() != FileKind::Directory {
        path.push(safe_component(name_of(&found.path))?);
    }
    Ok(Some(path))
}

fn name_of(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

fn modified(attrs: &Attrs) -> Option<SystemTime> {
    let (_, modified) = attrs.times?;
    UNIX_EPOCH.checked_add(Duration::from_secs(modified.into()))
}

/// Makes a directory with its bits at the server, as far as the umask lets it: the content of a directory that is closed there
/// is not open to others here meanwhile.
pub fn make_directory(path: &Path, mode: Option<u32>) -> Result<(), Error> {
    match mode::make_directory(path, mode) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => {
            Err(Error::local(format!("cannot make the directory {}: {error}", path.display())).with_source(error))
        }
        Ok(()) => Ok(()),
    }
}
