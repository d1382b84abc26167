//! HTTP/3: requests and their bodies on the streams of a QUIC connection (ADR 0038).
//!
//! `link` gives h3 its QUIC, `request` is one exchange, `window` holds a limited server back, `follow` any other (`nginx` says how far at most), `session` is the loop.

mod follow;
mod link;
mod nginx;
mod request;
pub mod session;
mod window;

use std::net::SocketAddr;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use quinn_proto::ConnectionError;
use rustls::pki_types::ServerName;
use url::Url;

use super::Settings;
use super::connect::ConnectOptions;
use crate::error::Error;
use crate::log::{self, host_port};
use crate::net::congestion::CONGESTION;
use crate::net::dial::{STAGGER, addresses};
use crate::net::quic::{Lost, Options, Quic};
use crate::net::sndbuf::Tuner;
use crate::net::tls::{self, Tls};
use crate::net::wait::Waiter;
use crate::report::{Phases, SendBufferFacts, TlsFacts};
use crate::stop::Stop;
use link::Link;
use request::Requests;
use session::Driver;
use window::Window;

/// The largest head of an answer, as QPACK counts it.
const MOST_HEAD: u64 = 256 * 1024;

/// Ready for requests.
pub struct Connection {
    link: Link,
    waiter: Waiter,
    driver: Driver,
    requests: Requests,
    remote: String,
    tls: TlsFacts,
    /// The round trip that the handshake measured.
    pub rtt: Duration,
    phases: Phases,
    begin: Instant,
    send_buffer: SendBufferFacts,
}

/// Blocks until the connection is there, within the time-outs; the first packets have `patience` to be answered.
///
/// # Errors
/// As over TCP. `unreached` also where something answers, and it is not QUIC.
pub fn connect(
    url: &Url,
    options: &ConnectOptions,
    settings: &Settings,
    patience: Duration,
) -> Result<Connection, Error> {
    let begin = Instant::now();
    let host_port = host_port(url);
    let Some(tls) = &options.tls else {
        return Err(Error::permanent(format!(
            "{}: HTTP/3 needs https (--http3)",
            log::shown(url)
        )));
    };
    if options.dial.proxies.for_url(url).is_some() {
        return Err(Error::usage(format!(
            "{host_port}: no proxy carries HTTP/3; leave --http3 out, or name the host in --noproxy"
        )));
    }
    if let Some(name) = options.dial.congestion.as_deref()
        && !CONGESTION.contains(&name)
    {
        return Err(Error::usage(format!(
            "--congestion {name}: over HTTP/3 there are {}",
            CONGESTION.join(", ")
        )));
    }
    let (addresses, dns) = addresses(url, &options.dial, begin + patience)?;
    let connecting = Instant::now();
    let race = Race {
        host_port: &host_port,
        name: tls::server_name(url)?,
        tls,
        settings,
        options,
        patience,
        deadline: connecting + patience,
    };
    let (mut quic, waiter, answered) = race.run(&addresses)?;
    let round_trip = quic.connection.rtt();
    let connected = Instant::now();
    let remote = quic.remote().to_string();
    tracing::debug!(host = host_port, remote, ?dns, took = ?connecting.elapsed(), rtt = ?round_trip, "connected by QUIC");
    let send_buffer = Tuner::new(options.dial.send_buffer, &quic.socket(), connected).facts(&quic.socket());
    quic.drive(connected);
    let link = Link::new(quic);
    let (driver, requests) =
        begin_http3(&link).map_err(|why| Error::transient(format!("{host_port}: HTTP/3 could not begin: {why}")))?;
    Ok(Connection {
        link,
        waiter,
        driver,
        requests,
        remote,
        tls: TlsFacts {
            version: "TLSv1.3".to_owned(),
            cipher: String::new(),
        },
        rtt: round_trip,
        phases: Phases {
            dns_s: dns.map(|time| time.as_secs_f64()),
            connect_s: Some(answered.saturating_duration_since(connecting).as_secs_f64()),
            tls_s: Some(connected.saturating_duration_since(answered).as_secs_f64()),
            ..Phases::default()
        },
        begin,
        send_buffer,
    })
}

/// Settings and the streams of QPACK, which go out with the first request.
fn begin_http3(link: &Link) -> Result<(Driver, Requests), String> {
    let mut builder = h3::client::builder();
    builder.send_grease(false).max_field_section_size(MOST_HEAD);
    let built = pin!(builder.build(link.clone())).poll(&mut Context::from_waker(Waker::noop()));
    match built {
        Poll::Ready(Ok(both)) => Ok(both),
        Poll::Ready(Err(error)) => Err(error.to_string()),
        Poll::Pending => Err("the server allows no streams of the client".to_owned()),
    }
}

