//! A QUIC connection on a UDP socket of its own: quinn-proto decides, this moves datagrams and tells the time.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use ferry_pacing::Rate;
use mio::net::UdpSocket;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Endpoint, EndpointConfig, Event,
    IdleTimeout, StreamEvent, Transmit, TransportConfig, VarInt,
};
use quinn_udp::{EcnCodepoint, RecvMeta, UdpSockRef, UdpSocketState};
use rustls::pki_types::ServerName;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::congestion::{Start, controller};
use super::round_trip::RoundTrip;
use super::sndbuf::SendBuffer;
use super::tls::Tls;
use super::verify::Refusal;
use super::wait::{Ready, Waiter};
use crate::error::Error;

/// No window of its own for a stream.
const STREAM_WINDOW: u32 = 64 << 20;
/// HTTP/3 needs three streams of the server's own; nothing is pushed.
const PEER_STREAMS: u32 = 16;
/// Nothing came for so long, although the server was asked twice whether it is there.
const SILENCE: Duration = Duration::from_secs(60);
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// The size asked for the socket's buffers, in bytes: 100 ms of 300 Mbit/s. The system may grant less.
const UDP_BUFFER: usize = 4 << 20;
/// Datagrams of one call each, of up to 64 KiB where the system joins them.
const READS: usize = 4;
const READ_BYTES: usize = 64 * 1024;
/// A packet is lost when this many later ones have arrived, or after 9/8 of a round trip. With three, where RFC 9002 (6.1.1) lets
/// a sender begin, every path that reorders looks like one that loses; quinn does not adapt the number. Time finds a
/// loss an eighth later.
const REORDERED: u32 = 128;
/// Calls in a row before the rest of the loop gets its turn.
const CALLS_IN_A_ROW: usize = 8;
/// Datagrams that one call sends.
const MOST_SEGMENTS: usize = 10;
/// Calls in a row, as above.
const SENDS_IN_A_ROW: usize = 64;
/// Refusals by a closed port in a row before the connection is lost: any host on the path can forge one.
const MOST_REFUSALS: u32 = 3;
/// Errors of the path that are taken off the socket in a row.
#[cfg(unix)]
const ERRORS_IN_A_ROW: usize = 16;

pub struct Options<'a> {
    /// Offers `h3`.
    pub tls: &'a Tls,
    pub send_buffer: SendBuffer,
    /// One of [`super::congestion::CONGESTION`].
    pub congestion: Option<&'a str>,
    /// True if sending is held to a limit.
    pub limited: bool,
    /// The bytes that the server may send at first, on all streams together.
    pub window: u64,
}

/// The reason for a lost connection.
#[derive(Debug, Clone)]
pub enum Lost {
    /// The system says that nothing can be reached there.
    Unreachable(io::ErrorKind),
    Quic(ConnectionError),
}

pub struct Quic {
    socket: UdpSocket,
    udp: UdpSocketState,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    pub connection: Connection,
    remote: SocketAddr,
    /// The address that the system would send from.
    local: Option<IpAddr>,
    refusal: Arc<Refusal>,
    readable: bool,
    writable: bool,
    /// A datagram that the socket has not taken, or several.
    queued: Option<Transmit>,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
    events: VecDeque<StreamEvent>,
    connected: bool,
    lost: Option<Lost>,
    refusals: u32,
    heard: Option<Instant>,
    /// The last STREAM frame was sent.
    sent_stream: Option<Instant>,
    asked: Option<Instant>,
    /// Under a limit.
    start: Option<Start>,
    round_trip: RoundTrip,
}

