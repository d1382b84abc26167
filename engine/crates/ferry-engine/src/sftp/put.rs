//! One upload: to a partial file, and from there to its name.

use std::time::Instant;

use ferry_sftp::{Attrs, FileKind, OpenFlags, Reply, Request, StatusCode};
use tokio::sync::oneshot;

use super::attempt::{FileAttempt, STRIPED, stripe, watch_progress};
use super::core::Shared;
use super::open_file::{Direction, OpenFile, Up};
use super::partial::{self, Partial};
use super::publish::publish;
use super::tree::join;
use super::{Outbound, Plan, nonsense, refused};
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
    let (path, mut partial) = begin(core, plan, channel, path, outbound).await?;
    partial.look_around(core, plan, channel);
    match send(core, plan, channel, &path, &mut partial, outbound, attempt).await {
        Ok(()) => {}
        // After a problem of the upload itself, the partial file is of no use. After a lost connection, whatever else went wrong,
        // another connection goes on in the file.
        Err(problem) => {
            if core.failure().is_none() {
                partial.discard(core, plan, channel).await;
            }
            return Err(problem);
        }
    }
    match publish(core, plan, channel, &partial.handle, &partial.path, &path).await {
        Ok(()) => {
            partial.tidy(core, plan, channel).await;
            Ok(())
        }
        Err(failure) => {
            if !failure.keep && core.failure().is_none() {
                partial.discard(core, plan, channel).await;
            }
            Err(failure.problem)
        }
    }
}

/// Opens the partial file, and returns it with its final path. If a URL was given for this file alone, the file keeps its name in
/// a directory of that path, and a symbolic link stays one: the link's target is replaced, as a download does with a local link.
async fn begin(
    core: &Shared,
    plan: &Plan,
    channel: usize,
    path: &[u8],
    outbound: &dyn Outbound,
) -> Result<(Vec<u8>, Partial), Error> {
    let mut path = path.to_vec();
    if !outbound.is_alone() {
        let partial = partial::begin(core, plan, channel, &path, outbound).await?;
        return Ok((path, partial));
    }
    let mut name = outbound.name();
    let mut follows = true;
    loop {
        // These are asked first, and in the same flight, so that they cost no round trip.
        let behind = core.call(channel, &Request::Stat { path: &path });
        let itself = core.call(channel, &Request::Lstat { path: &path });
        let begun = partial::begin(core, plan, channel, &path, outbound).await;
        let (behind, itself) = (kind_of(behind.await?, &path)?, kind_of(itself.await?, &path)?);
        let is_directory = behind == Some(FileKind::Directory);
        let is_link = follows && itself == Some(FileKind::Symlink);
        if !is_directory && !is_link {
            return Ok((path, begun?));
        }
        if let Ok(partial) = begun {
            partial.discard(core, plan, channel).await;
        }
        if is_directory {
            let Some(name) = name.take() else {
                return Err(cannot_write(&path, "it is a directory"));
            };
            path = join(&path, &name);
        } else if behind.is_none() {
            return Err(cannot_write(
                &path,
                "it is a symbolic link that leads nowhere; remove it first",
            ));
        } else {
            // A server that resolves nothing names the link again.
            follows = false;
            path = real_path(core, channel, path).await?;
        }
    }
}

fn cannot_write(path: &[u8], why: &str) -> Error {
    Error::permanent(format!(
        "cannot write to {} on the server: {why}",
        String::from_utf8_lossy(path)
    ))
}

/// The kind of the file; `None` for a missing file, and for a file that the server does not show.
fn kind_of(there: Reply, path: &[u8]) -> Result<Option<FileKind>, Error> {
    match there {
        Reply::Attrs(attrs) => Ok(Some(attrs.kind())),
        Reply::Status(_) => Ok(None),
        _ => Err(nonsense("STAT", path)),
    }
}

async fn real_path(core: &Shared, channel: usize, path: Vec<u8>) -> Result<Vec<u8>, Error> {
    match core.call(channel, &Request::Realpath { path: &path }).await? {
        Reply::Names(names) => Ok(names.into_iter().next().map_or(path, |name| name.file_name)),
        Reply::Status(status) => Err(refused("follow", &path, &status)),
        _ => Err(nonsense("REALPATH", &path)),
    }
}

