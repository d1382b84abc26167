//! The partial file of an upload: whose it is, and where another run may go on in it.
//!
//! Several runs may send one file to one place. What gets the name is one version of the source without a hole, whatever the others do, because:
//! - Each run writes to a file that it has made under a name of its own, or has taken over by renaming it to one. No name is used twice, so a
//!   RENAME of that name can only publish that file, and fails if another run has taken it over.
//! - Nobody ever cuts a partial file. The name has the source's fingerprint, and a piece is sent only if the source was unchanged after it was read
//!   (`state`). So whoever still writes to a file that was taken over writes what is there already, or what will be.
//! - What is complete of a file with one writer follows from its size (`span`). Of one that was taken over it does not, because the earlier writer
//!   may be alive. A second file, its mark, has one byte for each MiB that the new writer knows to be complete; it only grows.

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

/// Partial files that another run may snatch away before it is given up to go on in one.
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
    /// Whether another run can have left anything: what is read from a pipe is never the same again.
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

/// A file that nobody else writes to.
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
    // A server that was short of handles may have made it all the same: then it is this run's.
    let handle = handle_of(open(core, room, first, &request(flags)).await?, "write to", target)?;
    Ok(Begun {
        path,
        handle,
        offset: 0,
        mark: None,
    })
}

/// What an earlier connection of this run has begun.
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

/// A file that is there, and its size; none if it is not.
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

/// Goes on in the partial file of another run that has come furthest.
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
        // Before the file, so that at no moment it is one that was taken over and has no mark.
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

/// Under a name that nobody else has.
async fn rename(core: &Core, channel: usize, from: &[u8], to: &[u8]) -> Result<bool, Error> {
    let request = if core.has(channel, "posix-rename@openssh.com") {
        // The other RENAME is a link and a removal to OpenSSH, which may be cut short between them.
        Request::PosixRename { from, to }
    } else {
        Request::Rename { from, to }
    };
    let reply = core.call(channel, &request).await?;
    Ok(matches!(reply, Reply::Status(status) if status.code == StatusCode::Ok))
}

impl Partial {
    /// Everything below `complete` has been acknowledged.
    pub fn note(&mut self, core: &Core, channel: usize, complete: u64) {
        if let Some(mark) = &mut self.mark {
            mark.set(core, channel, complete);
        }
    }

    /// An upload that will not be gone on with. Waited for: a run that ends now would take the request with it.
    pub async fn discard(self, core: &Shared, plan: &Plan, channel: usize) {
        close(core, channel, Some(self.handle));
        let removed = core.call(channel, &Request::Remove { path: &self.path });
        mark::remove(core, channel, &self.path, self.mark).await;
        let _ = removed.await;
        plan.uploads.forget(&self.target);
    }

    /// The permission bits for the server in the end, if they are not what the file has: it was made so that its owner can open it again.
    pub async fn mode(&self, core: &Shared, channel: usize, outbound: &dyn Outbound) -> Result<Option<u32>, Error> {
        let Some(added) = outbound.mode().map(|mode| OWNERS & !mode).filter(|added| *added != 0) else {
            return Ok(None);
        };
        let reply = core.call(channel, &Request::Fstat { handle: &self.handle }).await?;
        Ok(match reply {
            // What the server's umask has left.
            Reply::Attrs(attrs) => attrs.permissions.map(|mode| mode & 0o7777 & !added),
            _ => None,
        })
    }

    /// Looks for what runs have left for this target, to be removed in the end.
    pub fn look_around(&self, core: &Shared, plan: &Plan, channel: usize) {
        if !self.recurs {
            return;
        }
        let (core, uploads, directory) = (Shared::clone(core), plan.uploads.clone(), self.naming.directory.clone());
        tokio::task::spawn_local(async move { uploads.leftovers(&core, channel, &directory, false).await });
    }

    /// It has its name. Removes what is of no use any more; what stays is no failure.
    pub async fn tidy(self, core: &Shared, plan: &Plan, channel: usize) {
        // Closed by now. Who waits for a listing must not hold what the listing may wait for.
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
            // One that still changes is another run's. Should that be removed, it fails, or begins again: nothing wrong gets a name.
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
