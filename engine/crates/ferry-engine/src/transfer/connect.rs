//! A connection ready for requests: dialled, encrypted, and agreed on a protocol.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use url::Url;

use super::{Settings, window};
use crate::error::Error;
use crate::log::host_port;
use crate::net::dial::{DialOptions, Forward, dial};
use crate::net::pipe::{Pipe, PipeError};
use crate::net::tls;
use crate::net::wait::Waiter;
use crate::report::{Phases, TlsFacts};
use crate::sync::lock;

/// The options of a connection to a server; `tls` is for `https` only.
#[derive(Clone)]
pub struct ConnectOptions {
    /// `--http2`: nothing else will do.
    pub only_h2: bool,
    pub http3: Http3,
    pub dial: DialOptions,
    pub tls: Option<tls::Tls>,
}

/// `--http3`.
#[derive(Clone, Default)]
pub enum Http3 {
    #[default]
    Never,
    /// Nothing else will do.
    Only,
    /// TCP takes the place of QUIC for a server that does not answer.
    First(Without),
}

/// Servers of this run that do not answer over QUIC. All clones are one list.
#[derive(Clone, Default)]
pub struct Without(Arc<Mutex<HashSet<String>>>);

impl Without {
    #[must_use]
    pub fn has(&self, url: &Url) -> bool {
        lock(&self.0).contains(&host_port(url))
    }

    pub fn add(&self, url: &Url) {
        lock(&self.0).insert(host_port(url));
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Http11,
    H2,
}

impl Protocol {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Http11 => "http/1.1",
            Self::H2 => "h2",
        }
    }
}

pub struct Connection {
    pub pipe: Pipe,
    pub waiter: Waiter,
    pub protocol: Protocol,
    pub remote: String,
    pub tls: Option<TlsFacts>,
    /// The other end is an HTTP proxy, which takes absolute URLs.
    pub forward: Option<Forward>,
    /// The round trip of the TCP handshake.
    pub rtt: Duration,
    /// The times of the connection's setup, charged to its first exchange.
    pub phases: Phases,
    pub begin: Instant,
}

/// Blocks until the connection is there, within the time-outs.
pub fn connect(url: &Url, connect_options: &ConnectOptions, settings: &Settings) -> Result<Connection, Error> {
    let begin = Instant::now();
    // Over TLS the handshake is through before the window matters, and h2 has windows of its own.
    let rate = settings.limit.rate().filter(|_| connect_options.tls.is_none());
    let mut options = connect_options.dial.clone();
    options.window = rate.and_then(window::first);
    let mut dialed = dial(url, &options)?;
    if let Some(rate) = rate
        && options.window.is_some()
        && !window::first_is_enough(rate, dialed.rtt)
    {
        // The server is so far away that the limit could not be reached: dial again, with a window that can grow.
        options.window = None;
        let (dns, before) = (dialed.dns, dialed.connect);
        dialed = dial(url, &options)?;
        dialed.dns = dns;
        dialed.connect += before;
    }
    let host_port = host_port(url);
    let name = match &connect_options.tls {
        Some(tls) => Some((Arc::clone(&tls.config), tls::server_name(url)?)),
        None => None,
    };
    let encrypted = name.is_some();
    let failed = |error: PipeError| match error {
        PipeError::Tls(error) => tls::problem(
            &host_port,
            &error,
            connect_options.tls.as_ref().and_then(|tls| tls.unread.as_deref()),
        ),
        other => Error::transient(format!("{host_port}: {other}")).with_source(other),
    };
    let mut pipe = Pipe::new(dialed.socket, name, options.send_buffer).map_err(failed)?;
    let mut waiter = Waiter::new().map_err(|error| failed(error.into()))?;
    pipe.register(&waiter, 0).map_err(|error| failed(error.into()))?;
    let shaking = Instant::now();
    let deadline = shaking + settings.timeouts.tls;
    while !pipe.handshake().map_err(failed)? {
        if let Some(problem) = settings.stop.problem() {
            return Err(problem);
        }
        if Instant::now() >= deadline {
            return Err(Error::transient(format!(
                "TLS with {host_port} was not done within {:.1} s (--timeout-tls)",
                settings.timeouts.tls.as_secs_f64()
            )));
        }
        let mut woken = Vec::new();
        waiter
            .wait(Some(crate::stop::Stop::look_by(deadline)), |_, ready| woken.push(ready))
            .map_err(|error| failed(error.into()))?;
        for ready in woken {
            pipe.wake(ready);
        }
    }
    if let Some(rate) = settings.limit.rate()
        && options.window.is_none()
        && pipe.alpn() != Some(b"h2")
    {
        window::set(&pipe.socket(), rate, dialed.rtt);
    }
    if let Some(facts) = pipe.tls_facts() {
        let took = shaking.elapsed();
        let alpn = pipe.alpn().map(String::from_utf8_lossy);
        tracing::debug!(
            host = host_port,
            version = facts.version,
            cipher = facts.cipher,
            ?alpn,
            ?took,
            "TLS is set up"
        );
    }
    let protocol = if pipe.alpn() == Some(b"h2") {
        Protocol::H2
    } else {
        Protocol::Http11
    };
    if connect_options.only_h2 && protocol != Protocol::H2 {
        return Err(Error::permanent(format!(
            "{host_port} does not speak the HTTP version asked for (--http2)"
        )));
    }
    let phases = Phases {
        dns_s: dialed.dns.map(|time| time.as_secs_f64()),
        connect_s: Some(dialed.connect.as_secs_f64()),
        tls_s: encrypted.then(|| shaking.elapsed().as_secs_f64()),
        ..Phases::default()
    };
    let tls = pipe.tls_facts();
    Ok(Connection {
        pipe,
        waiter,
        protocol,
        remote: dialed.remote.to_string(),
        tls,
        forward: dialed.forward,
        rtt: dialed.rtt,
        phases,
        begin,
    })
}
