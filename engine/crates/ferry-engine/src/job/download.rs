//! The meaning of an answer for a download or an upload: accepted, redirected or refused; its first byte and its destination.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use ferry_http::values::{ContentRange, retry_after};
use http::header::{LOCATION, RETRY_AFTER};
use url::Url;

use super::policy::class_of;
use super::version::{
    Partial, Promise, check_length, content_range, contradicts, goes_on, is_coded, last_modified, stated_by,
    validators_of,
};
use crate::error::{Class, Error};
use crate::files::{self, Algorithm, Digest, PartialFile, Resumable, ResumeKey, Sink, Stated, Validators};
use crate::log;
use crate::observer::Progress;
use crate::options::ByteRange;
use crate::sync::lock;
use crate::transfer::coding::Coding;
use crate::transfer::receive::Receiver;
use crate::transfer::send::Sender;
use crate::transfer::{Answer, Decoding, Ending, Head, Settings, Work};

/// The reason given for beginning again at the first byte.
pub const CHANGED: &str = "the file has changed";

/// The destination of one download.
#[derive(Debug, Clone)]
pub enum Destination {
    File(PathBuf),
    Stdout,
    Discard,
}

/// The state that one attempt leaves for the next.
#[derive(Default)]
pub struct AttemptState {
    /// The sink, open and partly filled, and the checksum so far.
    pub sink: Option<(Sink, Option<Digest>)>,
    /// The partial file of an earlier run, found on disk and not opened yet.
    pub resumable: Option<Resumable>,
    /// The validators of the version that was begun.
    pub validators: Validators,
    pub stated: Stated,
    /// Some of the file has come, in this run or an earlier one.
    pub begun: bool,
    /// The length that the server has given for a version of this run.
    pub promise: Option<Promise>,
    /// Bytes of the complete body.
    pub size: Option<u64>,
    /// The position of this attempt's first body byte.
    pub offset: u64,
}

impl AttemptState {
    /// Checks that the destination may be written and, for `resume`, finds the partial file of an earlier run, before any
    /// server is asked.
    pub fn of(destination: &Destination, url: &Url, overwrite: bool, resume: bool) -> Result<Self, Error> {
        let mut state = Self::default();
        let Destination::File(path) = destination else {
            return Ok(state);
        };
        files::check_target(path, overwrite)?;
        if resume {
            state.resumable = files::existing(path).filter(|found| found.key.url == url.as_str());
        }
        if let Some(found) = &state.resumable {
            state.validators = found.key.validators.clone();
            state.stated = found.key.stated();
            state.promise = Promise::of(&state.validators, &state.stated);
            state.begun = true;
        }
        Ok(state)
    }

    /// Returns the number of bytes that are present, if the rest can be asked for.
    pub fn resume_from(&self) -> Option<u64> {
        let position = match (&self.sink, &self.resumable) {
            (Some((sink, _)), _) => sink.position(),
            (None, Some(found)) => found.offset,
            (None, None) => 0,
        };
        (position > 0 && self.validators.if_range().is_some()).then_some(position)
    }

    /// Forgets the version that was begun, so that the next attempt begins at the first byte.
    fn forget(&mut self) {
        self.validators = Validators::default();
        self.stated = Stated::default();
    }
}

/// Returns the number of bytes that `--max-filesize` allows a body, and the error for more of them. The body begins at `offset`
/// of what is fetched, and ends at `size` where that is known.
///
/// # Errors
/// Class Permanent when the server says that there are more.
pub fn most_bytes(most: Option<u64>, url: &Url, offset: u64, size: Option<u64>) -> Result<Option<(u64, Error)>, Error> {
    let Some(most) = most else { return Ok(None) };
    if let Some(size) = size.filter(|size| *size > most) {
        return Err(Error::permanent(format!(
            "{} has {size} bytes, more than the {most} of --max-filesize",
            log::shown(url)
        )));
    }
    let url = log::shown(url);
    let problem = Error::permanent(format!("{url} has more than the {most} bytes of --max-filesize"));
    Ok(Some((most.saturating_sub(offset), problem)))
}

