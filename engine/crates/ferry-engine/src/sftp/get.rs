//! One download, from OPEN to CLOSE.

use std::time::Instant;

use ferry_sftp::{Attrs, FileKind, OpenFlags, Reply, Request};
use tokio::sync::oneshot;

use super::attempt::{FileAttempt, STRIPED, close, handle_of, stripe, watch};
use super::core::Shared;
use super::open_file::{Direction, Down, OpenFile};
use super::{Inbound, Plan, nonsense, refused};
use crate::error::Error;

/// Asked for at once of a file of unknown size.
const UNKNOWN_AHEAD: u64 = 2 << 20;

pub async fn run(
    core: &Shared,
    plan: &Plan,
    channel: usize,
    path: &[u8],
    listed: Option<&Attrs>,
    inbound: &mut dyn Inbound,
    attempt: &mut FileAttempt,
) -> Result<(), Error> {
    let stat = listed.is_none().then(|| core.call(channel, &Request::Stat { path }));
    let none = Attrs::default();
    let open = core.call(
        channel,
        &Request::Open {
            path,
            flags: OpenFlags::READ,
            attrs: &none,
        },
    );
    let attrs = match (listed, stat) {
        (Some(attrs), _) => Ok(attrs.clone()),
        (None, Some(stat)) => match stat.await? {
            Reply::Attrs(attrs) => Ok(attrs),
            Reply::Status(status) => Err(refused("read", path, &status)),
            _ => Err(nonsense("STAT", path)),
        },
        (None, None) => Ok(none.clone()),
    };
    let handle = handle_of(open.await?, "read", path);
    let attrs = match (attrs, &handle) {
        (Ok(attrs), _) if attrs.kind() == FileKind::Directory => {
            close(core, channel, handle.ok());
            return Err(Error::permanent(format!(
                "{} on the server is a directory: --recursive fetches trees",
                String::from_utf8_lossy(path)
            )));
        }
        (Ok(attrs), _) => attrs,
        (Err(problem), _) => {
            close(core, channel, handle.ok());
            return Err(problem);
        }
    };
    let handle = handle?;
    let incoming = match inbound.open(&attrs, &plan.settings) {
        Ok(incoming) => incoming,
        Err(problem) => {
            close(core, channel, Some(handle));
            return Err(problem);
        }
    };
    attempt.offset = incoming.begin;
    let whole = incoming.end.is_none();
    // A size of 0 may be a device's or /proc's, which know their end only when it is there.
    let end = incoming.end.or(attrs.size.filter(|size| *size > 0));
    let (trailer, still) = oneshot::channel();
    let mut down = Down::new(incoming.receiver, incoming.begin, end, trailer);
    if end.is_none() {
        // Nobody knows where it ends: most files of "0 bytes" have none.
        down.ahead = if attrs.size == Some(0) { 1 } else { UNKNOWN_AHEAD };
    }
    let (done, over) = oneshot::channel();
    if down.try_finish(Instant::now()) {
        close(core, channel, Some(handle));
        attempt.receiver = Some(down.receiver);
        return Ok(());
    }
    let id = core.begin(OpenFile {
        path: path.to_vec(),
        home: channel,
        handles: vec![(channel, handle)],
        direction: Direction::Down(Box::new(down)),
        done,
    });
    attempt.reservation = None;
    let large = end.is_some_and(|end| end.saturating_sub(attempt.offset) >= STRIPED);
    let helpers = large.then(|| stripe(core, channel, id, path, OpenFlags::READ));
    let ended = watch(core, over, id, |moved| inbound.progress(moved)).await?;
    drop(helpers);
    for (on, handle) in &ended.handles {
        core.post(*on, &Request::Close { handle });
    }
    if let Direction::Down(down) = ended.direction {
        attempt.receiver = Some(down.receiver);
    }
    ended.result?;
    // Asked behind the last READ, so the answer is here, unless the last READs had to be repeated.
    if whole
        && attrs.size.is_some_and(|size| size > 0)
        && let Ok(Ok(Reply::Attrs(now))) = still.await
        && (now.size != attrs.size || now.times.map(|times| times.1) != attrs.times.map(|times| times.1))
    {
        return Err(Error::integrity(format!(
            "{} was changed on the server while it was being fetched: fetch it again",
            String::from_utf8_lossy(path)
        )));
    }
    Ok(())
}
