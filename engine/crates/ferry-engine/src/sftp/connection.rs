//! A connection and its channels: received bytes go to the core, and the core's output is sent as the server's windows allow.

use std::cell::RefCell;
use std::net::TcpStream;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use socket2::SockRef;
use tokio::sync::{Notify, Semaphore, oneshot};
use tokio::task::spawn_local;

use super::Plan;
use super::core::Shared;
use super::state::Output;
use crate::error::Error;
use crate::net::dial;
use crate::net::sndbuf::Tuner;
use crate::platform;
use crate::report::{JumpReport, SshReport};
use crate::ssh::{self, Channel, Listener, OpenRefused, ReadRoom, Session};

/// The listener of one connection, which hands received data and events to the core.
pub struct ConnectionListener {
    core: Shared,
    connection: usize,
    socket: Arc<TcpStream>,
    limited: bool,
}

/// The least size of a full packet from a server; a smaller one is the last of its batch.
const FULL_PACKET: usize = 32 * 1024 - 1024;

impl Listener for ConnectionListener {
    fn data(&self, channel: u32, bytes: &[u8]) {
        self.core.data(self.connection, channel, bytes);
        // sshd leaves Nagle's algorithm on: its next small packet waits until this one has been acknowledged, which Linux would put off
        // for 40 ms.
        if self.limited || bytes.len() < FULL_PACKET {
            platform::acknowledge(&SockRef::from(&*self.socket));
        }
    }

    fn channel_closed(&self, channel: u32) {
        self.core.closed(self.connection, channel);
    }

    fn disconnected(&self, problem: Error) {
        self.core.fail(&problem);
    }

    fn read_room(&self) -> ReadRoom {
        if self.limited {
            self.core.read_room(self.connection, Instant::now())
        } else {
            ReadRoom::All
        }
    }

    fn was_read(&self, bytes: usize, spilled: usize) {
        if self.limited {
            self.core.was_read(bytes, spilled, Instant::now());
        }
    }
}

/// A connection, and the socket below it for figures that only the kernel knows.
pub struct Connection {
    pub session: Session<ConnectionListener>,
    pub socket: Arc<TcpStream>,
    pub tuner: Rc<RefCell<Tuner>>,
    pub jumps: Vec<JumpReport>,
    /// The time taken to pass the jump hosts, and a round trip to the server; null without jump hosts.
    pub passed: Option<(Duration, Duration)>,
}

/// Adapts the send buffer to the path until the run ends, if the buffer's size is ferry's to set.
pub async fn tune(core: Shared, socket: Arc<TcpStream>, tuner: Rc<RefCell<Tuner>>) {
    while core.failure().is_none() && tuner.borrow().asks() {
        tuner.borrow_mut().poll(&SockRef::from(&*socket), Instant::now());
        let next = tuner.borrow().next();
        tokio::time::sleep_until(next.into()).await;
    }
}

/// The round trip to the SSH server. TCP measures it only as far as the next relay. The SSH handshake reaches the server: key exchange takes at
/// least two round trips and authentication three, but both include computing time, so they count only where they are much longer.
pub fn round_trip(tcp: Duration, timings: ssh::Timings) -> Duration {
    let ssh = Duration::from_secs_f64((timings.kex_s / 2.0).min(timings.auth_s / 3.0).max(0.0));
    if ssh > Duration::from_millis(10) && ssh > 2 * tcp {
        ssh
    } else {
        tcp
    }
}

pub fn take(report: &mut SshReport, connected: &Connection) {
    let made = connected.session.facts();
    report.jumps.clone_from(&connected.jumps);
    report.connections = 1;
    report.server.clone_from(&made.server);
    report.kex.clone_from(&made.kex);
    report.cipher.clone_from(&made.cipher);
    report.host_key.clone_from(&made.host_key);
    report.auth.clone_from(&made.auth);
    report.round_trips = made.round_trips;
}

fn jumped(place: &ssh::HostPort, made: &ssh::SshFacts) -> JumpReport {
    JumpReport {
        host: place.address(),
        user: place.user.clone(),
        server: made.server.clone(),
        kex: made.kex.clone(),
        cipher: made.cipher.clone(),
        host_key: made.host_key.clone(),
        auth: made.auth.clone(),
        round_trips: made.round_trips,
    }
}

pub async fn connect(plan: &Plan, core: &Shared, dialed: dial::Dialed, connection: usize) -> Result<Connection, Error> {
    let socket = into_std(dialed.socket)?;
    let copy = socket
        .try_clone()
        .map_err(|error| Error::local(format!("the socket cannot be shared: {error}")).with_source(error))?;
    let copy = Arc::new(copy);
    let tuner = Tuner::new(plan.dial.send_buffer, &SockRef::from(&*copy), Instant::now());
    let tuner = Rc::new(RefCell::new(tuner));
    spawn_local(tune(Shared::clone(core), Arc::clone(&copy), Rc::clone(&tuner)));
    let listener = Arc::new(ConnectionListener {
        core: Shared::clone(core),
        connection,
        socket: Arc::clone(&copy),
        limited: plan.settings.limit.rate().is_some(),
    });
    let patience = ssh::Patience {
        connect: plan.dial.timeout,
        handshake: plan.settings.timeouts.tls,
    };
    let begin = Instant::now();
    let way = ssh::through(socket, &plan.jumps, &plan.place, patience).await?;
    let passed = way.rtt.map(|rtt| (begin.elapsed(), rtt));
    let session = ssh::open(way.under, &plan.place, &plan.ssh, patience.handshake, listener).await?;
    Ok(Connection {
        session,
        socket: copy,
        tuner,
        jumps: way.hops.iter().map(|(place, made)| jumped(place, made)).collect(),
        passed,
    })
}

