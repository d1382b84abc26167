//! What an answer means for a download or an upload: accepted, redirected, refused; from which byte, into what.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use ferry_http::values::{ContentRange, date, retry_after, strong_etag, strong_last_modified};
use http::HeaderMap;
use http::header::{CONTENT_RANGE, DATE, ETAG, LAST_MODIFIED, LOCATION, RETRY_AFTER};
use url::Url;

use super::policy::class_of;
use crate::error::{Class, Error};
use crate::files::{self, Algorithm, Digest, PartialFile, Resumable, ResumeKey, Sink, Validators};
use crate::observer::Progress;
use crate::options::ByteRange;
use crate::sync::lock;
use crate::transfer::coding::Coding;
use crate::transfer::receive::Receiver;
use crate::transfer::send::Sender;
use crate::transfer::{Answer, Decoding, Ending, Head, Settings, Work};

/// The clock that dates answers and the one that dates files are less than this apart; they may be on two machines. RFC 7232, section 2.2.2, has
/// this figure.
const CLOCKS_APART: Duration = Duration::from_secs(60);

/// Where one download goes.
#[derive(Debug, Clone)]
pub enum Destination {
    File(PathBuf),
    Stdout,
    Discard,
}

/// The validators of an answer (RFC 9110, section 8.8).
pub fn validators_of(headers: &HeaderMap, size: Option<u64>) -> Validators {
    let text = |name| {
        headers
            .get(name)
            .and_then(|value: &http::HeaderValue| value.to_str().ok())
    };
    Validators {
        etag: text(ETAG).and_then(strong_etag).map(str::to_owned),
        last_modified: text(LAST_MODIFIED)
            .and_then(|modified| strong_last_modified(modified, text(DATE), CLOCKS_APART))
            .map(str::to_owned),
        size,
    }
}

/// The server's modification time.
pub fn last_modified(head: &Head) -> Option<SystemTime> {
    let modified = head.headers.get(LAST_MODIFIED)?.to_str().ok()?;
    date(modified)
}

fn content_range(head: &Head) -> &str {
    let value = head.headers.get(CONTENT_RANGE);
    value.and_then(|value| value.to_str().ok()).unwrap_or("")
}

/// The bytes that a 206 has, and the size of the file where it says so.
pub struct Partial {
    pub first: u64,
    pub last: u64,
    pub size: Option<u64>,
}

impl Partial {
    /// # Errors
    /// Class Integrity when it does not say which bytes it has, or has another number of them.
    pub fn of(url: &Url, head: &Head) -> Result<Self, Error> {
        let Some(ContentRange::Part { first, last, size }) = ContentRange::parse(content_range(head)) else {
            return Err(Self::wrong(url, head, "a partial answer without a usable range"));
        };
        if head.content_length.is_some_and(|length| length != last - first + 1) {
            return Err(Self::wrong(
                url,
                head,
                "the length of the answer is not that of its range",
            ));
        }
        Ok(Self { first, last, size })
    }

    /// A 206 that cannot be used, and why.
    pub fn wrong(url: &Url, head: &Head, why: &str) -> Error {
        Error::integrity(format!("{url}: {why} (Content-Range: {:?})", content_range(head)))
    }
}

/// What one attempt leaves for the next.
#[derive(Default)]
pub struct AttemptState {
    /// Open and partly filled.
    pub sink: Option<(Sink, Option<Digest>)>,
    /// Found on disk, not opened yet.
    pub resumable: Option<Resumable>,
    pub validators: Validators,
    /// Bytes of the complete body.
    pub size: Option<u64>,
    /// Where this attempt's body began.
    pub offset: u64,
}

impl AttemptState {
    /// Before any server is asked: whether a file may be written there, and what an earlier run has left of it.
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
        }
        Ok(state)
    }

    /// Bytes that are there already, if the rest can be asked for.
    pub fn resume_from(&self) -> Option<u64> {
        let position = match (&self.sink, &self.resumable) {
            (Some((sink, _)), _) => sink.position(),
            (None, Some(found)) => found.offset,
            (None, None) => 0,
        };
        (position > 0 && self.validators.if_range().is_some()).then_some(position)
    }
}

