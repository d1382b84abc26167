//! The local side of one SFTP download: the same places, partial files and checksums as over HTTP, with size and time of modification for
//! what HTTP calls validators.

use std::sync::Arc;

use ferry_sftp::Attrs;
use url::Url;

use super::super::download::{Notes, Place, Validators, open_sink};
use super::super::worker::lock;
use super::progress::Share;
use crate::cli::RangeArg;
use crate::files::{Algorithm, ResumeKey};
use crate::report::Problem;
use crate::sftp::{Inbound, Incoming};
use crate::transfer::Settings;
use crate::transfer::receive::Receiver;

pub struct Download {
    pub url: Url,
    pub place: Place,
    pub overwrite: bool,
    pub algorithm: Option<Algorithm>,
    pub range: Option<RangeArg>,
    pub notes: Arc<std::sync::Mutex<Notes>>,
    pub share: Share,
}

impl Inbound for Download {
    fn open(&mut self, attrs: &Attrs, settings: &Settings) -> Result<Incoming, Problem> {
        let shared = Arc::clone(&self.notes);
        let mut notes = lock(&shared);
        let validators = Validators {
            etag: None,
            // A time alone would do for one second's changes; with the size it is what rsync goes by.
            last_modified: attrs.times.map(|times| format!("sftp {}", times.1)),
            size: attrs.size,
        };
        let (begin, end) = match self.range {
            Some(range) => part(range, attrs.size, &self.url)?,
            None => (resume_at(&notes, &validators), None),
        };
        let at = if self.range.is_some() { 0 } else { begin };
        let (mut sink, digest) = open_sink(&mut notes, &self.place, self.overwrite, self.algorithm, &self.url, at)?;
        if self.range.is_none() && validators.last_modified.is_some() {
            let key = ResumeKey::new(&self.url, attrs.size, None, validators.last_modified.as_deref());
            sink.describe(key)?;
        }
        let expected = end.or(attrs.size.filter(|size| *size > 0)).map(|end| end - begin);
        notes.offset = begin;
        notes.size = match end {
            Some(end) => Some(end - begin),
            None => attrs.size,
        };
        notes.validators = validators;
        self.share.begin(expected);
        let receiver = Receiver::new(sink, digest, settings.limit.throttle(), settings.buffer_size, expected);
        Ok(Incoming {
            receiver: Box::new(receiver),
            begin,
            end,
        })
    }

    fn progress(&mut self, moved: u64) {
        self.share.set(moved);
    }
}

/// What is here goes on only if the file there is the same.
fn resume_at(notes: &Notes, now: &Validators) -> u64 {
    match notes.resume_from() {
        Some(at) if notes.validators == *now && now.size.is_none_or(|size| at < size) => at,
        _ => 0,
    }
}

/// First byte and one behind the last.
fn part(range: RangeArg, size: Option<u64>, url: &Url) -> Result<(u64, Option<u64>), Problem> {
    let Some(size) = size else {
        return Err(Problem::permanent(format!(
            "{url}: the server does not say how long it is, so --range cannot be taken"
        )));
    };
    let (first, last) = match (range.first, range.last) {
        (Some(first), Some(last)) => (first, last.saturating_add(1).min(size)),
        (Some(first), None) => (first, size),
        (None, last) => (size.saturating_sub(last.unwrap_or(0)), size),
    };
    if first >= last {
        return Err(Problem::permanent(format!(
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
        let range = |first, last| RangeArg { first, last };
        let of = |first, last| part(range(first, last), Some(100), &url);
        assert_eq!(of(Some(0), Some(9)).unwrap(), (0, Some(10)));
        assert_eq!(of(Some(90), Some(1000)).unwrap(), (90, Some(100)));
        assert_eq!(of(Some(50), None).unwrap(), (50, Some(100)));
        assert_eq!(of(None, Some(10)).unwrap(), (90, Some(100)));
        assert_eq!(of(None, Some(1000)).unwrap(), (0, Some(100)));
        assert!(of(Some(100), None).is_err());
        assert!(part(range(Some(0), None), None, &url).is_err());
    }
}
