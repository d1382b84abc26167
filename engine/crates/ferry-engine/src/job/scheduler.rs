//! The scheduler of an HTTP run: it records the attempts at transfers, and decides on the next ones.

use std::collections::HashMap;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, HeaderValue, RANGE, USER_AGENT};
use http::{HeaderMap, Method};
use url::Url;

use super::attempt::Failed;
use super::download::{GetWork, PutWork};
use super::entries::{AHEAD, Coming, Entries, Finished};
use super::entry::{Entry, Kind, range_header, resume_headers};
use super::policy::Retries;
use super::worker::{Event, Origin, Queue, Worker, no_connection, origin};
use super::{connect_options, settings};
use crate::error::Error;
use crate::files::{Digest, Group};
use crate::log;
use crate::observer::Silent;
use crate::options::{Common, TransferOptions, Version};
use crate::report::{Attempt, FileSet, Transfer};
use crate::sync::lock;
use crate::transfer::coding;
use crate::transfer::connect::ConnectOptions;
use crate::transfer::send::Sender;
use crate::transfer::throttle::Limit;
use crate::transfer::{Ending, Outcome, Settings, Task, Work};
use crate::units::ByteSize;

/// A server may close its connections as often as it likes, but not for ever without taking a request.
pub(super) const MOST_REFUSALS: u32 = 16;
/// The longest wait for transfers to come back once the run is to end.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) struct Scheduler<'a> {
    coming: Coming<'a>,
    pub(super) entries: Entries,
    finished: Finished,
    common: Common,
    pub(super) options: TransferOptions,
    pub(super) retries: Retries,
    pub(super) settings: Settings,
    connect_options: ConnectOptions,
    pub(super) queue: Arc<Mutex<Queue>>,
    pub(super) parallel: usize,
    /// The run has one transfer.
    pub(super) alone: bool,
    /// Some download of the run is in ranges.
    pub(super) ranged: bool,
    /// The channel on which the connections report events.
    pub(super) events: mpsc::Sender<Event>,
    inbox: Option<mpsc::Receiver<Event>>,
    /// The number of threads by their origin.
    workers: HashMap<Origin, usize>,
    /// Complete files that have not got their names yet.
    pub(super) group: Group<Completed>,
}

/// The record of an attempt whose file has not got its name yet.
pub(super) struct Completed {
    index: usize,
    attempt: Attempt,
    method: Method,
    sent: bool,
    kept: u64,
}

/// The report of an HTTP run: its transfers, and all of them together.
pub type Run = (Vec<Transfer>, FileSet);

/// The task of a run.
#[expect(clippy::struct_excessive_bools, reason = "each is a property of the run")]
pub struct Asked<'a> {
    pub coming: Coming<'a>,
    /// Some URL is https.
    pub encrypted: bool,
    /// Some download is in ranges.
    pub ranged: bool,
    pub totals: bool,
    /// The disk has each file before it has its name.
    pub sync: bool,
    pub limit: Limit,
    pub parallel: usize,
    /// Requests that are not idempotent are repeated too.
    pub unsafe_too: bool,
}

impl<'a> Scheduler<'a> {
    pub fn new(asked: Asked<'a>, common: &Common, options: &TransferOptions) -> Result<Self, Error> {
        let Asked { ranged, parallel, .. } = asked;
        let connect_options = connect_options(common, asked.encrypted, common.version)?;
        let (events, inbox) = mpsc::channel();
        Ok(Self {
            settings: settings(common, options, asked.limit, if ranged { 1 } else { parallel }),
            connect_options,
            retries: Retries {
                most: options.retries,
                longest_wait: options.retry_max_wait,
                unsafe_too: asked.unsafe_too,
                unreached_too: options.retry_unreached,
            },
            common: common.clone(),
            options: options.clone(),
            alone: asked.coming.count == 1,
            coming: asked.coming,
            entries: Entries::default(),
            finished: Finished::new(asked.totals),
            queue: Arc::new(Mutex::new(Queue::new(common.timeouts.total))),
            parallel,
            ranged,
            events,
            inbox: Some(inbox),
            workers: HashMap::new(),
            group: Group::new(asked.sync),
        })
    }

