//! HTTP runs by their options: each becomes the scheduler's task.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use super::download::{AttemptState, Destination};
use super::entries::Coming;
use super::entry::{Entry, Kind};
use super::limit;
use super::ranged::{Ranged, Wanted};
use super::scheduler::{Asked, Run, Scheduler};
use crate::error::Error;
use crate::files;
use crate::log;
use crate::observer::Observer;
use crate::options::{GetOptions, PutOptions, Remote, Source, Target};
use crate::units::ByteSize;

pub fn get(options: &GetOptions, observer: &dyn Observer) -> Result<Run, Error> {
    // Destinations are checked before any server is asked, and each again when its turn comes.
    let mut ranged = false;
    for remote in &options.sources {
        ranged |= in_ranges(options, &state(options, remote)?);
    }
    let alone = options.sources.len() == 1;
    let several = alone && ranged && connections(options) > 1;
    let asked = Asked {
        coming: Coming::of(options.sources.iter(), move |remote| {
            download(options, remote, observer)
        }),
        encrypted: options.sources.iter().any(|remote| remote.url.scheme() == "https"),
        ranged,
        totals: options.totals,
        sync: options.sync,
        limit: limit(&options.transfer, options.limit_each || alone && !several),
        parallel: if alone && ranged {
            connections(options)
        } else if options.transfer.background {
            1
        } else {
            options.parallel.min(options.sources.len()).max(1)
        },
        unsafe_too: false,
    };
    Scheduler::new(asked, &options.common, &options.transfer)?.run()
}

fn destination(options: &GetOptions, remote: &Remote) -> Destination {
    match &options.target {
        Target::File(path) | Target::Tree(path) => Destination::File(path.clone()),
        Target::Directory(path) => Destination::File(path.join(remote.file_name.as_deref().unwrap_or_default())),
        Target::FromUrl => Destination::File(PathBuf::from(remote.file_name.clone().unwrap_or_default())),
        Target::Stdout => Destination::Stdout,
        Target::Discard => Destination::Discard,
    }
}

fn state(options: &GetOptions, remote: &Remote) -> Result<AttemptState, Error> {
    AttemptState::of(
        &destination(options, remote),
        &remote.url,
        options.overwrite,
        options.resume,
    )
}

/// The entry of a download whose turn has come.
fn download(options: &GetOptions, remote: &Remote, observer: &dyn Observer) -> Entry {
    let mut state = match state(options, remote) {
        Ok(state) => state,
        Err(problem) => return Entry::refused(remote, problem),
    };
    let destination = destination(options, remote);
    let kind = if in_ranges(options, &state) {
        let wanted = Wanted {
            asked: remote.url.clone(),
            destination,
            overwrite: options.overwrite,
            max_filesize: options.transfer.max_filesize.map(ByteSize::bytes),
            remote_time: options.transfer.remote_time,
            connections: connections(options),
        };
        Kind::Ranged(Box::new(Ranged::new(Arc::new(wanted), state.resumable.take())))
    } else {
        Kind::Get {
            destination,
            overwrite: options.overwrite,
            range: options.range,
            state: Arc::new(Mutex::new(state)),
        }
    };
    let bar = observer.begin(&log::shown(&remote.url), None);
    Entry::new(remote, kind, options.transfer.checksum.clone(), Some(bar))
}

fn connections(options: &GetOptions) -> usize {
    options.connections.max(1)
}

/// Returns true if a download is fetched in ranges: over several connections, or because an earlier run that did so has left
/// holes.
fn in_ranges(options: &GetOptions, state: &AttemptState) -> bool {
    let holes = state.resumable.as_ref().is_some_and(|found| !found.missing.is_empty());
    let several = connections(options) > 1 && options.sources.len() == 1 && options.target != Target::Stdout;
    options.range.is_none() && (several || holes)
}

pub fn put(options: &PutOptions, observer: &dyn Observer) -> Result<Run, Error> {
    let source = match &options.source {
        Source::File(path) | Source::Directory(path) => files::Source::open(path)?,
        Source::Stdin => files::Source::stdin()?,
    };
    let bar = observer.begin(&log::shown(&options.destination.url), source.length());
    let mut once = Some((source, bar));
    let make = move |remote: &Remote| {
        let (source, bar) = once.take().unzip();
        let kind = Kind::Put {
            source,
            method: options.method.clone(),
        };
        Entry::new(remote, kind, options.transfer.checksum.clone(), bar)
    };
    let asked = Asked {
        coming: Coming::of(std::iter::once(&options.destination), make),
        encrypted: options.destination.url.scheme() == "https",
        ranged: false,
        totals: false,
        sync: true,
        limit: limit(&options.transfer, true),
        parallel: 1,
        unsafe_too: options.retry_unsafe,
    };
    Scheduler::new(asked, &options.common, &options.transfer)?.run()
}
