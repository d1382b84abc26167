//! From a URL to a connected socket: resolution with a time-out, then the addresses in turn, staggered (RFC 8305).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use url::{Host, Url};

use super::sndbuf::SendBuffer;
use super::wait::Waiter;
use crate::platform;
use crate::report::Problem;

/// RFC 8305, section 8: the delay after which the next address is tried beside the one that has not answered.
const STAGGER: Duration = Duration::from_millis(250);

/// `--resolve HOST:PORT:ADDRESS`.
#[derive(Debug, Clone)]
pub struct Override {
    pub host: String,
    pub port: u16,
    pub address: IpAddr,
}

#[derive(Debug, Clone, Default)]
pub struct DialOptions {
    pub timeout: Duration,
    pub overrides: Vec<Override>,
    /// To be held from the first packet on, for limits so low that the usual one would be a burst.
    pub window: Option<usize>,
    pub send_buffer: SendBuffer,
}

pub struct Dialed {
    pub socket: TcpStream,
    pub remote: SocketAddr,
    /// Null where there was nothing to resolve.
    pub dns: Option<Duration>,
    pub connect: Duration,
    /// Of the handshake.
    pub rtt: Duration,
}

/// Blocks for at most the time-out. Every failure is transient but a name that does not exist; one by which all addresses have refused, or
/// none has answered in time, is marked as such.
pub fn dial(url: &Url, options: &DialOptions) -> Result<Dialed, Problem> {
    let begin = Instant::now();
    let deadline = begin + options.timeout;
    let (addresses, resolved) = resolve(url, options, deadline)?;
    let dns = resolved.then(|| begin.elapsed());
    let connecting = Instant::now();
    let (socket, remote) = connect_any(&addresses, options, deadline).map_err(|failure| Problem {
        unreached: failure.unreached,
        ..Problem::transient(format!("cannot connect to {}: {}", place(url), failure.error))
    })?;
    let connect = connecting.elapsed();
    // Small requests and the last part of a body must not wait for an acknowledgement.
    let _ = socket.set_nodelay(true);
    let rtt = platform::rtt(&SockRef::from(&socket)).unwrap_or(connect);
    Ok(Dialed {
        socket,
        remote,
        dns,
        connect,
        rtt,
    })
}

/// `host:port`, for messages.
#[must_use]
pub fn place(url: &Url) -> String {
    format!(
        "{}:{}",
        url.host_str().unwrap_or("?"),
        url.port_or_known_default().unwrap_or(0)
    )
}

fn resolve(url: &Url, options: &DialOptions, deadline: Instant) -> Result<(Vec<SocketAddr>, bool), Problem> {
    let port = url.port_or_known_default().unwrap_or(80);
    let name = match url.host() {
        Some(Host::Ipv4(address)) => return Ok((vec![SocketAddr::from((address, port))], false)),
        Some(Host::Ipv6(address)) => return Ok((vec![SocketAddr::from((address, port))], false)),
        Some(Host::Domain(name)) => name.to_owned(),
        None => return Err(Problem::usage(format!("{url} has no host"))),
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
    if is_localhost(&name) {
        return Ok((
            LOOPBACK.map(|address| SocketAddr::from((address, port))).to_vec(),
            false,
        ));
    }
    // getaddrinfo cannot be interrupted: a thread of its own is left behind when it takes too long.
    let (answer, receiver) = mpsc::channel();
    let asked = name.clone();
    std::thread::spawn(move || {
        let _ = answer.send(
            (asked.as_str(), port)
                .to_socket_addrs()
                .map(Iterator::collect::<Vec<_>>),
        );
    });
    match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        Ok(Ok(addresses)) if !addresses.is_empty() => Ok((alternate(addresses), true)),
        Ok(Ok(_)) => Err(Problem::permanent(format!("the name {name} has no address"))),
        Ok(Err(error)) => {
            let message = format!("the name {name} cannot be resolved: {error}");
            Err(if platform::is_no_such_name(&error) {
                Problem::permanent(message)
            } else {
                Problem::transient(message)
            })
        }
        Err(_) => Err(Problem::transient(format!(
            "the name {name} was not resolved within {:.1} s (--timeout-connect)",
            options.timeout.as_secs_f64()
        ))),
    }
}

/// What needs no resolver (RFC 6761, section 6.3): Windows would ask a server for it, and wait for the answer.
const LOOPBACK: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// `localhost` and all below it, with or without the dot of the root.
fn is_localhost(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let last = name.rsplit_once('.').map_or(name, |(_, last)| last);
    last.eq_ignore_ascii_case("localhost")
}

