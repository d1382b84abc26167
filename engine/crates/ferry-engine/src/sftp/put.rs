//! One upload: to a temporary name, and from there to its own.

use std::time::Instant;

use ferry_sftp::{Attrs, Handle, OpenFlags, Reply, Request, StatusCode};
use tokio::sync::oneshot;

use super::attempt::{FileAttempt, STRIPED, close, handle_of, stripe, watch_progress};
use super::core::Shared;
use super::handles::{self, Room};
use super::open_file::{Direction, OpenFile, Up};
use super::publish::{partial_name, publish};
use super::span;
use super::{Outbound, Plan, Resume};
use crate::error::Error;

pub async fn run(
    core: &Shared,
    plan: &Plan,
    channel: usize,
    path: &[u8],
    outbound: &mut dyn Outbound,
    attempt: &mut FileAttempt,
) -> Result<(), Error> {
    outbound.prepare()?;
    let partial = partial_name(path, &outbound.fingerprint());
    let mut room = core.handles.room(channel).await;
    let (handle, offset) = open(core, channel, &mut room, path, &partial, outbound).await?;
    let mut sender = match outbound.sender(offset, &plan.settings) {
        Ok(sender) => sender,
        Err(problem) => {
            discard(core, channel, Some(handle), &partial).await;
            return Err(problem);
        }
    };
    sender.round_trip = core.idle_rtt();
    attempt.offset = offset;
    attempt.acknowledged = offset;
    if sender.size == Some(0) {
        sender.left(Instant::now());
        attempt.sender = Some(sender);
    } else {
        let striped = sender.size.is_none_or(|size| size >= STRIPED);
        let (done, over) = oneshot::channel();
        let up = Up {
            writes: ferry_sftp::Writes::new(offset),
            sender,
        };
        let id = core.begin(OpenFile {
            path: path.to_vec(),
            home: channel,
            handles: vec![(channel, handle.clone())],
            direction: Direction::Up(Box::new(up)),
            done,
        });
        attempt.reservation = None;
        let helpers = striped.then(|| stripe(core, channel, id, &partial, OpenFlags::WRITE, None));
        let ended = watch_progress(core, over, id, |moved| outbound.progress(moved)).await?;
        if let Direction::Up(up) = ended.direction {
            attempt.acknowledged = up.writes.contiguous();
            attempt.sender = Some(up.sender);
        }
        for (on, handle) in ended.handles.iter().filter(|(on, _)| *on != channel) {
            core.post(*on, &Request::Close { handle });
        }
        drop(helpers);
        if let Err(problem) = ended.result {
            if core.failure().is_none() {
                discard(core, channel, Some(handle), &partial).await;
            }
            return Err(problem);
        }
    }
    if let Some(sender) = &mut attempt.sender
        && let Err(problem) = outbound.verify(sender)
    {
        discard(core, channel, Some(handle), &partial).await;
        return Err(problem);
    }
    let attrs = Attrs {
        permissions: outbound.perms(),
        times: outbound.modified().map(|time| (time, time)),
        ..Attrs::default()
    };
    if let Some(problem) = set_attributes(core, channel, &handle, path, &attrs).await? {
        discard(core, channel, Some(handle), &partial).await;
        return Err(problem);
    }
    match publish(core, plan, channel, handle, &partial, path).await {
        Ok(()) => Ok(()),
        Err(failure) => {
            if !failure.keep {
                discard(core, channel, None, &partial).await;
            }
            Err(failure.problem)
        }
    }
}

/// Returns why the server does not set them. Every byte has been acknowledged, so no WRITE changes it any more.
async fn set_attributes(
    core: &Shared,
    channel: usize,
    handle: &Handle,
    path: &[u8],
    attrs: &Attrs,
) -> Result<Option<Error>, Error> {
    if *attrs == Attrs::default() {
        return Ok(None);
    }
    match core.call(channel, &Request::Fsetstat { handle, attrs }).await? {
        Reply::Status(status) if status.code == StatusCode::Ok => Ok(None),
        _ => Ok(Some(Error::permanent(format!(
            "{}: the server does not set modification time or permissions; leave out --remote-time and --perms, or --mirror, which needs times",
            String::from_utf8_lossy(path)
        )))),
    }
}

/// Opens the partial file, and tells where to go on in it.
async fn open(
    core: &Shared,
    channel: usize,
    room: &mut Room,
    path: &[u8],
    partial: &[u8],
    outbound: &dyn Outbound,
) -> Result<(Handle, u64), Error> {
    let resume = outbound.resume();
    let attrs = Attrs {
        permissions: outbound.mode(),
        ..Attrs::default()
    };
    let there = (resume != Resume::Never).then(|| core.call(channel, &Request::Stat { path: partial }));
    let fresh = there.is_none();
    let flags = OpenFlags::WRITE | OpenFlags::CREATE | if fresh { OpenFlags::TRUNCATE } else { OpenFlags(0) };
    let request = Request::Open {
        path: partial,
        flags,
        attrs: &attrs,
    };
    let first = core.call(channel, &request);
    let found = match there {
        None => 0,
        Some(there) => match there.await? {
            Reply::Attrs(attrs) => attrs.size.unwrap_or(0),
            _ => 0,
        },
    };
    let opened = handles::open(core, room, first, &request).await?;
    let handle = handle_of(opened, "write to", path)?;
    let offset = match resume {
        Resume::IfThere => span::resume_point(found),
        Resume::At(acknowledged) if acknowledged <= found => acknowledged,
        Resume::Never | Resume::At(_) => 0,
    };
    if !fresh {
        // What lies behind is of unknown content. Waited for, because other channels will write while this one is at it.
        let size = Attrs {
            size: Some(offset),
            ..Attrs::default()
        };
        let truncate = Request::Fsetstat {
            handle: &handle,
            attrs: &size,
        };
        let cut = core.call(channel, &truncate).await?;
        if !matches!(cut, Reply::Status(status) if status.code == StatusCode::Ok) {
            // What lies behind would be taken for this run's own by the next one: from the beginning, in an empty file.
            close(core, channel, Some(handle));
            let open = Request::Open {
                path: partial,
                flags: OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::TRUNCATE,
                attrs: &attrs,
            };
            return Ok((handle_of(core.call(channel, &open).await?, "write to", path)?, 0));
        }
    }
    Ok((handle, offset))
}

/// An upload that will not be gone on with. Waited for: a run that ends now would take the request with it.
async fn discard(core: &Shared, channel: usize, handle: Option<Handle>, partial: &[u8]) {
    close(core, channel, handle);
    let _ = core.call(channel, &Request::Remove { path: partial }).await;
}
