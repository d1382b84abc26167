//! What downloads and uploads of one file have in common: `get` and `put` know the rest.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use ferry_sftp::{Attrs, Handle, OpenFlags, Reply, Request};
use tokio::sync::{oneshot, watch};

use super::core::Shared;
use super::handles::Room;
use super::open_file::End;
use super::opening;
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

/// Opens the file on the other channels, too: those that are there and those that come while it is being transferred.
///
/// They open a path, and what has this path may have changed since the first channel opened it. Of a download with `version`, which is the first
/// channel's handle, a handle is used only if what it has open has the same attributes; an upload's partial file has a path that no other file ever
/// has (`partial`).
pub fn stripe(core: &Shared, home: usize, id: u64, path: &[u8], flags: OpenFlags, version: Option<&Handle>) -> Helpers {
    let (core, path) = (Shared::clone(core), path.to_vec());
    let rooms = Rc::new(RefCell::new(Vec::new()));
    let helper = Helper {
        id,
        path,
        flags,
        version: version.map(|handle| first_version(&core, home, handle)),
        rooms: Rc::clone(&rooms),
    };
    let task = tokio::task::spawn_local(async move {
        let mut channels = core.watch_channels();
        let mut known = 0;
        loop {
            let count = *channels.borrow_and_update();
            for channel in (known..count).filter(|channel| *channel != home) {
                let (core, helper) = (Shared::clone(&core), helper.clone());
                tokio::task::spawn_local(async move { helper.open(&core, channel).await });
            }
            known = count;
            if channels.changed().await.is_err() {
                return;
            }
        }
    });
    Helpers {
        task: task.abort_handle(),
        _rooms: rooms,
    }
}

/// What the handle of the first channel has open, when its answer is there.
fn first_version(core: &Shared, home: usize, handle: &Handle) -> watch::Receiver<Option<Attrs>> {
    let (tell, version) = watch::channel(None);
    let asked = core.call(home, &Request::Fstat { handle });
    tokio::task::spawn_local(async move {
        if let Ok(Reply::Attrs(attrs)) = asked.await {
            tell.send_replace(Some(attrs));
        }
    });
    version
}

#[derive(Clone)]
struct Helper {
    id: u64,
    path: Vec<u8>,
    flags: OpenFlags,
    version: Option<watch::Receiver<Option<Attrs>>>,
    rooms: Rc<RefCell<Vec<Room>>>,
}

impl Helper {
    /// A channel that cannot help does no harm.
    async fn open(self, core: &Shared, channel: usize) {
        let Some(mut room) = core.handles.try_room(channel) else {
            return;
        };
        let attrs = Attrs::default();
        let request = Request::Open {
            path: &self.path,
            flags: self.flags,
            attrs: &attrs,
        };
        let Ok(Reply::Handle(handle)) = opening::open_now(core, &mut room, &request).await else {
            return;
        };
        if let Some(mut version) = self.version {
            let found = core.call(channel, &Request::Fstat { handle: &handle }).await;
            let same = match (found, version.wait_for(Option::is_some).await.as_deref()) {
                (Ok(Reply::Attrs(found)), Ok(Some(first))) => same_version(&found, first),
                _ => false,
            };
            if !same {
                tracing::debug!(
                    channel,
                    "another version, or not known to be the same: this channel does not help"
                );
                core.post(channel, &Request::Close { handle: &handle });
                return;
            }
        }
        core.add_handle(self.id, channel, handle);
        self.rooms.borrow_mut().push(room);
    }
}

/// Whether all that a server tells of a file's version is the same. The time of the last access is none of it.
pub fn same_version(one: &Attrs, other: &Attrs) -> bool {
    let told = |attrs: &Attrs| {
        (
            attrs.size,
            attrs.times.map(|times| times.1),
            attrs.owner,
            attrs.permissions,
        )
    };
    told(one) == told(other)
}

/// What opens a file on more channels, for as long as it is being transferred.
pub struct Helpers {
    task: tokio::task::AbortHandle,
    _rooms: Rc<RefCell<Vec<Room>>>,
}

impl Drop for Helpers {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Waits until the file is transferred, and reports progress meanwhile.
pub async fn watch_progress(
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
