//! The socket as russh sees it.

use std::io::{self, IoSliceMut};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// What is read beyond what was asked for. russh reads the four bytes of a packet's length, then the packet: with this, the length of the
/// next one comes along with it, and small packets come many at a time. More would be copied once more for nothing.
const SPILL_BYTES: usize = 4096;

/// Fewer system calls for reading, and a shutdown that never fails: russh forgets why a connection ended when its shutdown fails too, as it
/// does after a reset.
pub(super) struct Wire {
    socket: TcpStream,
    spill: Box<[u8; SPILL_BYTES]>,
    /// What of the spill has not been handed on.
    held: std::ops::Range<usize>,
}

impl Wire {
    pub(super) fn new(socket: TcpStream) -> Self {
        Self {
            socket,
            spill: Box::new([0; SPILL_BYTES]),
            held: 0..0,
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.held.is_empty() {
            let wanted = buffer.initialize_unfilled();
            let room = wanted.len();
            let read = loop {
                ready!(this.socket.poll_read_ready(context))?;
                let mut slices = [IoSliceMut::new(wanted), IoSliceMut::new(&mut this.spill[..])];
                match this.socket.try_read_vectored(&mut slices) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    read => break read?,
                }
            };
            buffer.advance(read.min(room));
            this.held = 0..read.saturating_sub(room);
        } else {
            let count = this.held.len().min(buffer.remaining());
            buffer.put_slice(&this.spill[this.held.start..this.held.start + count]);
            this.held.start += count;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context).map(|_| Ok(()))
    }
}

/// Ends the connection when dropped, whoever still holds it: russh's task would wait for the server otherwise.
pub(super) struct Breaker(pub(super) std::net::TcpStream);

impl Drop for Breaker {
    fn drop(&mut self) {
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }
}
