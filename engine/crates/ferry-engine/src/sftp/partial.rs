//! The partial file of an upload: its owner, and the place in it from which another run may go on.
//!
//! Several runs may send one file to one place. The file that gets the name is one version of the source without a hole, whatever
//! the other runs do, because:
//! - Each run writes to a file that it has made under a name of its own, or has taken over by renaming it to one. No name is used
//!   twice, so a RENAME of that name can only publish that file, and fails if another run has taken it over.
//! - No run ever cuts a partial file. The name has the source's fingerprint, and a piece is sent only if the source was unchanged
//!   after it was read (`state`). So the earlier writer of a file that was taken over writes only bytes that are there already,
//!   or will be.
//! - The complete part of a file with one writer follows from its size (`span`). That of a file that was taken over does not,
//!   because the earlier writer may be alive. A second file, its mark, has one byte for each MiB that the new writer knows to be
//!   complete; the mark only grows.

use std::collections::HashMap;

use ferry_sftp::{Attrs, Handle, OpenFlags, Reply, Request, StatusCode};

use super::attempt::{close, handle_of, same_version};
use super::core::{Core, Shared};
use super::handles::Room;
use super::mark::{self, MIB, Mark};
use super::naming::{Kind, MARK, Naming, companion};
use super::opening::open;
use super::uploads::{Leftover, Own};
use super::{Outbound, Plan, Resume, nonsense, span};
use crate::error::Error;

/// The number of partial files to try before a new one is made; another run may snatch each of them away.
const TRIES: usize = 3;
/// Bits that a partial file needs to be opened again by its owner.
const OWNERS: u32 = 0o600;

/// A partial file that is open, and this run's.
pub struct Partial {
    pub path: Vec<u8>,
    pub handle: Handle,
    /// Every byte before this offset is on the server.
    pub offset: u64,
    mark: Option<Mark>,
    naming: Naming,
    target: Vec<u8>,
    /// True if another run can have left anything; false for a pipe, whose content is never the same again.
    recurs: bool,
    room: Room,
}

/// Opens a partial file for a target: this run's own, one that another run has left, or a new one.
pub async fn begin(
    core: &Shared,
    plan: &Plan,
    channel: usize,
    target: &[u8],
    outbound: &dyn Outbound,
) -> Result<Partial, Error> {
    let fingerprint = outbound.fingerprint();
    let naming = Naming::of(target, &fingerprint);
    let own = plan.uploads.own(target);
    let aside = own.as_ref().and_then(|own| own.aside.clone());
    let resume = outbound.resume();
    let leftovers = if own.is_none() && resume == Resume::IfThere && outbound.length().is_some() {
        plan.uploads.leftovers(core, channel, &naming.directory, true).await
    } else {
        Vec::new()
    };
    let mut room = core.handles.room(channel).await;
    let begun = match own {
        Some(own) if own.fingerprint == fingerprint => {
            let acknowledged = if let Resume::At(offset) = resume { offset } else { 0 };
            reopen(core, channel, &mut room, &naming, target, &own.path, acknowledged).await?
        }
        // The source has changed since.
        Some(own) => {
            let _ = core.call(channel, &Request::Remove { path: &own.path }).await;
            None
        }
        None => {
            take_over(
                core,
                channel,
                &mut room,
                target,
                &naming,
                outbound.length().unwrap_or(0),
                &leftovers,
            )
            .await?
        }
    };
    let begun = match begun {
        Some(begun) => begun,
        None => make(core, channel, &mut room, target, &naming, outbound.mode()).await?,
    };
    let own = Own {
        fingerprint,
        path: begun.path.clone(),
        aside,
    };
    plan.uploads.keep(target, own);
    Ok(Partial {
        path: begun.path,
        handle: begun.handle,
        offset: begun.offset,
        mark: begun.mark,
        naming,
        target: target.to_vec(),
        recurs: outbound.length().is_some(),
        room,
    })
}

struct Begun {
    path: Vec<u8>,
    handle: Handle,
    offset: u64,
    mark: Option<Mark>,
}

