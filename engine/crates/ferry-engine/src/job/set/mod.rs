//! A run over SFTP: one file, or many, on one connection; then on another one for the remainder of a lost connection.
//!
//! The session has a thread of its own (`sftp::run`). The calling thread records attempts and finishes files, so that an fsync
//! never holds up files that are still on their way.

mod entries;
mod events;
mod factory;
mod inbound;
mod inventory;
mod known;
mod local;
mod mirror;
mod outbound;
mod plan;
mod progress;
mod recorder;
mod sending;
mod stamp;
mod waiting;
mod walk;
mod worklist;

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use http::Method;

use self::entries::Entries;
use self::events::{Event, Tree};
use self::factory::TaskFactory;
use self::known::Known;
use self::mirror::{Pending, State};
use self::recorder::Recorder;
use self::stamp::Names;
use self::waiting::{Waiting, remote_below};
use self::worklist::Runner;
use super::download::Destination;
use super::entry::{Entry, LocalFile};
use super::limit;
use super::policy::Retries;
use crate::clock::seconds;
use crate::error::{Class, Error};
use crate::files::{self, Group};
use crate::observer::Observer;
use crate::options::{Common, GetOptions, PutOptions, Source, Target};
use crate::report::{Action, FileSet, Planned, SshReport, Transfer};
use crate::sftp::{self, Plan};

/// The outcome of a run.
pub struct Run {
    pub transfers: Vec<Transfer>,
    pub ssh: Option<SshReport>,
    /// The exit code of the worst failure of a transfer, or 0.
    pub exit_code: u8,
    pub set: FileSet,
    /// The actions that a dry run has found.
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
    let plan = plan::plan(common, first, settings, options.sync)?;
    let mirror = match (&options.transfer.mirror, trees.as_slice()) {
        (Some(mirror), [Tree { local: Some(local), .. }]) => {
            let mut state = State::new(mirror, first);
            state.local = Some(local.clone());
            Some(state)
        }
        (Some(_), _) => return Err(Error::usage("a mirror is of one tree, in a directory")),
        (None, _) => None,
    };
    let mut set = Set::new(observer, factory, plan, common, !trees.is_empty());
    set.trees = trees.into_iter().enumerate().collect();
    set.mirror = mirror;
    for entry in entries {
        set.entries.push(entry);
    }
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
    let (mut alone, mut directories, mut facts) = (None, Vec::new(), FileSet::default());
    let mut waiting = VecDeque::new();
    match &options.source {
        Source::Directory(root) => {
            let destination = &options.destination;
            let tree = walk::walk(root, &destination.path, &options.transfer.filter, mirror.is_some())?;
            facts.skipped = tree.skipped;
            facts.filtered = tree.filtered;
            factory.local_root = Some(root.clone());
            if let Some(state) = &mut mirror {
                let names = |below: &Path| {
                    let names = below
                        .components()
                        .map(|name| name.as_os_str().as_encoded_bytes().to_vec());
                    names.collect()
                };
                let pending = tree.files.into_iter().map(|file| Pending {
                    names: names(&file.below),
                    remote: remote_below(destination, &file.below),
                    path: root.join(&file.below),
                    stamp: file.stamp,
                });
                state.pending = pending.collect();
                state.source = tree.names.unwrap_or_default();
                state.directories = tree.directories;
            } else {
                let files = tree.files.into_iter().map(|file| Waiting {
                    below: file.below,
                    length: file.stamp.size,
                });
                waiting = files.collect();
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
            // The source is opened now: a wrong name must not cost a connection.
            let (path, opened) = match source {
                Source::File(path) => (Some(path.clone()), files::Source::open(path)?),
                _ => (None, files::Source::stdin()?),
            };
            let local = LocalFile {
                length: opened.length(),
                path: path.filter(|_| opened.length().is_some()),
                opened: Mutex::new(Some(opened)),
            };
            alone = Some(factory.upload(&options.destination, local));
        }
    }
    let settings = super::settings(
        common,
        &options.transfer,
        limit(&options.transfer, alone.is_some() || waiting.len() == 1),
        1,
    );
    let plan = plan::plan(common, &options.destination, settings, options.sync)?;
    let mut set = Set::new(observer, factory, plan, common, alone.is_none());
    if let Some(entry) = alone {
        set.entries.push(entry);
    }
    set.directories = directories;
    set.waiting = waiting;
    set.facts = facts;
    set.modes = modes;
    set.mirror = mirror;
    set.run()
}

/// One run over SFTP.
struct Set<'a> {
    factory: TaskFactory,
    plan: Plan,
    retries: Retries,
    total: Option<Duration>,
    entries: Entries<'a>,
    /// Files of a local tree whose turn has not come.
    waiting: VecDeque<Waiting>,
    trees: Vec<(usize, Tree)>,
    directories: Vec<Vec<u8>>,
    known: Known,
    facts: FileSet,
    mirror: Option<State>,
    planned: Vec<Planned>,
    /// Permission bits that are still to be set, parents first: on the server, and here.
    modes: Vec<(Vec<u8>, u32)>,
    local_modes: Vec<(PathBuf, u32)>,
    ssh: Option<SshReport>,
    moved: Option<(Instant, Instant)>,
    /// Bytes that need not be transferred again.
    progress: u64,
}

