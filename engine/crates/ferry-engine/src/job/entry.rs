//! One transfer of a run: its kind, its record so far, and its end.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use http::Method;
use http::header::{HeaderMap, HeaderValue, IF_RANGE, RANGE};
use url::Url;

use super::download::{AttemptState, Destination};
use super::ranged::Ranged;
use crate::error::{Class, Error};
use crate::files::{self, Digest};
use crate::log;
use crate::observer::Progress;
use crate::options::{ByteRange, Checksum, Remote};
use crate::report::{Attempt, Command, Transfer};
use crate::sftp::Resume;
use crate::sync::lock;
use crate::transfer::Facts;
use crate::transfer::throttle::Limit;

/// The kind of a transfer, with the facts particular to its direction.
pub enum Kind {
    Get {
        destination: Destination,
        overwrite: bool,
        range: Option<ByteRange>,
        state: Arc<Mutex<AttemptState>>,
    },
    /// A download over several connections.
    Ranged(Box<Ranged>),
    Put {
        source: Option<files::Source>,
        method: Method,
    },
    /// An upload over SFTP; its source is opened when its turn comes.
    Send { local: LocalFile, resume: Resume },
}

/// The source of an upload over SFTP; a stream has no path.
pub struct LocalFile {
    pub path: Option<PathBuf>,
    pub length: Option<u64>,
    /// The source, if it is open already: to check a name before a server is asked, or as a stream between two attempts.
    pub opened: Mutex<Option<files::Source>>,
}

pub struct Entry {
    pub remote: Remote,
    /// The URL to which redirects have led.
    pub url: Url,
    pub redirects: u32,
    pub kind: Kind,
    pub checksum: Option<Checksum>,
    /// Failed attempts since the last progress.
    pub failures: u32,
    pub waited_s: f64,
    pub attempts: Vec<Attempt>,
    pub facts: Facts,
    pub offset: u64,
    pub size: Option<u64>,
    pub digest: Option<String>,
    pub bar: Option<Arc<Box<dyn Progress>>>,
    pub deadline: Option<Instant>,
    /// Connections that ended before they took the request.
    pub refusals: u32,
    pub over: bool,
    pub problem: Option<Error>,
}

impl Entry {
    pub fn new(remote: &Remote, kind: Kind, checksum: Option<Checksum>, bar: Option<Box<dyn Progress>>) -> Self {
        Self {
            url: remote.url.clone(),
            remote: remote.clone(),
            redirects: 0,
            kind,
            checksum,
            failures: 0,
            waited_s: 0.0,
            attempts: Vec::new(),
            facts: Facts::default(),
            offset: 0,
            size: None,
            digest: None,
            bar: bar.map(Arc::new),
            deadline: None,
            refusals: 0,
            over: false,
            problem: None,
        }
    }

    /// Returns an entry that is over before its first attempt, for something that cannot be transferred at all.
    pub fn refused(remote: &Remote, problem: Error) -> Self {
        let kind = Kind::Get {
            destination: Destination::Discard,
            overwrite: false,
            range: None,
            state: Arc::default(),
        };
        let mut entry = Self::new(remote, kind, None, None);
        entry.give_up(problem);
        entry
    }

    /// Returns the counterpart of `refused` for a file that was to be sent.
    pub fn refused_upload(remote: &Remote, problem: Error) -> Self {
        let kind = Kind::Put {
            source: None,
            method: Method::PUT,
        };
        let mut entry = Self::new(remote, kind, None, None);
        entry.give_up(problem);
        entry
    }

    /// Returns true if the next attempt goes on at the byte where this one stopped.
    pub fn keeps_progress(&self) -> bool {
        match &self.kind {
            Kind::Get { state, range: None, .. } => lock(state).resume_from().is_some(),
            Kind::Send { resume, .. } => matches!(resume, Resume::At(1..)),
            Kind::Ranged(_) => true,
            _ => false,
        }
    }

    /// Compares the checksum after the last byte has come or gone. Returns the file that is to get its name now.
    pub fn complete(&mut self, upload_digest: Option<Digest>) -> Result<Option<files::PartialFile>, Error> {
        let checksum = self.checksum.clone();
        match &mut self.kind {
            Kind::Get { state, .. } => {
                let kept = lock(state).sink.take();
                let Some((sink, digest)) = kept else { return Ok(None) };
                self.digest = digest.map(Digest::finish);
                if let Err(problem) = check(checksum.as_ref(), self.digest.as_deref(), &log::shown(&self.remote.url)) {
                    sink.abandon(false);
                    return Err(problem);
                }
                sink.complete()
            }
            Kind::Put { source, .. } => {
                self.digest = upload_digest.map(Digest::finish);
                if let Some(source) = source {
                    source.check_unchanged()?;
                }
                check(checksum.as_ref(), self.digest.as_deref(), "what was sent").map(|()| None)
            }
            Kind::Ranged(ranged) => {
                self.size = ranged.size();
                let Some(file) = ranged.take_file() else {
                    return Ok(None);
                };
                if let (Some(checksum), Some(size)) = (&checksum, self.size) {
                    // The bytes did not come in order.
                    let digest = Digest::for_file(checksum.algorithm.into(), file.path(), size)?;
                    self.digest = Some(digest.finish());
                }
                if let Err(problem) = check(checksum.as_ref(), self.digest.as_deref(), &log::shown(&self.remote.url)) {
                    file.abandon(false);
                    return Err(problem);
                }
                Ok(Some(file))
            }
            // Checked before the file got its name on the server.
            Kind::Send { .. } => Ok(None),
        }
    }

