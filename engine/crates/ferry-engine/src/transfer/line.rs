//! A connection of the protocol that the options ask for, over TCP or QUIC.

use std::time::Duration;

use url::Url;

use super::connect::{ConnectOptions, Connection, Http3, Protocol, connect};
use super::{Settings, Tasks, h3, session};
use crate::error::{Class, Error};
use crate::log::host_port;

/// The divisor of `--timeout-connect` for QUIC, if TCP can take its place.
const QUIC_PART: u32 = 4;

pub enum Line {
    Tcp(Box<Connection>),
    Quic(Box<h3::Connection>),
}

/// Blocks until the connection is there, within the time-outs.
pub fn open(url: &Url, options: &ConnectOptions, settings: &Settings) -> Result<Line, Error> {
    let patience = settings.timeouts.connect;
    let tcp = || connect(url, options, settings).map(|connection| Line::Tcp(Box::new(connection)));
    let quic =
        |patience| h3::connect(url, options, settings, patience).map(|connection| Line::Quic(Box::new(connection)));
    match &options.http3 {
        Http3::Never => tcp(),
        Http3::Only => quic(patience),
        Http3::First(without) => {
            let proxied = options.dial.proxies.for_url(url).is_some();
            if url.scheme() != "https" || proxied || without.has(url) {
                return tcp();
            }
            match quic(patience / QUIC_PART) {
                Err(problem) if !matches!(problem.class, Class::Interrupted | Class::Usage | Class::Local) => {
                    tracing::info!(host = host_port(url), %problem, "no HTTP/3, so TCP");
                    without.add(url);
                    tcp()
                }
                opened => opened,
            }
        }
    }
}

impl Line {
    /// True if the connection carries several requests at once.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        match self {
            Self::Tcp(connection) => connection.protocol == Protocol::H2,
            Self::Quic(_) => true,
        }
    }

    /// The round trip that the handshake measured.
    #[must_use]
    pub fn rtt(&self) -> Duration {
        match self {
            Self::Tcp(connection) => connection.rtt,
            Self::Quic(connection) => connection.rtt,
        }
    }

    /// Runs tasks until there are none, or the connection is of no more use. Every task pulled comes back through `done`.
    pub fn run(self, tasks: &mut dyn Tasks, settings: &Settings) {
        match self {
            Self::Tcp(connection) => session::run(*connection, tasks, settings),
            Self::Quic(connection) => h3::session::run(*connection, tasks, settings),
        }
    }
}