/// Sends the body until every byte is acknowledged, verifies the file, and sets its attributes.
async fn send(
    core: &Shared,
    plan: &Plan,
    channel: usize,
    path: &[u8],
    partial: &mut Partial,
    outbound: &mut dyn Outbound,
    attempt: &mut FileAttempt,
) -> Result<(), Error> {
    let offset = partial.offset;
    let mut sender = outbound.sender(offset, &plan.settings)?;
    sender.round_trip = core.idle_rtt();
    attempt.offset = offset;
    attempt.acknowledged = offset;
    if sender.size == Some(0) {
        sender.left(Instant::now());
        attempt.sender = Some(sender);
    } else {
        move_bytes(core, channel, path, partial, outbound, attempt, Up::new(offset, sender)).await?;
    }
    if let Some(sender) = &mut attempt.sender {
        outbound.verify(sender)?;
    }
    if offset > 0 {
        check_size(core, channel, path, partial, attempt.acknowledged).await?;
    }
    set_attributes(core, channel, path, partial, outbound).await
}

async fn move_bytes(
    core: &Shared,
    channel: usize,
    path: &[u8],
    partial: &mut Partial,
    outbound: &mut dyn Outbound,
    attempt: &mut FileAttempt,
    up: Up,
) -> Result<(), Error> {
    let striped = up.sender.size.is_none_or(|size| size >= STRIPED);
    let (done, over) = oneshot::channel();
    let id = core.begin(OpenFile {
        path: path.to_vec(),
        home: channel,
        handles: vec![(channel, partial.handle.clone())],
        direction: Direction::Up(Box::new(up)),
        done,
    });
    attempt.reservation = None;
    let helpers = striped.then(|| stripe(core, channel, id, &partial.path, OpenFlags::WRITE, None));
    let progress = |moved| {
        partial.note(core, channel, core.acknowledged(id));
        outbound.progress(moved);
    };
    let ended = watch_progress(core, over, id, progress).await?;
    if let Direction::Up(up) = ended.direction {
        attempt.acknowledged = up.writes.contiguous();
        attempt.sender = Some(up.sender);
    }
    for (on, handle) in ended.handles.iter().filter(|(on, _)| *on != channel) {
        core.post(*on, &Request::Close { handle });
    }
    drop(helpers);
    ended.result
}

/// Checks the partial file's size, because another run, or another connection, has sent a part of it.
async fn check_size(core: &Shared, channel: usize, path: &[u8], partial: &Partial, sent: u64) -> Result<(), Error> {
    match core
        .call(
            channel,
            &Request::Fstat {
                handle: &partial.handle,
            },
        )
        .await?
    {
        Reply::Attrs(attrs) if attrs.size.is_none_or(|size| size == sent) => Ok(()),
        Reply::Attrs(_) | Reply::Status(_) => Err(Error::integrity(format!(
            "{}: the partial file on the server is not as long as what was sent: send it again",
            String::from_utf8_lossy(path)
        ))),
        _ => Err(nonsense("FSTAT", path)),
    }
}

/// Sets the attributes. Every byte has been acknowledged, so no WRITE of this run changes them any more.
async fn set_attributes(
    core: &Shared,
    channel: usize,
    path: &[u8],
    partial: &Partial,
    outbound: &dyn Outbound,
) -> Result<(), Error> {
    let asked_for = Attrs {
        permissions: outbound.perms(),
        times: outbound.modified().map(|time| (time, time)),
        ..Attrs::default()
    };
    let mut attrs = asked_for.clone();
    if attrs.permissions.is_none() {
        attrs.permissions = partial.mode(core, channel, outbound).await?;
    }
    if attrs == Attrs::default() {
        return Ok(());
    }
    let handle = &partial.handle;
    match core.call(channel, &Request::Fsetstat { handle, attrs: &attrs }).await? {
        Reply::Status(status) if status.code == StatusCode::Ok => Ok(()),
        // The user did not ask for this: it takes away the owner's write permission, which the local file lacks.
        _ if asked_for == Attrs::default() => Ok(()),
        _ => Err(Error::permanent(format!(
            "{}: the server does not set modification time or permissions; leave out --remote-time and --perms, or --mirror, which needs times",
            String::from_utf8_lossy(path)
        ))),
    }
}
