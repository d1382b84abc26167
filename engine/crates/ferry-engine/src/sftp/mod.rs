//! SFTP: many files over the channels of an SSH connection, both ways. Rooms and reasons: `docs/decisions/0004-ferry-over-sftp.md`.
//!
//! `core` holds channels and open files and decides which bytes a channel sends next; `files` is what is asked for one file, step by step;
//! `session` connects, and starts whatever there is to do. What a file means for this machine is its `Inbound` or `Outbound`, made by `job`.

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

/// What holds for a whole run.
#[derive(Clone)]
pub struct Plan {
    /// Of the server; its path is not used.
    pub url: Url,
    /// What to connect to: the server, or the first of the jump hosts.
    pub first: Url,
    /// In the order in which they are passed.
    pub jumps: Vec<Hop>,
    pub place: HostPort,
    pub ssh: SshOptions,
    pub dial: DialOptions,
    pub settings: Settings,
    /// For all attempts together.
    pub deadline: Option<Instant>,
    /// At most so many channels on a connection; so many connections, or another one when it is seen to help.
    pub channels: usize,
    pub connections: Option<usize>,
    /// A file is on its disk before it gets its name: the server is asked for that, of an upload.
    pub sync: bool,
    /// What is known of uploads from earlier connections.
    pub uploads: Uploads,
}

impl Plan {
    /// The other end of the socket.
    fn first_place(&self) -> &HostPort {
        self.jumps.first().map_or(&self.place, |hop| &hop.place)
    }
}

/// What a run works through. Called on the run's own thread.
pub trait Worklist {
    /// Directories to be made on the server, parents first.
    fn directories(&self) -> Vec<Vec<u8>>;
    /// Trees to be listed, by the numbers they were given.
    fn trees(&self) -> Vec<(usize, Vec<u8>)>;
    /// What of the trees takes part.
    fn filter(&self) -> Arc<Filter>;
    /// Something in a tree: makes files of it.
    fn found(&mut self, tree: usize, found: Found);
    /// A tree has been listed, or cannot be.
    fn listed(&mut self, tree: usize, result: Result<(), Error>);
    /// A directory on the server that is listed before anything else is done, if a mirror has to know what is in it.
    fn destination(&self) -> Option<Vec<u8>>;
    /// Something in it.
    fn there(&mut self, found: Found);
    /// It has been listed (nothing was told if it is not there), or cannot be: decides what there is to do. An error ends the session.
    fn compared(&mut self, result: Result<(), Error>) -> Result<(), Error>;
    /// Asked when nothing else is left to do: what is to be removed on the server, and the directories in which it is.
    fn surplus(&mut self) -> (Vec<Vec<u8>>, Vec<Doomed>);
    /// It has been removed.
    fn removed(&mut self, doomed: &Doomed);
    /// All of it has been removed, or not. An error ends the session.
    fn cleared(&mut self, result: Result<(), Error>) -> Result<(), Error>;
    /// Asked for at the end: permission bits of what is on the server, deepest directories first.
    fn modes(&mut self) -> Vec<(Vec<u8>, u32)>;
    /// They have been set, or not. An error ends the session.
    fn modes_set(&mut self, result: Result<(), Error>) -> Result<(), Error>;
    /// The next file to begin with.
    fn next(&mut self) -> Option<FileTask>;
    /// One that was ready to begin, when no other will.
    fn give_back(&mut self) -> Option<FileTask>;
    /// Whether more of the trees is of use now: enough files wait for their turn otherwise.
    fn has_room(&self) -> bool;
    /// Files are over faster than what is left to do about them: the disk is slower than the network.
    fn is_behind(&self) -> bool;
    /// A file is over.
    fn done(&mut self, outcome: Outcome);
    /// Bytes that are to be sent: decides how many channels are worth opening.
    fn upload_bytes(&self) -> u64;
}

/// One file to be fetched or sent.
pub struct FileTask {
    /// Which of the run's transfers it is.
    pub transfer: usize,
    /// On the server.
    pub path: Vec<u8>,
    /// What a listing said.
    pub attrs: Option<Attrs>,
    pub work: Work,
}

pub enum Work {
    Get(Box<dyn Inbound>),
    Put(Box<dyn Outbound>),
}

/// The local side of a download.
pub trait Inbound: Send {
    /// The file is open on the server.
    fn open(&mut self, attrs: &Attrs, settings: &Settings) -> Result<Incoming, Error>;
    /// Bytes of this attempt, some ten times a second.
    fn progress(&mut self, moved: u64);
}

pub struct Incoming {
    pub receiver: Box<Receiver>,
    /// The first byte to be asked for.
    pub begin: u64,
    /// One behind the last, if it is not the file's own end.
    pub end: Option<u64>,
}

/// The local side of an upload.
pub trait Outbound: Send {
    /// Opens the local file: before the server is asked to make one.
    fn prepare(&mut self) -> Result<(), Error>;
    /// Null for what has no length before its end.
    fn length(&self) -> Option<u64>;
    /// The URL was given for this file, and not for a tree that it is in.
    fn is_alone(&self) -> bool;
    /// The local file's name, which it keeps in a directory; none if it must not become another file than its path says.
    fn name(&self) -> Option<Vec<u8>>;
    /// Tells this content under this name from any other: part of the temporary name.
    fn fingerprint(&self) -> String;
    /// Permission bits for the file on the server.
    fn mode(&self) -> Option<u32>;
    /// Those that it is to have in the end, whatever the server's umask.
    fn perms(&self) -> Option<u32>;
    /// Modification time for the file on the server, in seconds of Unix.
    fn modified(&self) -> Option<u32>;
    /// How a partial file on the server may be used.
    fn resume(&self) -> Resume;
    /// The body from `offset` on.
    fn sender(&mut self, offset: u64, settings: &Settings) -> Result<Sender, Error>;
    /// All of it has been acknowledged: may it get its name?
    fn verify(&mut self, sender: &mut Sender) -> Result<(), Error>;
    /// What has been opened and not become a sender.
    fn reclaim(&mut self) -> Option<Source>;
    /// What `verify` has found it to be.
    fn digest(&mut self) -> Option<String>;
    fn progress(&mut self, moved: u64);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resume {
    Never,
    /// What an earlier run has left; which of its last bytes arrived is unknown.
    IfThere,
    /// This run's own, acknowledged so far.
    At(u64),
}

/// How a file's attempt ended. What is local goes back to who made it.
pub struct Outcome {
    pub task: FileTask,
    pub result: Result<(), Error>,
    pub facts: Facts,
    pub receiver: Option<Box<Receiver>>,
    pub sender: Option<Sender>,
    pub offset: u64,
    /// Upload: everything below has been acknowledged.
    pub acknowledged: u64,
    /// First and last body byte.
    pub moved: Option<(Instant, Instant)>,
    /// Nothing of it was asked for: the connection ended before.
    pub not_processed: bool,
}

/// What became of the connection as a whole.
#[derive(Debug, Clone, Default)]
pub struct SessionFacts {
    pub ssh: Option<SshReport>,
}

/// A status that is no success, in words.
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

/// The server has answered with something that makes no sense here.
fn nonsense(what: &str, path: &[u8]) -> Error {
    Error::integrity(format!(
        "{what} {}: the server's answer is of the wrong kind",
        String::from_utf8_lossy(path)
    ))
}

/// Beyond the round trip, what a limited download has asked for in advance: a server's reading and scheduling take their time.
const AHEAD: Duration = Duration::from_millis(30);
