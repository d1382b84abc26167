//! From a URL to a connected socket: resolution with a time-out, then the addresses in turn, staggered (RFC 8305).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use http::HeaderValue;
use mio::net::TcpStream;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use url::{Host, Url};

use super::proxy::{Kind, Proxies};
use super::sndbuf::SendBuffer;
use super::tunnel::{Target, tunnel};
use super::wait::Waiter;
use crate::error::{Class, Error};
use crate::log::host_port;
use crate::platform;
use crate::stop::Stop;

/// The silence before the first keepalive probe; Linux takes a connection that does not answer for lost 90 s later.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// RFC 8305, section 8: the delay after which the next address is tried beside the one that has not answered.
pub const STAGGER: Duration = Duration::from_millis(250);

/// `--resolve HOST:PORT:ADDRESS`.
#[derive(Debug, Clone)]
pub struct Override {
    pub host: String,
    pub port: u16,
    pub address: IpAddr,
}

/// The family of a server's addresses that may be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Family {
    /// All of them.
    #[default]
    Any,
    /// IPv4 only.
    Inet,
    /// IPv6 only.
    Inet6,
}

impl Family {
    fn has(self, address: &SocketAddr) -> bool {
        match self {
            Self::Any => true,
            Self::Inet => address.is_ipv4(),
            Self::Inet6 => address.is_ipv6(),
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct DialOptions {
    pub timeout: Duration,
    pub family: Family,
    pub overrides: Vec<Override>,
    /// The receive window to hold from the first packet on, for limits so low that the usual window would be a burst.
    pub window: Option<usize>,
    pub send_buffer: SendBuffer,
    pub proxies: Proxies,
    /// Congestion control of what is sent, by the system's name for it. `None`: the system chooses.
    pub congestion: Option<String>,
    /// Ends the attempt early.
    pub stop: Stop,
}

pub struct Dialed {
    pub socket: TcpStream,
    pub remote: SocketAddr,
    /// Null where there was nothing to resolve.
    pub dns: Option<Duration>,
    pub connect: Duration,
    /// The round trip of the handshake; through a proxy, at least the time that the proxy took to reach the server.
    pub rtt: Duration,
    /// The other end is a proxy that takes requests, not a tunnel.
    pub forward: Option<Forward>,
}

/// The form of requests to an HTTP proxy without a tunnel: their target is the absolute URL (RFC 9112, section 3.2.2).
#[derive(Debug, Clone)]
pub struct Forward {
    /// The value of Proxy-Authorization.
    pub authorization: Option<HeaderValue>,
}

/// A connection to the URL's server, through a proxy where the options have one for it. Blocks for at most the time-out.
///
/// # Errors
/// As for a server; a proxy that refuses is a permanent problem, one that cannot reach the server a transient one.
pub fn dial(url: &Url, options: &DialOptions) -> Result<Dialed, Error> {
    let deadline = Instant::now() + options.timeout;
    let Some(proxy) = options.proxies.for_url(url) else {
        return direct(url, options, deadline);
    };
    let mut dialed = direct(&proxy.place, options, deadline).map_err(|error| Error {
        message: format!("the proxy: {}", error.message),
        ..error
    })?;
    if proxy.kind == Kind::Http && url.scheme() == "http" {
        dialed.forward = Some(Forward {
            authorization: proxy.authorization(),
        });
        return Ok(dialed);
    }
    let asking = Instant::now();
    let mut target = Target::of(url);
    if proxy.kind == Kind::Socks5 && matches!(target, Target::Name(..)) {
        let (addresses, _) = resolve(url, options, deadline)?;
        target = addresses.first().map_or(target, |address| Target::Address(*address));
    }
    tunnel(proxy, &target, &mut dialed.socket, deadline, &options.stop)?;
    let took = asking.elapsed();
    tracing::debug!(proxy = %dialed.remote, %target, ?took, "the proxy has connected");
    dialed.connect += took;
    dialed.rtt = dialed.rtt.max(took);
    Ok(dialed)
}

/// Every failure is transient but a name that does not exist; one by which all addresses have refused, or
/// none has answered in time, is marked as such.
fn direct(url: &Url, options: &DialOptions, deadline: Instant) -> Result<Dialed, Error> {
    let (addresses, dns) = addresses(url, options, deadline)?;
    let connecting = Instant::now();
    let (socket, remote) = connect_any(&addresses, options, deadline).map_err(|failure| {
        options.stop.problem().unwrap_or_else(|| Error {
            unreached: failure.unreached,
            ..Error::transient(format!("cannot connect to {}: {}", host_port(url), failure.error))
                .with_source(failure.error)
        })
    })?;
    let connect = connecting.elapsed();
    // Small requests and the last part of a body must not wait for an acknowledgement.
    let _ = socket.set_nodelay(true);
    // While a server works on a complete upload nothing else shows that it is still there, and what keeps addresses for connections forgets idle ones.
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 3);
    let _ = SockRef::from(&socket).set_tcp_keepalive(&keepalive);
    if let Some(name) = &options.congestion {
        // Only now: connecting takes that of the route, where it has one.
        platform::set_congestion(&SockRef::from(&socket), name).map_err(|error| {
            Error::local(format!(
                "the connection to {} cannot have --congestion {name}: {error}",
                host_port(url)
            ))
        })?;
    }
    let rtt = platform::rtt(&SockRef::from(&socket)).unwrap_or(connect);
    tracing::debug!(host = host_port(url), %remote, ?dns, ?connect, ?rtt, "connected");
    Ok(Dialed {
        socket,
        remote,
        dns,
        connect,
        rtt,
        forward: None,
    })
}

/// The addresses of the URL's server, in the order in which to try them, and the duration of the resolution, if there was one.
pub fn addresses(
    url: &Url,
    options: &DialOptions,
    deadline: Instant,
) -> Result<(Vec<SocketAddr>, Option<Duration>), Error> {
    let begin = Instant::now();
    let (mut addresses, resolved) = resolve(url, options, deadline)?;
    addresses.retain(|address| options.family.has(address));
    if addresses.is_empty() {
        let family = if options.family == Family::Inet { "IPv4" } else { "IPv6" };
        return Err(Error::permanent(format!("{} has no {family} address", host_port(url))));
    }
    Ok((addresses, resolved.then(|| begin.elapsed())))
}

fn resolve(url: &Url, options: &DialOptions, deadline: Instant) -> Result<(Vec<SocketAddr>, bool), Error> {
    let port = url.port_or_known_default().unwrap_or(80);
    let name = match url.host() {
        Some(Host::Ipv4(address)) => return Ok((vec![SocketAddr::from((address, port))], false)),
        Some(Host::Ipv6(address)) => return Ok((vec![SocketAddr::from((address, port))], false)),
        Some(Host::Domain(name)) => name.to_owned(),
        None => return Err(Error::usage(format!("{} has no host", crate::log::shown(url)))),
    };
    let given: Vec<_> = options
        .overrides
        .iter()
        .filter(|entry| entry.port == port && entry.host.eq_ignore_ascii_case(&name))
        .map(|entry| SocketAddr::from((entry.address, port)))
        .collect();
    if !given.is_empty() {
        return Ok((given, false));
    }
    // A URL of a scheme that the URL standard does not know, sftp, has names only.
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok((vec![SocketAddr::from((address, port))], false));
    }
    if is_localhost(&name) {
        return Ok((
            LOOPBACK.map(|address| SocketAddr::from((address, port))).to_vec(),
            false,
        ));
    }
    // getaddrinfo cannot be interrupted: a thread of its own is left behind when it takes too long.
    let (answer, receiver) = mpsc::channel();
    let asked = name.clone();
    std::thread::Builder::new()
        .spawn(move || {
            let _ = answer.send(
                (asked.as_str(), port)
                    .to_socket_addrs()
                    .map(Iterator::collect::<Vec<_>>),
            );
        })
        .map_err(|error| {
            Error::local(format!("no thread can be started to resolve the name {name}: {error}")).with_source(error)
        })?;
    let answer = loop {
        let look = crate::stop::Stop::look_by(deadline);
        match receiver.recv_timeout(look.saturating_duration_since(Instant::now())) {
            Err(mpsc::RecvTimeoutError::Timeout) if look < deadline => {
                if let Some(problem) = options.stop.problem() {
                    return Err(problem);
                }
            }
            answer => break answer,
        }
    };
    match answer {
        Ok(Ok(addresses)) if !addresses.is_empty() => Ok((alternate(addresses), true)),
        Ok(Ok(_)) => Err(Error::permanent(format!("the name {name} has no address"))),
        Ok(Err(error)) => {
            let message = format!("the name {name} cannot be resolved: {error}");
            let class = if platform::is_no_such_name(&error) {
                Class::Permanent
            } else {
                Class::Transient
            };
            Err(Error::new(class, message).with_source(error))
        }
        Err(_) => Err(Error::transient(format!(
            "the name {name} was not resolved within {:.1} s (--timeout-connect)",
            options.timeout.as_secs_f64()
        ))),
    }
}

/// The addresses of `localhost`, known without a resolver (RFC 6761, section 6.3): Windows would ask a server and wait for it.
const LOOPBACK: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// `localhost` and all below it, with or without the dot of the root.
fn is_localhost(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let last = name.rsplit_once('.').map_or(name, |(_, last)| last);
    last.eq_ignore_ascii_case("localhost")
}

/// IPv6 and IPv4 in turn, in the resolver's own order within each (RFC 8305, section 4).
fn alternate(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) = addresses
        .into_iter()
        .partition(|address| address.is_ipv6() == first_is_v6);
    let mut second = second.into_iter();
    let mut mixed = Vec::new();
    for address in first {
        mixed.push(address);
        mixed.extend(second.next());
    }
    mixed.extend(second);
    mixed
}

