//! The version of a file that an answer is about, and the part of it that the answer has.

use std::time::{Duration, SystemTime};

use ferry_http::values::{ContentRange, date, strong_etag, strong_last_modified};
use http::header::{CONTENT_ENCODING, CONTENT_RANGE, DATE, ETAG, HeaderName, LAST_MODIFIED};
use http::{HeaderMap, HeaderValue};
use url::Url;

use crate::error::Error;
use crate::files::{Stated, Validators};
use crate::log;
use crate::transfer::Head;

/// The clock that dates answers and the one that dates files are less than this apart; they may be on two machines. RFC 7232, section 2.2.2, has
/// this figure.
const CLOCKS_APART: Duration = Duration::from_secs(60);

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// The validators of an answer (RFC 9110, section 8.8) that If-Range may name.
pub fn validators_of(headers: &HeaderMap, size: Option<u64>) -> Validators {
    Validators {
        etag: text(headers, ETAG).and_then(strong_etag).map(str::to_owned),
        last_modified: text(headers, LAST_MODIFIED)
            .and_then(|modified| strong_last_modified(modified, text(headers, DATE), CLOCKS_APART))
            .map(str::to_owned),
        size,
    }
}

/// Returns the validators of an answer as they stand there. Weak or young validators cannot show that two versions are the
/// same; they can show that two versions differ.
pub fn stated_by(headers: &HeaderMap) -> Stated {
    // Two values of different bytes stay different.
    let raw = |name| {
        headers
            .get(name)
            .map(|value: &HeaderValue| value.as_bytes().escape_ascii().to_string())
    };
    Stated {
        etag: raw(ETAG),
        last_modified: raw(LAST_MODIFIED),
    }
}

/// Returns true if a 206 may be about the version for which the server has stated `begun`. If-Range sees to that, unless the
/// server does not know the field. A 206 has the `ETag` that a 200 would have; Last-Modified need not be repeated (RFC 9110,
/// section 15.3.7).
pub fn goes_on(begun: &Stated, now: &Stated) -> bool {
    let same_tag = match (&begun.etag, &now.etag) {
        (Some(old), new) => new.as_ref() == Some(old),
        (None, Some(_)) => now.last_modified.is_some(),
        (None, None) => true,
    };
    same_tag && !contradicts(begun, now)
}

/// Returns true if a validator is stated twice, and differently. For answers that need not repeat any validator.
pub fn contradicts(begun: &Stated, now: &Stated) -> bool {
    let differs =
        |old: &Option<String>, new: &Option<String>| matches!((old, new), (Some(old), Some(new)) if old != new);
    differs(&begun.etag, &now.etag) || differs(&begun.last_modified, &now.last_modified)
}

/// The length that the server has given for a version. It holds for the run, also when everything begins again: another length with the same strong
/// validator is a part or an error, and never the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promise {
    validator: String,
    stated: Stated,
    pub size: u64,
}

impl Promise {
    pub fn of(validators: &Validators, stated: &Stated) -> Option<Self> {
        Some(Self {
            validator: validators.if_range()?.to_owned(),
            stated: stated.clone(),
            size: validators.size?,
        })
    }

    /// Returns true if the length was given for this version: it was, unless a validator shows another version.
    pub fn is_about(&self, validators: &Validators, stated: &Stated) -> bool {
        validators.if_range() == Some(&*self.validator) || !contradicts(&self.stated, stated)
    }

    /// The problem of an answer with `found` bytes of the same version.
    pub fn broken(&self, found: u64) -> String {
        let Self { validator, size, .. } = self;
        format!("the server gives {found} bytes for the version {validator}, of which it has said that it has {size}")
    }
}

