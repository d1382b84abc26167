//! A run over SFTP: one file, or many, on one connection; again on another one for what a lost connection has left.
//!
//! The session has a thread of its own (`sftp::run`). The calling thread records attempts and finishes files, so that an fsync never holds
//! up what is still on its way.

mod events;
mod factory;
mod inbound;
mod inventory;
mod local;
mod mirror;
mod outbound;
mod plan;
mod progress;
mod recorder;
mod sending;
mod stamp;
mod walk;
mod worklist;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use http::Method;

use self::events::{Event, Tree};
use self::factory::TaskFactory;
use self::mirror::{Pending, State};
use self::recorder::Recorder;
use self::stamp::Names;
use self::worklist::Runner;
use super::download::Destination;
use super::entry::{Entry, LocalFile};
use super::limit;
use super::policy::Retries;
use crate::clock::seconds;
use crate::error::{Class, Error};
use crate::files;
use crate::observer::Observer;
use crate::options::{Common, GetOptions, PutOptions, Source, Target};
use crate::report::{Action, FileSet, Planned, SshReport, Transfer};
use crate::sftp::{self, Plan};

/// What a run has come to.
pub struct Run {
    pub transfers: Vec<Transfer>,
    pub ssh: Option<SshReport>,
    pub set: FileSet,
    /// What a dry run has found to do.
    pub planned: Option<Vec<Planned>>,
}

pub fn get(options: &GetOptions, observer: &dyn Observer) -> Result<Run, Error> {
    let common = &options.common;
    let first = plan::one_server(&options.sources)?;
    let mut factory = TaskFactory::new(&options.transfer, observer, first);
    factory.overwrite = options.overwrite;
    factory.resume = options.resume;
    factory.range = options.range;
    let mut entries = Vec::new();
    let mut trees = Vec::new();
    let dry_run = options.transfer.mirror.as_ref().is_some_and(|mirror| mirror.dry_run);
    if let (true, Target::Tree(path) | Target::Directory(path)) = (options.recursive && !dry_run, &options.target) {
        worklist::make_directory(path, None)?;
    }
    for remote in &options.sources {
        let named = || remote.file_name.clone().unwrap_or_default().into();
        let local: Option<PathBuf> = match &options.target {
            Target::File(path) | Target::Tree(path) => Some(path.clone()),
            Target::Directory(path) => Some(path.join(remote.file_name.clone().unwrap_or_default())),
            Target::FromUrl => Some(named()),
            Target::Stdout | Target::Discard => None,
        };
        if options.recursive {
            trees.push(Tree {
                remote: remote.clone(),
                local,
            });
        } else {
            let destination = match (&options.target, local) {
                (Target::Stdout, _) => Destination::Stdout,
                (_, Some(path)) => Destination::File(path),
                (_, None) => Destination::Discard,
            };
            entries.push(factory.download(remote, destination)?);
        }
    }
    let shared = !(options.limit_each || entries.len() == 1 && trees.is_empty());
    let settings = super::settings(
        common,
        &options.transfer,
        limit(&options.transfer, !shared),
        options.parallel,
    );
    let plan = plan::plan(common, first, settings, true)?;
    let mirror = match (&options.transfer.mirror, trees.as_slice()) {
        (Some(mirror), [Tree { local: Some(local), .. }]) => {
            let mut state = State::new(mirror, first);
            state.local = Some(local.clone());
            Some(state)
        }
        (Some(_), _) => return Err(Error::usage("a mirror is of one tree, in a directory")),
        (None, _) => None,
    };
    let mut set = Set::new(factory, plan, common, entries, trees, Vec::new());
    set.mirror = mirror;
    set.run()
}

