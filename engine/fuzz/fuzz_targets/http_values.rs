//! Any text as a header value: no panic, and what was understood keeps its promises.
#![no_main]

use std::time::{Duration, SystemTime};

use ferry_http::values::{ByteRange, ContentRange, MAX_RETRY_AFTER, retry_after, strong_etag};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Some(ContentRange::Part { first, last, size }) = ContentRange::parse(text) {
        assert!(first <= last && size.is_none_or(|size| last < size));
    }
    if let Some(range) = ByteRange::parse(text) {
        let written = range.to_string();
        assert_eq!(ByteRange::parse(written.strip_prefix("bytes=").unwrap()), Some(range));
    }
    for now in [
        SystemTime::UNIX_EPOCH,
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000),
    ] {
        assert!(retry_after(text, now).is_none_or(|wait| wait <= MAX_RETRY_AFTER));
    }
    if let Some(tag) = strong_etag(text) {
        assert!(tag == text && tag.len() >= 2 && tag.matches('"').count() == 2);
    }
});
