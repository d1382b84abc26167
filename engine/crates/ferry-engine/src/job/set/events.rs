//! The messages between the session's thread and the calling thread.

use std::path::PathBuf;

use super::super::entry::Entry;
use crate::error::Error;
use crate::options::Remote;
use crate::report::Planned;
use crate::sftp::{Outcome, SessionFacts};

/// A report of the session's thread to the recorder.
pub enum Event {
    /// A new transfer; its number is the next one.
    New(Box<Entry>),
    Done(Box<Outcome>),
    Skipped,
    /// The filters keep it out.
    Filtered,
    /// The destination has it already.
    Unchanged,
    /// Removed at the destination.
    Deleted,
    /// An action that a dry run does not take.
    Planned(Planned),
    /// Nothing more will be found in the tree of this number.
    Listed(usize),
    Over(Box<SessionFacts>, Result<(), Error>),
}

/// A tree to be fetched.
#[derive(Clone)]
pub struct Tree {
    pub remote: Remote,
    /// The local destination; `None` when the files are discarded.
    pub local: Option<PathBuf>,
}