/// A connection to the server, or to the first jump host. Blocks.
pub fn dial_first(plan: &Plan) -> Result<dial::Dialed, Error> {
    dial::dial(&plan.first, &plan.dial).map_err(|mut error| {
        if !plan.jumps.is_empty() {
            error.message = format!("the jump host: {}", error.message);
        }
        error
    })
}

fn into_std(socket: mio::net::TcpStream) -> Result<TcpStream, Error> {
    #[cfg(unix)]
    let socket = TcpStream::from(std::os::fd::OwnedFd::from(socket));
    #[cfg(windows)]
    let socket = TcpStream::from(std::os::windows::io::OwnedSocket::from(socket));
    socket
        .set_nonblocking(true)
        .map_err(|error| Error::local(format!("the socket cannot be prepared: {error}")).with_source(error))?;
    Ok(socket)
}

/// Opens one more connection with its channels. A refusal by the server does no harm; the report gives the number of connections.
pub async fn more(core: Shared, plan: Plan, connection: usize, channels: usize, logins: Rc<Semaphore>) {
    let own = plan.clone();
    let Ok(login) = logins.acquire().await else {
        return;
    };
    // Not tokio's spawn_blocking, which panics where no thread can be started.
    let (answer, dialed) = oneshot::channel();
    let thread = std::thread::Builder::new().spawn(move || {
        let _ = answer.send(dial_first(&own));
    });
    let (Ok(_), Ok(Ok(dialed))) = (thread, dialed.await) else {
        return;
    };
    let Ok(connected) = connect(&plan, &core, dialed, connection).await else {
        return;
    };
    drop(login);
    spawn_local(watch_end(
        Shared::clone(&core),
        Arc::clone(&connected.socket),
        plan.first_place().clone(),
    ));
    for _ in 0..channels {
        if open_channel(&core, &connected, connection).await.is_err() {
            break;
        }
    }
    // The connection lives as long as the run, and ends with the runtime.
    std::future::pending::<()>().await;
}

/// The interval between checks for a server that has gone, and the silence required before that is believed.
const WATCH: Duration = Duration::from_millis(500);

/// Fails the core once the server has closed the connection. russh does not read while its own write waits, so it would never
/// notice a server that says goodbye and reads no more. Acknowledged bytes count as movement, because a server that takes a WRITE
/// slowly does not answer it for long.
pub async fn watch_end(core: Shared, socket: Arc<TcpStream>, place: ssh::HostPort) {
    let mut seen: Option<Instant> = None;
    let mut acknowledged = None;
    while core.failure().is_none() {
        tokio::time::sleep(WATCH).await;
        let now = platform::acknowledged_bytes(&SockRef::from(&*socket));
        if now > std::mem::replace(&mut acknowledged, now) {
            core.moved(Instant::now());
        }
        match platform::peer_has_ended(&SockRef::from(&*socket)) {
            None => return,
            Some(false) => seen = None,
            Some(true) => {
                let since = *seen.get_or_insert_with(Instant::now);
                if since.max(core.last_activity()).elapsed() > WATCH {
                    core.fail(&Error::transient(format!("{place}: the server closed the connection")));
                }
            }
        }
    }
}

/// Opens a channel that is ready for requests; its writer sends INIT first, by itself.
pub async fn open_channel(core: &Shared, connected: &Connection, connection: usize) -> Result<usize, OpenRefused> {
    let channel = connected.session.sftp().await?;
    let (index, notify) = core.add_channel(connection, channel.id());
    tracing::debug!(connection, channel = channel.id(), "SFTP channel is open");
    spawn_local(writer(
        Shared::clone(core),
        index,
        channel,
        notify,
        // Bytes still held by a jump host's session have not been sent, whatever the socket says.
        connected.jumps.is_empty().then(|| Arc::clone(&connected.socket)),
    ));
    Ok(index)
}

/// Hands a channel its output, whenever the server's window has room.
async fn writer(core: Shared, index: usize, channel: Channel, wake: Arc<Notify>, socket: Option<Arc<TcpStream>>) {
    loop {
        match core.output(index, Instant::now()) {
            Output::Stop => break,
            Output::Wait(None) => wake.notified().await,
            Output::Wait(Some(until)) => {
                tokio::select! {
                    () = wake.notified() => {}
                    () = platform::until(until) => {}
                }
            }
            Output::Bytes(bytes) => {
                if channel.send(bytes).await.is_err() {
                    break;
                }
            }
            Output::Last(bytes, file) => {
                if channel.send(bytes).await.is_err() {
                    break;
                }
                // Without a socket, the server's acknowledgement ends the body.
                if let Some(socket) = &socket {
                    spawn_local(leave(Shared::clone(&core), file, Arc::clone(socket)));
                }
            }
        }
    }
    channel.close().await;
}

/// Notes when the last byte of an upload has left this machine: the socket has nothing unsent, after russh has had its turn.
async fn leave(core: Shared, file: u64, socket: Arc<TcpStream>) {
    for _ in 0..4 {
        tokio::task::yield_now().await;
    }
    while core.is_leaving(file) {
        let now = Instant::now();
        // On a system that does not tell, the server's acknowledgement ends the body.
        match platform::unsent_bytes(&SockRef::from(&*socket)) {
            Some(0) => return core.left(file, now),
            Some(_) => tokio::time::sleep(Duration::from_millis(1)).await,
            None => return,
        }
    }
}
