//! One upload: to a temporary name, and from there to its own.

use std::time::Instant;

use ferry_sftp::{Attrs, Handle, OpenFlags, Reply, Request, StatusCode};
use tokio::sync::oneshot;

use super::body::{Body, Up, Way};
use super::core::Shared;
use super::files::{Ledger, STRIPED, close, handle_of, stripe, watch};
use super::state::WRITE_SPAN;
use super::tree::join;
use super::{Outbound, Plan, Resume, nonsense, refused};
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
    let published = publish(core, plan, lane, handle, &partial, path).await;
    if published.is_err() {
        discard(core, lane, None, &partial).await;
    }
    published
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
        Resume::IfThere => found.saturating_sub(WRITE_SPAN),
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
        core.call(lane, &truncate).await?;
    }
    Ok((handle, offset))
}

/// To the server's disk, and then to its name.
async fn publish(
    core: &Shared,
    plan: &Plan,
    lane: usize,
    handle: Handle,
    partial: &[u8],
    path: &[u8],
) -> Result<(), Problem> {
    let ok = |reply: Reply, what: &str| match reply {
        Reply::Status(status) if status.code == StatusCode::Ok => Ok(()),
        Reply::Status(status) => Err(refused(what, path, &status)),
        _ => Err(nonsense(what, path)),
    };
    let synced = plan.sync && core.has(lane, "fsync@openssh.com");
    if synced {
        let reply = core.call(lane, &Request::Fsync { handle: &handle }).await?;
        if let Err(problem) = ok(reply, "bring to disk") {
            core.post(lane, &Request::Close { handle: &handle });
            return Err(problem);
        }
    }
    let closed = core.call(lane, &Request::Close { handle: &handle });
    let atomic = core.has(lane, "posix-rename@openssh.com");
    let rename = || {
        let (from, to) = (partial, path);
        core.call(
            lane,
            &if atomic {
                Request::PosixRename { from, to }
            } else {
                Request::Rename { from, to }
            },
        )
    };
    // After an fsync a CLOSE has nothing left to say, and need not be waited for.
    let mut renamed = synced.then(&rename);
    ok(closed.await?, "close")?;
    let reply = match renamed.take() {
        Some(renamed) => renamed.await?,
        None => rename().await?,
    };
    match ok(reply, "give its name to") {
        Ok(()) => Ok(()),
        Err(_) if !atomic => {
            // Version 3 renames over nothing: the old file has to go first.
            core.post(lane, &Request::Remove { path });
            ok(rename().await?, "give its name to")
        }
        Err(problem) => Err(problem),
    }
}

/// An upload that will not be gone on with. Waited for: a run that ends now would take the request with it.
async fn discard(core: &Shared, lane: usize, handle: Option<Handle>, partial: &[u8]) {
    close(core, lane, handle);
    let _ = core.call(lane, &Request::Remove { path: partial }).await;
}

/// `.NAME.STAMP.ferry-part` beside the target. Long names are cut, because 255 bytes are all that most file systems take.
fn partial_name(path: &[u8], stamp: &str) -> Vec<u8> {
    let split = path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    let (directory, name) = path.split_at(split);
    let rest = format!(".{stamp}.ferry-part");
    let mut hidden = b".".to_vec();
    hidden.extend_from_slice(&name[..name.len().min(255 - 1 - rest.len())]);
    hidden.extend_from_slice(rest.as_bytes());
    join(directory, &hidden)
}

#[cfg(test)]
mod tests {
    use super::partial_name;

    #[test]
    fn partial_files_lie_beside_their_target_under_a_name_that_fits() {
        assert_eq!(partial_name(b"/up/a.iso", "0123"), b"/up/.a.iso.0123.ferry-part");
        assert_eq!(partial_name(b"a.iso", "0123"), b".a.iso.0123.ferry-part");
        let long = partial_name(&[b'x'; 255], "0123456789abcdef");
        assert_eq!(long.len(), 255);
        assert!(long.ends_with(b".0123456789abcdef.ferry-part"));
    }
}
