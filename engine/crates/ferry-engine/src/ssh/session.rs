//! A connection: handshake, authentication, channels.

use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use russh::client::{self, Handle, Msg};
use russh::{ChannelWriteHalf, Disconnect, Limits, SshId};
use tokio::time::timeout;

use super::algorithms;
use super::auth;
use super::errors;
use super::handler::{Gate, Handler, Shared};
use super::jump::{PipeStream, Through, Under};
use super::keys;
use super::trust::Trust;
use super::wire::{Breaker, Stream, Wire};
use super::{Closed, HostPort, Listener, OpenRefused, SshFacts, SshOptions, Timings};
use crate::error::Error;

/// The receive window. russh asks for more when half of it is used up, so that half has to cover the bandwidth-delay product.
const WINDOW: u32 = 32 << 20;

/// The time limit for the server to close after our disconnect message.
const FAREWELL_LIMIT: Duration = Duration::from_millis(200);

/// The waits for the banner and the key exchange: russh waits for the server's banner before it sends anything else.
const KEX_WAITS: u32 = 2;

pub struct Session<L: Listener> {
    pub(super) handle: Handle<Handler<L>>,
    pub(super) shared: Arc<Shared>,
    facts: SshFacts,
    timings: Timings,
    /// Declared after the handle, so that the disconnect message comes before the end.
    breaker: Breaker,
}

/// Opens a session. Must be called inside a tokio runtime. A socket is connected and does not block.
pub async fn open<L: Listener>(
    under: Under,
    place: &HostPort,
    options: &SshOptions,
    handshake: Duration,
    listener: Arc<L>,
) -> Result<Session<L>, Error> {
    let begin = Instant::now();
    let unusable =
        |error: std::io::Error| Error::local(format!("{place}: the socket cannot be used: {error}")).with_source(error);
    // From here on, any failure ends the connection.
    let (breaker, stream) = match under {
        Under::Socket(socket) => {
            let breaker = Breaker::Socket(socket.try_clone().map_err(unusable)?);
            // Requests are small, and russh writes them in one piece.
            let _ = socket.set_nodelay(true);
            let socket = tokio::net::TcpStream::from_std(socket).map_err(unusable)?;
            (breaker, Stream::Socket(socket))
        }
        Under::Channel(through) => {
            let Through { session, pipe, writer } = *through;
            let breaker = Breaker::Channel {
                pipe: Arc::clone(&pipe),
                below: Some(Box::new(session)),
            };
            (breaker, Stream::Channel(PipeStream { pipe, writer }))
        }
    };
    let trust = Trust::load(place, options)?;
    let credentials = keys::load(options)?;
    let stream = Wire::new(stream, Arc::clone(&listener));
    let config = Arc::new(config(options, &trust)?);
    let shared = Arc::new(Shared::new(place.clone()));
    let handler = Handler {
        shared: Arc::clone(&shared),
        listener,
        trust,
    };
    let late = |what: &str| Error::transient(format!("{place}: {what} within {} s", handshake.as_secs_f64()));
    let mut handle = match timeout(handshake, client::connect_stream(config, stream, handler)).await {
        Err(_) => return Err(late("no SSH handshake")),
        Ok(Err(failure)) => return Err(errors::of_handshake(place, failure)),
        Ok(Ok(handle)) => handle,
    };
    let kex = begin.elapsed();
    let authenticating = Instant::now();
    let left = handshake.saturating_sub(kex);
    // Keys, certificates and their answers make a future of 20 KB.
    let login = Box::pin(auth::log_in(&mut handle, &shared, options, &credentials));
    let Some(login) = within(left, &shared, login).await else {
        return Err(late("SSH authentication was not done"));
    };
    let login = login?;
    let facts = SshFacts {
        auth: login.method.into(),
        round_trips: KEX_WAITS + login.waits,
        ..shared.facts()
    };
    tracing::debug!(%place, server = ?facts.server, kex = facts.kex, cipher = facts.cipher, host_key = facts.host_key, auth = facts.auth, "SSH is set up");
    shared.opened()?;
    Ok(Session {
        handle,
        shared,
        facts,
        timings: Timings {
            kex_s: kex.as_secs_f64(),
            auth_s: authenticating.elapsed().as_secs_f64(),
        },
        breaker,
    })
}

