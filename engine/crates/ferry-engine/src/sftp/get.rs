//! One download, from OPEN to CLOSE.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ferry_sftp::{Attrs, FileKind, OpenFlags, Reply, Request};
use tokio::sync::oneshot;

use super::attempt::{FileAttempt, STRIPED, close, handle_of, stripe, watch_progress};
use super::core::{Shared, lost};
use super::open_file::{Direction, Down, OpenFile};
use super::opening;
use super::{Inbound, Plan, nonsense, refused};
use crate::error::Error;

/// The bytes asked for at once of a file of unknown size.
const UNKNOWN_AHEAD: u64 = 2 << 20;
/// The age gap beyond which two versions have different times.
const SETTLED: Duration = Duration::from_secs(2);

pub async fn run(
    core: &Shared,
    plan: &Plan,
    channel: usize,
    path: &[u8],
    listed: Option<&Attrs>,
    inbound: &mut dyn Inbound,
    attempt: &mut FileAttempt,
) -> Result<(), Error> {
    let mut room = core.handles.room(channel).await;
    let stat = listed.is_none().then(|| core.call(channel, &Request::Stat { path }));
    let none = Attrs::default();
    let request = Request::Open {
        path,
        flags: OpenFlags::READ,
        attrs: &none,
    };
    let first = core.call(channel, &request);
    let attrs = match (listed, stat) {
        (Some(attrs), _) => Ok(attrs.clone()),
        (None, Some(stat)) => match stat.await? {
            Reply::Attrs(attrs) => Ok(attrs),
            Reply::Status(status) => Err(refused("read", path, &status)),
            _ => Err(nonsense("STAT", path)),
        },
        (None, None) => Ok(none.clone()),
    };
    let opened = opening::open(core, &mut room, first, &request).await?;
    let handle = handle_of(opened, "read", path);
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
    // A size of 0 may be that of a device or of a file in /proc, whose end is known only once it is reached.
    let end = incoming.end.or(attrs.size.filter(|size| *size > 0));
    let (trailer, still) = oneshot::channel();
    let mut down = Down::new(incoming.receiver, incoming.begin, end, trailer);
    if end.is_none() {
        // The end is unknown: most files of "0 bytes" have no bytes.
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
        handles: vec![(channel, handle.clone())],
        direction: Direction::Down(Box::new(down)),
        done,
    });
    attempt.reservation = None;
    let large = end.is_some_and(|end| end.saturating_sub(attempt.offset) >= STRIPED);
    let helpers = (large && tells_versions_apart(&attrs, SystemTime::now()))
        .then(|| stripe(core, channel, id, path, OpenFlags::READ, Some(&handle)));
    let ended = watch_progress(core, over, id, |moved| inbound.progress(moved)).await?;
    for (on, handle) in ended.handles.iter().filter(|(on, _)| *on != channel) {
        core.post(*on, &Request::Close { handle });
    }
    drop(helpers);
    let mut asked_behind = None;
    let mut filled = false;
    if let Direction::Down(mut down) = ended.direction {
        filled = attrs.size == Some(0) && down.next > attempt.offset;
        // The request was never sent if the last READs had to be repeated.
        asked_behind = down.trailer.take().is_none().then_some(still);
        attempt.receiver = Some(down.receiver);
    }
    let known = whole && (filled || attrs.size.is_some_and(|size| size > 0));
    let now = match asked_behind {
        Some(answer) if ended.result.is_ok() && known => answer.await.unwrap_or_else(|_| Err(lost())),
        _ if ended.result.is_ok() && known => core.call(channel, &Request::Fstat { handle: &handle }).await,
        _ => Ok(Reply::Attrs(attrs.clone())),
    };
    close(core, channel, Some(handle));
    ended.result?;
    if unchanged(&attrs, &now?, filled, attempt.offset) {
        return Ok(());
    }
    Err(Error::integrity(format!(
        "{} was changed on the server while it was being fetched: fetch it again",
        String::from_utf8_lossy(path)
    )))
}

/// Returns true if the file is still the version that STAT told in `before`, by the answer to FSTAT behind its last byte.
/// `filled`: STAT told no bytes, and some came.
fn unchanged(before: &Attrs, answer: &Reply, filled: bool, begun_at: u64) -> bool {
    match answer {
        // A device or a file of /proc has a size of 0 even now. A file with another size was empty at STAT, and has been written
        // since.
        Reply::Attrs(now) if filled => now.size == Some(0),
        Reply::Attrs(now) => now.size == before.size && modified(now) == modified(before),
        // The server has no FSTAT. An earlier attempt's bytes were of the version that STAT has told; those of this attempt need
        // not be.
        _ => begun_at == 0,
    }
}

fn modified(attrs: &Attrs) -> Option<u32> {
    attrs.times.map(|times| times.1)
}

/// Returns true if another version of this file would have another time. Times are whole seconds, so two versions of the same
/// second have the same time, and often the same size. The clock is the local one, which may differ from the server's.
fn tells_versions_apart(attrs: &Attrs, now: SystemTime) -> bool {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    modified(attrs).is_some_and(|modified| Duration::from_secs(modified.into()) + SETTLED <= now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_last_two_seconds_is_read_through_one_handle() {
        let at = |seconds: u64| UNIX_EPOCH + Duration::from_secs(seconds);
        let mut attrs = Attrs::default();
        assert!(!tells_versions_apart(&attrs, at(1000)), "no time at all");
        attrs.times = Some((0, 1000));
        assert!(tells_versions_apart(&attrs, at(1002)));
        assert!(!tells_versions_apart(&attrs, at(1001)));
        assert!(!tells_versions_apart(&attrs, at(900)), "the server's clock is ahead");
    }
}
