//! The books of a run: one entry per transfer, its attempts, what became of them, and what comes next.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::Method;
use http::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue, IF_RANGE, RANGE, USER_AGENT};
use url::Url;

use super::download::{GetWork, Notes, Place, PutWork, Validators};
use super::policy::Retries;
use super::worker::{Event, Origin, Queue, Worker, lock, no_connection, origin};
use super::{limit, reach, settings};
use crate::cli::progress::{Bar, Progress};
use crate::cli::{Checksum, Common, GetOptions, PutOptions, RangeArg, Remote, Target, TransferOptions, Version};
use crate::files::{self, Digest};
use crate::report::{Attempt, Class, Command, Problem, Transfer};
use crate::transfer::connect::{Protocol, Reach};
use crate::transfer::send::Sender;
use crate::transfer::throttle::Limit;
use crate::transfer::{Ending, Facts, Outcome, Settings, Task, Work};

/// Two TLS records: less would stop a sender that fills them.
const LEAST_WINDOW: usize = 32 * 1024;

/// What is particular to the two directions.
enum Kind {
    Get {
        place: Place,
        overwrite: bool,
        resume: bool,
        range: Option<RangeArg>,
        notes: Arc<Mutex<Notes>>,
    },
    Put {
        source: Option<files::Source>,
        method: Method,
    },
}

struct Entry {
    remote: Remote,
    /// Where redirects have led.
    url: Url,
    redirects: u32,
    kind: Kind,
    checksum: Option<Checksum>,
    /// Failed attempts since the last progress.
    failures: u32,
    waited_s: f64,
    attempts: Vec<Attempt>,
    facts: Facts,
    offset: u64,
    size: Option<u64>,
    digest: Option<String>,
    bar: Option<Arc<Bar>>,
    over: bool,
    problem: Option<Problem>,
}

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
            Target::File(path) => Place::File(path.clone()),
            Target::FromUrl => Place::File(PathBuf::from(remote.file_name.clone().unwrap_or_default())),
            Target::Stdout => Place::Stdout,
            Target::Discard => Place::Discard,
        };
        let mut notes = Notes::default();
        if let Place::File(path) = &place {
            // Before any server is asked.
            files::check_target(path, options.overwrite)?;
            if options.resume {
                notes.found = files::existing(path).filter(|found| found.url == remote.url.as_str());
                if let Some(found) = &notes.found {
                    notes.validators = Validators {
                        etag: found.etag.clone(),
                        last_modified: found.last_modified.clone(),
                        size: found.size,
                    };
                }
            }
        }
        let kind = Kind::Get {
            place,
            overwrite: options.overwrite,
            resume: options.resume,
            range: options.range,
            notes: Arc::new(Mutex::new(notes)),
        };
        entries.push(Entry::new(
            remote,
            kind,
            &options.transfer,
            progress.transfer(remote.url.as_str(), None),
        ));
    }
    let limit = limit(&options.transfer, options.limit_each || options.sources.len() == 1);
    let parallel = options.parallel.min(entries.len()).max(1);
    Ledger::new(entries, &options.common, &options.transfer, limit, parallel, false)?.run()
}

