//! A run over SFTP: one file, or many, on one connection; again on another one for what a lost connection has left.
//!
//! The session has a thread of its own (`sftp::run`). The calling thread keeps the books and finishes files, so that an fsync never holds
//! up what is still on its way.

mod books;
mod errand;
mod inbound;
mod maker;
mod outbound;
mod plan;
mod progress;
mod walk;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use http::Method;

use self::books::{Books, Event};
use self::errand::{Runner, Tree};
use self::maker::Maker;
use super::download::Place;
use super::entry::{Entry, Local};
use super::limit;
use super::policy::Retries;
use crate::cli::{Common, GetOptions, PutOptions, Source, Target};
use crate::files;
use crate::report::{FileSet, Problem, SshReport, Transfer};
use crate::sftp::{self, Plan};

/// What a run has come to.
pub struct Run {
    pub transfers: Vec<Transfer>,
    pub ssh: Option<SshReport>,
    pub set: FileSet,
}

pub fn get(options: &GetOptions) -> Result<Run, Problem> {
    let common = &options.common;
    let first = plan::one_server(&options.sources)?;
    let mut maker = Maker::new(&options.transfer, common, first.url.as_str());
    maker.overwrite = options.overwrite;
    maker.resume = options.resume;
    maker.range = options.range;
    let mut entries = Vec::new();
    let mut trees = Vec::new();
    if let (true, Target::Tree(path) | Target::Directory(path)) = (options.recursive, &options.target) {
        errand::make_directory(path)?;
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
            let place = match (&options.target, local) {
                (Target::Stdout, _) => Place::Stdout,
                (_, Some(path)) => Place::File(path),
                (_, None) => Place::Discard,
            };
            entries.push(maker.download(remote, place)?);
        }
    }
    let shared = !(options.limit_each || entries.len() == 1 && trees.is_empty());
    let settings = super::settings(
        common,
        limit(&options.transfer, !shared),
        usize::try_from(options.transfer.buffer_size.bytes()).unwrap_or(usize::MAX),
        options.parallel,
    );
    let plan = plan::plan(common, first, settings, true)?;
    Set::new(maker, plan, common, entries, trees, Vec::new()).run()
}

pub fn put(options: &PutOptions) -> Result<Run, Problem> {
    let common = &options.common;
    let mut maker = Maker::new(&options.transfer, common, options.destination.url.as_str());
    maker.resume = options.resume;
    let (mut entries, mut directories, mut skipped) = (Vec::new(), Vec::new(), 0);
    match &options.source {
        Source::Directory(root) => {
            let tree = walk::walk(root, &options.destination.path)?;
            skipped = tree.skipped;
            directories = tree.directories;
            for file in tree.files {
                let mut remote = options.destination.clone();
                if let Ok(mut segments) = remote.url.path_segments_mut() {
                    segments.pop_if_empty();
                    segments.extend(file.names.iter().map(|name| name.to_string_lossy().into_owned()));
                }
                remote.path = file.remote;
                let local = Local {
                    path: Some(file.path),
                    length: Some(file.length),
                    opened: Mutex::new(None),
                };
                entries.push(maker.upload(&remote, local));
            }
        }
        source => {
            // Opened now: a name that is wrong must not cost a connection.
            let (path, opened) = match source {
                Source::File(path) => (Some(path.clone()), files::Source::open(path)?),
                _ => (None, files::Source::stdin()?),
            };
            let local = Local {
                length: opened.length(),
                path: path.filter(|_| opened.length().is_some()),
                opened: Mutex::new(Some(opened)),
            };
            entries.push(maker.upload(&options.destination, local));
        }
    }
    let settings = super::settings(
        common,
        limit(&options.transfer, entries.len() == 1),
        usize::try_from(options.transfer.buffer_size.bytes()).unwrap_or(usize::MAX),
        1,
    );
    let plan = plan::plan(common, &options.destination, settings, options.sync)?;
    let mut set = Set::new(maker, plan, common, entries, Vec::new(), directories);
    set.facts.skipped = skipped;
    set.run()
}

/// The books.
struct Set {
    maker: Maker,
    plan: Plan,
    retries: Retries,
    insecure: bool,
    total: Option<Duration>,
    entries: Vec<Entry>,
    trees: Vec<(usize, Tree)>,
    directories: Vec<Vec<u8>>,
    known: HashSet<Vec<u8>>,
    facts: FileSet,
    ssh: Option<SshReport>,
    moved: Option<(Instant, Instant)>,
    /// Bytes that need not go again.
    progress: u64,
}

