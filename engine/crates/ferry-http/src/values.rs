//! Header values that ferry acts on. A value that does not follow the grammar is `None`: a guess here would damage a file.

use std::fmt;
use std::time::{Duration, SystemTime};

/// The longest wait that [`retry_after`] returns, 68 years: a server's value can then be added to any clock
/// (RFC 9111, section 1.2.2 caps its seconds alike).
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(1 << 31);

/// A decimal number of digits alone; `str::parse` would take a sign.
pub(crate) fn number(text: &str) -> Option<u64> {
    if text.bytes().all(|b| b.is_ascii_digit()) {
        text.parse().ok()
    } else {
        None
    }
}

/// The range that a 206 or 416 describes (RFC 9110, section 14.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentRange {
    /// `bytes first-last/size`, both ends included.
    Part {
        /// Position of the first byte.
        first: u64,
        /// Position of the last byte, not below `first` and below `size`.
        last: u64,
        /// The complete length in bytes; `None` if the server does not know it.
        size: Option<u64>,
    },
    /// `bytes */size`: no byte of the requested range exists.
    Unsatisfied {
        /// The complete length in bytes.
        size: u64,
    },
}

impl ContentRange {
    /// Reads a Content-Range value (RFC 9110, section 14.4).
    #[must_use]
    pub fn parse(value: &str) -> Option<Self> {
        let (unit, rest) = value.split_once(' ')?;
        if !unit.eq_ignore_ascii_case("bytes") {
            return None;
        }
        let (part, size) = rest.split_once('/')?;
        if part == "*" {
            return Some(Self::Unsatisfied { size: number(size)? });
        }
        let (first, last) = part.split_once('-')?;
        let (first, last) = (number(first)?, number(last)?);
        let size = if size == "*" { None } else { Some(number(size)?) };
        (first <= last && size.is_none_or(|size| last < size)).then_some(Self::Part { first, last, size })
    }
}

/// The wait that a Retry-After value asks for (RFC 9110, section 10.2.3), from `now` if the value is a date; a date in the
/// past asks for no wait. At most [`MAX_RETRY_AFTER`].
#[must_use]
pub fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let wait = if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) {
        // Only an overflow can fail here, and that is a long wait, not none.
        value.parse().map_or(MAX_RETRY_AFTER, Duration::from_secs)
    } else {
        httpdate::parse_http_date(value)
            .ok()?
            .duration_since(now)
            .unwrap_or_default()
    };
    Some(wait.min(MAX_RETRY_AFTER))
}

/// A date as HTTP writes it (RFC 9110, section 5.6.7), in any of its three forms.
#[must_use]
pub fn date(value: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(value).ok()
}

/// The Last-Modified, if it tells versions of a file apart, so that If-Range may carry it (RFC 9110, sections 8.8.2.2 and
/// 13.1.5): the file had not changed for `margin` when the answer was made, by the answer's own Date. `margin` covers the
/// possible difference between the clocks behind both.
#[must_use]
pub fn strong_last_modified<'a>(value: &'a str, date: Option<&str>, margin: Duration) -> Option<&'a str> {
    let modified = httpdate::parse_http_date(value).ok()?;
    let age = httpdate::parse_http_date(date?).ok()?.duration_since(modified).ok()?;
    (age >= margin).then_some(value)
}

/// The entity tag, quotes included, if it is strong (RFC 9110, section 8.8.3). A weak tag is of no use in If-Range, which
/// asks for the same bytes (section 13.1.5).
#[must_use]
pub fn strong_etag(value: &str) -> Option<&str> {
    let tag = value.strip_prefix('"')?.strip_suffix('"')?;
    tag.bytes().all(|b| b > b' ' && b != b'"' && b != 0x7f).then_some(value)
}

/// A range to ask for (RFC 9110, section 14.1.2), as the --range option writes it; displays as the value of a Range header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteRange {
    /// `first-last`, both ends included.
    Part {
        /// Position of the first byte.
        first: u64,
        /// Position of the last byte, not below `first`.
        last: u64,
    },
    /// `first-`: from the byte `first` to the end.
    From(u64),
    /// `-length`: the last bytes, at least one.
    Last(u64),
}

impl ByteRange {
    /// Reads one range without its unit. `-0` is refused: no server can satisfy it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once('-')? {
            ("", length) => number(length).filter(|length| *length > 0).map(Self::Last),
            (first, "") => number(first).map(Self::From),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Self::Part { first, last })
            }
        }
    }
}

impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Part { first, last } => write!(f, "bytes={first}-{last}"),
            Self::From(first) => write!(f, "bytes={first}-"),
            Self::Last(length) => write!(f, "bytes=-{length}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_ranges() {
        let part = |first, last, size| Some(ContentRange::Part { first, last, size });
        assert_eq!(ContentRange::parse("bytes 5-9/100"), part(5, 9, Some(100)));
        assert_eq!(ContentRange::parse("Bytes 0-0/1"), part(0, 0, Some(1)));
        assert_eq!(ContentRange::parse("bytes 5-9/*"), part(5, 9, None));
        assert_eq!(
            ContentRange::parse("bytes */0"),
            Some(ContentRange::Unsatisfied { size: 0 })
        );
        let most = format!("bytes 0-{}/{}", u64::MAX - 1, u64::MAX);
        assert_eq!(ContentRange::parse(&most), part(0, u64::MAX - 1, Some(u64::MAX)));
    }

    #[test]
    fn content_ranges_that_are_none() {
        for value in [
            "",
            "bytes",
            "bytes ",
            "bytes 5-9",
            "bytes 9-5/100",
            "bytes 5-100/100",
            "bytes */*",
            "bytes -9/100",
            "bytes 5-/100",
            "bytes +5-9/100",
            "bytes 5-9/",
            "bytes=5-9/100",
            "bytes  5-9/100",
            "bytes 5-9/100 ",
            "bytes 5 - 9/100",
            "lines 5-9/100",
            "bytes 0-9/18446744073709551616",
            "bytes 5-9/100/100",
            "bytes 5-9-10/100",
            "bytes 0x5-9/100",
            "bytes */",
        ] {
            assert_eq!(ContentRange::parse(value), None, "{value:?}");
        }
    }

    #[test]
    fn waits() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(946_684_790);
        for (value, seconds) in [
            ("0", 0),
            ("120", 120),
            ("2147483649", 1 << 31),
            ("99999999999999999999999", 1 << 31),
            ("Fri, 31 Dec 1999 23:59:59 GMT", 9),
            ("Friday, 31-Dec-99 23:59:59 GMT", 9),
            ("Fri Dec 31 23:59:59 1999", 9),
            ("Fri, 31 Dec 1999 23:59:40 GMT", 0),
            ("Fri, 31 Dec 9999 23:59:59 GMT", 1 << 31),
        ] {
            assert_eq!(retry_after(value, now), Some(Duration::from_secs(seconds)), "{value}");
        }
        for value in ["", "-1", "+1", "1.5", "1 ", "soon", "Fri, 32 Dec 1999 23:59:59 GMT"] {
            assert_eq!(retry_after(value, now), None, "{value:?}");
        }
    }

    #[test]
    fn dates_in_their_three_forms() {
        let sunday = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        for value in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(date(value), Some(sunday), "{value:?}");
        }
        assert_eq!(date("yesterday"), None);
    }

    #[test]
    fn a_last_modified_is_strong_when_the_file_is_old_enough() {
        let modified = "Sun, 06 Nov 1994 08:49:37 GMT";
        let at = |date| strong_last_modified(modified, date, Duration::from_secs(60));
        assert_eq!(at(Some("Sun, 06 Nov 1994 08:50:37 GMT")), Some(modified));
        assert_eq!(at(Some("Mon, 07 Nov 1994 08:49:37 GMT")), Some(modified));
        for date in [
            Some("Sun, 06 Nov 1994 08:50:36 GMT"),
            Some("Sun, 06 Nov 1994 08:49:36 GMT"),
            Some("today"),
            None,
        ] {
            assert_eq!(at(date), None, "{date:?}");
        }
        assert_eq!(strong_last_modified("lately", Some(modified), Duration::ZERO), None);
    }

    #[test]
    fn entity_tags() {
        for tag in ["\"\"", "\"a-1:!\"", "\"\u{e4}\""] {
            assert_eq!(strong_etag(tag), Some(tag));
        }
        for tag in [
            "",
            "\"",
            "W/\"a\"",
            "a",
            "\"a",
            "\"a\"b\"",
            "\"a b\"",
            "\"a\", \"b\"",
            "\"\x7f\"",
            " \"a\"",
        ] {
            assert_eq!(strong_etag(tag), None, "{tag:?}");
        }
    }

    #[test]
    fn ranges_to_ask_for() {
        for text in ["0-499", "0-0", "500-", "-500", "-1", "0-18446744073709551615"] {
            assert_eq!(
                ByteRange::parse(text).map(|range| range.to_string()),
                Some(format!("bytes={text}"))
            );
        }
        for text in [
            "",
            "-",
            "-0",
            "5",
            "5-4",
            "1-2,3-4",
            "--5",
            "+1-2",
            " 1-2",
            "1-2-3",
            "bytes=1-2",
            "-18446744073709551616",
        ] {
            assert_eq!(ByteRange::parse(text), None, "{text:?}");
        }
    }
}
