//! A connection through another one (`ssh -J`): the jump host connects to the next server, and that connection's bytes travel in a channel.
//!
//! Arriving bytes are put into a pipe at once, for the session of the next server to take. If russh had to wait until they are
//! taken, a session that waits to send (and reads nothing meanwhile) would wait for a window update that is never read.

use std::io;
use std::net::TcpStream;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use russh::ChannelOpenFailure;
use tokio::io::AsyncWrite;
use tokio::time::timeout;

use super::{Hop, HostPort, Listener, ReadRoom, Session, SshFacts, open};
use crate::error::Error;
use crate::sync::lock;

/// The most bytes that may arrive and not be taken: more than a server sends in answer to requests for files, and a bound on a
/// server that sends more than was asked for.
const HELD: usize = 16 << 20;

/// The interval at which a full pipe is looked at again.
const LOOK: Duration = Duration::from_millis(2);

/// The transport under an SSH connection.
pub enum Under {
    Socket(TcpStream),
    Channel(Box<Through>),
}

/// A channel of a jump host's, and the session that it lives in.
pub struct Through {
    pub(super) session: Session<Pipe>,
    pub(super) pipe: Arc<Pipe>,
    pub(super) writer: Pin<Box<dyn AsyncWrite + Send>>,
}

/// The way to a server: the transport of its connection, and the facts about each jump host.
pub struct Way {
    pub under: Under,
    pub hops: Vec<(HostPort, SshFacts)>,
    /// The time that the last jump host took to connect: at least a round trip to the server. Null without a jump host.
    pub rtt: Option<Duration>,
}

/// The time limit of each step.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    pub connect: Duration,
    pub handshake: Duration,
}

/// Builds the way from a socket to the first hop, hop by hop, to the server.
///
/// # Errors
/// The same as for a server; the message begins with the jump host that it concerns.
pub async fn through(socket: TcpStream, hops: &[Hop], server: &HostPort, patience: Patience) -> Result<Way, Error> {
    let mut way = Way {
        under: Under::Socket(socket),
        hops: Vec::new(),
        rtt: None,
    };
    let next = hops.iter().skip(1).map(|hop| &hop.place).chain([server]);
    for (hop, next) in hops.iter().zip(next) {
        let pipe = Arc::new(Pipe::default());
        let session = open(
            way.under,
            &hop.place,
            &hop.options,
            patience.handshake,
            Arc::clone(&pipe),
        )
        .await?;
        way.hops.push((hop.place.clone(), session.facts().clone()));
        let asking = Instant::now();
        way.under = forward(session, pipe, &hop.place, next, patience.connect).await?;
        let took = asking.elapsed();
        tracing::debug!(
            jump = hop.place.address(),
            to = next.address(),
            ?took,
            "the jump host has connected"
        );
        way.rtt = Some(took);
    }
    Ok(way)
}

async fn forward(
    session: Session<Pipe>,
    pipe: Arc<Pipe>,
    hop: &HostPort,
    next: &HostPort,
    limit: Duration,
) -> Result<Under, Error> {
    let address = next.address();
    let asked = session
        .handle
        .channel_open_direct_tcpip(next.bare_host(), u32::from(next.port), "127.0.0.1", 0);
    let opened = match timeout(limit, asked).await {
        Ok(Ok(opened)) => opened,
        Ok(Err(russh::Error::ChannelOpenFailure(reason))) => {
            let said = session.shared.refusal();
            let said = said.unwrap_or_else(|| reason.description().to_owned());
            return Err(refused(hop, &address, &reason, &said));
        }
        Ok(Err(_)) => {
            return Err(session.shared.end().unwrap_or_else(|| {
                Error::transient(format!(
                    "{hop}: the connection was lost while it connected to {address}"
                ))
            }));
        }
        Err(_) => {
            return Err(Error {
                unreached: true,
                ..Error::transient(format!(
                    "{hop}: it has not reached {address} within {:.1} s (--timeout-connect)",
                    limit.as_secs_f64()
                ))
            });
        }
    };
    // The channel's own queue would stop russh when full, so arriving bytes go to the pipe instead.
    let (_, half) = opened.split();
    let writer = Box::pin(half.make_writer());
    Ok(Under::Channel(Box::new(Through { session, pipe, writer })))
}