pub fn put(options: &PutOptions, observer: &dyn Observer) -> Result<Run, Error> {
    let common = &options.common;
    let mut factory = TaskFactory::new(&options.transfer, observer, &options.destination);
    factory.resume = options.resume;
    let mut mirror = match (&options.transfer.mirror, &options.source) {
        (Some(mirror), Source::Directory(_)) => Some(State::new(mirror, &options.destination)),
        (Some(_), _) => return Err(Error::usage("a mirror is of a directory")),
        (None, _) => None,
    };
    let mut modes = Vec::new();
    let (mut entries, mut directories, mut facts) = (Vec::new(), Vec::new(), FileSet::default());
    match &options.source {
        Source::Directory(root) => {
            let tree = walk::walk(root, &options.destination.path, &options.transfer.filter)?;
            facts.skipped = tree.skipped;
            facts.filtered = tree.filtered;
            for file in tree.files {
                let mut remote = options.destination.clone();
                if let Ok(mut segments) = remote.url.path_segments_mut() {
                    segments.pop_if_empty();
                    segments.extend(file.names.iter().map(|name| name.to_string_lossy().into_owned()));
                }
                remote.path = file.remote;
                if let Some(state) = &mut mirror {
                    state.pending.push(Pending {
                        names: file.names.iter().map(|name| name.as_encoded_bytes().to_vec()).collect(),
                        remote,
                        path: file.path,
                        stamp: file.stamp,
                    });
                    continue;
                }
                let local = LocalFile {
                    path: Some(file.path),
                    length: file.stamp.size,
                    opened: Mutex::new(None),
                };
                entries.push(factory.upload(&remote, local));
            }
            if let Some(state) = &mut mirror {
                state.source = tree.names;
                state.directories = tree.directories;
            } else {
                let perms = options.transfer.perms;
                let bits = tree.directories.iter().filter(|_| perms);
                modes = bits
                    .filter_map(|each| Some((each.remote.clone(), each.mode?)))
                    .collect();
                directories = tree.directories.into_iter().map(|each| each.remote).collect();
            }
        }
        source => {
            factory.into_directory = true;
            // Opened now: a name that is wrong must not cost a connection.
            let (path, opened) = match source {
                Source::File(path) => (Some(path.clone()), files::Source::open(path)?),
                _ => (None, files::Source::stdin()?),
            };
            let local = LocalFile {
                length: opened.length(),
                path: path.filter(|_| opened.length().is_some()),
                opened: Mutex::new(Some(opened)),
            };
            entries.push(factory.upload(&options.destination, local));
        }
    }
    let settings = super::settings(
        common,
        &options.transfer,
        limit(&options.transfer, entries.len() == 1),
        1,
    );
    let plan = plan::plan(common, &options.destination, settings, options.sync)?;
    let mut set = Set::new(factory, plan, common, entries, Vec::new(), directories);
    set.facts = facts;
    set.modes = modes;
    set.mirror = mirror;
    set.run()
}

/// One run over SFTP.
struct Set {
    factory: TaskFactory,
    plan: Plan,
    retries: Retries,
    insecure: bool,
    total: Option<Duration>,
    entries: Vec<Entry>,
    trees: Vec<(usize, Tree)>,
    directories: Vec<Vec<u8>>,
    known: HashSet<(usize, Vec<u8>)>,
    facts: FileSet,
    mirror: Option<State>,
    planned: Vec<Planned>,
    /// Permission bits that are still to be set, parents first: on the server, and here.
    modes: Vec<(Vec<u8>, u32)>,
    local_modes: Vec<(PathBuf, u32)>,
    ssh: Option<SshReport>,
    moved: Option<(Instant, Instant)>,
    /// Bytes that need not go again.
    progress: u64,
}

impl Set {
    fn new(
        factory: TaskFactory,
        plan: Plan,
        common: &Common,
        entries: Vec<Entry>,
        trees: Vec<Tree>,
        directories: Vec<Vec<u8>>,
    ) -> Self {
        Self {
            retries: Retries {
                most: factory.options.retries,
                longest_wait: factory.options.retry_max_wait,
                unsafe_too: false,
                unreached_too: factory.options.retry_unreached,
            },
            factory,
            plan,
            insecure: common.insecure,
            total: common.timeouts.total,
            entries,
            trees: trees.into_iter().enumerate().collect(),
            directories,
            known: HashSet::new(),
            facts: FileSet::default(),
            mirror: None,
            planned: Vec::new(),
            modes: Vec::new(),
            local_modes: Vec::new(),
            ssh: None,
            moved: None,
            progress: 0,
        }
    }

