//! The step that gives an upload its name. Nothing of the user's is removed before the new file is in place.

use ferry_sftp::{FileKind, Handle, Reply, Request, Status, StatusCode};

use super::core::Shared;
use super::naming::aside_of;
use super::{Plan, nonsense, refused};
use crate::error::Error;

/// The failure to give an upload its name.
pub struct Failure {
    pub problem: Error,
    /// True if the partial file stays in its place: it is the only new one, and the old one has lost its name.
    pub keep: bool,
}

impl From<Error> for Failure {
    fn from(problem: Error) -> Self {
        Self { problem, keep: false }
    }
}

/// Brings the file to the server's disk, if the plan asks for that, and then to its name.
pub async fn publish(
    core: &Shared,
    plan: &Plan,
    channel: usize,
    handle: &Handle,
    partial: &[u8],
    path: &[u8],
) -> Result<(), Failure> {
    let synced = plan.sync && core.has(channel, "fsync@openssh.com");
    if synced {
        let reply = core.call_patiently(channel, &Request::Fsync { handle }).await?;
        if let Some(status) = refusal(reply, "FSYNC", path)? {
            core.post(channel, &Request::Close { handle });
            return Err(refused("bring to disk", path, &status).into());
        }
    }
    let closed = core.call_patiently(channel, &Request::Close { handle });
    let atomic = core.has(channel, "posix-rename@openssh.com");
    let rename = || {
        let (from, to) = (partial, path);
        core.call_patiently(
            channel,
            &if atomic {
                Request::PosixRename { from, to }
            } else {
                Request::Rename { from, to }
            },
        )
    };
    // After an fsync a CLOSE has nothing left to say, and need not be waited for.
    let mut renamed = synced.then(&rename);
    if let Some(status) = refusal(closed.await?, "CLOSE", path)? {
        return Err(refused("close", path, &status).into());
    }
    let reply = match renamed.take() {
        Some(renamed) => renamed.await?,
        None => rename().await?,
    };
    match refusal(reply, "RENAME", path)? {
        None => Ok(()),
        Some(status) if status.code == StatusCode::NoSuchFile => Err(taken_over(path).into()),
        Some(status) if atomic || !may_exist(&status) => Err(refused(RENAME, path, &status).into()),
        Some(status) => replace(core, plan, channel, partial, path, &status).await,
    }
}

/// The error for a partial file that is gone: only runs that have listed the directory know its name.
fn taken_over(path: &[u8]) -> Error {
    Error::transient(format!(
        "cannot give its name to {}: another run has gone on with its partial file, or removed it",
        String::from_utf8_lossy(path)
    ))
}

const RENAME: &str = "give its name to";

/// Replaces a file under version 3, whose RENAME replaces nothing: the old file steps aside, and comes back if the new one cannot
/// take its place.
async fn replace(
    core: &Shared,
    plan: &Plan,
    channel: usize,
    partial: &[u8],
    path: &[u8],
    first: &Status,
) -> Result<(), Failure> {
    let there = core.call(channel, &Request::Lstat { path }).await?;
    let replaceable = match &there {
        Reply::Attrs(attrs) => matches!(attrs.kind(), FileKind::Regular | FileKind::Symlink | FileKind::Unknown),
        _ => false,
    };
    if !replaceable {
        return Err(refused(RENAME, path, first).into());
    }
    let rename = async |from: &[u8], to: &[u8]| {
        let reply = core.call(channel, &Request::Rename { from, to }).await?;
        refusal(reply, "RENAME", path)
    };
    let aside = aside_of(partial);
    plan.uploads.steps_aside(path, &aside);
    if rename(path, &aside).await?.is_some() {
        return Err(refused(RENAME, path, first).into());
    }
    let why = match rename(partial, path).await {
        Ok(None) => return Ok(()),
        Ok(Some(status)) if status.code == StatusCode::NoSuchFile => taken_over(path),
        Ok(Some(status)) => refused(RENAME, path, &status),
        Err(problem) => problem,
    };
    if matches!(rename(&aside, path).await, Ok(None)) {
        return Err(why.into());
    }
    let shown = String::from_utf8_lossy;
    let places = Error::new(
        why.class,
        format!(
            "{}; on the server the file that was there is now {}, and the new one {}",
            why.message,
            shown(&aside),
            shown(partial)
        ),
    );
    Err(Failure {
        problem: Error {
            message: places.message,
            ..why
        },
        keep: true,
    })
}

/// Returns true if a RENAME may have failed because the name is taken already.
fn may_exist(status: &Status) -> bool {
    matches!(
        status.code,
        StatusCode::Failure | StatusCode::PermissionDenied | StatusCode::Other(_)
    )
}

/// Returns the status if it is no success.
fn refusal(reply: Reply, what: &str, path: &[u8]) -> Result<Option<Status>, Error> {
    match reply {
        Reply::Status(status) if status.code == StatusCode::Ok => Ok(None),
        Reply::Status(status) => Ok(Some(status)),
        _ => Err(nonsense(what, path)),
    }
}