/// True for a coded body, whose length differs from the file's.
pub fn is_coded(headers: &HeaderMap) -> bool {
    headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .any(|coding| !coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity"))
}

/// The server's modification time.
pub fn last_modified(head: &Head) -> Option<SystemTime> {
    date(text(&head.headers, LAST_MODIFIED)?)
}

pub fn content_range(head: &Head) -> &str {
    text(&head.headers, CONTENT_RANGE).unwrap_or("")
}

/// The bytes that a 206 has, and the size of the file where it says so.
pub struct Partial {
    pub first: u64,
    pub last: u64,
    pub size: Option<u64>,
}

impl Partial {
    /// # Errors
    /// Class Integrity when a 206 does not say which bytes it has, or has another number of them.
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

    /// Bytes of its body.
    pub fn length(&self) -> u64 {
        self.last - self.first + 1
    }

    /// Returns the error of a 206 that cannot be used, with the reason `why`.
    pub fn wrong(url: &Url, head: &Head, why: &str) -> Error {
        let range = content_range(head);
        Error::integrity(format!("{}: {why} (Content-Range: {range:?})", log::shown(url)))
    }
}

/// Checks that a body has exactly the `due` bytes at its end.
///
/// # Errors
/// Class Transient for missing bytes where only the end of the connection ended the body, which may have cut it short; else
/// Integrity.
pub fn check_length(url: &Url, due: u64, came: u64, delimited: bool) -> Result<(), Error> {
    let url = log::shown(url);
    if came == due {
        Ok(())
    } else if came < due && !delimited {
        Err(Error::transient(format!(
            "{url}: the server closed the connection after {came} of {due} bytes"
        )))
    } else {
        Err(Error::integrity(format!(
            "{url}: {due} bytes were announced and {came} came"
        )))
    }
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

    #[test]
    fn a_part_of_another_version_is_told_by_whatever_the_answers_state() {
        let stated = |etag: &str, last_modified: &str| {
            let mut headers = HeaderMap::new();
            for (name, value) in [(ETAG, etag), (LAST_MODIFIED, last_modified)] {
                headers.extend((!value.is_empty()).then(|| (name, value.parse().unwrap())));
            }
            stated_by(&headers)
        };
        for (begun, now, same) in [
            (("\"a\"", "1"), ("\"a\"", "1"), true),
            (("\"a\"", "1"), ("\"a\"", ""), true),
            (("\"a\"", "1"), ("\"a\"", "2"), false),
            (("\"a\"", "1"), ("\"b\"", "1"), false),
            (("\"a\"", "1"), ("W/\"a\"", "1"), false),
            (("\"a\"", "1"), ("", "1"), false),
            (("W/\"a\"", "1"), ("W/\"b\"", "1"), false),
            (("", "1"), ("", "1"), true),
            (("", "1"), ("", ""), true),
            (("", "1"), ("", "2"), false),
            (("", "1"), ("\"a\"", "1"), true),
            (("", "1"), ("\"a\"", ""), false),
        ] {
            let (old, new) = (stated(begun.0, begun.1), stated(now.0, now.1));
            assert_eq!(goes_on(&old, &new), same, "{begun:?} {now:?}");
        }
        // A 416 need not state any validator.
        assert!(!contradicts(&stated("\"a\"", "1"), &stated("", "")));
        assert!(contradicts(&stated("\"a\"", "1"), &stated("\"b\"", "")));
    }

    #[test]
    fn another_length_of_the_same_strong_version_is_never_the_file() {
        let version = |etag: Option<&str>, last_modified: Option<&str>, size| {
            let (etag, last_modified) = (etag.map(str::to_owned), last_modified.map(str::to_owned));
            let stated = Stated {
                etag: etag.clone(),
                last_modified: last_modified.clone(),
            };
            let validators = Validators {
                size,
                etag,
                last_modified,
            };
            (validators, stated)
        };
        let of = |(validators, stated)| Promise::of(&validators, &stated);
        let promise = of(version(Some("\"a\""), Some("then"), Some(9))).unwrap();
        assert_eq!(promise.size, 9);
        for (now, about) in [
            (version(Some("\"a\""), None, Some(7)), true),
            (version(Some("\"a\""), Some("now"), Some(7)), true),
            (version(None, None, Some(7)), true),
            (version(None, Some("now"), Some(7)), false),
            (version(Some("\"b\""), Some("then"), Some(7)), false),
        ] {
            assert_eq!(promise.is_about(&now.0, &now.1), about, "{now:?}");
        }
        assert!(promise.broken(7).contains("7 bytes"));
        assert_eq!(of(version(None, None, Some(9))), None);
        assert_eq!(of(version(Some("\"a\""), None, None)), None);
    }

    #[test]
    fn only_the_end_of_a_connection_can_have_cut_a_body_short() {
        use crate::error::Class;

        let url: Url = "http://h/x?secret".parse().unwrap();
        let class = |came, delimited| {
            check_length(&url, 9, came, delimited)
                .err()
                .map(|problem| problem.class)
        };
        assert_eq!(class(9, false), None);
        assert_eq!(class(8, false), Some(Class::Transient));
        assert_eq!(class(8, true), Some(Class::Integrity));
        assert_eq!(class(10, false), Some(Class::Integrity));
    }

    #[test]
    fn a_body_is_coded_where_the_answer_says_so() {
        for (codings, coded) in [
            (&[][..], false),
            (&["Identity"], false),
            (&["gzip"], true),
            (&["identity", "br"], true),
        ] {
            let mut headers = HeaderMap::new();
            for coding in codings {
                headers.append(CONTENT_ENCODING, coding.parse().unwrap());
            }
            assert_eq!(is_coded(&headers), coded, "{codings:?}");
        }
    }
}