/// IPv6 and IPv4 in turn, in the resolver's own order within each (RFC 8305, section 4).
fn alternate(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first_is_v6 = addresses[0].is_ipv6();
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

/// Why there is no connection.
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
    /// None when it has failed.
    socket: Option<TcpStream>,
    /// The SYN is sent once, so that a refusal is told at once; a packet that is lost needs another attempt.
    once: bool,
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
        if attempts.len() < addresses.len() && now >= next_start {
            let index = attempts.len();
            match start(addresses[index], options, true) {
                Ok((mut socket, once)) => {
                    waiter.add(&mut socket, index)?;
                    attempts.push(Attempt {
                        socket: Some(socket),
                        once,
                    });
                    next_start = now + STAGGER;
                }
                Err(error) => {
                    attempts.push(Attempt {
                        socket: None,
                        once: false,
                    });
                    failures.push(error);
                }
            }
            continue;
        }
        if attempts.len() == addresses.len() && attempts.iter().all(|attempt| attempt.socket.is_none()) {
            return Err(summary(failures));
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
        waiter.wait(Some(until), |token, _| changed.push(token))?;
        for index in changed {
            let Some(mut socket) = attempts[index].socket.take() else {
                continue;
            };
            match finished(&socket) {
                Ok(true) => {
                    waiter.remove(&mut socket)?;
                    return Ok((socket, addresses[index]));
                }
                Ok(false) => attempts[index].socket = Some(socket),
                Err(error) if attempts[index].once && error.kind() == io::ErrorKind::TimedOut => {
                    drop(socket);
                    match start(addresses[index], options, false) {
                        Ok((mut socket, once)) => {
                            waiter.add(&mut socket, index)?;
                            attempts[index] = Attempt {
                                socket: Some(socket),
                                once,
                            };
                        }
                        // The other addresses are still being tried.
                        Err(error) => failures.push(error),
                    }
                }
                Err(error) => {
                    failures.push(error);
                    next_start = Instant::now();
                }
            }
        }
    }
}

/// Refused is what somebody refused, and nobody could have taken: an address family that this machine does not have is no hope either. The
/// last failure speaks for all, of those that tell most.
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

/// With `once`, the SYN is sent once, where the system has that; true when it does.
fn start(address: SocketAddr, options: &DialOptions, once: bool) -> io::Result<(TcpStream, bool)> {
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
    Ok((TcpStream::from_std(socket.into()), once))
}

/// Whether a connection attempt is through; its error if it failed.
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
mod tests {
    use super::*;

    fn options() -> DialOptions {
        DialOptions {
            timeout: Duration::from_secs(5),
            ..DialOptions::default()
        }
    }

    #[test]
    fn families_take_turns_and_none_is_lost() {
        let addresses: Vec<SocketAddr> = ["[::1]:1", "[::2]:1", "127.0.0.1:1", "[::3]:1"]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        let texts: Vec<_> = alternate(addresses).iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["[::1]:1", "127.0.0.1:1", "[::2]:1", "[::3]:1"]);
    }

    #[test]
    fn localhost_needs_no_resolver() {
        for name in ["localhost", "LocalHost", "localhost.", "a.localhost", "a.b.LOCALHOST."] {
            assert!(is_localhost(name), "{name}");
        }
        for name in ["", ".", "localhost.example", "mylocalhost", "localhost..", "localhos"] {
            assert!(!is_localhost(name), "{name}");
        }
        let url = Url::parse("http://db.localhost:81/").unwrap();
        let deadline = Instant::now() + Duration::from_secs(5);
        let (addresses, resolved) = resolve(&url, &options(), deadline).unwrap();
        let texts: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        assert_eq!(
            (texts, resolved),
            (vec!["127.0.0.1:81".to_owned(), "[::1]:81".to_owned()], false)
        );
    }

    #[test]
    fn it_is_refused_when_somebody_refused_and_nobody_else_could_have_taken_it() {
        use io::ErrorKind::{AddrNotAvailable, ConnectionRefused, NetworkUnreachable, TimedOut};
        let of = |kinds: &[io::ErrorKind]| {
            let failure = summary(kinds.iter().map(|kind| io::Error::from(*kind)).collect());
            (failure.error.kind(), failure.unreached)
        };
        assert_eq!(of(&[ConnectionRefused, ConnectionRefused]), (ConnectionRefused, true));
        assert_eq!(of(&[ConnectionRefused, AddrNotAvailable]), (ConnectionRefused, true));
        assert_eq!(of(&[NetworkUnreachable, ConnectionRefused]), (ConnectionRefused, true));
        assert_eq!(of(&[TimedOut, ConnectionRefused]), (TimedOut, false));
        assert_eq!(of(&[NetworkUnreachable]), (NetworkUnreachable, false));
        assert_eq!(of(&[]), (AddrNotAvailable, false));
    }

    #[test]
    fn a_listener_on_either_loopback_is_reached_as_localhost() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // A machine may have no IPv6.
            let Ok(listener) = std::net::TcpListener::bind(address) else {
                continue;
            };
            let port = listener.local_addr().unwrap().port();
            let url = Url::parse(&format!("http://localhost:{port}/")).unwrap();
            let dialed = dial(&url, &options()).unwrap();
            assert_eq!((dialed.remote.port(), dialed.dns), (port, None));
        }
    }

    #[test]
    fn a_closed_port_is_a_transient_problem_that_names_the_place() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        drop(taken);
        let url = Url::parse(&format!("http://127.0.0.1:{port}/")).unwrap();
        let problem = dial(&url, &options()).err().unwrap();
        assert_eq!(problem.class, crate::report::Class::Transient);
        assert!(problem.unreached);
        assert!(problem.message.contains(&format!("127.0.0.1:{port}")), "{problem}");
    }

    #[test]
    fn a_name_can_be_given_an_address_and_a_listener_is_reached() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let url = Url::parse(&format!("http://server.example:{port}/")).unwrap();
        let overrides = vec![Override {
            host: "Server.example".into(),
            port,
            address: "127.0.0.1".parse().unwrap(),
        }];
        let dialed = dial(&url, &DialOptions { overrides, ..options() }).unwrap();
        assert_eq!(dialed.remote.port(), port);
        assert!(dialed.dns.is_none());
    }
}