/// The reason for a failed connection.
struct Failure {
    error: io::Error,
    /// Every address refused at once, or none has answered in time.
    unreached: bool,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self {
            error,
            unreached: false,
        }
    }
}

/// An attempt at one address.
struct Attempt {
    address: SocketAddr,
    /// None when it has failed.
    socket: Option<TcpStream>,
    /// The SYN is sent once, so that a refusal is told at once; a packet that is lost needs another attempt.
    once: bool,
}

impl Attempt {
    fn new(address: SocketAddr) -> Self {
        Self {
            address,
            socket: None,
            once: false,
        }
    }

    /// It has begun, for the first time or again; or it has failed, and the other addresses go on. True if it has begun.
    fn begun(&mut self, result: io::Result<(TcpStream, bool)>, failures: &mut Vec<io::Error>) -> bool {
        match result {
            Ok((socket, once)) => {
                self.socket = Some(socket);
                self.once = once;
                true
            }
            Err(error) => {
                self.socket = None;
                failures.push(error);
                false
            }
        }
    }
}

fn connect_any(
    addresses: &[SocketAddr],
    options: &DialOptions,
    deadline: Instant,
) -> Result<(TcpStream, SocketAddr), Failure> {
    let mut waiter = Waiter::new()?;
    let mut attempts: Vec<Attempt> = Vec::new();
    let mut failures: Vec<io::Error> = Vec::new();
    let mut next_start = Instant::now();
    loop {
        let now = Instant::now();
        if let Some(&address) = addresses.get(attempts.len())
            && now >= next_start
        {
            let mut attempt = Attempt::new(address);
            let result = start(&waiter, attempts.len(), address, options, true);
            if attempt.begun(result, &mut failures) {
                next_start = now + STAGGER;
            }
            attempts.push(attempt);
            continue;
        }
        if attempts.len() == addresses.len() && attempts.iter().all(|attempt| attempt.socket.is_none()) {
            return Err(summary(failures));
        }
        if options.stop.reason() != 0 {
            return Err(io::Error::from(io::ErrorKind::Interrupted).into());
        }
        if now >= deadline {
            let limit_s = options.timeout.as_secs_f64();
            let text = format!("no answer within {limit_s:.1} s (--timeout-connect)");
            return Err(Failure {
                error: io::Error::new(io::ErrorKind::TimedOut, text),
                unreached: true,
            });
        }
        let until = if attempts.len() < addresses.len() {
            deadline.min(next_start)
        } else {
            deadline
        };
        let mut changed = Vec::new();
        waiter.wait(Some(crate::stop::Stop::look_by(until)), |token, _| changed.push(token))?;
        for index in changed {
            let Some(attempt) = attempts.get_mut(index) else {
                continue;
            };
            let Some(mut socket) = attempt.socket.take() else {
                continue;
            };
            let address = attempt.address;
            match finished(&socket) {
                Ok(true) => {
                    waiter.remove(&mut socket)?;
                    return Ok((socket, address));
                }
                Ok(false) => attempt.socket = Some(socket),
                Err(error) if attempt.once && error.kind() == io::ErrorKind::TimedOut => {
                    drop(socket);
                    attempt.begun(start(&waiter, index, address, options, false), &mut failures);
                }
                Err(error) => {
                    tracing::debug!(%address, %error, "not connected");
                    failures.push(error);
                    next_start = Instant::now();
                }
            }
        }
    }
}

