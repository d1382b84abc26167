//! Entries of the books, and the tasks made of them; what it knows holds for the whole run.

use std::sync::{Arc, Mutex};

use ferry_sftp::Attrs;

use super::super::download::{Notes, Place};
use super::super::entry::{Entry, Kind, Local};
use super::inbound::Download;
use super::outbound::Upload;
use super::progress::{Share, Whole};
use crate::cli::progress::Progress;
use crate::cli::{Common, RangeArg, Remote, TransferOptions};
use crate::report::Problem;
use crate::sftp::{FileTask, Resume, Work};

pub struct Maker {
    pub options: TransferOptions,
    pub overwrite: bool,
    pub resume: bool,
    pub range: Option<RangeArg>,
    pub whole: Arc<Whole>,
}

impl Maker {
    pub fn new(options: &TransferOptions, common: &Common, name: &str) -> Self {
        let bar = Progress::new(common.progress).transfer(name, None);
        Self {
            options: options.clone(),
            overwrite: false,
            resume: false,
            range: None,
            whole: Whole::new(bar),
        }
    }

    pub fn download(&self, remote: &Remote, place: Place) -> Result<Entry, Problem> {
        let notes = Notes::of(&place, &remote.url, self.overwrite, self.resume)?;
        let kind = Kind::Get {
            place,
            overwrite: self.overwrite,
            range: self.range,
            notes: Arc::new(Mutex::new(notes)),
        };
        Ok(Entry::new(remote, kind, self.options.checksum.clone(), None))
    }

    pub fn upload(&self, remote: &Remote, local: Local) -> Entry {
        let kind = Kind::Send {
            local,
            resume: if self.resume { Resume::IfThere } else { Resume::Never },
        };
        Entry::new(remote, kind, self.options.checksum.clone(), None)
    }

    pub fn task(&self, transfer: usize, entry: &Entry, attrs: Option<Attrs>) -> FileTask {
        let share = Share::new(&self.whole);
        let algorithm = self.options.checksum.as_ref().map(|checksum| checksum.algorithm.into());
        let work = match &entry.kind {
            Kind::Get {
                place,
                overwrite,
                range,
                notes,
            } => Work::Get(Box::new(Download {
                url: entry.remote.url.clone(),
                place: place.clone(),
                overwrite: *overwrite,
                algorithm,
                range: *range,
                notes: Arc::clone(notes),
                share,
            })),
            Kind::Send { local, resume } => Work::Put(Box::new(Upload {
                path: local.path.clone(),
                source: local.opened.lock().ok().and_then(|mut opened| opened.take()),
                length: local.length,
                checksum: self.options.checksum.clone(),
                resume: *resume,
                digest: None,
                share,
                nonce: fastrand::u64(..),
            })),
            // HTTP's, which never comes here.
            Kind::Put { .. } => unreachable!("an HTTP upload in an SFTP run"),
        };
        FileTask {
            transfer,
            path: entry.remote.path.clone(),
            attrs,
            work,
        }
    }
}
