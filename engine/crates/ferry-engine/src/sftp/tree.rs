//! Trees on the server: listed without a round trip per name, and made without one per directory.

use std::collections::VecDeque;

use ferry_sftp::{Attrs, FileKind, Handle, Name, Reply, Request, StatusCode};
use tokio::task::JoinSet;

use super::core::{Core, Shared};
use super::in_turn::in_turn;
use super::opening;
use super::{nonsense, refused};
use crate::error::{Class, Error};
use crate::files::safe_component;
use crate::filter::Filter;

/// The READDIRs asked for at once; those behind the last names cost only an EOF each.
const READDIRS: usize = 8;
/// The directories that are being listed at once.
const LISTINGS: usize = 16;
/// The deepest directory: a deeper one means a loop or an attack, as do more names than the numbers below.
const DEEPEST: usize = 128;
const MOST_NAMES: usize = 1 << 20;
const MOST_NAMES_IN_A_TREE: usize = 1 << 24;

/// An item of a listed tree.
pub struct Found {
    /// Names from the tree's root down, as the server gave them: their safety has not been checked.
    pub names: Vec<Vec<u8>>,
    /// The path on the server.
    pub path: Vec<u8>,
    pub attrs: Attrs,
    /// The reason why nothing below a directory will be told, in a second message about that directory.
    pub unlisted: Option<Error>,
    /// True if the filter's rules for names keep the item out; an excluded directory is not listed.
    pub excluded: bool,
}

/// Lists a tree breadth first; `each` is told of the root and everything in it, directories before what they hold. A file instead of a directory is
/// told as the only thing found, without names. A directory below the root that cannot be listed does not stop the others. While `each` takes its
/// time, nothing further is listed.
pub async fn list(
    core: &Shared,
    channel: usize,
    root: Vec<u8>,
    filter: &Filter,
    mut each: impl AsyncFnMut(Found),
) -> Result<(), Error> {
    let reply = core.call(channel, &Request::Stat { path: &root }).await?;
    let attrs = match reply {
        Reply::Attrs(attrs) => attrs,
        Reply::Status(status) => return Err(refused("list", &root, &status)),
        _ => return Err(nonsense("STAT", &root)),
    };
    if attrs.kind() != FileKind::Directory {
        each(Found {
            names: Vec::new(),
            path: root,
            attrs,
            unlisted: None,
            excluded: false,
        })
        .await;
        return Ok(());
    }
    each(Found {
        names: Vec::new(),
        path: root.clone(),
        attrs,
        unlisted: None,
        excluded: false,
    })
    .await;
    let mut waiting: VecDeque<(Vec<Vec<u8>>, Vec<u8>)> = VecDeque::from([(Vec::new(), root)]);
    let mut running = JoinSet::new();
    let mut count = 0;
    loop {
        while running.len() < LISTINGS
            && let Some((names, path)) = waiting.pop_front()
        {
            let core = core.clone();
            running.spawn_local(async move {
                let entries = read_directory(&core, channel, &path).await;
                (names, path, entries)
            });
        }
        let Some(joined) = running.join_next().await else {
            return Ok(());
        };
        let (names, path, entries) =
            joined.map_err(|error| Error::transient(format!("listing was cut short: {error}")).with_source(error))?;
        let entries = match entries {
            Ok(entries) => entries,
            Err(problem) if names.is_empty() || problem.class == Class::Transient => return Err(problem),
            Err(problem) => {
                each(Found {
                    names,
                    path,
                    attrs: Attrs::default(),
                    unlisted: Some(problem),
                    excluded: false,
                })
                .await;
                continue;
            }
        };
        count += entries.len();
        if count > MOST_NAMES_IN_A_TREE {
            return Err(too_many("the tree", &path, MOST_NAMES_IN_A_TREE));
        }
        for entry in entries {
            let mut below = names.clone();
            let (name, attrs) = entry;
            let child = join(&path, &name);
            // A name that is not safe may lead back up the tree, so the directory is reported and not listed.
            let is_directory = attrs.kind() == FileKind::Directory && safe_component(&name).is_ok();
            below.push(name);
            let depth = below.len();
            let excluded = !filter.takes_name(&below, attrs.kind() == FileKind::Directory);
            let found = |unlisted| Found {
                names: below.clone(),
                path: child.clone(),
                attrs: attrs.clone(),
                unlisted,
                excluded,
            };
            each(found(None)).await;
            if excluded {
                continue;
            }
            if is_directory && depth > DEEPEST {
                each(found(Some(Error::permanent(format!(
                    "{} is more than {DEEPEST} directories deep",
                    String::from_utf8_lossy(&child)
                )))))
                .await;
            } else if is_directory {
                waiting.push_back((below, child));
            }
        }
    }
}

