//! Observers of a run, which follow the progress of each transfer.

use std::fmt::Debug;

use crate::report::Transfer;

/// Watches a run. The run calls it, from the thread that began the run.
pub trait Observer {
    /// A line of progress begins, of `total` bytes where that is known; `url` is without its query. An SFTP run has one line for all its files.
    fn begin(&self, url: &str, total: Option<u64>) -> Box<dyn Progress>;

    /// A file of a tree is over. What is returned becomes part of the run's report; a program that keeps it elsewhere, or needs it no more, returns
    /// nothing, and a run of a million files needs no memory for them.
    fn finished(&self, transfer: Transfer) -> Option<Transfer> {
        Some(transfer)
    }
}

/// The progress of one transfer, or of one set of files. It is dropped at the end of that, before the run returns.
///
/// Called from the connection's thread, some ten times a second: it must not block.
pub trait Progress: Debug + Send + Sync {
    /// The size of the complete body has become known, or has grown.
    fn total(&self, bytes: u64);

    /// Bytes so far, those of a resumed beginning included.
    fn moved(&self, bytes: u64);
}

/// Watches nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn begin(&self, _url: &str, _total: Option<u64>) -> Box<dyn Progress> {
        Box::new(Self)
    }
}

impl Progress for Silent {
    fn total(&self, _bytes: u64) {}

    fn moved(&self, _bytes: u64) {}
}