    pub fn run(mut self) -> Result<Run, Error> {
        let Some(inbox) = self.inbox.take() else {
            return Ok(self.finished.into_parts());
        };
        // For each server that was reached: does a connection to it carry several requests at once?
        let mut shared: HashMap<Origin, bool> = HashMap::new();
        let mut patience = None;
        loop {
            self.begin_more();
            if self.entries.len() == 0 {
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
                // Files that came while the disk was at work make the next group.
                Err(_) if !self.group.is_empty() => {
                    self.publish();
                    continue;
                }
                Err(_) => inbox.recv_timeout(Duration::from_millis(200)),
            };
            match event {
                Ok(Event::Done(outcome, answer)) => {
                    let index = outcome.task.transfer;
                    self.record_attempt(*outcome);
                    if let Some(answer) = answer {
                        let _ = answer.send(());
                    }
                    self.settle(index);
                }
                Ok(Event::ConnectFailed {
                    task,
                    mut problem,
                    total_s,
                }) => {
                    // A server that has answered before is starting again.
                    problem.unreached &= !shared.contains_key(&origin(&task.url));
                    let (index, facts) = (task.transfer, no_connection(total_s));
                    self.record_attempt(Outcome {
                        task: *task,
                        ending: Ending::Failed(problem),
                        facts,
                        receiver: None,
                        sender: None,
                    });
                    self.settle(index);
                }
                Ok(Event::Connected(origin, several, rtt)) => {
                    self.finished.connections += 1;
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
        Ok(self.finished.into_parts())
    }

    /// Makes entries of coming transfers, as many as connections may want soon.
    fn begin_more(&mut self) {
        while self.entries.len() < self.parallel.saturating_add(AHEAD) {
            let Some((index, entry)) = self.coming.next_entry() else {
                return;
            };
            let over = entry.over;
            self.ranged |= matches!(entry.kind, Kind::Ranged(_));
            self.entries.insert(index, entry);
            if over {
                self.settle(index);
            } else {
                self.enqueue(index, Instant::now());
            }
        }
    }

    /// Moves an entry that is over into the report.
    fn settle(&mut self, index: usize) {
        if let Some(entry) = self.entries.take_over(index) {
            self.report(index, entry);
        }
    }

    fn report(&mut self, index: usize, mut entry: Entry) {
        let buffer_size = self.options.buffer_size.bytes();
        let row = entry.account(&self.settings.limit, self.common.insecure, buffer_size);
        self.finished.add(index, row);
    }

    /// Ends the transfers that wait for their turn; with `all`, also those that do not come back from the network or from
    /// standard input.
    fn stop(&mut self, problem: &Error, all: bool) {
        let waiting = lock(&self.queue).clear();
        for (index, entry) in self.entries.all_mut() {
            if !entry.over && (all || waiting.contains(&index)) {
                entry.give_up(problem.clone());
            }
        }
        for index in self.entries.numbers() {
            self.settle(index);
        }
        while let Some((index, remote)) = self.coming.next_remote() {
            self.report(index, Entry::refused(remote, problem.clone()));
        }
    }

    /// Starts enough threads for the waiting tasks: one until ALPN has spoken, one for h2 and h3, `parallel` for HTTP/1.1.
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
            // Threads that are at work take the next task themselves; only tasks beyond their number need another thread.
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

    /// Starts a thread, which connects at once if there is an `early` URL.
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
            // One server's credentials are withheld from another.
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
        // An outcome may come back after the run was ended, or after its transfer was over.
        let Some(entry) = self.entries.get(outcome.task.transfer) else {
            return;
        };
        if matches!(entry.kind, Kind::Ranged(_)) {
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
            let index = completed.index;
            if self.entries.get(index).is_some_and(|entry| !entry.over) {
                self.close(completed, result.err());
                self.settle(index);
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
