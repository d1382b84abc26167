//! What an answer means for a download or an upload: accepted, redirected, refused; from which byte, into what.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use ferry_http::values::{ContentRange, retry_after, strong_etag};
use http::HeaderMap;
use http::header::{CONTENT_RANGE, ETAG, LAST_MODIFIED, LOCATION, RETRY_AFTER};
use url::Url;

use super::policy::class_of;
use crate::cli::RangeArg;
use crate::cli::progress::Bar;
use crate::files::{self, Algorithm, Digest, PartialFile, Resumable, ResumeKey, Sink};
use crate::report::{Class, Problem};
use crate::transfer::receive::Receiver;
use crate::transfer::send::Sender;
use crate::transfer::{Answer, Ending, Head, Settings, Work};

/// Where one download goes.
#[derive(Debug, Clone)]
pub enum Place {
    File(PathBuf),
    Stdout,
    Discard,
}

/// What is known of the file on the server, to ask for the rest of it and of nothing else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Validators {
    pub etag: Option<String>,
    pub last_modified: Option<String>,
    pub size: Option<u64>,
}

impl Validators {
    fn of(headers: &HeaderMap, size: Option<u64>) -> Self {
        let text = |name| {
            headers
                .get(name)
                .and_then(|value: &http::HeaderValue| value.to_str().ok())
        };
        Self {
            etag: text(ETAG).and_then(strong_etag).map(str::to_owned),
            last_modified: text(LAST_MODIFIED).map(str::to_owned),
            size,
        }
    }

    /// The value of If-Range (RFC 9110, section 13.1.5); without one the rest cannot be asked for.
    pub fn if_range(&self) -> Option<&str> {
        self.etag.as_deref().or(self.last_modified.as_deref())
    }
}

/// What one attempt leaves for the next.
#[derive(Default)]
pub struct Notes {
    /// Open and partly filled.
    pub kept: Option<(Sink, Option<Digest>)>,
    /// Found on disk, not opened yet.
    pub found: Option<Resumable>,
    pub validators: Validators,
    /// Of the whole body.
    pub size: Option<u64>,
    /// Where this attempt's body began.
    pub offset: u64,
}

impl Notes {
    /// Before any server is asked: whether a file may be written there, and what an earlier run has left of it.
    pub fn of(place: &Place, url: &Url, overwrite: bool, resume: bool) -> Result<Self, Problem> {
        let mut notes = Self::default();
        let Place::File(path) = place else { return Ok(notes) };
        files::check_target(path, overwrite)?;
        if resume {
            notes.found = files::existing(path).filter(|found| found.url == url.as_str());
        }
        if let Some(found) = &notes.found {
            notes.validators = Validators {
                etag: found.etag.clone(),
                last_modified: found.last_modified.clone(),
                size: found.size,
            };
        }
        Ok(notes)
    }

    /// Bytes that are there already, if the rest can be asked for.
    pub fn resume_from(&self) -> Option<u64> {
        let position = match (&self.kept, &self.found) {
            (Some((sink, _)), _) => sink.position(),
            (None, Some(found)) => found.offset,
            (None, None) => 0,
        };
        (position > 0 && self.validators.if_range().is_some()).then_some(position)
    }
}

pub struct GetWork {
    pub url: Url,
    /// As the user wrote it: what a later run will ask for again, wherever redirects lead by then.
    pub asked: Url,
    pub place: Place,
    pub overwrite: bool,
    pub range: Option<RangeArg>,
    pub algorithm: Option<Algorithm>,
    /// What the Range header asked for; 0 when there was none.
    pub offset: u64,
    pub notes: Arc<Mutex<Notes>>,
    pub bar: Arc<Bar>,
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
        self.bar.set(self.offset + moved);
    }
}

impl GetWork {
    fn accept(&mut self, head: &Head, settings: &Settings) -> Result<Answer, Problem> {
        let shared = Arc::clone(&self.notes);
        let mut notes = shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (offset, size) = match head.status {
            206 => self.check_range(head, &notes)?,
            200..=299 if self.range.is_some() => {
                return Err(Problem::permanent(format!(
                    "{}: the server ignored --range and sent everything",
                    self.url
                )));
            }
            200..=299 => (0, head.content_length),
            416 if self.offset > 0 => return self.beyond_the_end(head, &mut notes, settings),
            _ => return Ok(Answer::Over(refused(&self.url, head))),
        };
        let whole = if self.range.is_some() { None } else { size };
        let validators = Validators::of(&head.headers, whole);
        let (mut sink, digest) = self.open(&mut notes, if self.range.is_some() { 0 } else { offset })?;
        if self.range.is_none() && validators.if_range().is_some() {
            let key = ResumeKey::new(
                &self.asked,
                whole,
                validators.etag.as_deref(),
                validators.last_modified.as_deref(),
            );
            sink.describe(key)?;
        }
        if let Some(size) = size {
            self.bar.set_total(size);
        }
        notes.offset = offset;
        notes.size = size;
        notes.validators = validators;
        self.offset = offset;
        let throttle = settings.limit.throttle();
        Ok(Answer::Receive(Box::new(Receiver::new(
            sink,
            digest,
            throttle,
            settings.buffer_size,
            head.content_length,
        ))))
    }

