//! The request to a proxy for a connection.
//!
//! HTTP proxies get a CONNECT (RFC 9110, section 9.3.6). SOCKS is version 5 (RFC 1928), with user and password (RFC 1929).

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use ferry_http::{BodyLength, Event, RequestHead, ResponseReader, encode_request};
use http::header::{HeaderMap, HeaderValue, PROXY_AUTHORIZATION, USER_AGENT};
use http::{Method, StatusCode};
use mio::net::TcpStream;
use url::{Host, Url};

use super::proxy::{Kind, Proxy};
use super::wait::{Ready, Waiter};
use crate::error::Error;
use crate::log::host_port;
use crate::stop::Stop;

/// The server that the proxy is asked to connect with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Name(String, u16),
    Address(SocketAddr),
}

impl Target {
    /// The host and port of the URL.
    #[must_use]
    pub fn of(url: &Url) -> Self {
        let port = url.port_or_known_default().unwrap_or(22);
        match url.host() {
            Some(Host::Ipv4(address)) => Self::Address((address, port).into()),
            Some(Host::Ipv6(address)) => Self::Address((address, port).into()),
            Some(Host::Domain(name)) => match name.parse::<IpAddr>() {
                Ok(address) => Self::Address((address, port).into()),
                Err(_) => Self::Name(name.to_owned(), port),
            },
            None => Self::Name(String::new(), port),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name, port) => write!(f, "{name}:{port}"),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

/// Asks the proxy at the other end of the socket to connect it with the target. Not a byte that the target sends is taken.
///
/// # Errors
/// Transient when another attempt may help: no answer in time, the target cannot be reached from there.
pub fn tunnel(
    proxy: &Proxy,
    target: &Target,
    socket: &mut TcpStream,
    deadline: Instant,
    stop: &Stop,
) -> Result<(), Error> {
    let place = host_port(&proxy.place);
    let lost = |error: io::Error| match stop.problem() {
        Some(problem) => problem,
        None => Error::transient(format!("the proxy {place}, asked for {target}: {error}")),
    };
    let waiter = Waiter::new().map_err(lost)?;
    waiter.add(socket, 0).map_err(lost)?;
    let mut talk = Talk {
        socket,
        waiter,
        deadline,
        stop,
    };
    let refused = match proxy.kind {
        Kind::Http => connect(&mut talk, proxy, target),
        Kind::Socks5 | Kind::Socks5h => socks(&mut talk, proxy, target),
    };
    talk.waiter.remove(talk.socket).map_err(lost)?;
    match refused.map_err(lost)? {
        None => Ok(()),
        Some(Refusal { why, transient }) => {
            let message = format!("the proxy {place}, asked for {target}: {why}");
            Err(if transient {
                Error::transient(message)
            } else {
                Error::permanent(message)
            })
        }
    }
}

/// The proxy's refusal and its reason.
struct Refusal {
    why: String,
    transient: bool,
}

fn permanent(why: impl Into<String>) -> Refusal {
    Refusal {
        why: why.into(),
        transient: false,
    }
}

const WANTS_LOGIN: &str = "it wants a user and a password (--proxy http://USER@HOST, --proxy-password-file)";

fn connect(talk: &mut Talk<'_>, proxy: &Proxy, target: &Target) -> io::Result<Option<Refusal>> {
    let mut headers = HeaderMap::new();
    headers.insert(
        USER_AGENT,
        HeaderValue::from_static(concat!("ferry/", env!("CARGO_PKG_VERSION"))),
    );
    headers.extend(proxy.authorization().map(|value| (PROXY_AUTHORIZATION, value)));
    let (mut request, place) = (Vec::new(), target.to_string());
    let head = RequestHead {
        method: &Method::CONNECT,
        target: &place,
        host: &place,
        headers: &headers,
        body: BodyLength::None,
    };
    if let Err(error) = encode_request(&mut request, &head) {
        return Ok(Some(permanent(error.to_string())));
    }
    talk.send(&request)?;
    let mut reader = ResponseReader::new(&Method::CONNECT);
    let mut answer = Vec::new();
    loop {
        let [byte] = talk.take::<1>()?;
        answer.push(byte);
        if byte != b'\n' {
            continue;
        }
        match reader.next(&answer) {
            Ok((used, Event::Informational(_))) => drop(answer.drain(..used)),
            Ok((_, Event::Head(head))) => return Ok(judge(head.status)),
            Ok(_) => {}
            Err(error) => return Ok(Some(permanent(format!("not an HTTP proxy: {error}")))),
        }
    }
}

fn judge(status: u16) -> Option<Refusal> {
    let reason = StatusCode::from_u16(status).ok();
    let reason = reason.and_then(|status| status.canonical_reason()).unwrap_or_default();
    match status {
        200..=299 => None,
        407 => Some(permanent(WANTS_LOGIN)),
        // It did not reach the target: 500 is what tinyproxy answers then.
        500 | 502 | 503 | 504 => Some(Refusal {
            why: format!("it answered {status} {reason}"),
            transient: true,
        }),
        _ => Some(permanent(format!("it answered {status} {reason}"))),
    }
}

fn socks(talk: &mut Talk<'_>, proxy: &Proxy, target: &Target) -> io::Result<Option<Refusal>> {
    const ANYBODY: u8 = 0;
    const PASSWORD: u8 = 2;
    match &proxy.user {
        Some(_) => talk.send(&[5, 2, ANYBODY, PASSWORD])?,
        None => talk.send(&[5, 1, ANYBODY])?,
    }
    let [version, method] = talk.take()?;
    match (version, method, &proxy.user) {
        (5, ANYBODY, _) => {}
        (5, PASSWORD, Some(user)) => {
            let mut login = vec![1];
            for text in [user.as_str(), proxy.password.as_deref().unwrap_or_default()] {
                let Ok(length) = u8::try_from(text.len()) else {
                    return Ok(Some(permanent(
                        "user and password have at most 255 bytes each in SOCKS",
                    )));
                };
                login.push(length);
                login.extend_from_slice(text.as_bytes());
            }
            talk.send(&login)?;
            let [_, status] = talk.take()?;
            if status != 0 {
                return Ok(Some(permanent("it refused user and password")));
            }
        }
        (5, ..) => return Ok(Some(permanent(WANTS_LOGIN))),
        _ => return Ok(Some(permanent("not a SOCKS5 proxy"))),
    }
    let mut request = vec![5, 1, 0];
    let port = match target {
        Target::Name(name, port) => {
            let Ok(length) = u8::try_from(name.len()) else {
                return Ok(Some(permanent("a name has at most 255 bytes in SOCKS")));
            };
            request.extend_from_slice(&[3, length]);
            request.extend_from_slice(name.as_bytes());
            *port
        }
        Target::Address(address) => {
            match address.ip() {
                IpAddr::V4(ip) => {
                    request.push(1);
                    request.extend_from_slice(&ip.octets());
                }
                IpAddr::V6(ip) => {
                    request.push(4);
                    request.extend_from_slice(&ip.octets());
                }
            }
            address.port()
        }
    };
    request.extend_from_slice(&port.to_be_bytes());
    talk.send(&request)?;
    let [version, reply, _, kind] = talk.take()?;
    if version != 5 {
        return Ok(Some(permanent("not a SOCKS5 proxy")));
    }
    if reply != 0 {
        return Ok(Some(reply_in_words(reply)));
    }
    // The address that the proxy connects from, which is not needed.
    match kind {
        1 => drop(talk.take::<6>()?),
        4 => drop(talk.take::<18>()?),
        3 => {
            let [length] = talk.take()?;
            for _ in 0..u16::from(length) + 2 {
                let [_] = talk.take()?;
            }
        }
        _ => return Ok(Some(permanent("it answered with an address of an unknown kind"))),
    }
    Ok(None)
}

/// RFC 1928, section 6.
fn reply_in_words(reply: u8) -> Refusal {
    let (why, transient) = match reply {
        1 => ("it failed", true),
        2 => ("its rules do not allow that", false),
        3 => ("the network cannot be reached from there", true),
        4 => ("the host cannot be reached from there", true),
        5 => ("the connection was refused", true),
        6 => ("the packets' time to live has expired", true),
        7 => ("it makes no connections", false),
        8 => ("it does not know this kind of address", false),
        _ => ("it refused for an unknown reason", false),
    };
    Refusal {
        why: format!("{why} (SOCKS reply {reply})"),
        transient,
    }
}

/// Bytes to and from a proxy, as many as are wanted and no more.
struct Talk<'a> {
    socket: &'a mut TcpStream,
    waiter: Waiter,
    deadline: Instant,
    stop: &'a Stop,
}

impl Talk<'_> {
    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.socket.write(bytes) {
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(error) => self.wait(error, |ready| ready.writable)?,
            }
        }
        Ok(())
    }

    fn take<const COUNT: usize>(&mut self) -> io::Result<[u8; COUNT]> {
        let mut taken = [0; COUNT];
        let mut free = &mut taken[..];
        while !free.is_empty() {
            match self.socket.read(free) {
                Ok(0) => {
                    let text = "it closed the connection";
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
                }
                Ok(count) => free = free.get_mut(count..).unwrap_or_default(),
                Err(error) => self.wait(error, |ready| ready.readable)?,
            }
        }
        Ok(taken)
    }

    /// After a call that would have blocked.
    fn wait(&mut self, error: io::Error, wanted: impl Fn(Ready) -> bool) -> io::Result<()> {
        match error.kind() {
            io::ErrorKind::Interrupted => return Ok(()),
            io::ErrorKind::WouldBlock => {}
            _ => return Err(error),
        }
        let mut found = false;
        while !found {
            if self.stop.reason() != 0 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            if Instant::now() >= self.deadline {
                let text = "no answer within --timeout-connect";
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            let until = crate::stop::Stop::look_by(self.deadline);
            self.waiter.wait(Some(until), |_, ready| found |= wanted(ready))?;
        }
        Ok(())
    }
}
