//! A download whose ranges several connections fetch: `--connections`.
//!
//! The first request asks for the beginning. Its answer says whether the server serves ranges, how large the file is and what tells
//! this version of it from another (a strong validator); meanwhile the other connections are made. Every other request has If-Range, so
//! that the parts are parts of one file. Where any of this is missing the download goes on as one over one connection.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use http::HeaderMap;
use http::header::{HeaderValue, IF_RANGE, RANGE};
use url::Url;

use super::download::{AttemptState, CHANGED, Destination, most_bytes, refused};
use super::version::{Partial, Promise, check_length, goes_on, last_modified, stated_by, validators_of};
use super::worker::Event;
use crate::clock::seconds;
use crate::error::Error;
use crate::files::{Missing, Part, PartialFile, Parts, Resumable, ResumeKey, Sink, Stated, Validators};
use crate::log;
use crate::observer::Progress;
use crate::sync::lock;
use crate::transfer::receive::Receiver;
use crate::transfer::send::Sender as BodySender;
use crate::transfer::{Answer, Ending, Facts, Head, Settings, Work};

/// The number of bytes that the first request asks for. A connection in slow start takes many round trips for as much.
const FIRST: u64 = 4 << 20;
/// The wait of a range that the server has refused while it served others.
pub const AFTER_REFUSAL: Duration = Duration::from_millis(500);
/// The journal is written again after this many more bytes.
const JOURNAL_BYTES: u64 = 8 << 20;

/// The verdict of the answers so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Unknown,
    /// The server serves ranges of one version.
    Ranges,
    /// The server does not serve ranges: one connection fetches the file.
    Plain,
    /// An answer was about another version of the file.
    Changed,
}

/// The download that the user asked for.
pub struct Wanted {
    /// The URL as the user wrote it.
    pub asked: Url,
    pub destination: Destination,
    pub overwrite: bool,
    pub max_filesize: Option<u64>,
    pub remote_time: bool,
    pub connections: usize,
}

/// The local side of a download in ranges, for the scheduler.
pub struct Ranged {
    pub wanted: Arc<Wanted>,
    pub shared: Arc<Shared>,
    /// Connections that the server is asked on; fewer than wanted once it has refused some.
    pub allowed: usize,
    /// Bytes that an earlier run has left.
    pub kept: u64,
    pub begun: Instant,
    /// The measurements of the first range: its phases and TCP samples stand for the transfer.
    pub first: Option<Facts>,
    /// The shortest round trip of all connections.
    pub rtt: Duration,
    /// Connections made.
    pub connections: u32,
    /// The URL of the last redirect has served a range.
    pub proven: bool,
    /// The bytes that had come when the journal was last written.
    journaled: u64,
}

/// The state of a download that the connections' threads share.
pub struct Shared {
    pub parts: Arc<Parts>,
    found: Mutex<Found>,
    /// Held while the journal is written.
    journal: Mutex<()>,
}

struct Found {
    verdict: Verdict,
    size: Option<u64>,
    validators: Validators,
    stated: Stated,
    /// The length that the server has given for a version of this run, also before the download began again.
    promise: Option<Promise>,
    /// The reason for the verdict `Changed`.
    changed: Option<String>,
    /// The partial file that an earlier run has left.
    resumable: Option<Resumable>,
    /// The file, once it is open.
    file: Option<PartialFile>,
    opened: bool,
}

