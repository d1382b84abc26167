//! A mirror on the server: it compares the files to be sent with the listing of the destination, and picks the surplus to be
//! removed in the end.

use std::collections::{HashMap, HashSet};

use ferry_sftp::FileKind;

use super::super::entry::LocalFile;
use super::events::Event;
use super::mirror::{Pending, State, Thing, Verdict, in_the_way, is_below};
use super::stamp::{Names, Stamp};
use super::worklist::{Runner, remote_of};
use crate::error::{Class, Error};
use crate::files::{is_unfinished, safe_component};
use crate::options::Remote;
use crate::report::{Action, Planned};
use crate::sftp::{Doomed, Found, join};

impl Runner<'_> {
    pub(super) fn remember_there(&mut self, found: Found) {
        let Some(mirror) = self.mirror.as_deref_mut() else {
            return;
        };
        let remote = remote_of(&mirror.remote, &found);
        if let Some(problem) = found.unlisted {
            self.failed(&remote, problem);
            return;
        }
        let kind = found.attrs.kind();
        let Some(name) = found.names.last() else {
            mirror.root = Some(kind);
            mirror.root_modified = Stamp::told(&found.attrs).modified;
            if kind != FileKind::Directory {
                let problem = in_the_way(remote.url.as_str(), "no directory");
                self.failed(&remote, problem);
            }
            return;
        };
        // A name that is not safe may lead elsewhere.
        let strange = safe_component(name).is_err() && !is_unfinished(name);
        mirror.there.push(Thing {
            kind,
            stamp: Stamp::told(&found.attrs),
            keep: found.excluded || strange,
            names: found.names,
        });
    }

    pub(super) fn compare(&mut self, listed: Result<(), Error>) -> Result<(), Error> {
        let Some(mirror) = self.mirror.as_deref_mut() else {
            return Ok(());
        };
        if let Err(problem) = listed {
            mirror.there.clear();
            if matches!(problem.class, Class::Transient | Class::Interrupted) {
                return Err(problem);
            }
            mirror.pending.clear();
            mirror.compared = true;
            let remote = mirror.remote.clone();
            self.failed(&remote, problem);
            return Ok(());
        }
        mirror.compared = true;
        let pending = std::mem::take(&mut mirror.pending);
        if mirror.root.is_some_and(|kind| kind != FileKind::Directory) {
            return Ok(());
        }
        let root = mirror.remote.clone();
        let dry_run = mirror.options.dry_run;
        let perms = self.factory.options.perms && !dry_run;
        let mut send = Vec::new();
        let mut problems = Vec::new();
        let blocked = self.plan_directories(&root, &mut problems);
        let Some(mirror) = self.mirror.as_deref_mut() else {
            return Ok(());
        };
        let there = by_name(mirror);
        for file in pending {
            if is_below(&file.names, &blocked) {
                continue;
            }
            let place = there.get(&file.names).copied();
            match mirror.verdict(file.stamp, place) {
                Verdict::Transfer => send.push(file),
                Verdict::Unchanged => {
                    tracing::info!(url = %file.remote.url, "unchanged");
                    let _ = self.events.send(Event::Unchanged);
                    let has = place.and_then(|(_, stamp)| stamp.mode);
                    if let Some(mode) = file.stamp.mode.filter(|mode| perms && has != Some(*mode)) {
                        self.modes.push((file.remote.path.clone(), mode));
                    }
                }
                Verdict::Blocked(what) => {
                    problems.push((file.remote.clone(), in_the_way(file.remote.url.as_str(), what)));
                }
            }
        }
        drop(there);
        for (remote, problem) in problems {
            self.failed(&remote, problem);
        }
        for file in send {
            if dry_run {
                self.plan(Action::Send, &file.remote.path, file.stamp.size);
            } else {
                self.send(file);
            }
        }
        Ok(())
    }

    /// Plans to make the directories that are lacking. Returns those in whose place something else is.
    fn plan_directories(&mut self, root: &Remote, problems: &mut Vec<(Remote, Error)>) -> HashSet<Names> {
        let mut blocked = HashSet::new();
        let Some(mirror) = self.mirror.as_deref_mut() else {
            return blocked;
        };
        let mut lacking = Vec::new();
        {
            let there = by_name(mirror);
            for directory in &mirror.directories {
                if is_below(&directory.names, &blocked) {
                    continue;
                }
                match there.get(&directory.names) {
                    Some((FileKind::Directory, _)) => {}
                    None if directory.names.is_empty() && mirror.root.is_some() => {}
                    None => lacking.push(directory.remote.clone()),
                    Some((kind, _)) => {
                        let what = if *kind == FileKind::Symlink {
                            "a symbolic link"
                        } else {
                            "no directory"
                        };
                        let mut remote = root.clone();
                        remote.path.clone_from(&directory.remote);
                        let problem = in_the_way(&String::from_utf8_lossy(&directory.remote), what);
                        problems.push((remote, problem));
                        blocked.insert(directory.names.clone());
                    }
                }
            }
        }
        if self.factory.options.perms && !mirror.options.dry_run {
            let directories = mirror
                .directories
                .iter()
                .filter(|each| !is_below(&each.names, &blocked));
            self.modes
                .extend(directories.filter_map(|each| Some((each.remote.clone(), each.mode?))));
        }
        if mirror.options.dry_run {
            for path in &lacking {
                self.plan(Action::Make, path, None);
            }
        } else {
            mirror.make = lacking;
        }
        blocked
    }

    fn send(&mut self, file: Pending) {
        let local = LocalFile {
            path: Some(file.path),
            length: file.stamp.size,
            opened: std::sync::Mutex::new(None),
        };
        let entry = self.factory.upload(&file.remote, local);
        self.begin(entry, None);
    }

    pub(super) fn doom(&mut self) -> (Vec<Vec<u8>>, Vec<Doomed>) {
        let nothing = (Vec::new(), Vec::new());
        let failed = self.failed;
        let Some(mirror) = self.mirror.as_deref_mut().filter(|mirror| mirror.owes(failed)) else {
            return nothing;
        };
        let root = mirror.remote.clone();
        let found = match mirror.surplus(&mirror.there) {
            Ok(found) => found,
            Err(problem) => {
                mirror.cleared = true;
                self.failed(&root, problem);
                return nothing;
            }
        };
        let path_of = |names: &[Vec<u8>]| names.iter().fold(root.path.clone(), |path, name| join(&path, name));
        let mut directories = HashSet::new();
        let mut doomed = Vec::new();
        for thing in found {
            let directory = thing.kind == FileKind::Directory;
            let depths = 1..thing.names.len() + usize::from(directory);
            directories.extend(depths.filter_map(|depth| thing.names.get(..depth)).map(path_of));
            doomed.push(Doomed {
                path: path_of(&thing.names),
                directory,
            });
        }
        if doomed.is_empty() || mirror.options.dry_run {
            mirror.cleared = true;
            for each in doomed {
                self.plan(Action::Delete, &each.path, None);
            }
            return nothing;
        }
        (directories.into_iter().collect(), doomed)
    }

    pub(super) fn clear(&mut self, removed: Result<(), Error>) -> Result<(), Error> {
        let Some(mirror) = self.mirror.as_deref_mut() else {
            return removed;
        };
        match removed {
            Err(problem) if matches!(problem.class, Class::Transient | Class::Interrupted) => return Err(problem),
            Err(problem) => {
                mirror.cleared = true;
                let root = mirror.remote.clone();
                self.failed(&root, problem);
            }
            Ok(()) => mirror.cleared = true,
        }
        Ok(())
    }

    pub(super) fn plan(&mut self, action: Action, path: &[u8], size: Option<u64>) {
        let path = String::from_utf8_lossy(path).into_owned();
        let _ = self.events.send(Event::Planned(Planned { action, path, size }));
    }
}

fn by_name(mirror: &State) -> HashMap<&Names, (FileKind, Stamp)> {
    let there = mirror.there.iter();
    there.map(|thing| (&thing.names, (thing.kind, thing.stamp))).collect()
}
