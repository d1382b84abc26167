//! What may be written to a log: never a secret. Events are `tracing`'s; a server's own words are logged with their control characters escaped.

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

/// A URL without its query, which may be a credential (a presigned URL), and without user and password.
pub fn shown(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let query = if url.query().is_some() { "?..." } else { "" };
    format!("{}://{host}{port}{}{query}", url.scheme(), url.path())
}

/// What may be a URL, or a part of one, without its query.
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