/// `--max-filesize`: for a body that begins at `offset` of what is fetched, and ends at `size` where that is known, the bytes that may come.
///
/// # Errors
/// Class Permanent when the server says that there are more.
pub fn most_bytes(most: Option<u64>, url: &Url, offset: u64, size: Option<u64>) -> Result<Option<(u64, Error)>, Error> {
    let Some(most) = most else { return Ok(None) };
    if let Some(size) = size.filter(|size| *size > most) {
        return Err(Error::permanent(format!(
            "{url} has {size} bytes, more than the {most} of --max-filesize"
        )));
    }
    let problem = Error::permanent(format!("{url} has more than the {most} bytes of --max-filesize"));
    Ok(Some((most.saturating_sub(offset), problem)))
}

pub struct GetWork {
    pub url: Url,
    /// As the user wrote it: what a later run will ask for again, wherever redirects lead by then.
    pub asked: Url,
    pub destination: Destination,
    pub overwrite: bool,
    pub range: Option<ByteRange>,
    pub algorithm: Option<Algorithm>,
    pub max_filesize: Option<u64>,
    pub remote_time: bool,
    /// A coded body is decoded; otherwise it is stored as it comes, because servers label files that are stored compressed in the same way.
    pub compressed: bool,
    /// What the Range header asked for; 0 when there was none.
    pub offset: u64,
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

    fn progress(&mut self, moved: u64) {
        self.bar.moved(self.offset + moved);
    }
}

impl GetWork {
    fn accept(&mut self, head: &Head, settings: &Settings) -> Result<Answer, Error> {
        let shared = Arc::clone(&self.state);
        let mut state = lock(&shared);
        let (offset, size) = match head.status {
            206 => self.check_range(head, &state)?,
            200..=299 if self.range.is_some() => {
                return Err(Error::permanent(format!(
                    "{}: the server ignored --range and sent everything",
                    self.url
                )));
            }
            200..=299 => (0, head.content_length),
            416 if self.offset > 0 => return self.beyond_the_end(head, &mut state, settings),
            _ => return Ok(Answer::Over(refused(&self.url, head))),
        };
        let coding = self.coding(head)?;
        let (validators, whole) = match (coding, self.range) {
            // Nothing can go on in the middle of what was decoded, and nobody says how large the file is.
            (Some(_), _) => (Validators::default(), None),
            (None, Some(_)) => (validators_of(&head.headers, None), size),
            (None, None) => (validators_of(&head.headers, size), size),
        };
        let begun = if self.range.is_some() { 0 } else { offset };
        let most = most_bytes(self.max_filesize, &self.url, begun, size)?;
        let (mut sink, digest) = self.open(&mut state, begun)?;
        if let Some(time) = last_modified(head).filter(|_| self.remote_time) {
            sink.set_modified(time);
        }
        if self.range.is_none() && validators.if_range().is_some() {
            sink.describe(ResumeKey::new(&self.asked, validators.clone()))?;
        }
        if let Some(size) = size {
            self.bar.total(size);
        }
        state.offset = offset;
        state.size = whole;
        state.validators = validators;
        self.offset = offset;
        let throttle = settings.limit.throttle();
        let mut receiver = Receiver::new(sink, digest, throttle, settings.buffer_size, head.content_length);
        if let Some(coding) = coding {
            let stop = settings.stop.clone();
            let decoding = Decoding::new(coding, self.url.to_string(), most.clone(), head.delimited, stop)?;
            receiver.decoding = Some(Box::new(decoding));
        }
        receiver.most = most;
        Ok(Answer::Receive(Box::new(receiver)))
    }

