//! The scheduler of an HTTP run: one entry per transfer, its attempts, what became of them, and what comes next.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::Method;
use http::header::{ACCEPT, AUTHORIZATION, HeaderValue, RANGE, USER_AGENT};

use super::attempt::Failed;
use super::download::{AttemptState, Destination, GetWork, PutWork};
use super::entry::{Entry, Kind, range_header, resume_headers};
use super::policy::Retries;
use super::worker::{Event, Origin, Queue, Worker, no_connection, origin};
use super::{connect_options, limit, settings};
use crate::error::Error;
use crate::files::{self, Digest};
use crate::log;
use crate::observer::{Observer, Silent};
use crate::options::{Common, GetOptions, PutOptions, Target, TransferOptions, Version};
use crate::report::Transfer;
use crate::sync::lock;
use crate::transfer::connect::{ConnectOptions, Protocol};
use crate::transfer::send::Sender;
use crate::transfer::throttle::Limit;
use crate::transfer::{Ending, Outcome, Settings, Task, Work};
use crate::units::ByteSize;

/// A server may close its connections as often as it likes, but not for ever without taking a request.
const MOST_REFUSALS: u32 = 16;
/// How long transfers may take to come back once the run was told to end.
const PATIENCE: Duration = Duration::from_secs(1);

struct Scheduler {
    entries: Vec<Entry>,
    common: Common,
    options: TransferOptions,
    retries: Retries,
    settings: Settings,
    connect_options: ConnectOptions,
    queue: Arc<Mutex<Queue>>,
    parallel: usize,
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
        let state = AttemptState::of(&destination, &remote.url, options.overwrite, options.resume)?;
        let kind = Kind::Get {
            destination,
            overwrite: options.overwrite,
            range: options.range,
            state: Arc::new(Mutex::new(state)),
        };
        entries.push(Entry::new(
            remote,
            kind,
            options.transfer.checksum.clone(),
            Some(observer.begin(remote.url.as_str(), None)),
        ));
    }
    let limit = limit(&options.transfer, options.limit_each || options.sources.len() == 1);
    let parallel = options.parallel.min(entries.len()).max(1);
    Scheduler::new(entries, &options.common, &options.transfer, limit, parallel, false)?.run()
}

pub fn put(options: &PutOptions, observer: &dyn Observer) -> Result<Vec<Transfer>, Error> {
    let source = match &options.source {
        crate::options::Source::File(path) | crate::options::Source::Directory(path) => files::Source::open(path)?,
        crate::options::Source::Stdin => files::Source::stdin()?,
    };
    let bar = observer.begin(options.destination.url.as_str(), source.length());
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
        let needs_tls = entries.iter().any(|entry| entry.url.scheme() == "https");
        let buffer_size = usize::try_from(options.buffer_size.bytes()).unwrap_or(usize::MAX);
        let connect_options = connect_options(common, needs_tls, common.version)?;
        Ok(Self {
            settings: settings(common, limit, buffer_size, parallel),
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
        })
    }

    fn run(mut self) -> Result<Vec<Transfer>, Error> {
        let (events, inbox) = mpsc::channel();
        for index in 0..self.entries.len() {
            self.enqueue(index, Instant::now());
        }
        let mut protocols: HashMap<Origin, Protocol> = HashMap::new();
        let mut workers: HashMap<Origin, usize> = HashMap::new();
        let mut patience = None;
        while self.entries.iter().any(|entry| !entry.over) {
            if let Some(problem) = self.settings.stop.problem() {
                let now = Instant::now();
                let until = *patience.get_or_insert(now + PATIENCE);
                self.stop(&problem, now >= until);
            }
            self.staff(&protocols, &mut workers, &events)?;
            match inbox.recv_timeout(Duration::from_millis(200)) {
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
                    problem.unreached &= !protocols.contains_key(&origin(&task.url));
                    let facts = no_connection(total_s);
                    self.record_attempt(Outcome {
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

    /// Ends what waits for its turn; with `all`, also what does not come back from the network or from standard input.
    fn stop(&mut self, problem: &Error, all: bool) {
        let waiting = lock(&self.queue).clear();
        for (index, entry) in self.entries.iter_mut().enumerate() {
            if !entry.over && (all || waiting.contains(&index)) {
                entry.give_up(problem.clone());
            }
        }
    }

    /// Enough threads for what is waiting: one until ALPN has spoken, one for h2, `parallel` for HTTP/1.1.
    fn staff(
        &mut self,
        protocols: &HashMap<Origin, Protocol>,
        workers: &mut HashMap<Origin, usize>,
        events: &mpsc::Sender<Event>,
    ) -> Result<(), Error> {
        let waiting = lock(&self.queue).origins();
        for (origin, count) in waiting {
            let encrypted = origin.starts_with("https");
            if encrypted && self.connect_options.tls.is_none() {
                // A redirect from http led here.
                self.connect_options = connect_options(&self.common, true, self.common.version)?;
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
                let mut connect_options = self.connect_options.clone();
                if !encrypted {
                    connect_options.tls = None;
                }
                let worker = Worker {
                    origin: origin.clone(),
                    queue: Arc::clone(&self.queue),
                    events: events.clone(),
                    connect_options,
                    settings: self.settings.clone(),
                };
                worker
                    .start()
                    .map_err(|error| Error::local(format!("no thread can be started: {error}")).with_source(error))?;
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
                    offset,
                    state: Arc::clone(state),
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

    /// Records an attempt and decides what comes next.
    fn record_attempt(&mut self, outcome: Outcome) {
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
            Ending::Done => self.entries[index].complete(upload_digest).err(),
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
        let entry = &mut self.entries[index];
        let failed = problem.map(|problem| Failed {
            problem,
            method: &task.method,
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
