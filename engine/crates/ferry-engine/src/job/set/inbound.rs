//! The local side of one SFTP download: the same places, partial files and checksums as over HTTP, with size and time of
//! modification as the validators.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use ferry_sftp::Attrs;
use url::Url;

use super::super::download::{AttemptState, Destination, most_bytes, open_sink};
use super::progress::FileProgress;
use crate::error::Error;
use crate::files::mode::Complete;
use crate::files::{Algorithm, ResumeKey, Validators};
use crate::options::ByteRange;
use crate::sftp::{Inbound, Incoming};
use crate::sync::lock;
use crate::transfer::Settings;
use crate::transfer::receive::Receiver;

pub struct Download {
    pub url: Url,
    pub destination: Destination,
    pub overwrite: bool,
    pub algorithm: Option<Algorithm>,
    pub range: Option<ByteRange>,
    pub max_filesize: Option<u64>,
    pub remote_time: bool,
    pub perms: bool,
    pub state: Arc<std::sync::Mutex<AttemptState>>,
    pub progress: FileProgress,
}

impl Inbound for Download {
    fn open(&mut self, attrs: &Attrs, settings: &Settings) -> Result<Incoming, Error> {
        let shared = Arc::clone(&self.state);
        let mut state = lock(&shared);
        let validators = Validators {
            etag: None,
            // A time alone would do for one second's changes; with the size it is what rsync goes by.
            last_modified: attrs.times.map(|times| format!("sftp {}", times.1)),
            size: attrs.size,
        };
        let (begin, end) = match self.range {
            Some(range) => part(range, attrs.size, &self.url)?,
            None => (resume_at(&state, &validators), None),
        };
        let at = if self.range.is_some() { 0 } else { begin };
        let whole = end.map(|end| end - begin).or(attrs.size);
        let most = most_bytes(self.max_filesize, &self.url, at, whole)?;
        let (mut sink, digest) = open_sink(
            &mut state,
            &self.destination,
            self.overwrite,
            self.algorithm,
            &self.url,
            at,
        )?;
        if let Some((_, modified)) = attrs.times.filter(|_| self.remote_time) {
            sink.set_modified(UNIX_EPOCH + Duration::from_secs(modified.into()));
        }
        sink.set_mode(match attrs.permissions.filter(|_| self.perms) {
            Some(mode) => Complete::Exactly(mode),
            None => Complete::like(attrs.permissions),
        });
        if self.range.is_none() && validators.last_modified.is_some() {
            sink.describe(ResumeKey::new(&self.url, validators.clone()))?;
        }
        let expected = end.or(attrs.size.filter(|size| *size > 0)).map(|end| end - begin);
        state.offset = begin;
        state.size = match end {
            Some(end) => Some(end - begin),
            None => attrs.size,
        };
        state.validators = validators;
        self.progress.begin(expected);
        let mut receiver = Receiver::new(sink, digest, settings.limit.throttle(), settings.buffer_size, expected);
        receiver.most = most;
        Ok(Incoming {
            receiver: Box::new(receiver),
            begin,
            end,
        })
    }

    fn progress(&mut self, moved: u64) {
        self.progress.set(moved);
    }
}

/// Returns the offset at which to go on, which is 0 unless the file on the server is the same.
fn resume_at(state: &AttemptState, now: &Validators) -> u64 {
    match state.resume_from() {
        Some(at) if state.validators == *now && now.size.is_none_or(|size| at < size) => at,
        _ => 0,
    }
}

/// Returns the first byte of a range, and the byte behind its last.
fn part(range: ByteRange, size: Option<u64>, url: &Url) -> Result<(u64, Option<u64>), Error> {
    let Some(size) = size else {
        return Err(Error::permanent(format!(
            "{url}: the server does not say how long it is, so --range cannot be taken"
        )));
    };
    let (first, last) = match range {
        ByteRange::Part { first, last } => (first, last.saturating_add(1).min(size)),
        ByteRange::From(first) => (first, size),
        ByteRange::Last(count) => (size.saturating_sub(count), size),
    };
    if first >= last {
        return Err(Error::permanent(format!(
            "{url} has {size} bytes: nothing is in the range asked for"
        )));
    }
    Ok((first, Some(last)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_what_http_makes_of_them() {
        let url: Url = "sftp://h/x".parse().unwrap();
        for (range, expected) in [
            (ByteRange::Part { first: 0, last: 9 }, Some((0, 10))),
            (ByteRange::Part { first: 90, last: 1000 }, Some((90, 100))),
            (ByteRange::From(50), Some((50, 100))),
            (ByteRange::Last(10), Some((90, 100))),
            (ByteRange::Last(1000), Some((0, 100))),
            (ByteRange::From(100), None),
        ] {
            let found = part(range, Some(100), &url).ok();
            assert_eq!(found, expected.map(|(first, end)| (first, Some(end))), "{range}");
        }
        assert!(part(ByteRange::From(0), None, &url).is_err());
    }
}
