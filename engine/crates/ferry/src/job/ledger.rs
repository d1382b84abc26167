//! The books of a run: one entry per transfer, its attempts, what became of them, and what comes next.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::Method;
use http::header::{ACCEPT, AUTHORIZATION, HeaderValue, RANGE, USER_AGENT};

use super::download::{GetWork, Notes, Place, PutWork};
use super::entry::{Entry, Kind, range_header, resume_headers};
use super::policy::{MOST_ATTEMPTS, Retries};
use super::worker::{Event, Origin, Queue, Worker, lock, no_connection, origin};
use super::{limit, reach, settings};
use crate::cli::progress::Progress;
use crate::cli::{Common, GetOptions, PutOptions, Target, TransferOptions, Version};
use crate::files::{self, Digest};
use crate::report::{Attempt, Problem, Transfer};
use crate::transfer::connect::{Protocol, Reach};
use crate::transfer::send::Sender;
use crate::transfer::throttle::Limit;
use crate::transfer::{Ending, Outcome, Settings, Task, Work};

/// A server may close its connections as often as it likes, but not for ever without taking a request.
const MOST_REFUSALS: u32 = 16;

struct Ledger {
    entries: Vec<Entry>,
    common: Common,
    options: TransferOptions,
    retries: Retries,
    settings: Settings,
    reach: Reach,
    queue: Arc<Mutex<Queue>>,
    parallel: usize,
}

pub fn get(options: &GetOptions) -> Result<Vec<Transfer>, Problem> {
    let progress = Progress::new(options.common.progress);
    let mut entries = Vec::new();
    for remote in &options.sources {
        let place = match &options.target {
            Target::File(path) | Target::Tree(path) => Place::File(path.clone()),
            Target::Directory(path) => Place::File(path.join(remote.file_name.as_deref().unwrap_or_default())),
            Target::FromUrl => Place::File(PathBuf::from(remote.file_name.clone().unwrap_or_default())),
            Target::Stdout => Place::Stdout,
            Target::Discard => Place::Discard,
        };
        let notes = Notes::of(&place, &remote.url, options.overwrite, options.resume)?;
        let kind = Kind::Get {
            place,
            overwrite: options.overwrite,
            range: options.range,
            notes: Arc::new(Mutex::new(notes)),
        };
        entries.push(Entry::new(
            remote,
            kind,
            options.transfer.checksum.clone(),
            Some(progress.transfer(remote.url.as_str(), None)),
        ));
    }
    let limit = limit(&options.transfer, options.limit_each || options.sources.len() == 1);
    let parallel = options.parallel.min(entries.len()).max(1);
    Ledger::new(entries, &options.common, &options.transfer, limit, parallel, false)?.run()
}

pub fn put(options: &PutOptions) -> Result<Vec<Transfer>, Problem> {
    let source = match &options.source {
        crate::cli::Source::File(path) | crate::cli::Source::Directory(path) => files::Source::open(path)?,
        crate::cli::Source::Stdin => files::Source::stdin()?,
    };
    let progress = Progress::new(options.common.progress);
    let bar = progress.transfer(options.destination.url.as_str(), source.length());
    let kind = Kind::Put {
        source: Some(source),
        method: options.method.clone(),
    };
    let entries = vec![Entry::new(
        &options.destination,
        kind,
        options.transfer.checksum.clone(),
        Some(bar),
    )];
    let limit = limit(&options.transfer, true);
    Ledger::new(
        entries,
        &options.common,
        &options.transfer,
        limit,
        1,
        options.retry_unsafe,
    )?
    .run()
}

impl Ledger {
    fn new(
        entries: Vec<Entry>,
        common: &Common,
        options: &TransferOptions,
        limit: Limit,
        parallel: usize,
        unsafe_too: bool,
    ) -> Result<Self, Problem> {
        let needs_tls = entries.iter().any(|entry| entry.url.scheme() == "https");
        let buffer_size = usize::try_from(options.buffer_size.bytes()).unwrap_or(usize::MAX);
        let reach = reach(common, needs_tls, common.version)?;
        Ok(Self {
            settings: settings(common, limit, buffer_size, parallel),
            reach,
            retries: Retries {
                most: options.retries,
                longest_wait: options.retry_max_wait,
                unsafe_too,
                unreached_too: options.retry_unreached,
            },
            common: common.clone(),
            options: options.clone(),
            entries,
            queue: Arc::new(Mutex::new(Queue::new(common.timeouts.total))),
            parallel,
        })
    }

