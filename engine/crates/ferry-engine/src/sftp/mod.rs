//! SFTP: many files over the channels of an SSH connection, both ways. Layout and reasons:
//! `docs/decisions/0004-ferry-over-sftp.md`.
//!
//! `core` holds channels and open files and decides which bytes a channel sends next; `files` runs one file, step by step;
//! `session` connects, and starts all of the work. The local side of a file is its `Inbound` or `Outbound`, made by `job`.

mod attempt;
mod connection;
mod core;
mod files;
mod flow;
mod get;
mod handles;
mod in_turn;
mod mark;
mod naming;
mod open_file;
mod opening;
mod partial;
mod publish;
mod put;
mod remove;
mod session;
mod span;
mod state;
mod tree;
mod uploads;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ferry_sftp::{Attrs, Status, StatusCode};
use url::Url;

use crate::error::Error;
use crate::files::Source;
use crate::filter::Filter;
use crate::net::dial::DialOptions;
use crate::report::SshReport;
use crate::ssh::{Hop, HostPort, SshOptions};
use crate::transfer::receive::Receiver;
use crate::transfer::send::Sender;
use crate::transfer::{Facts, Settings};

pub use remove::Doomed;
pub use session::run;
pub use tree::{Found, join};
pub use uploads::Uploads;

/// The parameters of a whole run.
#[derive(Clone)]
pub struct Plan {
    /// The server's URL; its path is not used.
    pub url: Url,
    /// The URL to connect to: the server's, or that of the first jump host.
    pub first: Url,
    /// The jump hosts, in the order in which they are passed.
    pub jumps: Vec<Hop>,
    pub place: HostPort,
    pub ssh: SshOptions,
    pub dial: DialOptions,
    pub settings: Settings,
    /// The deadline for all attempts together.
    pub deadline: Option<Instant>,
    /// The most channels on a connection, and the number of connections; without that number, another connection is opened when
    /// it is seen to help.
    pub channels: usize,
    pub connections: Option<usize>,
    /// True if a file must be on its disk before it gets its name; for an upload, the server is asked for that.
    pub sync: bool,
    /// The state of uploads from earlier connections.
    pub uploads: Uploads,
}

impl Plan {
    /// The other end of the socket.
    fn first_place(&self) -> &HostPort {
        self.jumps.first().map_or(&self.place, |hop| &hop.place)
    }
}

/// The work of a run. The methods are called on the run's own thread.
pub trait Worklist {
    /// Directories to be made on the server, parents first.
    fn directories(&self) -> Vec<Vec<u8>>;
    /// Trees to be listed, by the numbers they were given.
    fn trees(&self) -> Vec<(usize, Vec<u8>)>;
    /// The filter that selects from the trees.
    fn filter(&self) -> Arc<Filter>;
    /// Takes an item found in a tree, and makes files of it.
    fn found(&mut self, tree: usize, found: Found);
    /// Notes that a tree has been listed, or cannot be.
    fn listed(&mut self, tree: usize, result: Result<(), Error>);
    /// The directory on the server that is listed before anything else is done; none unless a mirror has to know its contents.
    fn destination(&self) -> Option<Vec<u8>>;
    /// Takes an item found in the destination.
    fn there(&mut self, found: Found);
    /// Decides on the work once the destination has been listed, or cannot be; nothing was told of a missing one. An error ends
    /// the session.
    fn compared(&mut self, result: Result<(), Error>) -> Result<(), Error>;
    /// Asked when nothing else is left to do: the directories on the server in which something is to be removed, and the items to
    /// be removed.
    fn surplus(&mut self) -> (Vec<Vec<u8>>, Vec<Doomed>);
    /// Notes that an item has been removed.
    fn removed(&mut self, doomed: &Doomed);
    /// Takes the result of the removal. An error ends the session.
    fn cleared(&mut self, result: Result<(), Error>) -> Result<(), Error>;
    /// Asked for at the end: permission bits for items on the server, deepest directories first.
    fn modes(&mut self) -> Vec<(Vec<u8>, u32)>;
    /// Takes the result of setting the permission bits. An error ends the session.
    fn modes_set(&mut self, result: Result<(), Error>) -> Result<(), Error>;
    /// The next file to begin with.
    fn next(&mut self) -> Option<FileTask>;
    /// Returns a file that was ready to begin, when no other will begin.
    fn give_back(&mut self) -> Option<FileTask>;
    /// Returns true if more of the trees is of use now; otherwise enough files wait for their turn.
    fn has_room(&self) -> bool;
    /// Returns true if files end faster than their outcomes are processed: the disk is slower than the network.
    fn is_behind(&self) -> bool;
    /// Takes the outcome of a file.
    fn done(&mut self, outcome: Outcome);
    /// The bytes that are to be sent, which decide on the number of channels to open.
    fn upload_bytes(&self) -> u64;
}

