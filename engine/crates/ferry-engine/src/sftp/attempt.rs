//! What downloads and uploads of one file have in common: `get` and `put` know the rest.

use std::cell::Cell;
use std::rc::Rc;

use ferry_sftp::{Attrs, Handle, OpenFlags, Reply, Request};
use tokio::sync::oneshot;

use super::core::Shared;
use super::open_file::End;
use super::{nonsense, refused};
use crate::error::Error;
use crate::transfer::receive::Receiver;
use crate::transfer::send::Sender;

/// A file of at least this size goes over all channels.
pub const STRIPED: u64 = 4 << 20;

/// What an attempt has come to; becomes an `Outcome`.
#[derive(Default)]
pub struct FileAttempt {
    pub reservation: Option<Reservation>,
    pub receiver: Option<Box<Receiver>>,
    pub sender: Option<Sender>,
    pub offset: u64,
    pub acknowledged: u64,
}

/// Bytes of files that are being opened: the core knows only of those that are open.
#[derive(Clone, Default)]
pub struct Opening(Rc<Cell<u64>>);

impl Opening {
    pub fn bytes(&self) -> u64 {
        self.0.get()
    }

    pub fn reserve(&self, bytes: u64) -> Reservation {
        self.0.set(self.0.get().saturating_add(bytes));
        Reservation(self.clone(), bytes)
    }
}

/// Let go when the file is open, or is not going to be.
pub struct Reservation(Opening, u64);

impl Drop for Reservation {
    fn drop(&mut self) {
        let opening = &self.0.0;
        opening.set(opening.get().saturating_sub(self.1));
    }
}

/// Opens the file on the other channels, too: those that are there and those that come while it is being sent.
pub fn stripe(core: &Shared, home: usize, id: u64, path: &[u8], flags: OpenFlags) -> AbortOnDrop {
    let (core, path) = (Shared::clone(core), path.to_vec());
    let task = tokio::task::spawn_local(async move {
        let mut channels = core.watch_channels();
        let mut known = 0;
        loop {
            let count = *channels.borrow_and_update();
            for channel in (known..count).filter(|channel| *channel != home) {
                let core = Shared::clone(&core);
                let path = path.clone();
                tokio::task::spawn_local(async move {
                    let attrs = Attrs::default();
                    let open = Request::Open {
                        path: &path,
                        flags,
                        attrs: &attrs,
                    };
                    // A channel that cannot help does no harm.
                    if let Ok(Reply::Handle(handle)) = core.call(channel, &open).await {
                        core.add_handle(id, channel, handle);
                    }
                });
            }
            known = count;
            if channels.changed().await.is_err() {
                return;
            }
        }
    });
    AbortOnDrop(task.abort_handle())
}

pub struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Waits until the file is transferred, and reports progress meanwhile.
pub async fn watch(
    core: &Shared,
    mut over: oneshot::Receiver<End>,
    id: u64,
    mut progress: impl FnMut(u64),
) -> Result<End, Error> {
    loop {
        let tick = tokio::time::sleep(std::time::Duration::from_millis(100));
        tokio::select! {
            biased;
            end = &mut over => return end.map_err(|_| Error::transient("the transfer was given up")),
            () = tick => progress(core.progress(id)),
        }
    }
}

pub fn handle_of(reply: Reply, what: &str, path: &[u8]) -> Result<Handle, Error> {
    match reply {
        Reply::Handle(handle) => Ok(handle),
        Reply::Status(status) => Err(refused(what, path, &status)),
        _ => Err(nonsense("OPEN", path)),
    }
}

pub fn close(core: &Shared, channel: usize, handle: Option<Handle>) {
    if let Some(handle) = handle {
        core.post(channel, &Request::Close { handle: &handle });
    }
}
