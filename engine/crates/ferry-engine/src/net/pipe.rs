//! A connected byte stream, plain or TLS: what arrives is handed on without a copy where TLS allows it, what leaves is gathered.

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Instant;

use mio::net::TcpStream;
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{ClientConfig, ProtocolVersion};
use socket2::SockRef;

use super::sndbuf::{SendBuffer, Tuner};
use super::wait::{Ready, Waiter};
use crate::pages::Pages;
use crate::platform;
use crate::report::{SendBufferFacts, TlsFacts};

/// The most bytes that one read takes from the kernel with TLS: large enough to make the call's cost vanish, small enough to stay
/// in the cache.
const READ_BYTES: usize = 256 * 1024;
/// The same without TLS, where the bytes are not touched again and whole pieces go to a file without a copy.
const PLAIN_READ_BYTES: usize = 1024 * 1024;
/// A TLS record at its largest: header, 2^14 bytes, and what a cipher may add (RFC 8446, section 5.2).
const RECORD_BYTES: usize = 5 + 16384 + 256;
/// The backlog of unsent bytes at which gathering stops.
const WRITE_BYTES: usize = 256 * 1024;
/// The most bytes that a record adds to its payload (TLS 1.2's explicit nonce included).
const RECORD_OVERHEAD: usize = 64;

#[derive(Debug)]
pub enum PipeError {
    Io(io::Error),
    Tls(rustls::Error),
    /// TCP ended without TLS having said so: the end may be an attacker's (RFC 8446, section 6.1).
    Truncated,
}

impl fmt::Display for PipeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Tls(error) => write!(f, "TLS: {error}"),
            Self::Truncated => f.write_str("the connection was closed in the middle of TLS"),
        }
    }
}

impl std::error::Error for PipeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Tls(error) => Some(error),
            Self::Truncated => None,
        }
    }
}

impl From<io::Error> for PipeError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<rustls::Error> for PipeError {
    fn from(error: rustls::Error) -> Self {
        Self::Tls(error)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// So many bytes came off the wire, TLS included.
    Some(usize),
    Blocked,
    Closed,
}

pub struct Pipe {
    socket: TcpStream,
    tls: Option<Box<UnbufferedClientConnection>>,
    /// Filled from `start` to `end`. Between two calls: one incomplete record, or the records of one incomplete message of the handshake.
    inbuf: Pages,
    start: usize,
    end: usize,
    /// To be sent from `sent` to `queued`; never shrunk, so that it need not be cleared again.
    outbuf: Vec<u8>,
    sent: usize,
    queued: usize,
    /// The total of the bytes that the socket has taken.
    taken: u64,
    /// Decoded data that the server sent right behind its handshake.
    early: Vec<u8>,
    readable: bool,
    writable: bool,
    closed: bool,
    tuner: Tuner,
}

impl Pipe {
    /// The socket is connected.
    pub fn new(
        socket: TcpStream,
        tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
        send_buffer: SendBuffer,
    ) -> Result<Self, PipeError> {
        let tuner = Tuner::new(send_buffer, &SockRef::from(&socket), Instant::now());
        let tls = match tls {
            Some((config, name)) => Some(Box::new(UnbufferedClientConnection::new(config, name)?)),
            None => None,
        };
        Ok(Self {
            socket,
            tls,
            inbuf: Pages::default(),
            start: 0,
            end: 0,
            outbuf: Vec::new(),
            sent: 0,
            queued: 0,
            taken: 0,
            early: Vec::new(),
            readable: true,
            writable: true,
            closed: false,
            tuner,
        })
    }

    pub fn socket(&self) -> SockRef<'_> {
        SockRef::from(&self.socket)
    }

    pub fn send_buffer(&self) -> SendBufferFacts {
        self.tuner.facts(&self.socket())
    }

    pub fn register(&mut self, waiter: &Waiter, token: usize) -> io::Result<()> {
        waiter.add(&mut self.socket, token)
    }

    pub fn deregister(&mut self, waiter: &Waiter) -> io::Result<()> {
        waiter.remove(&mut self.socket)
    }

    /// Records the readiness that a wait has found.
    pub fn wake(&mut self, ready: Ready) {
        self.readable |= ready.readable;
        self.writable |= ready.writable;
    }

    /// True if a read may find something; false after `Blocked` until the next event.
    pub fn readable(&self) -> bool {
        (self.readable && !self.closed) || !self.early.is_empty()
    }

    pub fn writable(&self) -> bool {
        self.writable
    }

    /// True once TLS has ended: by the peer's `close_notify`, or without it, which `receive` has reported as `Truncated`.
    pub fn peer_closed(&self) -> bool {
        self.closed
    }

    /// Bytes gathered and not yet taken by the socket.
    pub fn unsent(&self) -> usize {
        self.queued - self.sent
    }

    /// Everything that was ever gathered, TLS included: where in the stream the next byte will be.
    pub fn position(&self) -> u64 {
        self.taken + self.unsent() as u64
    }

