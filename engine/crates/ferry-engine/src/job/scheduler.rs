//! The scheduler of an HTTP run: one entry per transfer, its attempts, what became of them, and what comes next.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, HeaderValue, RANGE, USER_AGENT};
use http::{HeaderMap, Method};
use url::Url;

use super::attempt::Failed;
use super::download::{AttemptState, Destination, GetWork, PutWork};
use super::entry::{Entry, Kind, range_header, resume_headers};
use super::policy::Retries;
use super::ranged::{Ranged, Wanted};
use super::worker::{Event, Origin, Queue, Worker, no_connection, origin};
use super::{connect_options, limit, settings};
use crate::error::Error;
use crate::files::{self, Digest, Group};
use crate::log;
use crate::observer::{Observer, Silent};
use crate::options::{Common, GetOptions, PutOptions, Target, TransferOptions, Version};
use crate::report::{Attempt, Transfer};
use crate::sync::lock;
use crate::transfer::coding;
use crate::transfer::connect::ConnectOptions;
use crate::transfer::send::Sender;
use crate::transfer::throttle::Limit;
use crate::transfer::{Ending, Outcome, Settings, Task, Work};
use crate::units::ByteSize;

/// A server may close its connections as often as it likes, but not for ever without taking a request.
pub(super) const MOST_REFUSALS: u32 = 16;
/// How long transfers may take to come back once the run was told to end.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) struct Scheduler {
    pub(super) entries: Vec<Entry>,
    common: Common,
    pub(super) options: TransferOptions,
    pub(super) retries: Retries,
    pub(super) settings: Settings,
    connect_options: ConnectOptions,
    pub(super) queue: Arc<Mutex<Queue>>,
    pub(super) parallel: usize,
    /// Some download of the run is in ranges.
    pub(super) ranged: bool,
    /// Where the connections say what has happened.
    pub(super) events: mpsc::Sender<Event>,
    inbox: Option<mpsc::Receiver<Event>>,
    /// Threads by what they are connected to.
    workers: HashMap<Origin, usize>,
    /// Complete files that have not got their names yet.
    pub(super) group: Group<Completed>,
}

/// What is to be recorded of an attempt when its file has its name.
pub(super) struct Completed {
    index: usize,
    attempt: Attempt,
    method: Method,
    sent: bool,
    kept: u64,
}

pub fn get(options: &GetOptions, observer: &dyn Observer) -> Result<Vec<Transfer>, Error> {
    let mut entries = Vec::new();
    for remote in &options.sources {
        let destination = match &options.target {
            Target::File(path) | Target::Tree(path) => Destination::File(path.clone()),
            Target::Directory(path) => Destination::File(path.join(remote.file_name.as_deref().unwrap_or_default())),
            Target::FromUrl => Destination::File(PathBuf::from(remote.file_name.clone().unwrap_or_default())),
            Target::Stdout => Destination::Stdout,
            Target::Discard => Destination::Discard,
        };
        let mut state = AttemptState::of(&destination, &remote.url, options.overwrite, options.resume)?;
        let kind = if in_ranges(options, &state) {
            let wanted = Wanted {
                asked: remote.url.clone(),
                destination,
                overwrite: options.overwrite,
                max_filesize: options.transfer.max_filesize.map(ByteSize::bytes),
                remote_time: options.transfer.remote_time,
                connections: connections(options),
            };
            Kind::Ranged(Box::new(Ranged::new(Arc::new(wanted), state.resumable.take())))
        } else {
            Kind::Get {
                destination,
                overwrite: options.overwrite,
                range: options.range,
                state: Arc::new(Mutex::new(state)),
            }
        };
        entries.push(Entry::new(
            remote,
            kind,
            options.transfer.checksum.clone(),
            Some(observer.begin(&log::shown(&remote.url), None)),
        ));
    }
    let ranged = matches!(
        entries[..],
        [Entry {
            kind: Kind::Ranged(_),
            ..
        }]
    );
    let one = options.sources.len() == 1 && !(ranged && connections(options) > 1);
    let limit = limit(&options.transfer, options.limit_each || one);
    let parallel = if ranged {
        connections(options)
    } else if options.transfer.background {
        1
    } else {
        options.parallel.min(entries.len()).max(1)
    };
    let mut scheduler = Scheduler::new(entries, &options.common, &options.transfer, limit, parallel, false)?;
    scheduler.group = Group::new(options.sync);
    scheduler.run()
}

