//! Makes the entries of a run and the tasks for them, by the options of the run.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use ferry_sftp::Attrs;

use super::super::download::{AttemptState, Destination};
use super::super::entry::{Entry, Kind, LocalFile};
use super::inbound::Download;
use super::outbound::{Opened, Upload};
use super::progress::{FileProgress, SetProgress};
use crate::error::Error;
use crate::log;
use crate::observer::Observer;
use crate::options::{ByteRange, Remote, TransferOptions};
use crate::sftp::{FileTask, Resume, Work};
use crate::sync::lock;
use crate::units::ByteSize;

pub struct TaskFactory {
    pub options: TransferOptions,
    pub overwrite: bool,
    pub resume: bool,
    pub range: Option<ByteRange>,
    /// An upload of one file keeps its name where the URL is a directory's.
    pub into_directory: bool,
    /// The local root of an upload of a tree.
    pub local_root: Option<PathBuf>,
    pub whole: Arc<SetProgress>,
    /// The remote of the run, for problems without a file of their own.
    pub root: Remote,
}

impl TaskFactory {
    pub fn new(options: &TransferOptions, observer: &dyn Observer, root: &Remote) -> Self {
        Self {
            options: options.clone(),
            overwrite: false,
            resume: false,
            range: None,
            into_directory: false,
            local_root: None,
            root: root.clone(),
            whole: SetProgress::new(observer.begin(&log::shown(&root.url), None)),
        }
    }

    pub fn download(&self, remote: &Remote, destination: Destination) -> Result<Entry, Error> {
        let state = AttemptState::of(&destination, &remote.url, self.overwrite, self.resume)?;
        let kind = Kind::Get {
            destination,
            overwrite: self.overwrite,
            range: self.range,
            state: Arc::new(Mutex::new(state)),
        };
        Ok(Entry::new(remote, kind, self.options.checksum.clone(), None))
    }

    pub fn upload(&self, remote: &Remote, local: LocalFile) -> Entry {
        let kind = Kind::Send {
            local,
            resume: if self.resume { Resume::IfThere } else { Resume::Never },
        };
        Entry::new(remote, kind, self.options.checksum.clone(), None)
    }

    pub fn task(&self, transfer: usize, entry: &Entry, attrs: Option<Attrs>) -> FileTask {
        let progress = FileProgress::new(&self.whole);
        let algorithm = self.options.checksum.as_ref().map(|checksum| checksum.algorithm.into());
        let work = match &entry.kind {
            Kind::Get {
                destination,
                overwrite,
                range,
                state,
            } => Work::Get(Box::new(Download {
                url: entry.remote.url.clone(),
                destination: destination.clone(),
                overwrite: *overwrite,
                algorithm,
                range: *range,
                max_filesize: self.options.max_filesize.map(ByteSize::bytes),
                remote_time: self.options.remote_time,
                perms: self.options.perms,
                state: Arc::clone(state),
                progress,
            })),
            Kind::Send { local, resume } => Work::Put(Box::new(Upload {
                path: local.path.clone(),
                into_directory: self.into_directory,
                remote_time: self.options.remote_time,
                perms: self.options.perms,
                source: lock(&local.opened).take(),
                opened: Opened::default(),
                length: local.length,
                checksum: self.options.checksum.clone(),
                resume: *resume,
                digest: None,
                progress,
                nonce: fastrand::u64(..),
            })),
            // The kinds of HTTP never come here.
            Kind::Put { .. } | Kind::Ranged(_) => unreachable!("HTTP in an SFTP run"),
        };
        FileTask {
            transfer,
            path: entry.remote.path.clone(),
            attrs,
            work,
        }
    }
}
