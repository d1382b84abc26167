//! One upload: to a temporary name, and from there to its own.

use std::time::Instant;

use ferry_sftp::{Attrs, Handle, OpenFlags, Reply, Request, StatusCode};
use tokio::sync::oneshot;

use super::body::{Body, Up, Way};
use super::core::Shared;
use super::files::{Ledger, STRIPED, close, handle_of, stripe, watch};
use super::publish::{partial_name, publish};
use super::span;
use super::{Outbound, Plan, Resume};
use crate::report::Problem;

pub async fn run(
    core: &Shared,
    plan: &Plan,
    lane: usize,
    path: &[u8],
    outbound: &mut dyn Outbound,
    ledger: &mut Ledger,
) -> Result<(), Problem> {
    outbound.prepare()?;
    let partial = partial_name(path, &outbound.stamp());
    let (handle, offset) = open(core, lane, path, &partial, outbound).await?;
    let mut sender = match outbound.sender(offset, &plan.settings) {
        Ok(sender) => sender,
        Err(problem) => {
            discard(core, lane, Some(handle), &partial).await;
            return Err(problem);
        }
    };
    sender.round_trip = core.idle_rtt();
    ledger.offset = offset;
    ledger.acknowledged = offset;
    if sender.size == Some(0) {
        sender.left(Instant::now());
        ledger.sender = Some(sender);
    } else {
        let striped = sender.size.is_none_or(|size| size >= STRIPED);
        let (done, over) = oneshot::channel();
        let up = Up {
            writes: ferry_sftp::Writes::new(offset),
            sender,
        };
        let id = core.begin(Body {
            path: path.to_vec(),
            home: lane,
            handles: vec![(lane, handle.clone())],
            way: Way::Up(Box::new(up)),
            done,
        });
        ledger.pledge = None;
        let helpers = striped.then(|| stripe(core, lane, id, &partial, OpenFlags::WRITE));
        let ended = watch(core, over, id, |moved| outbound.progress(moved)).await?;
        if let Way::Up(up) = ended.way {
            ledger.acknowledged = up.writes.contiguous();
            ledger.sender = Some(up.sender);
        }
        drop(helpers);
        for (on, handle) in ended.handles.iter().filter(|(on, _)| *on != lane) {
            core.post(*on, &Request::Close { handle });
        }
        if let Err(problem) = ended.result {
            if core.failure().is_none() {
                discard(core, lane, Some(handle), &partial).await;
            }
            return Err(problem);
        }
    }
    if let Some(sender) = &mut ledger.sender
        && let Err(problem) = outbound.verify(sender)
    {
        discard(core, lane, Some(handle), &partial).await;
        return Err(problem);
    }
    match publish(core, plan, lane, handle, &partial, path).await {
        Ok(()) => Ok(()),
        Err(failure) => {
            if !failure.keep {
                discard(core, lane, None, &partial).await;
            }
            Err(failure.problem)
        }
    }
}

/// Opens the partial file, and tells where to go on in it.
async fn open(
    core: &Shared,
    lane: usize,
    path: &[u8],
    partial: &[u8],
    outbound: &dyn Outbound,
) -> Result<(Handle, u64), Problem> {
    let resume = outbound.resume();
    let attrs = Attrs {
        permissions: outbound.mode(),
        ..Attrs::default()
    };
    let there = (resume != Resume::Never).then(|| core.call(lane, &Request::Stat { path: partial }));
    let fresh = there.is_none();
    let flags = OpenFlags::WRITE | OpenFlags::CREATE | if fresh { OpenFlags::TRUNCATE } else { OpenFlags(0) };
    let open = core.call(
        lane,
        &Request::Open {
            path: partial,
            flags,
            attrs: &attrs,
        },
    );
    let found = match there {
        None => 0,
        Some(there) => match there.await? {
            Reply::Attrs(attrs) => attrs.size.unwrap_or(0),
            _ => 0,
        },
    };
    let handle = handle_of(open.await?, "write to", path)?;
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
        let cut = core.call(lane, &truncate).await?;
        if !matches!(cut, Reply::Status(status) if status.code == StatusCode::Ok) {
            // What lies behind would be taken for this run's own by the next one: from the beginning, in an empty file.
            close(core, lane, Some(handle));
            let open = Request::Open {
                path: partial,
                flags: OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::TRUNCATE,
                attrs: &attrs,
            };
            return Ok((handle_of(core.call(lane, &open).await?, "write to", path)?, 0));
        }
    }
    Ok((handle, offset))
}

/// An upload that will not be gone on with. Waited for: a run that ends now would take the request with it.
async fn discard(core: &Shared, lane: usize, handle: Option<Handle>, partial: &[u8]) {
    close(core, lane, handle);
    let _ = core.call(lane, &Request::Remove { path: partial }).await;
}