pub struct GetWork {
    pub url: Url,
    /// The URL as the user wrote it: a later run will ask for this one again, wherever redirects lead by then.
    pub asked: Url,
    pub destination: Destination,
    pub overwrite: bool,
    pub range: Option<ByteRange>,
    pub algorithm: Option<Algorithm>,
    pub max_filesize: Option<u64>,
    pub remote_time: bool,
    /// A coded body is decoded; otherwise it is stored as it comes, because servers label files that are stored compressed in the same way.
    pub compressed: bool,
    /// The first byte asked for when a file is resumed, else 0; after the answer, the first byte of its body.
    pub offset: u64,
    /// Bytes that the body must have, where the answer or an earlier one says so.
    pub due: Option<u64>,
    pub state: Arc<Mutex<AttemptState>>,
    pub bar: Arc<Box<dyn Progress>>,
}

impl Work for GetWork {
    fn sender(&mut self, _settings: &Settings) -> Option<Sender> {
        None
    }

    fn answer(&mut self, head: &Head, settings: &Settings) -> Answer {
        match self.accept(head, settings) {
            Ok(answer) => answer,
            Err(problem) => Answer::Over(Ending::Failed(problem)),
        }
    }

    fn complete(&mut self, came: u64, delimited: bool) -> Result<(), Error> {
        let Some(due) = self.due.filter(|due| *due != came) else {
            return Ok(());
        };
        if self.offset == 0 && self.range.is_none() {
            // The position of these bytes in the file is unknown, so nothing may be put behind them.
            let mut state = lock(&self.state);
            state.forget();
            let why = state
                .promise
                .as_ref()
                .map_or_else(String::new, |promise| promise.broken(came));
            return Err(Error::transient(format!("{}: {why}", log::shown(&self.url))));
        }
        check_length(&self.url, due, came, delimited)
    }

    fn progress(&mut self, moved: u64) {
        self.bar.moved(self.offset + moved);
    }
}

impl GetWork {
    fn accept(&mut self, head: &Head, settings: &Settings) -> Result<Answer, Error> {
        let shared = Arc::clone(&self.state);
        let mut state = lock(&shared);
        self.due = None;
        let (offset, size) = match head.status {
            206 => self.check_range(head, &mut state)?,
            200 | 203 if self.range.is_some() => {
                return Err(Error::permanent(format!(
                    "{}: the server ignored --range and sent everything",
                    log::shown(&self.url)
                )));
            }
            200 | 203 => (0, head.content_length),
            // An empty file, unless some of it has come.
            204 if !state.begun && self.range.is_none() => (0, head.content_length),
            416 if self.offset > 0 => return self.beyond_the_end(head, &mut state, settings),
            _ => return Ok(Answer::Over(refused(&self.url, head))),
        };
        let coding = self.coding(head)?;
        let goes_on = offset > 0 && self.range.is_none();
        let (validators, stated, whole) = match (coding, self.range) {
            // A decoded body cannot be continued in the middle, and the size of its file is unknown.
            (Some(_), _) => (Validators::default(), Stated::default(), None),
            (None, Some(_)) => (validators_of(&head.headers, None), Stated::default(), size),
            // The version stays the one that was begun: a 206 need not state everything again.
            (None, None) if goes_on => {
                let begun = Validators {
                    size,
                    ..state.validators.clone()
                };
                (begun, state.stated.clone(), size)
            }
            (None, None) => (validators_of(&head.headers, size), stated_by(&head.headers), size),
        };
        if self.range.is_none() && !is_coded(&head.headers) {
            self.keep_promise(&mut state, &validators, &stated)?;
        }
        let begun = if self.range.is_some() { 0 } else { offset };
        let most = most_bytes(self.max_filesize, &self.url, begun, size)?;
        let (mut sink, digest) = self.open(&mut state, begun)?;
        if let Some(time) = last_modified(head).filter(|_| self.remote_time) {
            sink.set_modified(time);
        }
        if self.range.is_none() && validators.if_range().is_some() {
            sink.describe(ResumeKey::new(&self.asked, validators.clone()).stating(stated.clone()))?;
        }
        if let Some(size) = size {
            self.bar.total(size);
        }
        state.begun = true;
        state.offset = offset;
        state.size = whole;
        state.validators = validators;
        state.stated = stated;
        self.offset = offset;
        let throttle = settings.limit.throttle();
        let mut receiver = Receiver::new(sink, digest, throttle, settings.buffer_size, head.content_length);
        if let Some(coding) = coding {
            let stop = settings.stop.clone();
            let decoding = Decoding::new(coding, log::shown(&self.url), most.clone(), head.delimited, stop)?;
            receiver.decoding = Some(Box::new(decoding));
        }
        receiver.most = most;
        Ok(Answer::Receive(Box::new(receiver)))
    }