    fn run(mut self) -> Result<Vec<Transfer>, Problem> {
        let (events, inbox) = mpsc::channel();
        for index in 0..self.entries.len() {
            self.enqueue(index, Instant::now());
        }
        let mut protocols: HashMap<Origin, Protocol> = HashMap::new();
        let mut workers: HashMap<Origin, usize> = HashMap::new();
        while self.entries.iter().any(|entry| !entry.over) {
            self.staff(&protocols, &mut workers, &events)?;
            match inbox.recv_timeout(Duration::from_millis(200)) {
                Ok(Event::Done(outcome, answer)) => {
                    self.close(*outcome);
                    if let Some(answer) = answer {
                        let _ = answer.send(());
                    }
                }
                Ok(Event::ConnectFailed {
                    task,
                    mut problem,
                    total_s,
                }) => {
                    // Who has answered before is starting again.
                    problem.unreached &= !protocols.contains_key(&origin(&task.url));
                    let facts = no_connection(total_s);
                    self.close(Outcome {
                        task: *task,
                        ending: Ending::Failed(problem),
                        facts,
                        receiver: None,
                        sender: None,
                    });
                }
                Ok(Event::Connected(origin, protocol)) => {
                    protocols.insert(origin, protocol);
                }
                Ok(Event::Ended(origin)) => {
                    workers.entry(origin).and_modify(|count| *count -= 1);
                }
                Err(_) => {}
            }
        }
        let limit = self.settings.limit.clone();
        let (insecure, buffer_size) = (self.common.insecure, self.options.buffer_size.bytes());
        Ok(self
            .entries
            .iter_mut()
            .map(|entry| entry.account(&limit, insecure, buffer_size))
            .collect())
    }

    /// Enough threads for what is waiting: one until ALPN has spoken, one for h2, `parallel` for HTTP/1.1.
    fn staff(
        &mut self,
        protocols: &HashMap<Origin, Protocol>,
        workers: &mut HashMap<Origin, usize>,
        events: &mpsc::Sender<Event>,
    ) -> Result<(), Problem> {
        let waiting = lock(&self.queue).origins();
        for (origin, count) in waiting {
            let encrypted = origin.starts_with("https");
            if encrypted && self.reach.tls.is_none() {
                // A redirect from http led here.
                self.reach = reach(&self.common, true, self.common.version)?;
            }
            let wanted = match protocols.get(&origin) {
                Some(Protocol::H2) => 1,
                None if encrypted && self.common.version != Version::Http11 => 1,
                Some(Protocol::Http11) | None => self.parallel.min(count),
            };
            let busy = workers.entry(origin.clone()).or_default();
            // Those that are at work take the next task themselves; only what they cannot get to needs another thread.
            let most = if wanted == 1 { 1 } else { self.parallel };
            while *busy < most && *busy < wanted.max(1) {
                let mut reach = self.reach.clone();
                if !encrypted {
                    reach.tls = None;
                }
                let worker = Worker {
                    origin: origin.clone(),
                    queue: Arc::clone(&self.queue),
                    events: events.clone(),
                    reach,
                    settings: self.settings.clone(),
                };
                worker
                    .start()
                    .map_err(|error| Problem::local(format!("no thread can be started: {error}")))?;
                *busy += 1;
            }
        }
        Ok(())
    }