impl Quic {
    /// Sends the first packet. The waiter reports the socket under `token`.
    pub fn connect(
        remote: SocketAddr,
        name: &ServerName<'static>,
        options: &Options<'_>,
        waiter: &Waiter,
        token: usize,
    ) -> Result<Self, Error> {
        let failed = |error: io::Error| {
            Error::transient(format!("no UDP socket can be had for {remote}: {error}")).with_source(error)
        };
        let mut socket = socket(remote, options.send_buffer).map_err(failed)?;
        let udp = UdpSocketState::new(UdpSockRef::from(&socket)).map_err(failed)?;
        // Without it a closed port looks like a silent one.
        #[cfg(unix)]
        let _ = udp.enable_transport_errors(UdpSockRef::from(&socket));
        waiter.add(&mut socket, token).map_err(failed)?;
        let (tls, refusal) = options.tls.for_quic();
        let crypto = QuicClientConfig::try_from(tls)
            .map_err(|error| Error::local(format!("QUIC cannot be set up: {error}")).with_source(error))?;
        let mut client = ClientConfig::new(Arc::new(crypto));
        let start = options.limited.then(Start::default);
        let round_trip = RoundTrip::default();
        client.transport_config(Arc::new(transport(options, start.clone(), &round_trip)));
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, !udp.may_fragment(), None);
        let now = Instant::now();
        let (handle, connection) = endpoint
            .connect(now, client, remote, &name.to_str())
            .map_err(|error| Error::usage(format!("QUIC to {remote}: {error}")).with_source(error))?;
        let mut quic = Self {
            socket,
            udp,
            endpoint,
            handle,
            connection,
            remote,
            local: local_address(remote),
            refusal,
            readable: true,
            writable: true,
            queued: None,
            outgoing: Vec::new(),
            incoming: vec![0; READS * READ_BYTES],
            events: VecDeque::new(),
            connected: false,
            lost: None,
            refusals: 0,
            heard: None,
            sent_stream: None,
            asked: None,
            start,
            round_trip,
        };
        quic.transmit(now);
        Ok(quic)
    }

    pub fn socket(&self) -> SockRef<'_> {
        SockRef::from(&self.socket)
    }

    /// Moves the socket to another waiter.
    pub fn move_to(&mut self, from: &Waiter, to: &Waiter, token: usize) -> io::Result<()> {
        from.remove(&mut self.socket)?;
        to.add(&mut self.socket, token)
    }

    pub fn wake(&mut self, ready: Ready) {
        self.readable |= ready.readable;
        self.writable |= ready.writable;
    }

    /// Sets the congestion window for data that is held to `rate` from now on and leaves in its steps.
    pub fn begin_paced(&self, rate: Rate) {
        if let Some(start) = &self.start {
            start.set(rate, self.connection.rtt());
        }
    }

    /// The last round trip that was measured.
    pub fn round_trip(&self) -> Duration {
        self.round_trip.get().unwrap_or_else(|| self.connection.rtt())
    }

    /// The number of round trips that were measured.
    pub fn round_trips(&self) -> u64 {
        self.round_trip.count()
    }

    /// Bytes that have come in datagrams, and how many datagrams.
    pub fn came(&self) -> (u64, u64) {
        let came = self.connection.stats().udp_rx;
        (came.bytes, came.datagrams)
    }

    pub fn remote(&self) -> SocketAddr {
        self.remote
    }

    pub fn is_connected(&self) -> bool {
        self.connected
    }

    pub fn lost(&self) -> Option<&Lost> {
        self.lost.as_ref()
    }

    /// When the server last sent anything.
    pub fn heard(&self) -> Option<Instant> {
        self.heard
    }

    /// When the last bytes of any stream left.
    pub fn sent_stream(&self) -> Option<Instant> {
        self.sent_stream
    }

    /// The error of TLS, if that ended the connection.
    pub fn tls_problem(&self) -> Option<rustls::Error> {
        let code = match self.lost.as_ref()? {
            Lost::Quic(ConnectionError::ConnectionClosed(close)) => u64::from(close.error_code),
            Lost::Quic(ConnectionError::TransportError(error)) => {
                let code = u64::from(error.code);
                let own = (code >> 8 == 1).then(|| rustls::Error::General(error.reason.clone()));
                return self.refusal.error().or(own);
            }
            _ => return None,
        };
        // RFC 9001, section 4.8: 0x100 and the alert.
        let alert = code.checked_sub(0x100).and_then(|alert| u8::try_from(alert).ok())?;
        Some(rustls::Error::AlertReceived(alert.into()))
    }

    pub fn poll_event(&mut self) -> Option<StreamEvent> {
        self.events.pop_front()
    }

    /// When QUIC must be looked at again, even if no datagram comes.
    pub fn timeout(&mut self) -> Option<Instant> {
        self.connection.poll_timeout()
    }

    /// Takes the datagrams that have come. True when there were any.
    pub fn receive(&mut self) -> bool {
        let mut moved = false;
        let mut incoming = std::mem::take(&mut self.incoming);
        for _ in 0..CALLS_IN_A_ROW {
            if !self.readable {
                break;
            }
            let mut meta = [RecvMeta::default(); READS];
            let mut buffers = incoming.chunks_mut(READ_BYTES).map(IoSliceMut::new).collect::<Vec<_>>();
            // Through mio, which on Windows reports a socket again only then.
            let received = self
                .socket
                .try_io(|| self.udp.recv(UdpSockRef::from(&self.socket), &mut buffers, &mut meta));
            let count = match received {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.readable = false;
                    0
                }
                // The socket has an error of the path, and gives it once.
                Err(error) => {
                    self.unreachable(&error);
                    continue;
                }
            };
            let now = Instant::now();
            for (buffer, meta) in buffers.iter().zip(&meta).take(count) {
                let data = buffer.get(..meta.len).unwrap_or_default();
                for datagram in data.chunks(meta.stride.max(1)) {
                    self.handle(datagram, meta, now);
                }
                moved = true;
            }
        }
        self.incoming = incoming;
        #[cfg(unix)]
        self.look_for_errors();
        moved
    }

    fn handle(&mut self, datagram: &[u8], meta: &RecvMeta, now: Instant) {
        let ecn = meta.ecn.and_then(|ecn| quinn_proto::EcnCodepoint::from_bits(ecn as u8));
        let mut answer = Vec::new();
        let data = BytesMut::from(datagram);
        let event = self
            .endpoint
            .handle(now, meta.addr, meta.dst_ip, ecn, data, &mut answer);
        // Other events are for servers, or for no connection at all.
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.connection.handle_event(event);
            self.heard = Some(now);
            self.asked = None;
            self.refusals = 0;
        }
    }

    /// ICMP, where the system keeps it apart. Windows gives it to the next read.
    #[cfg(unix)]
    fn look_for_errors(&mut self) {
        for _ in 0..ERRORS_IN_A_ROW {
            match self.udp.recv_transport_error(UdpSockRef::from(&self.socket)) {
                Ok(Some(error)) => self.unreachable(&io::Error::from_raw_os_error(error.raw_errno)),
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Before the server has answered, this ends the attempt. Later a router may be wrong about it for a moment, and QUIC repeats what was lost.
    fn unreachable(&mut self, error: &io::Error) {
        use io::ErrorKind as Kind;
        let kind = error.kind();
        tracing::debug!(remote = %self.remote, %error, "UDP");
        if !matches!(
            kind,
            Kind::ConnectionRefused | Kind::ConnectionReset | Kind::HostUnreachable | Kind::NetworkUnreachable
        ) {
            return;
        }
        self.refusals += 1;
        let closed = matches!(kind, Kind::ConnectionRefused | Kind::ConnectionReset);
        if self.heard.is_none() || (closed && self.refusals >= MOST_REFUSALS) {
            self.lost.get_or_insert(Lost::Unreachable(kind));
        }
    }

    /// Timers and events, then everything that may leave. True when stream data left.
    pub fn drive(&mut self, now: Instant) -> bool {
        if self.connection.poll_timeout().is_some_and(|at| at <= now) {
            self.connection.handle_timeout(now);
        }
        self.events();
        let sent = self.transmit(now);
        self.events();
        sent
    }

    fn events(&mut self) {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => self.connected = true,
                Event::ConnectionLost { reason } => {
                    self.lost.get_or_insert(Lost::Quic(reason));
                }
                Event::Stream(event) => self.events.push_back(event),
                Event::HandshakeDataReady | Event::DatagramReceived | Event::DatagramsUnblocked => {}
            }
        }
    }

    fn transmit(&mut self, now: Instant) -> bool {
        let frames = self.connection.stats().frame_tx.stream;
        for _ in 0..SENDS_IN_A_ROW {
            let segments = self.udp.max_gso_segments().min(MOST_SEGMENTS);
            let outgoing = &mut self.outgoing;
            let next = self.queued.take().or_else(|| {
                outgoing.clear();
                self.connection.poll_transmit(now, segments, outgoing)
            });
            let Some(transmit) = next else { break };
            if !self.writable || !self.send(&transmit) {
                self.queued = Some(transmit);
                break;
            }
        }
        let sent = self.connection.stats().frame_tx.stream > frames;
        if sent {
            self.sent_stream = Some(now);
        }
        sent
    }

    /// False when the socket takes nothing now. What the system cannot send is lost, as on the way.
    fn send(&mut self, transmit: &Transmit) -> bool {
        let datagram = quinn_udp::Transmit {
            destination: transmit.destination,
            ecn: transmit.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8)),
            contents: self.outgoing.get(..transmit.size).unwrap_or_default(),
            segment_size: transmit.segment_size,
            src_ip: transmit.src_ip,
        };
        let sent = self
            .socket
            .try_io(|| self.udp.try_send(UdpSockRef::from(&self.socket), &datagram));
        match sent {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.writable = false;
                false
            }
            Err(error) => {
                if !quinn_udp::is_msg_size_err(&error) {
                    self.unreachable(&error);
                }
                true
            }
        }
    }

    /// Something waits for the socket.
    pub fn is_blocked(&self) -> bool {
        self.queued.is_some()
    }

    /// Tells the server where this side is, if that may have changed: the system sends from another address now, or `expects` and nothing came
    /// for a second (a router on the way may have forgotten the connection).
    pub fn look_at_path(&mut self, expects: bool, now: Instant) {
        let local = local_address(self.remote);
        if local.is_some() && local != self.local {
            tracing::debug!(remote = %self.remote, ?local, "the address has changed");
            self.local = local;
            self.connection.local_address_changed();
            self.asked = Some(now);
        }
        let patience = Duration::from_secs(1).max(3 * self.connection.rtt());
        let silent = self
            .heard
            .is_some_and(|heard| now.saturating_duration_since(heard) >= patience);
        if expects && silent && self.asked.is_none() {
            self.connection.ping();
            self.asked = Some(now);
        }
    }

    /// Ends the connection, and says so once.
    pub fn close(&mut self, code: u64, reason: &[u8]) {
        let now = Instant::now();
        let code = VarInt::from_u64(code).unwrap_or(VarInt::MAX);
        self.connection.close(now, code, reason.to_vec().into());
        self.transmit(now);
    }
}