/// Returns `None` if the server took longer; pauses of ours, for a passphrase, do not count.
async fn within<T>(limit: Duration, shared: &Shared, work: impl Future<Output = T>) -> Option<T> {
    let begin = Instant::now();
    let mut work = pin!(work);
    loop {
        let left = (limit + shared.paused()).saturating_sub(begin.elapsed());
        match timeout(left, &mut work).await {
            Ok(done) => return Some(done),
            Err(_) if left.is_zero() => return None,
            Err(_) => {}
        }
    }
}

fn config(options: &SshOptions, trust: &Trust) -> Result<client::Config, Error> {
    Ok(client::Config {
        client_id: SshId::Standard(Cow::Borrowed(concat!("SSH-2.0-ferry_", env!("CARGO_PKG_VERSION")))),
        // The most russh allows.
        limits: Limits::new(1 << 30, 1 << 30, Duration::from_secs(3600)),
        window_size: WINDOW,
        maximum_packet_size: 32768,
        preferred: algorithms::offered(&options.algorithms, trust)?,
        inactivity_timeout: None,
        keepalive_interval: None,
        nodelay: true,
        ..client::Config::default()
    })
}

impl<L: Listener> Session<L> {
    pub fn facts(&self) -> &SshFacts {
        &self.facts
    }

    pub fn timings(&self) -> Timings {
        self.timings
    }

    /// Opens a channel and starts its sftp subsystem. Several calls may be in flight at once.
    ///
    /// This takes two round trips. Nothing can be sent in the second one: OpenSSH gives a channel no window before its subsystem
    /// has started.
    pub async fn sftp(&self) -> Result<Channel, OpenRefused> {
        let opened = self.handle.channel_open_session().await.map_err(|error| match error {
            russh::Error::ChannelOpenFailure(reason) => OpenRefused::Server {
                message: format!(
                    "the server opens no further channel: {}",
                    self.shared.refusal().unwrap_or_else(|| reason.description().to_owned())
                ),
            },
            _ => OpenRefused::Lost,
        })?;
        // The channel's own queue would stop russh when full, so arriving bytes go to the listener instead, and russh takes no
        // offence.
        let (_, half) = opened.split();
        let Some(gate) = self.shared.gate(half.id().number()) else {
            return Err(self.shared.channel_lost());
        };
        let channel = Channel {
            half,
            gate,
            shared: Arc::clone(&self.shared),
        };
        let reply = channel.gate.expect_reply();
        let asked = channel.half.request_subsystem(true, "sftp").await;
        asked.map_err(|_| OpenRefused::Lost)?;
        match reply.await {
            Ok(true) => Ok(channel),
            Ok(false) => {
                channel.close().await;
                Err(OpenRefused::Server {
                    message: "the server has no sftp subsystem".into(),
                })
            }
            Err(_) => Err(self.shared.channel_lost()),
        }
    }

    /// Disconnects, from jump hosts too, each within at most 200 ms.
    pub async fn close(mut self) {
        self.shared.closing();
        let farewell = async {
            let sent = self.handle.disconnect(Disconnect::ByApplication, "", "").await;
            if sent.is_ok() {
                let _ = (&mut self.handle).await;
            }
        };
        let _ = timeout(FAREWELL_LIMIT, farewell).await;
        if let Some(below) = self.breaker.below() {
            Box::pin(below.close()).await;
        }
    }
}

impl<L: Listener> Drop for Session<L> {
    fn drop(&mut self) {
        self.shared.closing();
    }
}

pub struct Channel {
    half: ChannelWriteHalf<Msg>,
    gate: Arc<Gate>,
    shared: Arc<Shared>,
}

impl Channel {
    pub fn id(&self) -> u32 {
        self.half.id().number()
    }

    /// Waits for room in the server's window, and returns when russh has taken all bytes. Another channel's wait is no obstacle:
    /// the window is reserved here, before anything enters the queue that all channels share.
    pub async fn send(&self, bytes: Bytes) -> Result<(), Closed> {
        if self.gate.is_closed() {
            return Err(Closed);
        }
        let mut sending = pin!(self.half.data_bytes(bytes));
        let mut closed = pin!(self.gate.closed());
        std::future::poll_fn(|context| {
            if let Poll::Ready(sent) = sending.as_mut().poll(context) {
                return Poll::Ready(sent.map_err(|_| Closed));
            }
            closed.as_mut().poll(context).map(|()| Err(Closed))
        })
        .await
    }

    /// Closes the channel; the listener hears no more of it.
    pub async fn close(&self) {
        self.gate.close();
        self.shared.forget(self.id());
        let _ = self.half.close().await;
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
