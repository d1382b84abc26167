//! The socket, or a jump host's channel, as russh sees it.

use std::future::Future;
use std::io::{self, IoSliceMut};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::jump::{Pipe, PipeStream};
use super::{Listener, ReadRoom, Session};
use crate::platform;

/// The bytes read beyond those asked for. russh reads the four bytes of a packet's length, then the packet: with this, the length
/// of the next packet comes along, and small packets come many at a time. More bytes would be copied once more for nothing.
const SPILL_BYTES: usize = 4096;

/// The transport of the bytes.
pub(super) enum Stream {
    Socket(TcpStream),
    Channel(PipeStream),
}

impl Stream {
    /// Fills one slice, then the other.
    fn poll_read(&self, context: &mut Context<'_>, into: [&mut [u8]; 2]) -> Poll<io::Result<usize>> {
        match self {
            Self::Socket(socket) => {
                let mut slices = into.map(IoSliceMut::new);
                loop {
                    ready!(socket.poll_read_ready(context))?;
                    match socket.try_read_vectored(&mut slices) {
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        read => return Poll::Ready(read),
                    }
                }
            }
            Self::Channel(channel) => channel.poll_read(context, into),
        }
    }
}

/// The stream for russh, with fewer system calls for reading, and a shutdown that never fails: russh forgets why a connection
/// ended when its shutdown fails too, as it does after a reset. The listener limits the reads: a limited download leaves bytes
/// that are not due in the kernel.
pub(super) struct Wire<L> {
    stream: Stream,
    listener: Arc<L>,
    /// The wait until more may be read.
    wait: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    spill: Box<[u8; SPILL_BYTES]>,
    /// The part of the spill that has not been handed on.
    held: std::ops::Range<usize>,
}

impl<L: Listener> Wire<L> {
    pub(super) fn new(stream: Stream, listener: Arc<L>) -> Self {
        Self {
            stream,
            listener,
            wait: None,
            spill: Box::new([0; SPILL_BYTES]),
            held: 0..0,
        }
    }

    /// The number of bytes that may be read now; pending while it is zero.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<usize> {
        loop {
            if let Some(wait) = &mut self.wait {
                ready!(wait.as_mut().poll(context));
                self.wait = None;
            }
            match self.listener.read_room() {
                ReadRoom::All => return Poll::Ready(usize::MAX),
                ReadRoom::Bytes(count) => return Poll::Ready(count),
                ReadRoom::NotBefore(at) => self.wait = Some(Box::pin(platform::until(at))),
            }
        }
    }
}

impl<L: Listener> AsyncRead for Wire<L> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.held.is_empty() {
            let room = ready!(this.poll_room(context));
            let wanted = buffer.initialize_unfilled();
            let first = wanted.len().min(room);
            let wanted = wanted.get_mut(..first).unwrap_or_default();
            let spill = SPILL_BYTES.min(room - first);
            let spilled = this.spill.get_mut(..spill).unwrap_or_default();
            let read = ready!(this.stream.poll_read(context, [wanted, spilled]))?;
            buffer.advance(read.min(first));
            this.held = 0..read.saturating_sub(first);
            this.listener.was_read(read, this.held.len());
        } else {
            let count = this.held.len().min(buffer.remaining());
            let held = this.spill.get(this.held.start..this.held.start + count);
            buffer.put_slice(held.unwrap_or_default());
            this.held.start += count;
            this.listener.was_read(0, this.held.len());
        }
        Poll::Ready(Ok(()))
    }
}

impl<L: Listener> AsyncWrite for Wire<L> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Socket(socket) => Pin::new(socket).poll_write(context, bytes),
            Stream::Channel(channel) => channel.poll_write(context, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Socket(socket) => Pin::new(socket).poll_flush(context),
            // The jump host's session sends the bytes that it has taken.
            Stream::Channel(_) => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Socket(socket) => Pin::new(socket).poll_shutdown(context).map(|_| Ok(())),
            Stream::Channel(channel) => channel.poll_shutdown(context).map(Ok),
        }
    }
}

/// Ends the connection when dropped, even if other parts still hold it: russh's task would wait for the server otherwise.
pub(super) enum Breaker {
    Socket(std::net::TcpStream),
    Channel {
        pipe: Arc<Pipe>,
        /// The jump host's session, which ends with what it carries.
        below: Option<Box<Session<Pipe>>>,
    },
}

impl Breaker {
    pub(super) fn below(&mut self) -> Option<Session<Pipe>> {
        match self {
            Self::Socket(_) => None,
            Self::Channel { below, .. } => below.take().map(|below| *below),
        }
    }
}

impl Drop for Breaker {
    fn drop(&mut self) {
        match self {
            Self::Socket(socket) => {
                let _ = socket.shutdown(std::net::Shutdown::Both);
            }
            Self::Channel { pipe, .. } => pipe.close(),
        }
    }
}
