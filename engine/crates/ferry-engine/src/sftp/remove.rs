//! Removes what a mirror has too much, without leaving the tree that was listed.

use ferry_sftp::{FileKind, Reply, Request, StatusCode};

use super::core::Core;
use super::{nonsense, refused};
use crate::error::Error;

/// Requests in one flight.
const AT_ONCE: usize = 128;

/// What is to be removed.
pub struct Doomed {
    pub path: Vec<u8>,
    pub directory: bool,
}

/// Removes `doomed` in this order, and tells each one. A server works through one channel's requests in order, so a directory is empty when its
/// turn comes. `directories` are those in which something is removed: a server that lists what is behind a symbolic link as if it were a
/// directory would lead out of the tree, so each must be one by itself before anything is removed.
pub async fn remove(
    core: &Core,
    channel: usize,
    directories: &[Vec<u8>],
    doomed: &[Doomed],
    mut each: impl FnMut(&Doomed),
) -> Result<(), Error> {
    for batch in directories.chunks(AT_ONCE) {
        let asked: Vec<_> = batch
            .iter()
            .map(|path| (path, core.call(channel, &Request::Lstat { path })))
            .collect();
        for (path, reply) in asked {
            match reply.await? {
                Reply::Attrs(attrs) if attrs.kind() == FileKind::Directory => {}
                // An earlier session got as far.
                Reply::Status(status) if status.code == StatusCode::NoSuchFile => {}
                Reply::Status(status) => return Err(refused("look at", path, &status)),
                _ => {
                    return Err(Error::permanent(format!(
                        "{} on the server is no directory by itself: nothing was removed",
                        String::from_utf8_lossy(path)
                    )));
                }
            }
        }
    }
    for batch in doomed.chunks(AT_ONCE) {
        let asked: Vec<_> = batch
            .iter()
            .map(|each| {
                let path = each.path.as_slice();
                let request = if each.directory {
                    Request::Rmdir { path }
                } else {
                    Request::Remove { path }
                };
                (each, core.call(channel, &request))
            })
            .collect();
        for (one, reply) in asked {
            match reply.await? {
                Reply::Status(status) if matches!(status.code, StatusCode::Ok | StatusCode::NoSuchFile) => each(one),
                Reply::Status(status) => return Err(refused("remove", &one.path, &status)),
                _ => return Err(nonsense("REMOVE", &one.path)),
            }
        }
    }
    Ok(())
}