    /// 206 must be exactly what was asked for (RFC 9110, section 15.3.7). Returns the first byte and the size of the whole.
    fn check_range(&self, head: &Head, notes: &Notes) -> Result<(u64, Option<u64>), Problem> {
        let text = head
            .headers
            .get(CONTENT_RANGE)
            .and_then(|value| value.to_str().ok())
            .unwrap_or("");
        let wrong = |why: &str| Problem::integrity(format!("{}: {why} (Content-Range: {text:?})", self.url));
        let Some(ContentRange::Part { first, last, size }) = ContentRange::parse(text) else {
            return Err(wrong("a partial answer without a usable range"));
        };
        if head.content_length.is_some_and(|length| length != last - first + 1) {
            return Err(wrong("the length of the answer is not that of its range"));
        }
        if let Some(range) = self.range {
            let right = match (range.first, range.last) {
                (Some(from), upto) => first == from && upto.is_none_or(|upto| last == upto || size == Some(last + 1)),
                (None, Some(count)) => size.is_none_or(|size| last + 1 == size && first == size.saturating_sub(count)),
                (None, None) => true,
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
        if notes.validators.size.is_some() && size.is_some() && notes.validators.size != size {
            return Err(wrong("the file has another size than before"));
        }
        Ok((first, size.or(notes.validators.size)))
    }

    /// 416: nothing is left to fetch, or the file is another one.
    fn beyond_the_end(&mut self, head: &Head, notes: &mut Notes, settings: &Settings) -> Result<Answer, Problem> {
        let text = head
            .headers
            .get(CONTENT_RANGE)
            .and_then(|value| value.to_str().ok())
            .unwrap_or("");
        if !matches!(ContentRange::parse(text), Some(ContentRange::Unsatisfied { size }) if size == self.offset) {
            notes.validators = Validators::default();
            return Err(Problem::transient(format!(
                "{}: the file has changed; beginning again",
                self.url
            )));
        }
        let (sink, digest) = self.open(notes, self.offset)?;
        notes.offset = self.offset;
        notes.size = Some(self.offset);
        // The answer's own body is not the file's.
        let mut receiver = Receiver::new(sink, digest, settings.limit.throttle(), settings.buffer_size, Some(0));
        receiver.ignore = true;
        Ok(Answer::Receive(Box::new(receiver)))
    }

    fn open(&self, notes: &mut Notes, offset: u64) -> Result<(Sink, Option<Digest>), Problem> {
        open_sink(notes, &self.place, self.overwrite, self.algorithm, &self.url, offset)
    }
}

/// The sink, standing at `offset`, and the checksum of what is before it.
pub fn open_sink(
    notes: &mut Notes,
    place: &Place,
    overwrite: bool,
    algorithm: Option<Algorithm>,
    url: &Url,
    offset: u64,
) -> Result<(Sink, Option<Digest>), Problem> {
    if let Some((mut sink, digest)) = notes.kept.take() {
        if sink.position() == offset {
            return Ok((sink, digest));
        }
        if offset != 0 || !sink.can_restart() {
            return Err(Problem::permanent(format!(
                "{url}: the server began again, and what was already written cannot be taken back"
            )));
        }
        sink.restart()?;
        return Ok((sink, algorithm.map(Digest::new)));
    }
    match place {
        Place::Discard => Ok((Sink::discard(), algorithm.map(Digest::new))),
        Place::Stdout => Ok((Sink::stdout()?, algorithm.map(Digest::new))),
        Place::File(path) => match notes.found.take() {
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
    pub bar: Arc<Bar>,
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
        self.bar.set(moved);
    }
}

/// A final answer that is no success.
fn refused(url: &Url, head: &Head) -> Ending {
    let text = |name| {
        head.headers
            .get(name)
            .and_then(|value: &http::HeaderValue| value.to_str().ok())
    };
    if matches!(head.status, 301 | 302 | 303 | 307 | 308)
        && let Some(location) = text(LOCATION)
    {
        return Ending::Redirect {
            status: head.status,
            location: location.to_owned(),
        };
    }
    let class = class_of(head.status);
    let reason = http::StatusCode::from_u16(head.status)
        .ok()
        .and_then(|status| status.canonical_reason())
        .unwrap_or("");
    let mut problem = Problem::new(
        class,
        format!("{url}: the server answered {} {reason}", head.status).trim_end(),
    );
    problem.status = Some(head.status);
    if class == Class::Transient {
        problem.retry_after = text(RETRY_AFTER).and_then(|value| retry_after(value, SystemTime::now()));
    }
    Ending::Failed(problem)
}
