//! Removes the surplus of a mirror, without leaving the tree that was listed.

use ferry_sftp::{FileKind, Reply, Request, StatusCode};

use super::core::Core;
use super::in_turn::in_turn;
use super::{nonsense, refused};
use crate::error::Error;

/// An item to be removed.
pub struct Doomed {
    pub path: Vec<u8>,
    pub directory: bool,
}

/// Removes `doomed` in this order, and tells `removed` of each item. A server works through one channel's requests in order, so a
/// directory is empty when its turn comes. `directories` are those in which something is removed. A server that lists the target
/// of a symbolic link as if the link were a directory would lead out of the tree, so each of them must itself be a directory
/// before anything is removed.
pub async fn remove(
    core: &Core,
    channel: usize,
    directories: &[Vec<u8>],
    doomed: &[Doomed],
    mut removed: impl FnMut(&Doomed),
) -> Result<(), Error> {
    let look = |path: &&Vec<u8>| core.call(channel, &Request::Lstat { path });
    in_turn(directories, look, |path, reply| match reply {
        Reply::Attrs(attrs) if attrs.kind() == FileKind::Directory => Ok(()),
        // An earlier session has removed this directory.
        Reply::Status(status) if status.code == StatusCode::NoSuchFile => Ok(()),
        Reply::Status(status) => Err(refused("look at", path, &status)),
        _ => Err(Error::permanent(format!(
            "{} on the server is no directory by itself: nothing was removed",
            String::from_utf8_lossy(path)
        ))),
    })
    .await?;
    let ask = |one: &&Doomed| {
        let path = one.path.as_slice();
        let request = if one.directory {
            Request::Rmdir { path }
        } else {
            Request::Remove { path }
        };
        core.call(channel, &request)
    };
    in_turn(doomed, ask, |one, reply| match reply {
        Reply::Status(status) if matches!(status.code, StatusCode::Ok | StatusCode::NoSuchFile) => {
            removed(one);
            Ok(())
        }
        Reply::Status(status) => Err(refused("remove", &one.path, &status)),
        _ => Err(nonsense("REMOVE", &one.path)),
    })
    .await
}