    /// Returns the size of an upload over SFTP, if it is known.
    pub fn to_send(&self) -> Option<u64> {
        match &self.kind {
            Kind::Send { local, .. } => local.length,
            _ => None,
        }
    }

    /// Records that the server has every byte below `offset`: another attempt goes on there.
    pub fn acknowledged(&mut self, offset: u64) {
        if let Kind::Send { resume, .. } = &mut self.kind
            && offset > 0
        {
            *resume = Resume::At(offset);
        }
    }

    /// Keeps a stream for another attempt, as it cannot be opened again; a file is opened afresh.
    pub fn take_back(&mut self, source: Option<files::Source>) {
        if let Kind::Send { local, .. } = &mut self.kind
            && local.path.is_none()
            && source.is_some()
        {
            *local.opened.get_mut().unwrap_or_else(PoisonError::into_inner) = source;
        }
    }

    /// Follows a redirect of the server, if the user allows it.
    pub fn redirect(&mut self, status: u16, location: &str, most: u32) -> Result<(), Error> {
        let refuse = |why: String| Err(Error::permanent(format!("{}: {why}", log::shown(&self.remote.url))));
        let to = log::without_query(location);
        if self.redirects >= most {
            return refuse(match most {
                0 => format!("the server redirects to {to}, and --max-redirects 0 follows none"),
                _ => format!("redirected {most} times, the last time to {to} (--max-redirects)"),
            });
        }
        let next = match redirected(&self.url, location) {
            Ok(next) => next,
            Err(why) => return refuse(why),
        };
        if let Kind::Put { method, .. } = &self.kind
            && becomes_get(method, status)
        {
            return refuse(format!(
                "the upload was answered {status} with {}, which asks for a GET; nothing was sent there",
                log::shown(&next)
            ));
        }
        self.redirects += 1;
        self.url = next;
        if !self.rewind() {
            return Err(Error::permanent(
                "redirected, and standard input cannot be sent twice".to_owned(),
            ));
        }
        Ok(())
    }

    /// Makes the next attempt ask the URL that the user gave: a redirect may name a URL that is valid for a moment only.
    pub fn ask_again(&mut self) {
        self.url = self.remote.url.clone();
        self.redirects = 0;
    }