/// One error for all addresses: the last of those that say most. The server counts as unreached if every address refused the connection or is
/// of a family that this computer does not have.
fn summary(failures: Vec<io::Error>) -> Failure {
    let rank = |error: &io::Error| match error.kind() {
        io::ErrorKind::AddrNotAvailable | io::ErrorKind::NetworkUnreachable => 0,
        io::ErrorKind::ConnectionRefused => 1,
        _ => 2,
    };
    let most = failures.iter().map(rank).max();
    let error = failures.into_iter().rfind(|error| Some(rank(error)) == most);
    Failure {
        error: error.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into()),
        unreached: most == Some(1),
    }
}

/// The waiter reports this attempt under `index`. With `once`, the SYN is sent once, where the system has that; true when it does.
fn start(
    waiter: &Waiter,
    index: usize,
    address: SocketAddr,
    options: &DialOptions,
    once: bool,
) -> io::Result<(TcpStream, bool)> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))
        .map_err(|error| io::Error::new(io::ErrorKind::AddrNotAvailable, error))?;
    socket.set_nonblocking(true)?;
    if let Some(bytes) = options.window {
        platform::hold_window(&SockRef::from(&socket), bytes);
    }
    if let SendBuffer::Bytes(bytes) = options.send_buffer {
        socket.set_send_buffer_size(bytes)?;
    }
    let once = once && platform::no_syn_repeats(&SockRef::from(&socket));
    match socket.connect(&address.into()) {
        Ok(()) => {}
        // EINPROGRESS on Unix, WSAEWOULDBLOCK on Windows: the handshake goes on.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock || platform::is_connecting(&error) => {}
        Err(error) => return Err(error),
    }
    let mut socket = TcpStream::from_std(socket.into());
    waiter.add(&mut socket, index)?;
    Ok((socket, once))
}

/// True once a connection attempt has succeeded, false while it goes on; its error if it failed.
fn finished(socket: &TcpStream) -> io::Result<bool> {
    if let Some(error) = socket.take_error()? {
        return Err(error);
    }
    match socket.peer_addr() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotConnected || platform::is_connecting(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[path = "dial_tests.rs"]
mod tests;