    /// The most bytes of the stream that the peer can have: those that it has acknowledged, or, where the system does not report
    /// that, those that the socket has taken.
    pub fn arrived_at_most(&self) -> u64 {
        let unacknowledged = platform::unacknowledged_bytes(&self.socket()).unwrap_or_default();
        self.taken.saturating_sub(unacknowledged)
    }

    /// True if another piece may be gathered.
    pub fn has_room(&self) -> bool {
        self.unsent() < WRITE_BYTES
    }

    /// Bytes that were read and are no complete record yet.
    pub fn undecoded(&self) -> usize {
        self.end - self.start
    }

    /// The protocol both ends agreed on.
    pub fn alpn(&self) -> Option<&[u8]> {
        self.tls.as_ref().and_then(|tls| tls.alpn_protocol())
    }

    pub fn tls_facts(&self) -> Option<TlsFacts> {
        let tls = self.tls.as_ref()?;
        let version = match tls.protocol_version()? {
            ProtocolVersion::TLSv1_2 => "TLSv1.2".to_owned(),
            ProtocolVersion::TLSv1_3 => "TLSv1.3".to_owned(),
            other => format!("{other:?}"),
        };
        let cipher = tls
            .negotiated_cipher_suite()
            .map(|suite| format!("{:?}", suite.suite()))
            .unwrap_or_default();
        Some(TlsFacts { version, cipher })
    }

    /// Runs the handshake as far as it goes without waiting. True when data may be sent.
    pub fn handshake(&mut self) -> Result<bool, PipeError> {
        if self.tls.is_none() {
            return Ok(true);
        }
        loop {
            let mut early = std::mem::take(&mut self.early);
            let done = self.process(&mut |data| early.extend_from_slice(data));
            self.early = early;
            let done = done?;
            self.flush()?;
            if done {
                return Ok(true);
            }
            if !self.readable() {
                return Ok(false);
            }
            match self.fill(RECORD_BYTES)? {
                Received::Some(_) => {}
                Received::Blocked => return Ok(false),
                Received::Closed => return Err(PipeError::Io(io::ErrorKind::UnexpectedEof.into())),
            }
        }
    }

    /// One read of at most `most` bytes of the wire, and everything that is complete in them.
    pub fn receive(&mut self, most: usize, mut deliver: impl FnMut(&[u8])) -> Result<Received, PipeError> {
        if !self.early.is_empty() {
            let early = std::mem::take(&mut self.early);
            deliver(&early);
            return Ok(Received::Some(early.len()));
        }
        let received = self.fill(most)?;
        match received {
            Received::Some(_) if self.tls.is_some() => {
                self.process(&mut deliver)?;
            }
            Received::Some(_) => {
                deliver(part(&mut self.inbuf, self.start, self.end));
                self.start = 0;
                self.end = 0;
            }
            Received::Closed if self.tls.is_some() && !self.closed => {
                self.closed = true;
                return Err(PipeError::Truncated);
            }
            Received::Closed | Received::Blocked => {}
        }
        Ok(received)
    }

    /// Gathers `data` for the socket, encrypted where there is TLS. Never blocks; the caller looks at `has_room`.
    pub fn write(&mut self, data: &[u8]) -> Result<(), PipeError> {
        if data.is_empty() {
            return Ok(());
        }
        let Some(tls) = &mut self.tls else {
            let end = self.queued + data.len();
            make_room(&mut self.outbuf, end);
            part(&mut self.outbuf, self.queued, end).copy_from_slice(data);
            self.queued = end;
            return Ok(());
        };
        loop {
            let UnbufferedStatus { discard, state } =
                tls.process_tls_records(part(&mut self.inbuf, self.start, self.end));
            match state? {
                ConnectionState::WriteTraffic(mut traffic) => {
                    let most = data.len() + (data.len() / 16384 + 1) * RECORD_OVERHEAD;
                    make_room(&mut self.outbuf, self.queued + most);
                    let written = traffic
                        .encrypt(data, behind(&mut self.outbuf, self.queued))
                        .map_err(|error| match error {
                            EncryptError::EncryptExhausted => rustls::Error::EncryptError,
                            EncryptError::InsufficientSize(_) => rustls::Error::General("no room for a record".into()),
                        })?;
                    self.queued += written;
                    self.start += discard;
                    return Ok(());
                }
                ConnectionState::EncodeTlsData(mut encode) => {
                    encode_into(&mut encode, &mut self.outbuf, &mut self.queued);
                }
                ConnectionState::TransmitTlsData(transmit) => transmit.done(),
                // `receive` has already handed on every complete record.
                _ => return Err(PipeError::Io(io::ErrorKind::NotConnected.into())),
            }
            self.start += discard;
        }
    }