    fn run(mut self) -> Result<Run, Error> {
        let begin = Instant::now();
        self.plan.deadline = self.total.and_then(|total| begin.checked_add(total));
        let mut failures = 0;
        loop {
            let before = self.progress;
            let problem = self.session()?;
            let over = self.entries.iter().all(|entry| entry.over) && self.trees.is_empty() && !self.owes();
            if over {
                // With no file to hang it on: a directory that could not be made.
                let problem = problem.filter(|problem| problem.class != Class::Transient && !self.failed());
                self.entries
                    .extend(problem.map(|problem| Entry::refused(&self.factory.root, problem)));
                break;
            }
            // Whatever moved earns a fresh set of retries; a listing that is cut short has nothing else to go by.
            failures = if self.progress > before { 1 } else { failures + 1 };
            let mut problem = problem.unwrap_or_else(|| Error::transient("the connection was lost"));
            problem.unreached &= self.ssh.is_none();
            let again = self
                .retries
                .wait(&problem, &Method::PUT, true, failures, fastrand::f64())
                .filter(|wait| {
                    self.plan
                        .deadline
                        .is_none_or(|deadline| Instant::now() + *wait < deadline)
                });
            let Some(wait) = again else {
                self.give_up(&problem);
                break;
            };
            tracing::info!(?wait, class = ?problem.class, "connecting again");
            for entry in self.entries.iter_mut().filter(|entry| !entry.over) {
                entry.waited_s = wait.as_secs_f64();
            }
            self.plan.settings.stop.sleep(wait);
            if let Some(problem) = self.plan.settings.stop.problem() {
                self.give_up(&problem);
                break;
            }
        }
        self.clear_local();
        self.set_local_modes();
        Ok(self.account(begin))
    }

    fn failed(&self) -> bool {
        self.entries.iter().any(|entry| entry.problem.is_some())
    }

    /// Whether something is to be done on the server after the last transfer.
    fn owes(&self) -> bool {
        let failed = self.failed();
        !self.modes.is_empty() || self.mirror.as_ref().is_some_and(|mirror| mirror.owes(failed))
    }

    /// The deepest first: one that its owner may not enter hides what is in it.
    fn set_local_modes(&mut self) {
        for (path, mode) in std::mem::take(&mut self.local_modes).into_iter().rev() {
            if let Err(problem) = local::set_mode(&path, mode) {
                self.entries.push(Entry::refused(&self.factory.root, problem));
            }
        }
    }

    /// Removes what a mirror has too much, now that every file has come.
    fn clear_local(&mut self) {
        let failed = self.failed();
        let Some(mirror) = self.mirror.take_if(|mirror| mirror.options.delete) else {
            return;
        };
        let Some(root) = mirror.local.as_deref().filter(|_| !failed) else {
            return;
        };
        if let Err(problem) = self.remove_surplus(&mirror, root) {
            self.entries.push(Entry::refused(&mirror.remote, problem));
        }
    }

    fn remove_surplus(&mut self, mirror: &State, root: &Path) -> Result<(), Error> {
        let (paths, things): (Vec<_>, Vec<_>) = local::list(root, &self.factory.options.filter)?.into_iter().unzip();
        let paths: HashMap<&Names, &PathBuf> = things.iter().map(|thing| &thing.names).zip(&paths).collect();
        for thing in mirror.surplus(&things)? {
            let Some(path) = paths.get(&thing.names) else { continue };
            if let Some(problem) = self.plan.settings.stop.problem() {
                return Err(problem);
            }
            if mirror.options.dry_run {
                self.planned.push(Planned {
                    action: Action::Delete,
                    path: path.display().to_string(),
                    size: None,
                });
            } else {
                local::remove(path, thing.kind)?;
                tracing::info!(path = %path.display(), "deleted");
                self.facts.deleted += 1;
            }
        }
        Ok(())
    }

