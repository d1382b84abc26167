//! The interface of HTTP/1.1 and HTTP/2 to the loop of a connection.

use std::borrow::Cow;
use std::time::Instant;

use http::header::{HeaderMap, PROXY_AUTHORIZATION};
use url::Url;

use super::exchange::Exchange;
use crate::error::Error;
use crate::net::dial::Forward;
use crate::net::pipe::{Pipe, PipeError};

/// One exchange on its way; `key` is the protocol's.
pub(super) struct Stream {
    pub key: u32,
    pub exchange: Exchange,
}

/// The operations that differ between HTTP/1.1 and HTTP/2.
pub(super) trait Wire {
    /// The number of further exchanges that may begin now.
    fn slots(&self, streams: usize) -> usize;
    /// Queues the request and returns the stream's key.
    fn open(&mut self, exchange: &mut Exchange, pipe: &mut Pipe) -> Result<u32, Error>;
    /// Sends the bytes of a body that may be sent now. True if there were any and the body goes on.
    fn send_body(&mut self, stream: &mut Stream, pipe: &mut Pipe, now: Instant) -> Result<bool, PipeError>;
    /// Grants window for the bytes that the sinks have taken.
    fn grant(&mut self, streams: &mut [Stream]);
    /// Moves queued control bytes to the pipe.
    fn flush(&mut self, pipe: &mut Pipe) -> Result<(), PipeError>;
    fn feed(&mut self, data: &[u8], streams: &mut [Stream], now: Instant) -> Result<(), Error>;
    /// The peer has closed its side.
    fn closed(&mut self, streams: &mut [Stream], now: Instant);
    /// Ends a stream whose remainder on the wire is no longer wanted.
    fn retire(&mut self, stream: &Stream);
    /// No other request may follow on this connection.
    fn abandon(&mut self);
    /// True if another request may follow on this connection.
    fn is_reusable(&self) -> bool;
    fn shutdown(&mut self);
}

/// Path and query, as the request line has it.
#[must_use]
pub fn target(url: &Url) -> String {
    url.query()
        .map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()))
}

/// The request's target and headers: path and query for the server itself; for a proxy the URL, and the proxy's authorization
/// among the headers.
#[must_use]
pub fn addressed<'a>(url: &Url, headers: &'a HeaderMap, forward: Option<&Forward>) -> (String, Cow<'a, HeaderMap>) {
    let Some(forward) = forward else {
        return (target(url), Cow::Borrowed(headers));
    };
    let mut headers = headers.clone();
    let authorization = forward.authorization.clone();
    headers.extend(authorization.map(|value| (PROXY_AUTHORIZATION, value)));
    let absolute = format!("{}://{}{}", url.scheme(), host(url), target(url));
    (absolute, Cow::Owned(headers))
}

/// Host, with the port where it is not the scheme's own.
#[must_use]
pub fn host(url: &Url) -> String {
    let name = url.host_str().unwrap_or_default();
    url.port()
        .map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"))
}

/// Digits, and the same in every field (RFC 9110, section 8.6; RFC 9113, section 8.1.1; RFC 9114, section 4.1.2).
pub(super) fn content_length(headers: &HeaderMap) -> Result<Option<u64>, ()> {
    let mut found = None;
    for value in headers.get_all(http::header::CONTENT_LENGTH) {
        let text = value.to_str().map_err(|_| ())?;
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(());
        }
        let length: u64 = text.parse().map_err(|_| ())?;
        if found.replace(length).is_some_and(|before| before != length) {
            return Err(());
        }
    }
    Ok(found)
}
