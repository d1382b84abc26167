//! The code that downloads and uploads of one file share; the rest is in `get` and `put`.

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

/// The record of one attempt, which becomes an `Outcome`.
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

/// Dropped once the file is open, or once the attempt has ended without that.
pub struct Reservation(Opening, u64);

impl Drop for Reservation {
    fn drop(&mut self) {
        let opening = &self.0.0;
        opening.set(opening.get().saturating_sub(self.1));
    }
}

/// Opens the file on the other channels too: on the existing ones, and on those added during the transfer.
///
/// The other channels open a path, which may name another file by now than the one that the first channel opened. So a download
/// passes `version`, the first channel's handle: a further handle is used only if its file has the same attributes. An upload's
/// partial file has a path that no other file ever has (`partial`).
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

/// Asks for the attributes of the file that the first channel has open; the receiver gets them with the server's answer.
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
    /// Opens the file on one more channel; a failure does no harm, because the channel is only left out.
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

/// Returns true if the server tells the same size, modification time, owner and permissions for both. The time of the last access
/// does not count.
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

/// The task that opens a file on further channels, and the rooms of its handles. Dropping it ends the task.
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