/// Makes a file that no other run writes to.
async fn make(
    core: &Shared,
    channel: usize,
    room: &mut Room,
    target: &[u8],
    naming: &Naming,
    mode: Option<u32>,
) -> Result<Begun, Error> {
    let path = naming.fresh(Kind::Made);
    let attrs = Attrs {
        permissions: mode.map(|mode| mode | OWNERS),
        ..Attrs::default()
    };
    let request = |flags| Request::Open {
        path: &path,
        flags,
        attrs: &attrs,
    };
    let flags = OpenFlags::WRITE | OpenFlags::CREATE;
    room.asks();
    let first = core.call(channel, &request(flags | OpenFlags::EXCLUSIVE));
    // A server that was short of handles may have made the file all the same: then it is this run's.
    let handle = handle_of(open(core, room, first, &request(flags)).await?, "write to", target)?;
    Ok(Begun {
        path,
        handle,
        offset: 0,
        mark: None,
    })
}

/// Opens the partial file that an earlier connection of this run has begun; none if it is gone, or shorter than `acknowledged`.
async fn reopen(
    core: &Shared,
    channel: usize,
    room: &mut Room,
    naming: &Naming,
    target: &[u8],
    path: &[u8],
    acknowledged: u64,
) -> Result<Option<Begun>, Error> {
    let Some((handle, found)) = open_there(core, channel, room, target, path).await? else {
        return Ok(None);
    };
    if found < acknowledged {
        close(core, channel, Some(handle));
        let _ = core.call(channel, &Request::Remove { path }).await;
        return Ok(None);
    }
    let name = path.get(naming.directory.len()..).unwrap_or_default();
    let mark = match naming.kind(name) {
        Some(Kind::TakenOver) => Mark::open(core, channel, path, acknowledged).await,
        _ => None,
    };
    Ok(Some(Begun {
        path: path.to_vec(),
        handle,
        offset: acknowledged,
        mark,
    }))
}

/// Opens a file and returns its handle and size; none if there is no such file to open.
async fn open_there(
    core: &Shared,
    channel: usize,
    room: &mut Room,
    target: &[u8],
    path: &[u8],
) -> Result<Option<(Handle, u64)>, Error> {
    room.asks();
    let there = core.call(channel, &Request::Stat { path });
    let attrs = Attrs::default();
    let request = Request::Open {
        path,
        flags: OpenFlags::WRITE,
        attrs: &attrs,
    };
    let first = core.call(channel, &request);
    let found = there.await?;
    let opened = open(core, room, first, &request).await?;
    match (found, opened) {
        (Reply::Attrs(attrs), Reply::Handle(handle)) => Ok(Some((handle, attrs.size.unwrap_or(0)))),
        (_, Reply::Handle(handle)) => {
            close(core, channel, Some(handle));
            Ok(None)
        }
        (_, Reply::Status(_)) => Ok(None),
        _ => Err(nonsense("OPEN", target)),
    }
}

/// Takes over the partial file of another run that has come furthest.
async fn take_over(
    core: &Shared,
    channel: usize,
    room: &mut Room,
    target: &[u8],
    naming: &Naming,
    length: u64,
    leftovers: &[Leftover],
) -> Result<Option<Begun>, Error> {
    let marks: HashMap<_, _> = leftovers
        .iter()
        .map(|each| (each.name.as_slice(), each.attrs.size))
        .collect();
    let mut candidates: Vec<_> = leftovers
        .iter()
        .filter_map(|each| {
            let complete = match naming.kind(&each.name)? {
                Kind::Made => span::resume_point(each.attrs.size?),
                Kind::TakenOver => (*marks.get(companion(&each.name, MARK).as_slice())?)?.saturating_mul(MIB),
            };
            (complete > 0 && complete <= length).then_some((complete, &each.name))
        })
        .collect();
    candidates.sort_unstable();
    for (complete, name) in candidates.into_iter().rev().take(TRIES) {
        let (from, to) = (naming.path(name), naming.fresh(Kind::TakenOver));
        // The mark comes before the file, so that at no moment a file that was taken over has no mark.
        let mark = Mark::open(core, channel, &to, complete).await;
        if !rename(core, channel, &from, &to).await? {
            mark::remove(core, channel, &to, mark).await;
            continue;
        }
        core.post(
            channel,
            &Request::Remove {
                path: &companion(&from, MARK),
            },
        );
        let there = open_there(core, channel, room, target, &to).await?;
        let Some((handle, _)) = there.filter(|(_, found)| (complete..=length).contains(found)) else {
            mark::remove(core, channel, &to, mark).await;
            let _ = core.call(channel, &Request::Remove { path: &to }).await;
            continue;
        };
        tracing::debug!(from = %String::from_utf8_lossy(&from), complete, "going on in a partial file");
        return Ok(Some(Begun {
            path: to,
            handle,
            offset: complete,
            mark,
        }));
    }
    Ok(None)
}