    /// One connection's worth. Returns what ended it before everything was done.
    fn session(&mut self) -> Result<Option<Error>, Error> {
        let (events, inbox) = mpsc::channel();
        let mut known = std::mem::take(&mut self.known);
        let mut mirror = self.mirror.take();
        let mut modes = std::mem::take(&mut self.modes);
        let mut local_modes = std::mem::take(&mut self.local_modes);
        let to_compare: u64 = mirror.iter().map(State::to_compare).sum();
        let unfinished = || self.entries.iter().enumerate().filter(|(_, entry)| !entry.over);
        let mut runner = Runner {
            tasks: unfinished()
                .map(|(index, entry)| self.factory.task(index, entry, None))
                .collect(),
            directories: std::mem::take(&mut self.directories),
            trees: self.trees.clone(),
            known: &mut known,
            factory: &self.factory,
            events: events.clone(),
            count: self.entries.len(),
            upload_bytes: unfinished().filter_map(|(_, entry)| entry.to_send()).sum::<u64>() + to_compare,
            failed: self.failed(),
            mirror: mirror.as_mut(),
            modes: &mut modes,
            local_modes: &mut local_modes,
        };
        let plan = &self.plan;
        let directories = runner.directories.clone();
        let recorder = Recorder {
            entries: &mut self.entries,
            trees: &mut self.trees,
            facts: &mut self.facts,
            planned: &mut self.planned,
            ssh: &mut self.ssh,
            moved: &mut self.moved,
            progress: &mut self.progress,
            retries: self.retries,
            begin: Instant::now(),
            touched: false,
        };
        let problem = std::thread::scope(|scope| {
            std::thread::Builder::new()
                .name("sftp".to_owned())
                .spawn_scoped(scope, move || {
                    let (facts, result) = sftp::run(plan, &mut runner);
                    let _ = events.send(Event::Over(Box::new(facts), result));
                })
                .map_err(|error| Error::local(format!("no thread can be started: {error}")).with_source(error))?;
            Ok(recorder.record_until_over(&inbox))
        })?;
        self.known = known;
        self.mirror = mirror;
        self.modes = modes;
        self.local_modes = local_modes;
        if problem.is_some() {
            self.directories = directories;
        }
        Ok(problem)
    }

    fn give_up(&mut self, problem: &Error) {
        for entry in self.entries.iter_mut().filter(|entry| !entry.over) {
            entry.give_up(problem.clone());
        }
        for (_, tree) in std::mem::take(&mut self.trees) {
            self.entries.push(Entry::refused(&tree.remote, problem.clone()));
        }
        if self.owes() && !self.failed() {
            self.entries.push(Entry::refused(&self.factory.root, problem.clone()));
        }
    }

    fn account(mut self, begin: Instant) -> Run {
        let dry_run = self
            .factory
            .options
            .mirror
            .as_ref()
            .is_some_and(|mirror| mirror.dry_run);
        let planned = dry_run.then(|| std::mem::take(&mut self.planned));
        let (limit, buffer) = (self.plan.settings.limit.clone(), self.plan.settings.buffer_size as u64);
        let transfers: Vec<_> = self
            .entries
            .iter_mut()
            .map(|entry| entry.account(&limit, self.insecure, buffer))
            .collect();
        self.facts.files = transfers.len() as u64;
        self.facts.failed = transfers.iter().filter(|transfer| transfer.error.is_some()).count() as u64;
        self.facts.bytes = transfers.iter().map(|transfer| transfer.bytes).sum();
        self.facts.body_s = self.moved.map(|(from, to)| seconds(from, to));
        self.facts.total_s = begin.elapsed().as_secs_f64();
        Run {
            transfers,
            ssh: self.ssh,
            set: self.facts,
            planned,
        }
    }
}