    /// Holds the server to the first length that it has given for this version: another length begins the download again.
    fn keep_promise(
        &mut self,
        state: &mut AttemptState,
        validators: &Validators,
        stated: &Stated,
    ) -> Result<(), Error> {
        let about = |promise: &Promise| promise.is_about(validators, stated);
        let Some(promise) = state.promise.clone().filter(about) else {
            state.promise = Promise::of(validators, stated).or(state.promise.take());
            return Ok(());
        };
        match validators.size {
            Some(found) if found != promise.size => return Err(self.begin_again(state, &promise.broken(found))),
            Some(_) => {}
            // A 206 has given the length by its range.
            None => self.due = self.due.or(Some(promise.size)),
        }
        Ok(())
    }

    /// Forgets the version that was begun. Returns the error, which is final if bytes that were written cannot be taken back.
    fn begin_again(&self, state: &mut AttemptState, why: &str) -> Error {
        let url = log::shown(&self.url);
        state.forget();
        if state.sink.as_ref().is_none_or(|(sink, _)| sink.can_restart()) {
            Error::transient(format!("{url}: {why}; beginning again"))
        } else {
            Error::permanent(format!(
                "{url}: {why}, and what was already written cannot be taken back"
            ))
        }
    }

    /// Returns the coding of a body that is to be decoded. A part of a coded body is of no use, so every request for a part
    /// goes out without a coding.
    fn coding(&self, head: &Head) -> Result<Option<Coding>, Error> {
        if !self.compressed {
            return Ok(None);
        }
        match Coding::of(&head.headers) {
            Ok(Some(coding)) if head.status == 206 => Err(Error::integrity(format!(
                "{}: the rest came with Content-Encoding {}, the beginning without",
                log::shown(&self.url),
                coding.name()
            ))),
            Ok(coding) => Ok(coding),
            Err(list) => Err(Error::permanent(format!(
                "{}: the server answered with Content-Encoding {list:?}, which was not asked for (--compressed)",
                log::shown(&self.url)
            ))),
        }
    }

    /// Checks that a 206 is exactly the part that was asked for (RFC 9110, section 15.3.7). Returns its first byte, and the
    /// size of the file or of the user's range.
    fn check_range(&mut self, head: &Head, state: &mut AttemptState) -> Result<(u64, Option<u64>), Error> {
        let partial = Partial::of(&self.url, head)?;
        let Partial { first, last, size } = partial;
        let wrong = |why: &str| Partial::wrong(&self.url, head, why);
        if let Some(range) = self.range {
            let right = match range {
                ByteRange::Part {
                    first: from,
                    last: upto,
                } => first == from && (last == upto || size == Some(last + 1)),
                ByteRange::From(from) => first == from,
                ByteRange::Last(count) => {
                    size.is_none_or(|size| last + 1 == size && first == size.saturating_sub(count))
                }
            };
            if !right {
                return Err(wrong("another range than asked for"));
            }
            self.due = Some(partial.length());
            return Ok((first, self.due));
        }
        let known = state.validators.size;
        if self.offset > 0 && !goes_on(&state.stated, &stated_by(&head.headers)) {
            return Err(self.begin_again(state, CHANGED));
        }
        if self.offset == 0 || first != self.offset {
            return Err(wrong(&format!("the answer does not begin at byte {}", self.offset)));
        }
        if let Some(known) = known
            && size.map_or(last >= known, |size| size != known)
        {
            let found = size.unwrap_or(last + 1);
            let promise = state
                .promise
                .as_ref()
                .filter(|promise| promise.is_about(&state.validators, &state.stated));
            let why = promise.map_or_else(|| CHANGED.to_owned(), |promise| promise.broken(found));
            return Err(self.begin_again(state, &why));
        }
        let size = size.or(known);
        if size.is_some_and(|size| last + 1 != size) {
            return Err(wrong("the answer does not go to the end"));
        }
        self.due = Some(partial.length());
        Ok((first, size))
    }

    /// Takes a 416: nothing is left to fetch, or the file has changed.
    fn beyond_the_end(&mut self, head: &Head, state: &mut AttemptState, settings: &Settings) -> Result<Answer, Error> {
        let said = match ContentRange::parse(content_range(head)) {
            Some(ContentRange::Unsatisfied { size }) => Some(size),
            _ => None,
        };
        let whole = said == Some(self.offset) && state.validators.size.is_none_or(|known| known == self.offset);
        if !whole || contradicts(&state.stated, &stated_by(&head.headers)) {
            return Err(self.begin_again(state, CHANGED));
        }
        let (sink, digest) = self.open(state, self.offset)?;
        state.offset = self.offset;
        state.size = Some(self.offset);
        // The answer's own body is not the file's.
        let mut receiver = Receiver::new(sink, digest, settings.limit.throttle(), settings.buffer_size, Some(0));
        receiver.ignore = true;
        Ok(Answer::Receive(Box::new(receiver)))
    }