    /// Brings the local side to a point where another attempt may begin. Returns false if that is impossible.
    pub fn rewind(&mut self) -> bool {
        match &mut self.kind {
            Kind::Ranged(_) => true,
            Kind::Get { state, .. } => {
                let mut state = lock(state);
                if state.resume_from().is_some() {
                    return true;
                }
                match state.sink.take() {
                    Some((mut sink, _)) if sink.can_restart() => sink.restart().is_ok_and(|()| {
                        sink.abandon(false);
                        true
                    }),
                    Some((sink, digest)) => {
                        state.sink = Some((sink, digest));
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
            Kind::Send { local, .. } => {
                let opened = local.opened.get_mut().unwrap_or_else(PoisonError::into_inner);
                local.path.is_some() || opened.as_ref().is_some_and(files::Source::can_rewind)
            }
        }
    }

    /// Ends the entry with `problem`; a partial file that is of use to another run stays.
    pub fn give_up(&mut self, mut problem: Error) {
        if let Kind::Ranged(ranged) = &mut self.kind {
            let kept = ranged.give_up(problem.class != Class::Integrity);
            if kept > 0 && matches!(problem.class, Class::Transient | Class::Interrupted) {
                problem.message = format!("{}; {kept} bytes are kept for --resume", problem.message);
            }
        }
        if let Kind::Get {
            state,
            destination: Destination::File(_),
            range,
            ..
        } = &mut self.kind
        {
            let mut state = lock(state);
            let resumable = range.is_none() && state.resume_from().is_some() && problem.class != Class::Integrity;
            if let Some((sink, _)) = state.sink.take() {
                let position = sink.position();
                sink.abandon(resumable);
                if resumable && position > 0 && matches!(problem.class, Class::Transient | Class::Interrupted) {
                    problem.message = format!("{}; {position} bytes are kept for --resume", problem.message);
                }
            }
        }
        self.problem = Some(problem);
        self.over = true;
    }

    /// The entry in the report.
    pub fn account(&mut self, limit: &Limit, insecure: bool, buffer_size_bytes: u64) -> Transfer {
        // The progress line goes with its last owner.
        self.bar = None;
        let mut connections = None;
        let mut ranges = None;
        if let Kind::Ranged(ranged) = &mut self.kind {
            self.facts = ranged.facts();
            self.offset = ranged.kept;
            self.size = ranged.size();
            (connections, ranges) = (Some(ranged.connections), Some(ranged.shared.parts.ranges()));
        }
        let facts = std::mem::take(&mut self.facts);
        let shared = limit.is_shared();
        let limit = limit.rate().map(ferry_pacing::Rate::byte_s);
        let rate = |seconds: f64| (seconds > 0.0).then(|| facts.bytes as f64 / seconds);
        let body_byte_s = facts.phases.body_s.and_then(rate);
        let series = facts.series;
        let decoded = facts.decoded;
        if self.problem.is_none() {
            self.size = self.size.or(decoded.map(|(_, bytes)| bytes));
        }
        Transfer {
            url: log::shown(&self.remote.url),
            final_url: (self.redirects > 0).then(|| log::shown(&self.url)),
            direction: match self.kind {
                Kind::Get { .. } | Kind::Ranged(_) => Command::Get,
                Kind::Put { .. } | Kind::Send { .. } => Command::Put,
            },
            protocol: facts.protocol,
            status: facts.status,
            remote: facts.remote,
            tls: facts.tls,
            insecure,
            connections,
            ranges,
            limit_byte_s: limit,
            limit_shared: shared,
            buffer_size_bytes,
            bytes: facts.bytes,
            content_encoding: decoded.map(|(coding, _)| coding.name()),
            decoded_bytes: decoded.map(|(_, bytes)| bytes),
            offset: self.offset,
            size: self.size,
            phases: facts.phases,
            body_byte_s,
            wall_byte_s: rate(facts.phases.total_s),
            deviation: body_byte_s.zip(limit).map(|(rate, limit)| rate / limit as f64 - 1.0),
            shortfall_s: facts.shortfall_s,
            worst_window_byte_s: series.as_ref().and_then(|facts| facts.worst_window_byte_s),
            longest_gap_ms: series.as_ref().map(|facts| facts.longest_gap_ms),
            series: series.map(|facts| facts.series),
            tcp: facts.tcp,
            sndbuf: facts.sndbuf,
            checksum: self.digest.take(),
            attempts: std::mem::take(&mut self.attempts),
            error: self.problem.as_ref().map(Error::failure),
        }
    }
}

/// Adds the fields that ask for the rest of a file, if its beginning is present and a validator ties the two together. Returns
/// the first byte of the rest, or 0.
pub fn resume_headers(headers: &mut HeaderMap, state: &AttemptState) -> u64 {
    let (Some(offset), Some(validator)) = (state.resume_from(), state.validators.if_range()) else {
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

/// The value of a Range header.
pub fn range_header(range: ByteRange) -> HeaderValue {
    // Digits and a dash are always a valid value.
    HeaderValue::from_str(&range.to_string()).unwrap_or_else(|_| HeaderValue::from_static("bytes=0-"))
}

pub fn check(wanted: Option<&Checksum>, found: Option<&str>, what: &str) -> Result<(), Error> {
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
    let mut wanted = format!("{}:", algorithm.name());
    for byte in expected {
        // Writing to a String does not fail.
        let _ = write!(wanted, "{byte:02x}");
    }
    if wanted == found {
        return Ok(());
    }
    Err(Error::integrity(format!(
        "{what}: the checksum is {found}, not {wanted}; nothing was kept"
    )))
}

/// Returns true if the request behind a redirect is a GET: only 303 asks for that, and POST has become GET behind 301 and 302
/// since the first browsers (RFC 9110, section 15.4).
fn becomes_get(method: &Method, status: u16) -> bool {
    status == 303 || (*method == Method::POST && matches!(status, 301 | 302))
}

/// Returns the URL to which the Location field of an answer to `from` leads (RFC 9110, section 10.2.2).
///
/// # Errors
/// The reason for not going there: the field is not a URL, not HTTP, or would send in the clear what was asked for over TLS.
pub fn redirected(from: &Url, location: &str) -> Result<Url, String> {
    let mut next = from
        .join(location)
        .map_err(|_| format!("redirected to {:?}, which is no URL", log::without_query(location)))?;
    match (from.scheme(), next.scheme()) {
        ("https", "http") => Err(format!(
            "redirected from https to {}; ask for that URL itself if it may be read by others",
            log::shown(&next)
        )),
        (_, "http" | "https") => {
            // A server has no say in who logs in elsewhere, and no message, report or request is to repeat it. An http URL takes both.
            let _ = next.set_username("");
            let _ = next.set_password(None);
            Ok(next)
        }
        _ => Err(format!(
            "redirected to {}, which is not HTTP",
            log::without_query(next.as_str())
        )),
    }
}