fn connections(options: &GetOptions) -> usize {
    options.connections.max(1)
}

/// Whether a download is fetched in ranges: over several connections, or because an earlier run that did so has left holes.
fn in_ranges(options: &GetOptions, state: &AttemptState) -> bool {
    let holes = state.resumable.as_ref().is_some_and(|found| !found.missing.is_empty());
    let several = connections(options) > 1 && options.sources.len() == 1 && options.target != Target::Stdout;
    options.range.is_none() && (several || holes)
}

pub fn put(options: &PutOptions, observer: &dyn Observer) -> Result<Vec<Transfer>, Error> {
    let source = match &options.source {
        crate::options::Source::File(path) | crate::options::Source::Directory(path) => files::Source::open(path)?,
        crate::options::Source::Stdin => files::Source::stdin()?,
    };
    let bar = observer.begin(&log::shown(&options.destination.url), source.length());
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
    Scheduler::new(
        entries,
        &options.common,
        &options.transfer,
        limit,
        1,
        options.retry_unsafe,
    )?
    .run()
}

impl Scheduler {
    fn new(
        entries: Vec<Entry>,
        common: &Common,
        options: &TransferOptions,
        limit: Limit,
        parallel: usize,
        unsafe_too: bool,
    ) -> Result<Self, Error> {
        let ranged = entries.iter().any(|entry| matches!(entry.kind, Kind::Ranged(_)));
        let needs_tls = entries.iter().any(|entry| entry.url.scheme() == "https");
        let connect_options = connect_options(common, needs_tls, common.version)?;
        let (events, inbox) = mpsc::channel();
        Ok(Self {
            settings: settings(common, options, limit, if ranged { 1 } else { parallel }),
            connect_options,
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
            ranged,
            events,
            inbox: Some(inbox),
            workers: HashMap::new(),
            group: Group::new(true),
        })
    }

