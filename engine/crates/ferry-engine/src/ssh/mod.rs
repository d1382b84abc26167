//! SSH as ferry wants it, on russh: who the server is, who we are, channels with the sftp subsystem. The only place that knows russh.

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

/// What a connection does with what arrives. Called on the connection's own thread between two reads of the socket; must not block for
/// long.
pub trait Listener: Send + Sync + 'static {
    fn data(&self, channel: u32, bytes: &[u8]);
    /// EOF or CLOSE from the server, once.
    fn channel_closed(&self, channel: u32);
    /// Once, unless the end was ours.
    fn disconnected(&self, problem: Error);
    /// How much of the socket may be read now.
    fn read_room(&self) -> ReadRoom {
        ReadRoom::All
    }
    /// `bytes` have come off the socket; `spilled` bytes of all that came are not given to SSH yet. What is, is decoded, but for an
    /// incomplete packet.
    fn was_read(&self, _bytes: usize, _spilled: usize) {}
}

/// How much of a socket may be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadRoom {
    All,
    /// At least 1.
    Bytes(usize),
    NotBefore(Instant),
}

/// How a connection came to be, for the report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SshFacts {
    /// The server's software version.
    pub server: String,
    pub kex: String,
    pub cipher: String,
    /// `ssh-ed25519 SHA256:...`, and who certified it.
    pub host_key: String,
    /// `publickey`, `certificate`, `agent` or `password`.
    pub auth: String,
    /// Forced waits from the first SSH byte to authenticated.
    pub round_trips: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Timings {
    pub kex_s: f64,
    pub auth_s: f64,
}

/// Why a channel was not opened.
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