/// Does what `list` does, for a directory that need not be there.
pub async fn list_if_there(
    core: &Shared,
    channel: usize,
    root: Vec<u8>,
    filter: &Filter,
    each: impl AsyncFnMut(Found),
) -> Result<(), Error> {
    let there = core.call(channel, &Request::Stat { path: &root }).await?;
    if matches!(there, Reply::Status(status) if status.code == StatusCode::NoSuchFile) {
        return Ok(());
    }
    list(core, channel, root, filter, each).await
}

/// Names and attributes; the server's text for people would be as long again.
type Entries = Vec<(Vec<u8>, Attrs)>;

async fn read_directory(core: &Core, channel: usize, path: &[u8]) -> Result<Entries, Error> {
    let mut room = core.handles.room(channel).await;
    let request = Request::Opendir { path };
    let first = core.call(channel, &request);
    let handle = match opening::open(core, &mut room, first, &request).await? {
        Reply::Handle(handle) => handle,
        Reply::Status(status) => return Err(refused("list", path, &status)),
        _ => return Err(nonsense("OPENDIR", path)),
    };
    let entries = read_entries(core, channel, path, &handle).await;
    core.post(channel, &Request::Close { handle: &handle });
    let mut entries = entries?;
    entries.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(entries)
}

async fn read_entries(core: &Core, channel: usize, path: &[u8], handle: &Handle) -> Result<Entries, Error> {
    let mut entries = Vec::new();
    let mut asked = VecDeque::new();
    let mut ended = false;
    loop {
        while !ended && asked.len() < READDIRS {
            asked.push_back(core.call(channel, &Request::Readdir { handle }));
        }
        let Some(answer) = asked.pop_front() else {
            return Ok(entries);
        };
        match answer.await? {
            // An empty answer is the end, as it is for OpenSSH's client.
            Reply::Names(names) if names.is_empty() => ended = true,
            Reply::Names(names) => {
                let real = names
                    .into_iter()
                    .filter(|name| name.file_name != b"." && name.file_name != b"..");
                entries.extend(real.map(|name| (name.file_name, name.attrs)));
                if entries.len() > MOST_NAMES {
                    return Err(too_many("the directory", path, MOST_NAMES));
                }
            }
            Reply::Status(status) if status.code == StatusCode::Eof => ended = true,
            Reply::Status(status) => return Err(refused("list", path, &status)),
            _ => return Err(nonsense("READDIR", path)),
        }
    }
}

/// Tells the first names of an open directory, and closes it.
pub async fn read_some(core: &Core, channel: usize, handle: &Handle, most: usize, mut each: impl FnMut(Name)) {
    let mut count = 0;
    while count < most.min(MOST_NAMES) {
        match core.call(channel, &Request::Readdir { handle }).await {
            Ok(Reply::Names(names)) if !names.is_empty() => {
                count += names.len();
                names.into_iter().for_each(&mut each);
            }
            _ => break,
        }
    }
    core.post(channel, &Request::Close { handle });
}

fn too_many(what: &str, path: &[u8], most: usize) -> Error {
    let path = String::from_utf8_lossy(path);
    Error::permanent(format!(
        "cannot list {path}: {what} has more than {most} names, or no end"
    ))
}

/// Makes directories: a server works through one channel's requests in order, so parents are there before children. A directory
/// that is there already is no failure.
pub async fn make(core: &Core, channel: usize, directories: &[Vec<u8>]) -> Result<(), Error> {
    let attrs = Attrs::default();
    let ask = |path: &&Vec<u8>| {
        let made = core.call(channel, &Request::Mkdir { path, attrs: &attrs });
        // Version 3 has no "exists": the path is looked at in any case, which costs no round trip.
        let there = core.call(channel, &Request::Stat { path });
        async move { Ok((made.await?, there.await?)) }
    };
    in_turn(directories, ask, |path, answers| match answers {
        (_, Reply::Attrs(attrs)) if matches!(attrs.kind(), FileKind::Directory | FileKind::Unknown) => Ok(()),
        (Reply::Status(status), _) if status.code != StatusCode::Ok => {
            Err(refused("make the directory", path, &status))
        }
        _ => Err(nonsense("MKDIR", path)),
    })
    .await
}

/// Sets permission bits, in this order.
pub async fn set_modes(core: &Core, channel: usize, modes: &[(Vec<u8>, u32)]) -> Result<(), Error> {
    let ask = |(path, mode): &&(Vec<u8>, u32)| {
        let attrs = Attrs {
            permissions: Some(*mode),
            ..Attrs::default()
        };
        core.call(channel, &Request::Setstat { path, attrs: &attrs })
    };
    in_turn(modes, ask, |(path, _), reply| match reply {
        Reply::Status(status) if status.code == StatusCode::Ok => Ok(()),
        Reply::Status(status) => Err(refused("set the permissions of", path, &status)),
        _ => Err(nonsense("SETSTAT", path)),
    })
    .await
}

/// `directory/name`.
pub fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = directory.to_vec();
    if !path.is_empty() && !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