/// An attempt at each address, one after the other unless they are slow (RFC 8305).
struct Race<'a> {
    host_port: &'a str,
    name: ServerName<'static>,
    tls: &'a Tls,
    settings: &'a Settings,
    options: &'a ConnectOptions,
    patience: Duration,
    /// By then something must have been heard.
    deadline: Instant,
}

impl Race<'_> {
    /// Returns the connection, its waiter, and the time at which its server was first heard.
    fn run(&self, addresses: &[SocketAddr]) -> Result<(Quic, Waiter, Instant), Error> {
        let failed = |error: std::io::Error| Error::local(format!("{}: {error}", self.host_port)).with_source(error);
        let mut waiter = Waiter::new().map_err(failed)?;
        let mut attempts: Vec<Option<Quic>> = Vec::new();
        let mut last = None;
        let mut next_start = Instant::now();
        loop {
            let now = Instant::now();
            if let Some(problem) = self.settings.stop.problem() {
                return Err(problem);
            }
            if let Some(address) = addresses.get(attempts.len())
                && (now >= next_start || attempts.iter().all(Option::is_none))
            {
                next_start = now + STAGGER;
                attempts.push(Some(self.start(*address, &waiter, attempts.len())?));
            }
            let mut first_heard: Option<Instant> = None;
            for slot in &mut attempts {
                let Some(quic) = slot else { continue };
                quic.receive();
                quic.drive(now);
                first_heard = first_heard.into_iter().chain(quic.heard()).min();
                if let Some(lost) = quic.lost() {
                    let problem = self.problem(quic, lost);
                    *slot = None;
                    if !problem.unreached {
                        // It is a server, and says no.
                        return Err(problem);
                    }
                    last = Some(problem);
                } else if quic.is_connected() {
                    let answered = quic.heard().map_or(now, |heard| heard.min(now));
                    let answered = first_heard.unwrap_or(answered);
                    return slot
                        .take()
                        .map(|quic| (quic, waiter, answered))
                        .ok_or_else(|| Error::transient(format!("{}: lost", self.host_port)));
                }
            }
            if attempts.len() == addresses.len() && attempts.iter().all(Option::is_none) {
                return Err(last.unwrap_or_else(|| Error::permanent(format!("{} has no address", self.host_port))));
            }
            let deadline = first_heard.map_or(self.deadline, |heard| heard + self.settings.timeouts.tls);
            if now >= deadline {
                return Err(self.late(first_heard.is_some()));
            }
            let start = (attempts.len() < addresses.len()).then_some(next_start);
            let timers = attempts.iter_mut().flatten().filter_map(Quic::timeout);
            let until = timers.chain(start).min().map_or(deadline, |at| at.min(deadline));
            let result = waiter.wait(Some(Stop::look_by(until)), |token, ready| {
                if let Some(Some(quic)) = attempts.get_mut(token) {
                    quic.wake(ready);
                }
            });
            result.map_err(failed)?;
        }
    }

    fn start(&self, address: SocketAddr, waiter: &Waiter, token: usize) -> Result<Quic, Error> {
        let options = Options {
            tls: self.tls,
            send_buffer: self.options.dial.send_buffer,
            congestion: self.options.dial.congestion.as_deref(),
            limited: self.settings.limit.rate().is_some(),
            window: self.settings.limit.rate().map_or(follow::FIRST, Window::first),
        };
        Quic::connect(address, &self.name, &options, waiter, token)
    }

    fn late(&self, heard: bool) -> Error {
        let (host_port, timeouts) = (self.host_port, &self.settings.timeouts);
        if heard {
            return Error::transient(format!(
                "TLS with {host_port} was not done within {:.1} s (--timeout-tls)",
                timeouts.tls.as_secs_f64()
            ));
        }
        let error = Error::transient(format!(
            "cannot connect to {host_port} by QUIC: no answer within {:.1} s (--timeout-connect)",
            self.patience.as_secs_f64()
        ));
        Error {
            unreached: true,
            ..error
        }
    }

    fn problem(&self, quic: &Quic, lost: &Lost) -> Error {
        let host_port = self.host_port;
        if let Some(error) = quic.tls_problem() {
            return tls::problem(host_port, &error, self.tls.unread.as_deref());
        }
        let cannot = |why: &dyn std::fmt::Display| format!("cannot connect to {host_port} by QUIC: {why}");
        match lost {
            Lost::Unreachable(kind) => Error {
                unreached: true,
                ..Error::transient(cannot(kind)).with_source(std::io::Error::from(*kind))
            },
            Lost::Quic(ConnectionError::VersionMismatch) => {
                Error::permanent(cannot(&"it does not speak QUIC version 1"))
            }
            Lost::Quic(error) => Error::transient(cannot(error)).with_source(error.clone()),
        }
    }
}