/// Renames a file to a name that no other file has; returns true on success.
async fn rename(core: &Core, channel: usize, from: &[u8], to: &[u8]) -> Result<bool, Error> {
    let request = if core.has(channel, "posix-rename@openssh.com") {
        // OpenSSH carries out the other RENAME as a link and a removal, which may be cut short between them.
        Request::PosixRename { from, to }
    } else {
        Request::Rename { from, to }
    };
    let reply = core.call(channel, &request).await?;
    Ok(matches!(reply, Reply::Status(status) if status.code == StatusCode::Ok))
}

impl Partial {
    /// Notes that everything below `complete` has been acknowledged.
    pub fn note(&mut self, core: &Core, channel: usize, complete: u64) {
        if let Some(mark) = &mut self.mark {
            mark.set(core, channel, complete);
        }
    }

    /// Removes the partial file of an upload that will not go on. The answers are waited for, because a run that ends now would
    /// take the requests with it.
    pub async fn discard(self, core: &Shared, plan: &Plan, channel: usize) {
        close(core, channel, Some(self.handle));
        let removed = core.call(channel, &Request::Remove { path: &self.path });
        mark::remove(core, channel, &self.path, self.mark).await;
        let _ = removed.await;
        plan.uploads.forget(&self.target);
    }

    /// The final permission bits on the server, if the file has others: it was made so that its owner can open it again.
    pub async fn mode(&self, core: &Shared, channel: usize, outbound: &dyn Outbound) -> Result<Option<u32>, Error> {
        let Some(added) = outbound.mode().map(|mode| OWNERS & !mode).filter(|added| *added != 0) else {
            return Ok(None);
        };
        let reply = core.call(channel, &Request::Fstat { handle: &self.handle }).await?;
        Ok(match reply {
            // The bits that the server's umask has left.
            Reply::Attrs(attrs) => attrs.permissions.map(|mode| mode & 0o7777 & !added),
            _ => None,
        })
    }

    /// Looks for leftovers of runs for this target, to be removed in the end.
    pub fn look_around(&self, core: &Shared, plan: &Plan, channel: usize) {
        if !self.recurs {
            return;
        }
        let (core, uploads, directory) = (Shared::clone(core), plan.uploads.clone(), self.naming.directory.clone());
        tokio::task::spawn_local(async move { uploads.leftovers(&core, channel, &directory, false).await });
    }

    /// Removes files that are of no use once the upload has its name; a file that stays is no failure.
    pub async fn tidy(self, core: &Shared, plan: &Plan, channel: usize) {
        // The file is closed by now. A task that waits for a listing must not hold room that the listing may wait for.
        drop(self.room);
        let mut useless = Vec::new();
        useless.extend(plan.uploads.own(&self.target).and_then(|own| own.aside));
        if let Some(mark) = self.mark {
            mark.close(core, channel);
            useless.push(companion(&self.path, MARK));
        }
        plan.uploads.forget(&self.target);
        let asked: Vec<_> = useless
            .iter()
            .map(|path| (path, core.call(channel, &Request::Remove { path })))
            .collect();
        let leftovers = if self.recurs {
            plan.uploads
                .leftovers(core, channel, &self.naming.directory, false)
                .await
        } else {
            Vec::new()
        };
        let others: Vec<_> = leftovers
            .into_iter()
            .filter(|each| self.naming.has(&each.name))
            .map(|each| (self.naming.path(&each.name), each.attrs))
            .map(|(path, attrs)| {
                let now = core.call(channel, &Request::Lstat { path: &path });
                (path, attrs, now)
            })
            .collect();
        for (path, reply) in asked {
            warn(path, reply.await);
        }
        let mut removed = Vec::new();
        for (path, then, now) in others {
            // A file that still changes is another run's. If it were removed, that run would fail or begin again: nothing wrong
            // gets a name.
            if matches!(now.await, Ok(Reply::Attrs(now)) if same_version(&now, &then)) {
                let reply = core.call(channel, &Request::Remove { path: &path });
                removed.push((path, reply));
            }
        }
        for (path, reply) in removed {
            warn(&path, reply.await);
        }
    }
}

fn warn(path: &[u8], reply: Result<Reply, Error>) {
    match reply {
        Ok(Reply::Status(status)) if matches!(status.code, StatusCode::Ok | StatusCode::NoSuchFile) => {}
        Ok(Reply::Status(status)) => {
            tracing::warn!(path = %path.escape_ascii(), %status, "complete, but something of no use stays on the server");
        }
        _ => {}
    }
}
