//! How an upload gets its name. Nothing of the user's is removed before the new file is in place.

use ferry_sftp::{FileKind, Handle, Reply, Request, Status, StatusCode};

use super::core::Shared;
use super::tree::join;
use super::{Plan, nonsense, refused};
use crate::error::Error;

/// The upload has not got its name.
pub struct Failure {
    pub problem: Error,
    /// The partial file is the only new one, and the old one has lost its name: it stays where it is.
    pub keep: bool,
}

impl From<Error> for Failure {
    fn from(problem: Error) -> Self {
        Self { problem, keep: false }
    }
}

/// To the server's disk, and then to its name.
pub async fn publish(
    core: &Shared,
    plan: &Plan,
    channel: usize,
    handle: Handle,
    partial: &[u8],
    path: &[u8],
) -> Result<(), Failure> {
    let synced = plan.sync && core.has(channel, "fsync@openssh.com");
    if synced {
        let reply = core.call(channel, &Request::Fsync { handle: &handle }).await?;
        if let Some(status) = refusal(reply, "FSYNC", path)? {
            core.post(channel, &Request::Close { handle: &handle });
            return Err(refused("bring to disk", path, &status).into());
        }
    }
    let closed = core.call(channel, &Request::Close { handle: &handle });
    let atomic = core.has(channel, "posix-rename@openssh.com");
    let rename = || {
        let (from, to) = (partial, path);
        core.call(
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
        None if atomic => Ok(()),
        // An earlier attempt may have ended between its renames.
        None => clear(core, channel, partial).await,
        Some(status) if atomic || !may_exist(&status) => Err(refused(RENAME, path, &status).into()),
        Some(status) => replace(core, channel, partial, path, &status).await,
    }
}

const RENAME: &str = "give its name to";

/// Version 3 renames over nothing: the old file steps aside, and comes back if the new one cannot take its place.
async fn replace(core: &Shared, channel: usize, partial: &[u8], path: &[u8], first: &Status) -> Result<(), Failure> {
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
    let mut aside = None;
    for name in aside_names(partial) {
        if rename(path, &name).await?.is_none() {
            aside = Some(name);
            break;
        }
    }
    let Some(aside) = aside else {
        return Err(refused(RENAME, path, first).into());
    };
    let why = match rename(partial, path).await {
        Ok(None) => return clear(core, channel, partial).await,
        Ok(Some(status)) => refused(RENAME, path, &status),
        Err(problem) => problem,
    };
    if matches!(rename(&aside, path).await, Ok(None)) {
        return Err(why.into());
    }
    let shown = String::from_utf8_lossy;
    Err(Failure {
        problem: Error {
            message: format!(
                "{}; on the server the file that was there is now {}, and the new one {}",
                why.message,
                shown(&aside),
                shown(partial)
            ),
            ..why
        },
        keep: true,
    })
}

/// Removes what was replaced, now that the new file has its name.
async fn clear(core: &Shared, channel: usize, partial: &[u8]) -> Result<(), Failure> {
    let names = aside_names(partial);
    let asked = names
        .each_ref()
        .map(|path| core.call(channel, &Request::Remove { path }));
    for (name, reply) in names.iter().zip(asked) {
        match refusal(reply.await?, "REMOVE", name)? {
            None => {}
            Some(status) if status.code == StatusCode::NoSuchFile => {}
            Some(status) => return Err(refused("remove the file that was replaced, now", name, &status).into()),
        }
    }
    Ok(())
}

/// Whether a RENAME may have failed because something has that name already.
fn may_exist(status: &Status) -> bool {
    matches!(
        status.code,
        StatusCode::Failure | StatusCode::PermissionDenied | StatusCode::Other(_)
    )
}

/// What a status says that is no success.
fn refusal(reply: Reply, what: &str, path: &[u8]) -> Result<Option<Status>, Error> {
    match reply {
        Reply::Status(status) if status.code == StatusCode::Ok => Ok(None),
        Reply::Status(status) => Ok(Some(status)),
        _ => Err(nonsense(what, path)),
    }
}

/// Where a file waits that is being replaced. Two names, because an earlier run may have left the first.
fn aside_names(partial: &[u8]) -> [Vec<u8>; 2] {
    let stem = partial.strip_suffix(b".ferry-part").unwrap_or(partial);
    [b".ferry-old0", b".ferry-old1"].map(|suffix| [stem, suffix].concat())
}

/// `.NAME.STAMP.ferry-part` beside the target. Long names are cut, because 255 bytes are all that most file systems take.
pub fn partial_name(path: &[u8], fingerprint: &str) -> Vec<u8> {
    let split = path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    let (directory, name) = path.split_at(split);
    let rest = format!(".{fingerprint}.ferry-part");
    let mut hidden = b".".to_vec();
    hidden.extend_from_slice(name.get(..255 - 1 - rest.len()).unwrap_or(name));
    hidden.extend_from_slice(rest.as_bytes());
    join(directory, &hidden)
}

#[cfg(test)]
mod tests {
    use super::{aside_names, partial_name};

    #[test]
    fn partial_files_lie_beside_their_target_under_a_name_that_fits() {
        assert_eq!(partial_name(b"/up/a.iso", "0123"), b"/up/.a.iso.0123.ferry-part");
        assert_eq!(partial_name(b"a.iso", "0123"), b".a.iso.0123.ferry-part");
        let long = partial_name(&[b'x'; 255], "0123456789abcdef");
        assert_eq!(long.len(), 255);
        assert!(long.ends_with(b".0123456789abcdef.ferry-part"));
    }

    #[test]
    fn a_file_that_is_replaced_waits_beside_its_successor() {
        let [first, second] = aside_names(b"/up/.a.iso.0123.ferry-part");
        assert_eq!(first, b"/up/.a.iso.0123.ferry-old0");
        assert_eq!(second, b"/up/.a.iso.0123.ferry-old1");
    }
}