impl<'a> Set<'a> {
    /// `gives_away`: the observer is given each transfer as soon as it is over.
    fn new(observer: &'a dyn Observer, factory: TaskFactory, plan: Plan, common: &Common, gives_away: bool) -> Self {
        let of_all = entries::Common {
            limit: plan.settings.limit.clone(),
            insecure: common.insecure,
            buffer_size: plan.settings.buffer_size as u64,
        };
        Self {
            retries: Retries {
                most: factory.options.retries,
                longest_wait: factory.options.retry_max_wait,
                unsafe_too: false,
                unreached_too: factory.options.retry_unreached,
            },
            factory,
            plan,
            total: common.timeouts.total,
            entries: Entries::new(observer, gives_away, of_all),
            waiting: VecDeque::new(),
            trees: Vec::new(),
            directories: Vec::new(),
            known: Known::default(),
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
            let left = self.entries.unfinished().next().is_some() || !self.waiting.is_empty() || !self.trees.is_empty();
            if !left && !self.owes() {
                // The problem belongs to no file: a directory could not be made.
                let problem = problem.filter(|problem| problem.class != Class::Transient && !self.failed());
                if let Some(problem) = problem {
                    self.refuse(problem);
                }
                break;
            }
            // Bytes that moved earn a fresh set of retries; a listing that is cut short has no other count.
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
            for entry in self.entries.unfinished_mut() {
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
        self.entries.failed()
    }

    /// Records a problem that belongs to the run, not to a file.
    fn refuse(&mut self, problem: Error) {
        self.entries.push(Entry::refused(&self.factory.root, problem));
    }

    /// Returns true if work is left on the server after the last transfer.
    fn owes(&self) -> bool {
        let failed = self.failed();
        !self.modes.is_empty() || self.mirror.as_ref().is_some_and(|mirror| mirror.owes(failed))
    }

    /// Sets the permission bits of local directories, the deepest first: a directory that its owner may not enter hides its
    /// content.
    fn set_local_modes(&mut self) {
        for (path, mode) in std::mem::take(&mut self.local_modes).into_iter().rev() {
            if let Err(problem) = local::set_mode(&path, mode) {
                self.refuse(problem);
            }
        }
    }

    /// Removes the local surplus of a mirror, if every file has come.
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

    /// Runs a session on one connection. Returns the problem that ended it before everything was done.
    fn session(&mut self) -> Result<Option<Error>, Error> {
        let (events, inbox) = mpsc::channel();
        let mut known = std::mem::take(&mut self.known);
        let mut mirror = self.mirror.take();
        let mut modes = std::mem::take(&mut self.modes);
        let mut local_modes = std::mem::take(&mut self.local_modes);
        let to_compare: u64 = mirror.iter().map(State::to_compare).sum();
        let unrecorded = Arc::new(AtomicUsize::new(0));
        let unfinished = || self.entries.unfinished();
        let to_send = unfinished().filter_map(|(_, entry)| entry.to_send()).sum::<u64>()
            + self.waiting.iter().filter_map(|file| file.length).sum::<u64>()
            + to_compare;
        let mut runner = Runner {
            tasks: unfinished()
                .map(|(number, entry)| self.factory.task(number, entry, None))
                .collect(),
            waiting: &mut self.waiting,
            unrecorded: Arc::clone(&unrecorded),
            directories: std::mem::take(&mut self.directories),
            trees: self.trees.clone(),
            known: &mut known,
            factory: &self.factory,
            events: events.clone(),
            count: self.entries.count(),
            upload_bytes: to_send,
            failed: self.entries.failed(),
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
            group: Group::new(self.plan.sync),
            unrecorded,
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
        self.entries.give_up(problem);
        for file in std::mem::take(&mut self.waiting) {
            let (remote, _) = file.unpacked(&self.factory);
            self.entries.push(Entry::refused_upload(&remote, problem.clone()));
        }
        for (_, tree) in std::mem::take(&mut self.trees) {
            self.entries.push(Entry::refused(&tree.remote, problem.clone()));
        }
        if self.owes() && !self.failed() {
            self.refuse(problem.clone());
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
        let (transfers, totals) = self.entries.finish();
        self.facts.files = totals.files;
        self.facts.failed = totals.failed;
        self.facts.bytes = totals.bytes;
        self.facts.body_s = self.moved.map(|(from, to)| seconds(from, to));
        self.facts.total_s = begin.elapsed().as_secs_f64();
        Run {
            transfers,
            ssh: self.ssh,
            exit_code: totals.exit_code,
            set: self.facts,
            planned,
        }
    }
}