impl Ranged {
    /// Returns the state of a download before its first request, with the bytes and the version that an earlier run has left.
    pub fn new(wanted: Arc<Wanted>, resumable: Option<Resumable>) -> Self {
        let mut missing = Missing::default();
        let mut found = Found {
            verdict: Verdict::Unknown,
            size: None,
            validators: Validators::default(),
            stated: Stated::default(),
            promise: None,
            changed: None,
            resumable: None,
            file: None,
            opened: false,
        };
        let mut kept = 0;
        if let Some(resumable) = resumable
            && let Some(size) = resumable.key.validators.size
        {
            missing = if resumable.missing.is_empty() {
                Missing::one(resumable.offset..size)
            } else {
                resumable.missing.clone()
            };
            kept = size.saturating_sub(missing.bytes());
            found.size = Some(size);
            found.validators = resumable.key.validators.clone();
            found.stated = resumable.key.stated();
            found.promise = Promise::of(&found.validators, &found.stated);
            found.resumable = Some(resumable);
        }
        Self {
            allowed: wanted.connections,
            wanted,
            shared: Arc::new(Shared {
                parts: Parts::new(missing),
                found: Mutex::new(found),
                journal: Mutex::new(()),
            }),
            kept,
            begun: Instant::now(),
            first: None,
            rtt: Duration::ZERO,
            connections: 0,
            proven: false,
            journaled: 0,
        }
    }

    /// Begins again, because the file has changed. Only for a download without a part on its way.
    pub fn restart(&mut self) {
        let mut found = self.shared.lock();
        let (file, promise) = (found.file.take(), found.promise.take());
        drop(found);
        if let Some(file) = file {
            file.abandon(false);
        }
        *self = Self {
            begun: self.begun,
            allowed: self.allowed,
            connections: self.connections,
            rtt: self.rtt,
            ..Self::new(Arc::clone(&self.wanted), None)
        };
        self.shared.lock().promise = promise;
    }

    /// Returns the reason for beginning again.
    pub fn changed(&self) -> String {
        self.shared.lock().changed.clone().unwrap_or_else(|| CHANGED.to_owned())
    }

    /// Returns the state for a download over one connection, with the length that the server has given.
    pub fn plainly(&self) -> AttemptState {
        let promise = self.shared.lock().promise.take();
        AttemptState {
            begun: promise.is_some(),
            promise,
            ..AttemptState::default()
        }
    }

    /// Returns the first range to ask for or, after the first answer, the next one. `idle` connections wait for a range.
    pub fn next(&self, idle: usize) -> Option<Part> {
        let parts = &self.shared.parts;
        let size = self.shared.lock().size;
        match (self.verdict(), size) {
            (Verdict::Ranges, _) if parts.flying() < 2 * self.allowed => parts.take(self.allowed, idle, self.rtt),
            (Verdict::Unknown, Some(_)) if parts.flying() == 0 => parts.take(self.allowed, 0, self.rtt),
            (Verdict::Unknown, None) if parts.flying() == 0 => Some(parts.guess(FIRST)),
            _ => None,
        }
    }

    pub fn verdict(&self) -> Verdict {
        self.shared.lock().verdict
    }

    pub fn size(&self) -> Option<u64> {
        self.shared.lock().size
    }

    /// Adds the fields that ask for the range, and for it in this version if another answer has named a version.
    pub fn headers(&self, headers: &mut HeaderMap, part: &Part) {
        let range = part.range();
        let last = range.end.saturating_sub(1);
        if let Ok(value) = HeaderValue::from_str(&format!("bytes={}-{last}", range.start)) {
            headers.insert(RANGE, value);
        }
        let found = self.shared.lock();
        if let Some(Ok(value)) = found.validators.if_range().map(HeaderValue::from_str) {
            headers.insert(IF_RANGE, value);
        }
    }