    fn run(mut self) -> Result<Vec<Transfer>, Error> {
        let Some(inbox) = self.inbox.take() else {
            return Ok(Vec::new());
        };
        for index in 0..self.entries.len() {
            self.enqueue(index, Instant::now());
        }
        // For each server that was reached: does a connection to it carry several requests at once?
        let mut shared: HashMap<Origin, bool> = HashMap::new();
        let mut patience = None;
        // Entries before this one are over, and stay so: a run of many thousands does not look at all of them after each.
        let mut first_open = 0;
        loop {
            first_open += self
                .entries
                .iter()
                .skip(first_open)
                .take_while(|entry| entry.over)
                .count();
            if first_open == self.entries.len() {
                break;
            }
            if let Some(problem) = self.settings.stop.problem() {
                let now = Instant::now();
                let until = *patience.get_or_insert(now + PATIENCE);
                self.stop(&problem, now >= until);
            }
            self.staff(&shared)?;
            self.write_journals();
            if self.group.is_full(Instant::now()) {
                self.publish();
            }
            let event = match inbox.try_recv() {
                Ok(event) => Ok(event),
                // What has come while the disk was at work makes the next group.
                Err(_) if !self.group.is_empty() => {
                    self.publish();
                    continue;
                }
                Err(_) => inbox.recv_timeout(Duration::from_millis(200)),
            };
            match event {
                Ok(Event::Done(outcome, answer)) => {
                    self.record_attempt(*outcome);
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
                    problem.unreached &= !shared.contains_key(&origin(&task.url));
                    let facts = no_connection(total_s);
                    self.record_attempt(Outcome {
                        task: *task,
                        ending: Ending::Failed(problem),
                        facts,
                        receiver: None,
                        sender: None,
                    });
                }
                Ok(Event::Connected(origin, several, rtt)) => {
                    self.count_connection(rtt);
                    shared.insert(origin, several);
                }
                Ok(Event::Answered(index)) => self.ask_for_ranges(index, Instant::now()),
                Ok(Event::Ended(origin)) => {
                    self.workers.entry(origin).and_modify(|count| *count -= 1);
                }
                Err(_) => self.relieve_ranges(),
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

    /// Ends what waits for its turn; with `all`, also what does not come back from the network or from standard input.
    fn stop(&mut self, problem: &Error, all: bool) {
        let waiting = lock(&self.queue).clear();
        for (index, entry) in self.entries.iter_mut().enumerate() {
            if !entry.over && (all || waiting.contains(&index)) {
                entry.give_up(problem.clone());
            }
        }
    }

    /// Enough threads for what is waiting: one until ALPN has spoken, one for h2 and h3, `parallel` for HTTP/1.1.
    fn staff(&mut self, shared: &HashMap<Origin, bool>) -> Result<(), Error> {
        let waiting = lock(&self.queue).origins();
        for (origin, count) in waiting {
            let encrypted = origin.starts_with("https");
            if encrypted && self.connect_options.tls.is_none() {
                // A redirect from http led here.
                self.connect_options = connect_options(&self.common, true, self.common.version)?;
            }
            let ranged = self.ranged;
            let wanted = match shared.get(&origin) {
                // Ranges of one file have a connection each.
                _ if ranged => self.parallel.min(count),
                Some(true) => 1,
                None if encrypted && self.common.version != Version::Http11 => 1,
                Some(false) | None => self.parallel.min(count),
            };
            // Those that are at work take the next task themselves; only what they cannot get to needs another thread.
            let most = if wanted == 1 && !ranged { 1 } else { self.parallel };
            while self.workers_at(&origin) < most.min(wanted.max(1)) {
                self.start_worker(&origin, None)?;
            }
        }
        Ok(())
    }

    fn workers_at(&self, origin: &Origin) -> usize {
        self.workers.get(origin).copied().unwrap_or_default()
    }

    /// A thread with a connection, made at once where `early` says whereto.
    pub(super) fn start_worker(&mut self, origin: &Origin, early: Option<Url>) -> Result<(), Error> {
        let mut connect_options = self.connect_options.clone();
        if !origin.starts_with("https") {
            connect_options.tls = None;
        }
        let worker = Worker {
            origin: origin.clone(),
            queue: Arc::clone(&self.queue),
            events: self.events.clone(),
            connect_options,
            settings: self.settings.clone(),
            early,
        };
        worker
            .start()
            .map_err(|error| Error::local(format!("no thread can be started: {error}")).with_source(error))?;
        *self.workers.entry(origin.clone()).or_default() += 1;
        Ok(())
    }

    /// The fields of a request for this entry, without those of ranges.
    pub(super) fn headers(&self, entry: &Entry) -> HeaderMap {
        let mut headers = self.common.headers.clone();
        headers
            .entry(USER_AGENT)
            .or_insert(HeaderValue::from_static(concat!("ferry/", env!("CARGO_PKG_VERSION"))));
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
        headers
    }

    pub(super) fn enqueue(&mut self, index: usize, at: Instant) {
        if matches!(self.entries[index].kind, Kind::Ranged(_)) {
            return self.begin_ranges(index, at);
        }
        let algorithm = self.entries[index]
            .checksum
            .as_ref()
            .map(|checksum| checksum.algorithm.into());
        let mut headers = self.headers(&self.entries[index]);
        let entry = &mut self.entries[index];
        let bar = entry.bar.clone().unwrap_or_else(|| Arc::new(Box::new(Silent)));
        let mut offset = 0;
        let (method, work): (Method, Box<dyn Work>) = match &mut entry.kind {
            Kind::Get {
                destination,
                overwrite,
                range,
                state,
                ..
            } => {
                if let Some(range) = range {
                    headers.insert(RANGE, range_header(*range));
                } else {
                    offset = resume_headers(&mut headers, &lock(state));
                    if self.options.compressed && offset > 0 {
                        headers.remove(ACCEPT_ENCODING);
                    } else if self.options.compressed {
                        headers.entry(ACCEPT_ENCODING).or_insert(coding::ACCEPTED);
                    }
                }
                let work = GetWork {
                    url: entry.url.clone(),
                    asked: entry.remote.url.clone(),
                    destination: destination.clone(),
                    overwrite: *overwrite,
                    range: *range,
                    algorithm,
                    max_filesize: self.options.max_filesize.map(ByteSize::bytes),
                    remote_time: self.options.remote_time,
                    compressed: self.options.compressed,
                    offset,
                    due: None,
                    state: Arc::clone(state),
                    bar: bar.clone(),
                };
                (Method::GET, Box::new(work))
            }
            Kind::Send { .. } | Kind::Ranged(_) => unreachable!("an SFTP upload in an HTTP run, or ranges"),
            Kind::Put { source, method } => {
                let digest = algorithm.map(Digest::new);
                let sender = source
                    .take()
                    .map(|source| Sender::new(source, digest, self.settings.outgoing(), self.settings.buffer_size));
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

    /// Records an attempt and decides what comes next.
    fn record_attempt(&mut self, outcome: Outcome) {
        let index = outcome.task.transfer;
        if matches!(self.entries[index].kind, Kind::Ranged(_)) {
            return self.record_range(outcome);
        }
        let Outcome {
            mut task,
            ending,
            facts,
            receiver,
            sender,
        } = outcome;
        let index = task.transfer;
        let entry = &mut self.entries[index];
        if entry.over {
            // It came back after the run was told to end, and nobody waited for it.
            return;
        }
        let sent = sender.as_ref().is_some_and(|sender| sender.given > 0);
        let kept = facts.bytes;
        let offset = match &entry.kind {
            Kind::Get { state, .. } => lock(state).offset,
            _ => task.offset,
        };
        let attempt = entry.end_attempt(facts, offset, receiver);
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
        let problem = match ending {
            Ending::Done => match self.entries[index].complete(upload_digest) {
                Ok(Some(file)) => {
                    let completed = Completed {
                        index,
                        attempt,
                        method: task.method,
                        sent,
                        kept,
                    };
                    self.group.push(file, completed, Instant::now());
                    return;
                }
                Ok(None) => None,
                Err(problem) => Some(problem),
            },
            Ending::Redirect { status, location } => {
                match self.entries[index].redirect(status, &location, self.options.max_redirects) {
                    Ok(()) => {
                        tracing::info!(status, to = log::shown(&self.entries[index].url), "redirected");
                        self.entries[index].attempts.push(attempt);
                        self.enqueue(index, Instant::now());
                        return;
                    }
                    Err(problem) => Some(problem),
                }
            }
            Ending::Failed(problem) => Some(problem),
        };
        if problem.as_ref().is_some_and(|problem| problem.not_processed)
            && self.entries[index].refusals < MOST_REFUSALS
            && self.entries[index].rewind()
        {
            self.entries[index].refusals += 1;
            tracing::info!(
                url = log::shown(&self.entries[index].url),
                "the server did not take the request; asking again"
            );
            self.enqueue(index, Instant::now());
            return;
        }
        self.close(
            Completed {
                index,
                attempt,
                method: task.method,
                sent,
                kept,
            },
            problem,
        );
    }

    fn publish(&mut self) {
        for (completed, result) in self.group.publish() {
            if !self.entries[completed.index].over {
                self.close(completed, result.err());
            }
        }
    }

    fn close(&mut self, completed: Completed, problem: Option<Error>) {
        let Completed {
            index,
            attempt,
            method,
            sent,
            kept,
        } = completed;
        let entry = &mut self.entries[index];
        let failed = problem.map(|problem| Failed {
            problem,
            method: &method,
            sent,
            kept,
        });
        if let Some(wait) = entry.close(attempt, failed, &self.retries) {
            entry.waited_s = wait.as_secs_f64();
            entry.ask_again();
            self.enqueue(index, Instant::now() + wait);
        }
    }
}
