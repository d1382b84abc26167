//! The work of the session's thread: files to transfer and trees to list. The calling thread records the attempts.

use std::collections::{HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender as Channel;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ferry_sftp::{Attrs, FileKind};

use super::super::download::Destination;
use super::super::entry::Entry;
use super::events::{Event, Tree};
use super::factory::TaskFactory;
use crate::error::{Class, Error};
use crate::files::safe_component;
use crate::filter::Filter;
use crate::options::Remote;
use crate::sftp::{FileTask, Found, Outcome, Worklist};

pub struct Runner<'a> {
    pub tasks: VecDeque<FileTask>,
    pub directories: Vec<Vec<u8>>,
    pub trees: Vec<(usize, Tree)>,
    /// Paths that an earlier session has found already.
    pub known: &'a mut HashSet<Vec<u8>>,
    pub factory: &'a TaskFactory,
    pub events: Channel<Event>,
    /// Entries told of so far.
    pub count: usize,
    pub upload_bytes: u64,
}

impl Worklist for Runner<'_> {
    fn directories(&self) -> Vec<Vec<u8>> {
        self.directories.clone()
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
        let mut key = found.path.clone();
        if found.unlisted.is_some() {
            key.push(0);
        }
        if !self.known.insert(key) {
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
        if self.filters_out(&found) {
            tracing::info!(url = %remote.url, "filtered");
            let _ = self.events.send(Event::Filtered);
            return;
        }
        match (local_of(tree, &found), found.attrs.kind()) {
            (Ok(local), FileKind::Directory) => {
                let made = local.map_or(Ok(()), |path| make_directory(&path));
                if let Err(problem) = made {
                    self.failed(&remote, problem);
                }
            }
            (Ok(local), FileKind::Regular | FileKind::Unknown) => {
                let destination = local.map_or(Destination::Discard, Destination::File);
                match self.factory.download(&remote, destination) {
                    Ok(entry) => {
                        let task = self.factory.task(self.count, &entry, Some(found.attrs));
                        self.tell(entry);
                        self.tasks.push_back(task);
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
        self.tasks.pop_front()
    }

    fn done(&mut self, outcome: Outcome) {
        let _ = self.events.send(Event::Done(Box::new(outcome)));
    }

    fn upload_bytes(&self) -> u64 {
        self.upload_bytes
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

    fn tell(&mut self, entry: Entry) {
        self.count += 1;
        let _ = self.events.send(Event::New(Box::new(entry)));
    }

    /// It is in the report, as a transfer that was never begun.
    fn failed(&mut self, remote: &Remote, problem: Error) {
        self.tell(Entry::refused(remote, problem));
    }
}

/// The URL of something in a tree.
fn remote_of(root: &Remote, found: &Found) -> Remote {
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

/// Null where nothing is kept.
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

pub fn make_directory(path: &std::path::Path) -> Result<(), Error> {
    match std::fs::create_dir(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => {
            Err(Error::local(format!("cannot make the directory {}: {error}", path.display())).with_source(error))
        }
        Ok(()) => Ok(()),
    }
}
