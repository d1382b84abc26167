//! SSH on russh: verification of the server, authentication, channels with the sftp subsystem. The only place that knows russh.

mod algorithms;
mod auth;
mod certificates;
mod errors;
mod handler;
mod jump;
mod keys;
pub mod known_hosts;
mod options;
mod session;
mod sign;
mod trust;
mod unlock;
mod wire;

use std::fmt;
use std::time::Instant;

pub use jump::{Patience, Under, Way, through};
pub use options::{Hop, HostPort, Passphrase, Pin, Secret, SshOptions, Unlocked};
pub use session::{Channel, Session, open};

use crate::error::Error;

/// The receiver of a connection's data and events. Called on the connection's own thread between two reads of the socket; must
/// not block for long.
pub trait Listener: Send + Sync + 'static {
    fn data(&self, channel: u32, bytes: &[u8]);
    /// Called once, at EOF or CLOSE from the server.
    fn channel_closed(&self, channel: u32);
    /// Called once, unless the end was ours.
    fn disconnected(&self, problem: Error);
    /// The amount that may be read from the socket now.
    fn read_room(&self) -> ReadRoom {
        ReadRoom::All
    }
    /// Notes that `bytes` have come off the socket, and that `spilled` bytes of all that came are not given to SSH yet. All given
    /// bytes are decoded, but for an incomplete packet.
    fn was_read(&self, _bytes: usize, _spilled: usize) {}
}

/// The amount that may be read from a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadRoom {
    All,
    /// At least 1.
    Bytes(usize),
    NotBefore(Instant),
}

/// The facts of a connection's setup, for the report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SshFacts {
    /// The server's software version.
    pub server: String,
    pub kex: String,
    pub cipher: String,
    /// `ssh-ed25519 SHA256:...`, and the authority that certified the key.
    pub host_key: String,
    /// `publickey`, `certificate`, `agent` or `password`.
    pub auth: String,
    /// The forced waits from the first SSH byte to the end of authentication.
    pub round_trips: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Timings {
    pub kex_s: f64,
    pub auth_s: f64,
}

/// The reason for a refused channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenRefused {
    /// The server said no to this channel (`MaxSessions`, no sftp subsystem); the connection's other channels go on.
    Server { message: String },
    /// The connection is gone; the listener knows why.
    Lost,
}

impl fmt::Display for OpenRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server { message } => f.write_str(message),
            Self::Lost => f.write_str("the connection was lost"),
        }
    }
}

/// The channel or its connection is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed;
