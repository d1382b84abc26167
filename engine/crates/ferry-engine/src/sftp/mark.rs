//! The mark of a partial file: the size of its complete part, if it was taken over from a run that may still write to it
//! (`partial`).

use ferry_sftp::{Attrs, Handle, OpenFlags, Reply, Request};

use super::core::{Core, Shared};
use super::handles::Room;
use super::naming::{MARK, companion};
use super::opening::open_now;

pub const MIB: u64 = 1 << 20;

/// A file whose size is the number of complete MiB: a listing tells that size, and a late WRITE makes it no smaller.
pub struct Mark {
    handle: Handle,
    size: u64,
    _room: Room,
}

impl Mark {
    /// Never waits for room, because the caller has a file open.
    pub async fn open(core: &Shared, channel: usize, partial: &[u8], complete: u64) -> Option<Self> {
        let mut room = core.handles.try_room(channel)?;
        let path = companion(partial, MARK);
        let attrs = Attrs {
            permissions: Some(0o600),
            ..Attrs::default()
        };
        let request = Request::Open {
            path: &path,
            flags: OpenFlags::WRITE | OpenFlags::CREATE,
            attrs: &attrs,
        };
        let Ok(Reply::Handle(handle)) = open_now(core, &mut room, &request).await else {
            return None;
        };
        let mut mark = Self {
            handle,
            size: 0,
            _room: room,
        };
        mark.set(core, channel, complete);
        // The channel answers in order, so this answer comes after the mark is set.
        let there = core.call(channel, &Request::Fstat { handle: &mark.handle }).await;
        match there {
            Ok(Reply::Attrs(attrs)) if attrs.size == Some(mark.size) => Some(mark),
            _ => {
                remove(core, channel, partial, Some(mark)).await;
                None
            }
        }
    }

    pub fn set(&mut self, core: &Core, channel: usize, complete: u64) {
        let size = complete / MIB;
        if size > self.size {
            core.post_write(channel, &self.handle, size - 1, b"\0");
            self.size = size;
        }
    }

    pub fn close(&self, core: &Core, channel: usize) {
        core.post(channel, &Request::Close { handle: &self.handle });
    }
}

/// Closes and removes the mark of a partial file that no longer exists.
pub async fn remove(core: &Core, channel: usize, partial: &[u8], mark: Option<Mark>) {
    if let Some(mark) = mark {
        mark.close(core, channel);
        let path = companion(partial, MARK);
        let _ = core.call(channel, &Request::Remove { path: &path }).await;
    }
}
