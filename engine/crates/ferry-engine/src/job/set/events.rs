//! What the session's thread and the calling thread tell each other.

use std::path::PathBuf;

use super::super::entry::Entry;
use crate::error::Error;
use crate::options::Remote;
use crate::report::Planned;
use crate::sftp::{Outcome, SessionFacts};

/// What the session's thread reports to the recorder.
pub enum Event {
    /// Found in a tree; its number is the next one.
    New(Box<Entry>),
    Done(Box<Outcome>),
    Skipped,
    /// The filters keep it out.
    Filtered,
    /// The destination has it already.
    Unchanged,
    /// Removed at the destination.
    Deleted,
    /// Would be done, were it not a dry run.
    Planned(Planned),
    /// There is nothing more to be found in it.
    Listed(usize),
    Over(Box<SessionFacts>, Result<(), Error>),
}

/// A tree to be fetched.
#[derive(Clone)]
pub struct Tree {
    pub remote: Remote,
    /// Where it goes; null when it is discarded.
    pub local: Option<PathBuf>,
}