    fn open(&self, state: &mut AttemptState, offset: u64) -> Result<(Sink, Option<Digest>), Error> {
        open_sink(
            state,
            &self.destination,
            self.overwrite,
            self.algorithm,
            &self.url,
            offset,
        )
    }
}

/// Returns the sink, positioned at `offset`, and the checksum of the bytes before that.
pub fn open_sink(
    state: &mut AttemptState,
    destination: &Destination,
    overwrite: bool,
    algorithm: Option<Algorithm>,
    url: &Url,
    offset: u64,
) -> Result<(Sink, Option<Digest>), Error> {
    if let Some((mut sink, digest)) = state.sink.take() {
        if sink.position() == offset {
            return Ok((sink, digest));
        }
        if offset != 0 || !sink.can_restart() {
            return Err(Error::permanent(format!(
                "{}: the server began again, and what was already written cannot be taken back",
                log::shown(url)
            )));
        }
        sink.restart()?;
        return Ok((sink, algorithm.map(Digest::new)));
    }
    match destination {
        Destination::Discard => Ok((Sink::discard(), algorithm.map(Digest::new))),
        Destination::Stdout => Ok((Sink::stdout()?, algorithm.map(Digest::new))),
        Destination::File(path) => match state.resumable.take() {
            Some(found) if offset > 0 => {
                let file = PartialFile::resume(path, overwrite, &found)?;
                let digest = match algorithm {
                    Some(algorithm) => Some(Digest::for_file(algorithm, file.path(), offset)?),
                    None => None,
                };
                Ok((Sink::File(file), digest))
            }
            _ => Ok((
                Sink::File(PartialFile::create(path, overwrite, None)?),
                algorithm.map(Digest::new),
            )),
        },
    }
}

pub struct PutWork {
    pub url: Url,
    pub sender: Option<Sender>,
    pub bar: Arc<Box<dyn Progress>>,
}

impl Work for PutWork {
    fn sender(&mut self, _settings: &Settings) -> Option<Sender> {
        self.sender.take()
    }

    fn answer(&mut self, head: &Head, _settings: &Settings) -> Answer {
        match head.status {
            200..=299 => Answer::Discard,
            _ => Answer::Over(refused(&self.url, head)),
        }
    }

    fn progress(&mut self, moved: u64) {
        self.bar.moved(moved);
    }
}

/// Returns a Location field with those bytes percent-encoded that no URL has: servers send UTF-8, and some Latin-1.
fn in_ascii(location: &[u8]) -> String {
    location.iter().fold(String::new(), |mut text, &byte| {
        if byte.is_ascii() {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

/// Returns the ending of an attempt whose final answer is not a success.
pub fn refused(url: &Url, head: &Head) -> Ending {
    let text = |name| {
        head.headers
            .get(name)
            .and_then(|value: &http::HeaderValue| value.to_str().ok())
    };
    if matches!(head.status, 301 | 302 | 303 | 307 | 308)
        && let Some(location) = head.headers.get(LOCATION)
    {
        if head.headers.get_all(LOCATION).iter().any(|other| other != location) {
            // An attacker's field cannot be distinguished from the server's: attackers have written one behind another field
            // (response splitting).
            let why = format!(
                "{}: the server answered {} with several Location fields",
                log::shown(url),
                head.status
            );
            return Ending::Failed(Error::permanent(why));
        }
        return Ending::Redirect {
            status: head.status,
            location: in_ascii(location.as_bytes()),
        };
    }
    let class = class_of(head.status);
    let reason = http::StatusCode::from_u16(head.status)
        .ok()
        .and_then(|status| status.canonical_reason())
        .unwrap_or("");
    let said = format!("{}: the server answered {} {reason}", log::shown(url), head.status);
    // A body that comes with success and is not the file: a note about it (202), or a part of something (207).
    let note = if matches!(head.status, 200..=299) {
        ", which is no file"
    } else {
        ""
    };
    let mut problem = Error::new(class, format!("{}{note}", said.trim_end()));
    problem.status = Some(head.status);
    if class == Class::Transient {
        problem.retry_after = text(RETRY_AFTER).and_then(|value| retry_after(value, SystemTime::now()));
    }
    Ending::Failed(problem)
}
