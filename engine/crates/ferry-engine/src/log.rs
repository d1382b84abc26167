//! Text for people: never a secret, and nothing that steers their terminal. Events are `tracing`'s.

use std::borrow::Cow;

use http::HeaderMap;
use http::header::{self, HeaderName};
use url::Url;

/// Fields whose values are never secrets. All others, including a user's own, are logged by name only.
const HARMLESS: [HeaderName; 23] = [
    header::ACCEPT,
    header::ACCEPT_ENCODING,
    header::ACCEPT_RANGES,
    header::AGE,
    header::ALT_SVC,
    header::CACHE_CONTROL,
    header::CONNECTION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_RANGE,
    header::CONTENT_TYPE,
    header::DATE,
    header::ETAG,
    header::EXPIRES,
    header::IF_RANGE,
    header::LAST_MODIFIED,
    header::RANGE,
    header::RETRY_AFTER,
    header::SERVER,
    header::TRANSFER_ENCODING,
    header::USER_AGENT,
    header::VARY,
    header::VIA,
];

/// True if a character may be shown unescaped. Control characters move the cursor and forge lines; the format characters of the
/// bidirectional algorithm (Unicode Standard Annex 9, table 4) reorder a line, so that a name reads as another.
pub fn is_harmless(character: char) -> bool {
    let reorders = matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    !reorders && !character.is_control()
}

/// A name, a path or a server's own words as one harmless line: other characters are escaped.
pub fn harmless(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_harmless) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_harmless(character) {
            shown.push(character);
        } else {
            shown.extend(character.escape_default());
        }
    }
    Cow::Owned(shown)
}

/// A URL without its query, which may be a credential (a presigned URL), and without user and password.
pub fn shown(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let query = if url.query().is_some() { "?..." } else { "" };
    format!("{}://{host}{port}{}{query}", url.scheme(), url.path())
}

/// The text with everything after its first `?` replaced by `...`: it may be a URL or a part of one, whose query is not shown.
pub fn without_query(text: &str) -> String {
    match text.split_once('?') {
        Some((before, _)) => format!("{before}?..."),
        None => text.to_owned(),
    }
}

/// `host:port`, for messages.
pub fn host_port(url: &Url) -> String {
    format!(
        "{}:{}",
        url.host_str().unwrap_or("?"),
        url.port_or_known_default().unwrap_or(0)
    )
}

/// One event for each field, at level TRACE.
pub fn fields(direction: &'static str, headers: &HeaderMap) {
    if !tracing::enabled!(tracing::Level::TRACE) {
        return;
    }
    for (name, value) in headers {
        let harmless = HARMLESS.contains(name) && !value.is_sensitive();
        let value = String::from_utf8_lossy(value.as_bytes());
        let value = if harmless { &*value } else { "(not shown)" };
        tracing::trace!(%name, value, "{direction} field");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_or_reorders_a_line_is_escaped() {
        for (text, shown) in [
            ("photo.png", "photo.png"),
            ("ü日本 עברית", "ü日本 עברית"),
            ("photo\u{202e}gnp.exe", r"photo\u{202e}gnp.exe"),
            (
                "\u{61c}\u{200e}\u{200f}\u{2066}\u{2069}",
                r"\u{61c}\u{200e}\u{200f}\u{2066}\u{2069}",
            ),
            ("a\u{1b}[2J\n", r"a\u{1b}[2J\n"),
        ] {
            assert_eq!(harmless(text), shown);
        }
    }

    #[test]
    fn a_url_is_shown_without_what_may_be_a_credential() {
        for (url, expected) in [
            (
                "https://me:secret@h:8443/a/b?X-Amz-Signature=secret#f",
                "https://h:8443/a/b?...",
            ),
            ("http://h/", "http://h/"),
        ] {
            assert_eq!(shown(&url.parse().unwrap()), expected);
        }
        assert_eq!(without_query("/a?Signature=secret?x"), "/a?...");
        assert_eq!(without_query("/a"), "/a");
    }
}