/// Bound to no address: the system chooses that of each packet by its route.
fn socket(remote: SocketAddr, send_buffer: SendBuffer) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(remote), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    if remote.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    let _ = socket.set_recv_buffer_size(UDP_BUFFER);
    match send_buffer {
        SendBuffer::Auto => drop(socket.set_send_buffer_size(UDP_BUFFER)),
        SendBuffer::Off => {}
        SendBuffer::Bytes(bytes) => socket.set_send_buffer_size(bytes)?,
    }
    socket.bind(&unspecified(remote).into())?;
    Ok(UdpSocket::from_std(socket.into()))
}

fn unspecified(remote: SocketAddr) -> SocketAddr {
    let any: IpAddr = if remote.is_ipv6() {
        Ipv6Addr::UNSPECIFIED.into()
    } else {
        Ipv4Addr::UNSPECIFIED.into()
    };
    SocketAddr::new(any, 0)
}

/// The address that the system would send from, found without sending anything.
fn local_address(remote: SocketAddr) -> Option<IpAddr> {
    let socket = std::net::UdpSocket::bind(unspecified(remote)).ok()?;
    socket.connect(remote).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

fn transport(options: &Options<'_>, start: Option<Start>, round_trip: &RoundTrip) -> TransportConfig {
    let mut transport = TransportConfig::default();
    let window = VarInt::from_u64(options.window).unwrap_or(VarInt::MAX);
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(PEER_STREAMS))
        .max_idle_timeout(IdleTimeout::try_from(SILENCE).ok())
        .keep_alive_interval(Some(KEEP_ALIVE))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(window)
        .packet_threshold(REORDERED)
        .datagram_receive_buffer_size(None);
    transport.congestion_controller_factory(controller(options.congestion, start, round_trip));
    transport
}