    /// Writes the journal if the file has grown enough to be worth it; on a thread of its own, because a disk may take its
    /// time.
    pub fn journal(&mut self) {
        let bytes = self.shared.parts.bytes();
        if bytes < self.journaled + JOURNAL_BYTES || self.verdict() != Verdict::Ranges {
            return;
        }
        self.journaled = bytes;
        let shared = Arc::clone(&self.shared);
        // Without a thread there is one journal fewer, and another chance soon.
        let _ = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || shared.write_journal());
    }

    /// Takes the file of a complete download.
    pub fn take_file(&self) -> Option<PartialFile> {
        self.shared.lock().file.take()
    }

    /// Ends the download for this run. Returns the number of bytes that are kept for another run.
    pub fn give_up(&mut self, keep: bool) -> u64 {
        self.shared.parts.close();
        let missing = self.shared.parts.missing();
        let mut found = self.shared.lock();
        let (Some(mut file), Some(size)) = (found.file.take(), found.size) else {
            return 0;
        };
        let keep = keep
            && missing.is_sound(size)
            && self.shared.parts.sync().is_ok()
            && file.describe_missing(&missing, size).is_ok();
        file.abandon(keep);
        if keep { size - missing.bytes() } else { 0 }
    }

    /// Returns the measurements of all connections together.
    pub fn facts(&mut self) -> Facts {
        let mut facts = self.first.take().unwrap_or_default();
        facts.bytes = self.shared.parts.bytes();
        if let Some((began, ended, series)) = self.shared.parts.times() {
            facts.phases.body_s = Some(seconds(began, ended));
            facts.series = Some(series);
        }
        facts.phases.total_s = self.begun.elapsed().as_secs_f64();
        facts
    }
}

impl Shared {
    fn write_journal(&self) {
        let Ok(_one) = self.journal.try_lock() else { return };
        // The list is made before the disk has the bytes: those that come meanwhile are missing by this list, and that does no
        // harm.
        let missing = self.parts.missing();
        if self.parts.sync().is_err() {
            return;
        }
        let mut found = self.lock();
        let size = found.size;
        // A file that is complete, or that has nothing yet, needs no journal of its holes.
        if let (Some(file), Some(size)) = (&mut found.file, size)
            && missing.is_sound(size)
            && let Err(problem) = file.describe_missing(&missing, size)
        {
            // The file itself is not hurt; if the disk is full, writing its next byte fails in the same way.
            tracing::info!(
                problem = problem.message,
                "the journal of a partial file was not written"
            );
        }
    }

    fn lock(&self) -> MutexGuard<'_, Found> {
        lock(&self.found)
    }
}

impl Found {
    /// Sets the verdict after an answer that is not about the version that was begun, and returns the error.
    fn begin_again(&mut self, url: &str, why: &str) -> Error {
        self.verdict = Verdict::Changed;
        // The first answer that shows it gives the reason; the answers for other ranges only show that these are not wanted any
        // more.
        self.changed.get_or_insert_with(|| why.to_owned());
        Error::transient(format!("{url}: {why}; beginning again"))
    }
}

/// The local side of one range's request.
pub struct RangeWork {
    pub url: Url,
    pub wanted: Arc<Wanted>,
    pub kept: u64,
    pub shared: Arc<Shared>,
    pub part: Option<Part>,
    /// The id of `part`, which is needed after the answer has taken the part away.
    pub part_id: u64,
    /// Bytes that the body must have, once the answer has said so.
    pub due: Option<u64>,
    pub bar: Arc<Box<dyn Progress>>,
    /// The channel on which the first answer is announced.
    pub events: Sender<Event>,
    pub transfer: usize,
}

impl Work for RangeWork {
    fn sender(&mut self, _settings: &Settings) -> Option<BodySender> {
        self.shared.parts.asked(self.part_id);
        None
    }

    fn answer(&mut self, head: &Head, settings: &Settings) -> Answer {
        match self.accept(head, settings) {
            Ok(answer) => answer,
            Err(problem) => Answer::Over(Ending::Failed(problem)),
        }
    }

    fn complete(&mut self, came: u64, delimited: bool) -> Result<(), Error> {
        self.due
            .map_or(Ok(()), |due| check_length(&self.url, due, came, delimited))
    }

    fn progress(&mut self, _moved: u64) {
        self.bar.moved(self.kept + self.shared.parts.bytes());
    }

    fn is_wanted(&self) -> bool {
        self.shared.parts.is_wanted(self.part_id)
    }
}