    /// How the body is to be decoded. A part of a coded body is of no use: whatever asks for one asks for it without a coding.
    fn coding(&self, head: &Head) -> Result<Option<Coding>, Error> {
        if !self.compressed {
            return Ok(None);
        }
        match Coding::of(&head.headers) {
            Ok(Some(coding)) if head.status == 206 => Err(Error::integrity(format!(
                "{}: the rest came with Content-Encoding {}, the beginning without",
                self.url,
                coding.name()
            ))),
            Ok(coding) => Ok(coding),
            Err(list) => Err(Error::permanent(format!(
                "{}: the server answered with Content-Encoding {list:?}, which was not asked for (--compressed)",
                self.url
            ))),
        }
    }

    /// 206 must be exactly what was asked for (RFC 9110, section 15.3.7). Returns the first byte and the size of the whole.
    fn check_range(&self, head: &Head, state: &AttemptState) -> Result<(u64, Option<u64>), Error> {
        let Partial { first, last, size } = Partial::of(&self.url, head)?;
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
            return if right {
                Ok((first, Some(last - first + 1)))
            } else {
                Err(wrong("another range than asked for"))
            };
        }
        if self.offset == 0 || first != self.offset {
            return Err(wrong(&format!("the answer does not begin at byte {}", self.offset)));
        }
        if size.is_some_and(|size| last + 1 != size) {
            return Err(wrong("the answer does not go to the end"));
        }
        if state.validators.size.is_some() && size.is_some() && state.validators.size != size {
            return Err(wrong("the file has another size than before"));
        }
        Ok((first, size.or(state.validators.size)))
    }

    /// 416: nothing is left to fetch, or the file is another one.
    fn beyond_the_end(&mut self, head: &Head, state: &mut AttemptState, settings: &Settings) -> Result<Answer, Error> {
        let text = content_range(head);
        if !matches!(ContentRange::parse(text), Some(ContentRange::Unsatisfied { size }) if size == self.offset) {
            state.validators = Validators::default();
            return Err(Error::transient(format!(
                "{}: the file has changed; beginning again",
                self.url
            )));
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

/// The sink, standing at `offset`, and the checksum of what is before it.
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
                "{url}: the server began again, and what was already written cannot be taken back"
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

/// A Location field with the bytes percent-encoded that no URL has: servers send UTF-8, and some Latin-1.
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

/// A final answer that is no success.
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
            // Which one is an attacker's cannot be told: some have written a field behind another's (response splitting).
            let why = format!(
                "{url}: the server answered {} with several Location fields",
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
    let mut problem = Error::new(
        class,
        format!("{url}: the server answered {} {reason}", head.status).trim_end(),
    );
    problem.status = Some(head.status);
    if class == Class::Transient {
        problem.retry_after = text(RETRY_AFTER).and_then(|value| retry_after(value, SystemTime::now()));
    }
    Ending::Failed(problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_modification_time_is_a_validator_when_it_was_a_minute_old() {
        for (modified, date, strong) in [
            (
                "Sat, 21 Nov 2026 12:00:00 GMT",
                Some("Sat, 21 Nov 2026 12:01:00 GMT"),
                true,
            ),
            (
                "Sat, 21 Nov 2026 12:00:01 GMT",
                Some("Sat, 21 Nov 2026 12:01:00 GMT"),
                false,
            ),
            (
                "Sat, 21 Nov 2026 12:00:00 GMT",
                Some("Sat, 21 Nov 2026 11:00:00 GMT"),
                false,
            ),
            ("Sat, 21 Nov 2026 12:00:00 GMT", None, false),
            ("Sat, 21 Nov 2026 12:00:00 GMT", Some("today"), false),
            ("long ago", Some("Sat, 21 Nov 2026 12:01:00 GMT"), false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(LAST_MODIFIED, modified.parse().unwrap());
            headers.extend(date.map(|date| (DATE, date.parse().unwrap())));
            let found = validators_of(&headers, None);
            assert_eq!(found.if_range().is_some(), strong, "{modified} {date:?}");
        }
    }
}