    /// Gives the socket what it takes. True when nothing is left.
    pub fn flush(&mut self) -> Result<bool, PipeError> {
        if self.tuner.asks() && self.sent < self.queued {
            self.tuner.poll(&SockRef::from(&self.socket), Instant::now());
        }
        while self.sent < self.queued {
            match self.socket.write(part(&mut self.outbuf, self.sent, self.queued)) {
                Ok(0) => return Err(PipeError::Io(io::ErrorKind::WriteZero.into())),
                Ok(taken) => {
                    self.sent += taken;
                    self.taken += taken as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.writable = false;
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        if self.sent == self.queued {
            self.sent = 0;
            self.queued = 0;
        } else if self.sent > WRITE_BYTES {
            self.outbuf.copy_within(self.sent..self.queued, 0);
            self.queued -= self.sent;
            self.sent = 0;
        }
        Ok(self.queued == 0)
    }

    /// Says goodbye as TLS wants it, as far as the socket takes it at once.
    pub fn close(&mut self) {
        if let Some(tls) = &mut self.tls {
            let UnbufferedStatus { state, .. } = tls.process_tls_records(part(&mut self.inbuf, self.start, self.end));
            if let Ok(ConnectionState::WriteTraffic(mut traffic)) = state {
                make_room(&mut self.outbuf, self.queued + RECORD_OVERHEAD);
                if let Ok(written) = traffic.queue_close_notify(behind(&mut self.outbuf, self.queued)) {
                    self.queued += written;
                }
            }
        }
        let _ = self.flush();
    }

    fn fill(&mut self, most: usize) -> Result<Received, PipeError> {
        if self.start > 0 {
            self.inbuf.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let largest = if self.tls.is_some() {
            READ_BYTES
        } else {
            PLAIN_READ_BYTES
        };
        let upto = self.end + most.clamp(1, largest);
        if self.inbuf.len() < upto {
            // Grown to its full size at once where much is wanted: a limited transfer keeps a small one.
            self.inbuf.grow(if most > RECORD_BYTES {
                upto.max(largest + RECORD_BYTES)
            } else {
                upto.max(2 * RECORD_BYTES)
            });
        }
        loop {
            match self.socket.read(part(&mut self.inbuf, self.end, upto)) {
                Ok(0) => return Ok(Received::Closed),
                Ok(count) => {
                    self.end += count;
                    return Ok(Received::Some(count));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.readable = false;
                    return Ok(Received::Blocked);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Takes every complete record; answers of the handshake are gathered. True when data may be sent.
    fn process(&mut self, deliver: &mut dyn FnMut(&[u8])) -> Result<bool, PipeError> {
        let Some(tls) = &mut self.tls else { return Ok(true) };
        loop {
            let UnbufferedStatus { mut discard, state } =
                tls.process_tls_records(part(&mut self.inbuf, self.start, self.end));
            let more = match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        discard += record.discard;
                        deliver(record.payload);
                    }
                    None
                }
                Ok(ConnectionState::EncodeTlsData(mut encode)) => {
                    encode_into(&mut encode, &mut self.outbuf, &mut self.queued);
                    None
                }
                Ok(ConnectionState::TransmitTlsData(transmit)) => {
                    transmit.done();
                    None
                }
                Ok(ConnectionState::PeerClosed) => {
                    self.closed = true;
                    None
                }
                Ok(ConnectionState::WriteTraffic(_)) => Some(true),
                Ok(_) => Some(false),
                Err(error) => {
                    // The alert that says so to the peer, if there is one, is queued in TLS, and goes out with the next call, once. That call
                    // gets the same bytes: rustls remembers how far it has looked at them, and panics where they are gone.
                    self.start += discard;
                    let UnbufferedStatus { state, .. } =
                        tls.process_tls_records(part(&mut self.inbuf, self.start, self.end));
                    if let Ok(ConnectionState::EncodeTlsData(mut encode)) = state {
                        encode_into(&mut encode, &mut self.outbuf, &mut self.queued);
                        let _ = self.flush();
                    }
                    return Err(error.into());
                }
            };
            self.start += discard;
            if let Some(established) = more {
                return Ok(established);
            }
        }
    }
}

fn encode_into<T>(encode: &mut rustls::unbuffered::EncodeTlsData<'_, T>, outbuf: &mut Vec<u8>, queued: &mut usize) {
    make_room(outbuf, *queued + RECORD_BYTES);
    loop {
        match encode.encode(behind(outbuf, *queued)) {
            Ok(written) => {
                *queued += written;
                return;
            }
            Err(EncodeError::InsufficientSize(size)) => make_room(outbuf, *queued + size.required_size),
            Err(EncodeError::AlreadyEncoded) => return,
        }
    }
}

/// The buffer from one place to another; nothing where that is no part of it.
fn part(buffer: &mut [u8], from: usize, to: usize) -> &mut [u8] {
    buffer.get_mut(from..to).unwrap_or_default()
}

fn behind(buffer: &mut [u8], from: usize) -> &mut [u8] {
    buffer.get_mut(from..).unwrap_or_default()
}

fn make_room(buffer: &mut Vec<u8>, upto: usize) {
    if buffer.len() < upto {
        buffer.resize(upto.next_power_of_two(), 0);
    }
}