/// One file to be fetched or sent.
pub struct FileTask {
    /// The number of the file's transfer in the run.
    pub transfer: usize,
    /// The path on the server.
    pub path: Vec<u8>,
    /// The attributes from a listing.
    pub attrs: Option<Attrs>,
    pub work: Work,
}

pub enum Work {
    Get(Box<dyn Inbound>),
    Put(Box<dyn Outbound>),
}

/// The local side of a download.
pub trait Inbound: Send {
    /// Opens the local side, when the file is open on the server.
    fn open(&mut self, attrs: &Attrs, settings: &Settings) -> Result<Incoming, Error>;
    /// Takes the bytes moved by this attempt, some ten times a second.
    fn progress(&mut self, moved: u64);
}

pub struct Incoming {
    pub receiver: Box<Receiver>,
    /// The first byte to be asked for.
    pub begin: u64,
    /// The offset behind the last byte, unless that is the file's own end.
    pub end: Option<u64>,
}

/// The local side of an upload.
pub trait Outbound: Send {
    /// Opens the local file, before the server is asked to make one.
    fn prepare(&mut self) -> Result<(), Error>;
    /// The length of the file; null for a source that has no length before its end.
    fn length(&self) -> Option<u64>;
    /// Returns true if the URL was given for this file, and not for a tree around it.
    fn is_alone(&self) -> bool;
    /// The local file's name, which the file keeps in a directory; none if the path must name the file itself.
    fn name(&self) -> Option<Vec<u8>>;
    /// Tells this content under this name from any other: part of the temporary name.
    fn fingerprint(&self) -> String;
    /// Permission bits for the file on the server.
    fn mode(&self) -> Option<u32>;
    /// The permission bits that the file is to have in the end, whatever the server's umask.
    fn perms(&self) -> Option<u32>;
    /// Modification time for the file on the server, in seconds of Unix.
    fn modified(&self) -> Option<u32>;
    /// The permitted use of a partial file on the server.
    fn resume(&self) -> Resume;
    /// The body from `offset` on.
    fn sender(&mut self, offset: u64, settings: &Settings) -> Result<Sender, Error>;
    /// Decides if the file may get its name, once every byte has been acknowledged.
    fn verify(&mut self, sender: &mut Sender) -> Result<(), Error>;
    /// The source that has been opened and not become a sender.
    fn reclaim(&mut self) -> Option<Source>;
    /// The digest found by `verify`.
    fn digest(&mut self) -> Option<String>;
    fn progress(&mut self, moved: u64);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resume {
    Never,
    /// A file left by an earlier run; it is unknown which of its last bytes arrived.
    IfThere,
    /// This run's own file, acknowledged up to this offset.
    At(u64),
}

/// The outcome of a file's attempt. Its local parts go back to their maker.
pub struct Outcome {
    pub task: FileTask,
    pub result: Result<(), Error>,
    pub facts: Facts,
    pub receiver: Option<Box<Receiver>>,
    pub sender: Option<Sender>,
    pub offset: u64,
    /// Upload: the offset below which everything has been acknowledged.
    pub acknowledged: u64,
    /// The times of the first and the last body byte.
    pub moved: Option<(Instant, Instant)>,
    /// True if nothing of the file was asked for, because the connection ended before.
    pub not_processed: bool,
}

/// The facts about the connection as a whole.
#[derive(Debug, Clone, Default)]
pub struct SessionFacts {
    pub ssh: Option<SshReport>,
}

/// The error for a status that is no success.
fn refused(what: &str, path: &[u8], status: &Status) -> Error {
    let path = String::from_utf8_lossy(path);
    let said = match (&status.code, status.message.as_str()) {
        (StatusCode::NoSuchFile, _) => "no such file or directory".to_owned(),
        (StatusCode::PermissionDenied, _) => "permission denied".to_owned(),
        (StatusCode::OpUnsupported, _) => "the server does not support it".to_owned(),
        (StatusCode::Failure, "" | "Failure") => {
            "the server says only \"Failure\" (no space left, or not a plain file?)".to_owned()
        }
        (_, message) => format!("the server says {message:?}"),
    };
    let message = format!("cannot {what} {path} on the server: {said}");
    match status.code {
        StatusCode::NoConnection | StatusCode::ConnectionLost => Error::transient(message),
        _ => Error::permanent(message),
    }
}

/// The error for an answer that makes no sense here.
fn nonsense(what: &str, path: &[u8]) -> Error {
    Error::integrity(format!(
        "{what} {}: the server's answer is of the wrong kind",
        String::from_utf8_lossy(path)
    ))
}

/// The time, beyond the round trip, for which a limited download asks in advance: a server's reading and scheduling take their
/// time.
const AHEAD: Duration = Duration::from_millis(30);