pub fn put(options: &PutOptions) -> Result<Vec<Transfer>, Problem> {
    let source = match &options.source {
        crate::cli::Source::File(path) => files::Source::open(path)?,
        crate::cli::Source::Stdin => files::Source::stdin()?,
    };
    let progress = Progress::new(options.common.progress);
    let bar = progress.transfer(options.destination.url.as_str(), source.length());
    let kind = Kind::Put {
        source: Some(source),
        method: options.method.clone(),
    };
    let entries = vec![Entry::new(&options.destination, kind, &options.transfer, bar)];
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

impl Entry {
    fn new(remote: &Remote, kind: Kind, options: &TransferOptions, bar: Bar) -> Self {
        Self {
            url: remote.url.clone(),
            remote: remote.clone(),
            redirects: 0,
            kind,
            checksum: options.checksum.clone(),
            failures: 0,
            waited_s: 0.0,
            attempts: Vec::new(),
            facts: Facts::default(),
            offset: 0,
            size: None,
            digest: None,
            bar: Some(Arc::new(bar)),
            over: false,
            problem: None,
        }
    }

    /// Whether the next attempt goes on where this one stopped.
    fn keeps_progress(&self) -> bool {
        match &self.kind {
            Kind::Get { notes, range: None, .. } => lock(notes).resume_from().is_some(),
            _ => false,
        }
    }
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
        let mut reach = reach(common, needs_tls, common.version)?;
        reach.dial.receive_buffer = limit.rate().and_then(first_window);
        Ok(Self {
            settings: settings(common, limit, buffer_size, parallel),
            reach,
            retries: Retries {
                most: options.retries,
                longest_wait: options.retry_max_wait,
                unsafe_too,
            },
            common: common.clone(),
            options: options.clone(),
            entries,
            queue: Arc::default(),
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
                Ok(Event::ConnectFailed { task, problem, total_s }) => {
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
        Ok((0..self.entries.len()).map(|index| self.account(index)).collect())
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
                Some(Protocol::Http11) => self.parallel.min(count),
                None if encrypted && self.common.version != Version::Http11 => 1,
                None => self.parallel.min(count),
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
            Ending::Done => self.complete(index, upload_digest).err(),
            Ending::Redirect { status, location } => match self.redirect(index, status, &location) {
                Ok(()) => {
                    self.entries[index].attempts.push(attempt);
                    self.enqueue(index, Instant::now());
                    return;
                }
                Err(problem) => Some(problem),
            },
            Ending::Failed(problem) => Some(problem),
        };
        attempt.error = problem.as_ref().map(Problem::failure);
        let entry = &mut self.entries[index];
        entry.attempts.push(attempt);
        let Some(problem) = problem else {
            entry.over = true;
            return;
        };
        // Bytes that need not come again earn a fresh set of retries: a long download over a bad line is not given up for having been long.
        entry.failures = if moved > 0 && entry.keeps_progress() { 1 } else { entry.failures + 1 };
        let wait = self
            .retries
            .wait(&problem, &task.method, sent, entry.failures, fastrand::f64());
        match wait {
            Some(wait) if entry.attempts.len() < 1000 && self.rewind(index) => {
                self.entries[index].waited_s = wait.as_secs_f64();
                self.enqueue(index, Instant::now() + wait);
            }
            _ => self.give_up(index, problem),
        }
    }

    /// Everything has come or gone: the checksum is compared, and only then does the file get its name.
    fn complete(&mut self, index: usize, upload_digest: Option<Digest>) -> Result<(), Problem> {
        let entry = &mut self.entries[index];
        let checksum = entry.checksum.clone();
        match &mut entry.kind {
            Kind::Get { notes, .. } => {
                let kept = lock(notes).kept.take();
                let Some((sink, digest)) = kept else { return Ok(()) };
                entry.digest = digest.map(Digest::finish);
                if let Err(problem) = check(checksum.as_ref(), entry.digest.as_deref(), entry.remote.url.as_str()) {
                    sink.abandon(false);
                    return Err(problem);
                }
                sink.finish()
            }
            Kind::Put { source, .. } => {
                entry.digest = upload_digest.map(Digest::finish);
                if let Some(source) = source {
                    source.check_unchanged()?;
                }
                check(checksum.as_ref(), entry.digest.as_deref(), "what was sent")
            }
        }
    }

    fn redirect(&mut self, index: usize, status: u16, location: &str) -> Result<(), Problem> {
        let most = self.options.max_redirects;
        let entry = &mut self.entries[index];
        let refuse = |why: String| Err(Problem::permanent(format!("{}: {why}", entry.remote.url)));
        if entry.redirects >= most {
            return refuse(match most {
                0 => format!("the server redirects to {location}, and --max-redirects 0 follows none"),
                _ => format!("redirected {most} times, the last time to {location} (--max-redirects)"),
            });
        }
        let Ok(next) = entry.url.join(location) else {
            return refuse(format!("redirected to {location:?}, which is no URL"));
        };
        if !matches!(next.scheme(), "http" | "https") {
            return refuse(format!("redirected to {next}, which is not HTTP"));
        }
        if entry.url.scheme() == "https" && next.scheme() == "http" {
            return refuse(format!(
                "redirected from https to {next}; ask for that URL itself if it may be read by others"
            ));
        }
        if matches!(entry.kind, Kind::Put { .. }) && !matches!(status, 307 | 308) {
            return refuse(format!(
                "the upload was answered {status} with {next}, which asks for a GET; nothing was sent there"
            ));
        }
        entry.redirects += 1;
        entry.url = next;
        if !self.rewind(index) {
            return Err(Problem::permanent(
                "redirected, and standard input cannot be sent twice".to_owned(),
            ));
        }
        Ok(())
    }

    /// Brings the local side to where another attempt may begin. False when that cannot be.
    fn rewind(&mut self, index: usize) -> bool {
        match &mut self.entries[index].kind {
            Kind::Get { notes, .. } => {
                let mut notes = lock(notes);
                if notes.resume_from().is_some() {
                    return true;
                }
                match notes.kept.take() {
                    Some((mut sink, _)) if sink.can_restart() => sink.restart().is_ok_and(|()| {
                        sink.abandon(false);
                        true
                    }),
                    Some((sink, digest)) => {
                        notes.kept = Some((sink, digest));
                        false
                    }
                    None => true,
                }
            }
            Kind::Put { source, .. } => match source {
                Some(source) if source.position() == 0 => true,
                Some(source) => source.can_rewind() && source.rewind(0).is_ok(),
                None => false,
            },
        }
    }

    fn give_up(&mut self, index: usize, mut problem: Problem) {
        let entry = &mut self.entries[index];
        if let Kind::Get {
            notes,
            place: Place::File(_),
            ..
        } = &mut entry.kind
        {
            let mut notes = lock(notes);
            let resumable = notes.resume_from().is_some() && problem.class != Class::Integrity;
            if let Some((sink, _)) = notes.kept.take() {
                let position = sink.position();
                sink.abandon(resumable);
                if resumable && position > 0 && problem.class == Class::Transient {
                    problem.message = format!("{}; {position} bytes are kept for --resume", problem.message);
                }
            }
        }
        entry.problem = Some(problem);
        entry.over = true;
    }

    fn account(&mut self, index: usize) -> Transfer {
        let entry = &mut self.entries[index];
        // The line goes with its last owner.
        entry.bar = None;
        let facts = std::mem::take(&mut entry.facts);
        let limit = self.settings.limit.rate().map(ferry_pacing::Rate::byte_s);
        let rate = |seconds: f64| (seconds > 0.0).then(|| facts.bytes as f64 / seconds);
        let body_byte_s = facts.phases.body_s.and_then(rate);
        let series = facts.series;
        let buffer_size_bytes = self.options.buffer_size.bytes();
        Transfer {
            url: entry.remote.url.to_string(),
            final_url: (entry.redirects > 0).then(|| entry.url.to_string()),
            direction: match entry.kind {
                Kind::Get { .. } => Command::Get,
                Kind::Put { .. } => Command::Put,
            },
            protocol: facts.protocol,
            status: facts.status,
            remote: facts.remote,
            tls: facts.tls,
            insecure: self.common.insecure,
            limit_byte_s: limit,
            limit_shared: self.settings.limit.is_shared(),
            buffer_size_bytes,
            bytes: facts.bytes,
            offset: entry.offset,
            size: entry.size,
            phases: facts.phases,
            body_byte_s,
            wall_byte_s: rate(facts.phases.total_s),
            deviation: body_byte_s.zip(limit).map(|(rate, limit)| rate / limit as f64 - 1.0),
            shortfall_s: facts.shortfall_s,
            worst_window_byte_s: series.as_ref().and_then(|facts| facts.worst_window_byte_s),
            longest_gap_ms: series.as_ref().map(|facts| facts.longest_gap_ms),
            series: series.map(|facts| facts.series),
            tcp: facts.tcp,
            checksum: entry.digest.take(),
            attempts: std::mem::take(&mut entry.attempts),
            error: entry.problem.as_ref().map(Problem::failure),
        }
    }
}

/// The window of a connection's first packet is 64 KiB: more than half a second of a limit so low that it must be asked for less.
fn first_window(rate: ferry_pacing::Rate) -> Option<usize> {
    let bytes = rate.bytes_in(500_000_000);
    (bytes < 64 * 1024).then(|| usize::try_from(bytes).unwrap_or(usize::MAX).max(LEAST_WINDOW))
}

/// Asks for the rest, if there is a beginning and a way to make sure that it belongs to it. Returns where the rest begins.
fn resume_headers(headers: &mut HeaderMap, notes: &Notes) -> u64 {
    let (Some(offset), Some(validator)) = (notes.resume_from(), notes.validators.if_range()) else {
        return 0;
    };
    let (Ok(range), Ok(validator)) = (
        HeaderValue::from_str(&format!("bytes={offset}-")),
        HeaderValue::from_str(validator),
    ) else {
        return 0;
    };
    headers.insert(RANGE, range);
    headers.insert(IF_RANGE, validator);
    offset
}

fn range_header(range: RangeArg) -> HeaderValue {
    let number = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
    // Digits and a dash are always a valid value.
    HeaderValue::from_str(&format!("bytes={}-{}", number(range.first), number(range.last)))
        .unwrap_or_else(|_| HeaderValue::from_static("bytes=0-"))
}

fn check(wanted: Option<&Checksum>, found: Option<&str>, what: &str) -> Result<(), Problem> {
    let (
        Some(Checksum {
            algorithm,
            expected: Some(expected),
        }),
        Some(found),
    ) = (wanted, found)
    else {
        return Ok(());
    };
    let hex: String = expected.iter().map(|byte| format!("{byte:02x}")).collect();
    let wanted = format!("{}:{hex}", algorithm.name());
    if wanted == found {
        return Ok(());
    }
    Err(Problem::integrity(format!(
        "{what}: the checksum is {found}, not {wanted}; nothing was kept"
    )))
}