impl RangeWork {
    fn accept(&mut self, head: &Head, settings: &Settings) -> Result<Answer, Error> {
        let url = log::shown(&self.url);
        let Some(mut part) = self.part.take() else {
            return Err(Error::integrity(format!("{url}: answered twice")));
        };
        let shared = Arc::clone(&self.shared);
        let mut found = shared.lock();
        let size = match head.status {
            206 => self.check(head, &part)?,
            200 | 203 | 204 | 416 => {
                if found.size.is_some() {
                    return Err(found.begin_again(&url, CHANGED));
                }
                found.verdict = Verdict::Plain;
                return Err(Error::transient(format!("{url}: the server serves no ranges of it")));
            }
            _ => return Ok(Answer::Over(refused(&self.url, head))),
        };
        let validators = validators_of(&head.headers, Some(size));
        let stated = stated_by(&head.headers);
        if let Some(known) = found.size {
            // If-Range has seen to that, unless the server does not know the field.
            if !goes_on(&found.stated, &stated) {
                return Err(found.begin_again(&url, CHANGED));
            }
            if size != known {
                let promise = found
                    .promise
                    .as_ref()
                    .filter(|promise| promise.is_about(&found.validators, &found.stated));
                let why = promise.map_or_else(|| CHANGED.to_owned(), |promise| promise.broken(size));
                return Err(found.begin_again(&url, &why));
            }
        } else if validators.if_range().is_none() {
            found.verdict = Verdict::Plain;
            return Err(Error::transient(format!(
                "{url}: nothing tells one version of it from another"
            )));
        } else if let Some(promise) = &found.promise
            && promise.is_about(&validators, &stated)
            && promise.size != size
        {
            let why = promise.broken(size);
            return Err(found.begin_again(&url, &why));
        }
        most_bytes(self.wanted.max_filesize, &self.url, 0, Some(size))?;
        if !found.opened {
            self.open(&mut found, head, size, validators, stated)?;
            part.of_file(size);
            found.verdict = Verdict::Ranges;
            let _ = self.events.send(Event::Answered(self.transfer));
        }
        drop(found);
        let throttle = settings.limit.throttle();
        let sink = Sink::Part(part);
        let receiver = Receiver::new(sink, None, throttle, settings.buffer_size, head.content_length);
        Ok(Answer::Receive(Box::new(receiver)))
    }

    /// Checks that a 206 is exactly the range that was asked for. Returns the size of the file.
    fn check(&mut self, head: &Head, part: &Part) -> Result<u64, Error> {
        let partial = Partial::of(&self.url, head)?;
        let Partial { first, last, size } = partial;
        let wrong = |why: &str| Partial::wrong(&self.url, head, why);
        let Some(size) = size else {
            return Err(wrong("a partial answer that does not say how large the file is"));
        };
        let asked = part.range();
        if first != asked.start || last + 1 != asked.end.min(size) {
            return Err(wrong("another range than asked for"));
        }
        self.due = Some(partial.length());
        Ok(size)
    }

    fn open(
        &self,
        found: &mut Found,
        head: &Head,
        size: u64,
        validators: Validators,
        stated: Stated,
    ) -> Result<(), Error> {
        let parts = &self.shared.parts;
        let wanted = &self.wanted;
        if let Destination::File(path) = &wanted.destination {
            let mut file = if let Some(resumable) = &found.resumable {
                let mut file = PartialFile::resume(path, wanted.overwrite, resumable)?;
                // Before a byte is written behind a hole: the journal may be one without holes.
                file.describe_missing(&parts.missing(), size)?;
                file
            } else {
                let mut file = PartialFile::create(path, wanted.overwrite, None)?;
                // Its journal comes with its first bytes: one without holes would be believed.
                file.will_be(ResumeKey::new(&wanted.asked, validators.clone()).stating(stated.clone()));
                file
            };
            if let Some(time) = last_modified(head).filter(|_| wanted.remote_time) {
                file.set_modified(time);
            }
            parts.open(file.shared()?);
            found.file = Some(file);
        } else {
            parts.open(None);
        }
        found.opened = true;
        found.size = Some(size);
        if found.resumable.is_none() {
            found.promise = Promise::of(&validators, &stated);
            found.validators = validators;
            found.stated = stated;
        }
        self.bar.total(size);
        Ok(())
    }
}