fn refused(hop: &HostPort, address: &str, reason: &ChannelOpenFailure, said: &str) -> Error {
    match reason {
        ChannelOpenFailure::AdministrativelyProhibited | ChannelOpenFailure::UnknownChannelType => {
            Error::permanent(format!(
                "{hop}: it does not connect to {address} for others: {said}; its owner would have to allow it (AllowTcpForwarding)"
            ))
        }
        ChannelOpenFailure::ConnectFailed => Error {
            unreached: true,
            ..Error::transient(format!("{hop}: it cannot connect to {address}: {said}"))
        },
        _ => Error::transient(format!("{hop}: it has not connected to {address}: {said}")),
    }
}

/// The bytes that a jump host's channel has brought, and its end.
#[derive(Default)]
pub struct Pipe(Mutex<State>);

#[derive(Default)]
struct State {
    arrived: BytesMut,
    end: Option<End>,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

enum End {
    /// Closed by the next server, or by ferry.
    Closed,
    /// The jump host's own connection is gone.
    Lost(Error),
}

impl Pipe {
    pub(super) fn close(&self) {
        self.end(End::Closed);
    }

    fn end(&self, end: End) {
        let mut state = lock(&self.0);
        state.end.get_or_insert(end);
        let wakers = [state.reader.take(), state.writer.take()];
        drop(state);
        wakers.into_iter().flatten().for_each(Waker::wake);
    }
}

impl End {
    /// The result of a read. The words of the jump host are kept: they say which connection was lost.
    fn read(&self) -> io::Result<usize> {
        match self {
            Self::Closed => Ok(0),
            Self::Lost(problem) => Err(io::Error::other(problem.message.clone())),
        }
    }

    fn written(&self) -> io::Error {
        self.read().err().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())
    }
}

impl Listener for Pipe {
    fn data(&self, _channel: u32, bytes: &[u8]) {
        let mut state = lock(&self.0);
        state.arrived.extend_from_slice(bytes);
        let waker = state.reader.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    fn channel_closed(&self, _channel: u32) {
        self.close();
    }

    fn disconnected(&self, problem: Error) {
        self.end(End::Lost(problem));
    }

    fn read_room(&self) -> ReadRoom {
        match HELD.checked_sub(lock(&self.0).arrived.len()) {
            None | Some(0) => ReadRoom::NotBefore(Instant::now() + LOOK),
            Some(room) => ReadRoom::Bytes(room),
        }
    }
}

/// The channel as the next session sees it.
pub(super) struct PipeStream {
    pub(super) pipe: Arc<Pipe>,
    pub(super) writer: Pin<Box<dyn AsyncWrite + Send>>,
}

impl PipeStream {
    /// Fills one slice, then the other.
    pub(super) fn poll_read(&self, context: &Context<'_>, into: [&mut [u8]; 2]) -> Poll<io::Result<usize>> {
        let mut state = lock(&self.pipe.0);
        if state.arrived.is_empty() {
            if let Some(end) = &state.end {
                return Poll::Ready(end.read());
            }
            state.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        let mut read = 0;
        for slice in into {
            let count = slice.len().min(state.arrived.len());
            if let (Some(to), Some(from)) = (slice.get_mut(..count), state.arrived.get(..count)) {
                to.copy_from_slice(from);
            }
            state.arrived.advance(count);
            read += count;
        }
        Poll::Ready(Ok(read))
    }

    pub(super) fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = lock(&self.pipe.0);
        if let Some(end) = &state.end {
            return Poll::Ready(Err(end.written()));
        }
        // russh wakes no task that waits for the window of a channel that is gone.
        state.writer = Some(context.waker().clone());
        drop(state);
        self.writer.as_mut().poll_write(context, bytes)
    }

    pub(super) fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if lock(&self.pipe.0).end.is_some() {
            return Poll::Ready(());
        }
        self.writer.as_mut().poll_shutdown(context).map(|_| ())
    }
}

#[cfg(test)]
#[path = "jump_tests.rs"]
mod tests;