impl Set {
    fn new(
        maker: Maker,
        plan: Plan,
        common: &Common,
        entries: Vec<Entry>,
        trees: Vec<Tree>,
        directories: Vec<Vec<u8>>,
    ) -> Self {
        Self {
            retries: Retries {
                most: maker.options.retries,
                longest_wait: maker.options.retry_max_wait,
                unsafe_too: false,
                unreached_too: maker.options.retry_unreached,
            },
            maker,
            plan,
            insecure: common.insecure,
            total: common.timeouts.total,
            entries,
            trees: trees.into_iter().enumerate().collect(),
            directories,
            known: HashSet::new(),
            facts: FileSet::default(),
            ssh: None,
            moved: None,
            progress: 0,
        }
    }

    fn run(mut self) -> Result<Run, Problem> {
        let begin = Instant::now();
        self.plan.deadline = self.total.and_then(|total| begin.checked_add(total));
        let mut failures = 0;
        loop {
            let before = self.progress;
            let problem = self.session()?;
            let over = self.entries.iter().all(|entry| entry.over) && self.trees.is_empty();
            if over {
                break;
            }
            // Whatever moved earns a fresh set of retries; a listing that is cut short has nothing else to go by.
            failures = if self.progress > before { 1 } else { failures + 1 };
            let mut problem = problem.unwrap_or_else(|| Problem::transient("the connection was lost"));
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
            for entry in self.entries.iter_mut().filter(|entry| !entry.over) {
                entry.waited_s = wait.as_secs_f64();
            }
            std::thread::sleep(wait);
        }
        Ok(self.account(begin))
    }

    /// One connection's worth. Returns what ended it before everything was done.
    fn session(&mut self) -> Result<Option<Problem>, Problem> {
        let (events, inbox) = mpsc::channel();
        let mut known = std::mem::take(&mut self.known);
        let unfinished = || self.entries.iter().enumerate().filter(|(_, entry)| !entry.over);
        let mut runner = Runner {
            tasks: unfinished()
                .map(|(index, entry)| self.maker.task(index, entry, None))
                .collect(),
            directories: std::mem::take(&mut self.directories),
            trees: self.trees.clone(),
            known: &mut known,
            maker: &self.maker,
            events: events.clone(),
            count: self.entries.len(),
            upload_bytes: unfinished().filter_map(|(_, entry)| entry.to_send()).sum(),
        };
        let plan = &self.plan;
        let directories = runner.directories.clone();
        let books = Books {
            entries: &mut self.entries,
            trees: &mut self.trees,
            facts: &mut self.facts,
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
                .map_err(|error| Problem::local(format!("no thread can be started: {error}")))?;
            Ok(books.keep(&inbox))
        })?;
        self.known = known;
        if problem.is_some() {
            self.directories = directories;
        }
        Ok(problem)
    }

    fn give_up(&mut self, problem: &Problem) {
        for entry in self.entries.iter_mut().filter(|entry| !entry.over) {
            entry.give_up(problem.clone());
        }
        for (_, tree) in std::mem::take(&mut self.trees) {
            self.entries.push(Entry::refused(&tree.remote, problem.clone()));
        }
    }

    fn account(mut self, begin: Instant) -> Run {
        let seconds = |(from, to): (Instant, Instant)| to.saturating_duration_since(from).as_secs_f64();
        let (limit, buffer) = (self.plan.settings.limit.clone(), self.plan.settings.buffer_size as u64);
        let transfers: Vec<_> = self
            .entries
            .iter_mut()
            .map(|entry| entry.account(&limit, self.insecure, buffer))
            .collect();
        self.facts.files = transfers.len() as u64;
        self.facts.failed = transfers.iter().filter(|transfer| transfer.error.is_some()).count() as u64;
        self.facts.bytes = transfers.iter().map(|transfer| transfer.bytes).sum();
        self.facts.body_s = self.moved.map(seconds);
        self.facts.total_s = begin.elapsed().as_secs_f64();
        Run {
            transfers,
            ssh: self.ssh,
            set: self.facts,
        }
    }
}