    fn enqueue(&mut self, index: usize, at: Instant) {
        let algorithm = self.entries[index]
            .checksum
            .as_ref()
            .map(|checksum| checksum.algorithm.into());
        let mut headers = self.common.headers.clone();
        headers
            .entry(USER_AGENT)
            .or_insert(HeaderValue::from_static(concat!("ferry/", env!("CARGO_PKG_VERSION"))));
        let entry = &mut self.entries[index];
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        if origin(&entry.url) == origin(&entry.remote.url) {
            if let Some(value) = &entry.remote.authorization {
                headers.insert(AUTHORIZATION, value.clone());
            }
        } else {
            // What was meant for one server is not for another.
            headers.remove(AUTHORIZATION);
            headers.remove(http::header::COOKIE);
        }
        let bar = entry
            .bar
            .clone()
            .unwrap_or_else(|| Arc::new(Progress::new(false).transfer("", None)));
        let mut offset = 0;
        let (method, work): (Method, Box<dyn Work>) = match &mut entry.kind {
            Kind::Get {
                place,
                overwrite,
                range,
                notes,
                ..
            } => {
                if let Some(range) = range {
                    headers.insert(RANGE, range_header(*range));
                } else {
                    offset = resume_headers(&mut headers, &lock(notes));
                }
                let work = GetWork {
                    url: entry.url.clone(),
                    asked: entry.remote.url.clone(),
                    place: place.clone(),
                    overwrite: *overwrite,
                    range: *range,
                    algorithm,
                    offset,
                    notes: Arc::clone(notes),
                    bar: bar.clone(),
                };
                (Method::GET, Box::new(work))
            }
            Kind::Send { .. } => unreachable!("an SFTP upload in an HTTP run"),
            Kind::Put { source, method } => {
                let digest = algorithm.map(Digest::new);
                let sender = source.take().map(|source| {
                    Sender::new(
                        source,
                        digest,
                        self.settings.limit.throttle(),
                        self.settings.buffer_size,
                    )
                });
                (
                    method.clone(),
                    Box::new(PutWork {
                        url: entry.url.clone(),
                        sender,
                        bar: bar.clone(),
                    }),
                )
            }
        };
        let task = Task {
            deadline: entry.deadline,
            transfer: index,
            url: entry.url.clone(),
            method,
            headers,
            offset,
            work,
        };
        lock(&self.queue).push(at, task);
    }

    /// Books an attempt and decides what comes next.
    fn close(&mut self, outcome: Outcome) {
        let Outcome {
            mut task,
            ending,
            facts,
            receiver,
            sender,
        } = outcome;
        let index = task.transfer;
        let entry = &mut self.entries[index];
        let sent = sender.as_ref().is_some_and(|sender| sender.given > 0);
        let moved = facts.bytes;
        let mut attempt = Attempt {
            offset: task.offset,
            bytes: facts.bytes,
            total_s: facts.phases.total_s,
            status: facts.status,
            waited_s: std::mem::take(&mut entry.waited_s),
            error: None,
        };
        entry.facts = facts;
        entry.offset = task.offset;
        entry.deadline = task.deadline;
        // The upload's body goes back to its entry, for another attempt.
        let sender = sender.or_else(|| task.work.sender(&self.settings));
        let mut upload_digest = None;
        if let (Some(sender), Kind::Put { source, .. }) = (sender, &mut entry.kind) {
            entry.size = sender.size;
            let (body, digest) = sender.into_parts();
            *source = Some(body);
            upload_digest = digest;
        }
        if let Kind::Get { notes, .. } = &mut entry.kind {
            let mut notes = lock(notes);
            entry.offset = notes.offset;
            attempt.offset = notes.offset;
            entry.size = notes.size;
            if let Some(receiver) = receiver {
                let (sink, digest) = receiver.into_parts();
                notes.kept = Some((sink, digest));
            }
        }
        let problem = match ending {
            Ending::Done => self.entries[index].complete(upload_digest).err(),
            Ending::Redirect { status, location } => {
                match self.entries[index].redirect(status, &location, self.options.max_redirects) {
                    Ok(()) => {
                        self.entries[index].attempts.push(attempt);
                        self.enqueue(index, Instant::now());
                        return;
                    }
                    Err(problem) => Some(problem),
                }
            }
            Ending::Failed(problem) => Some(problem),
        };
        if problem.as_ref().is_some_and(|problem| problem.untouched)
            && self.entries[index].refusals < MOST_REFUSALS
            && self.entries[index].rewind()
        {
            self.entries[index].refusals += 1;
            self.enqueue(index, Instant::now());
            return;
        }
        attempt.error = problem.as_ref().map(Problem::failure);
        let entry = &mut self.entries[index];
        entry.attempts.push(attempt);
        let Some(problem) = problem else {
            entry.over = true;
            return;
        };
        // Bytes that need not come again earn a fresh set of retries: a long download over a bad line is not given up for having been long.
        entry.failures = if moved > 0 && entry.keeps_progress() {
            1
        } else {
            entry.failures + 1
        };
        let now = Instant::now();
        let wait = self
            .retries
            .wait(&problem, &task.method, sent, entry.failures, fastrand::f64());
        match wait {
            Some(wait)
                if entry.attempts.len() < MOST_ATTEMPTS
                    && entry.deadline.is_none_or(|deadline| now + wait < deadline)
                    && self.entries[index].rewind() =>
            {
                self.entries[index].waited_s = wait.as_secs_f64();
                self.entries[index].ask_again();
                self.enqueue(index, Instant::now() + wait);
            }
            _ => self.entries[index].give_up(problem),
        }
    }
}
