//! A run's knowledge of its uploads, kept from one connection to the next.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use ferry_sftp::{Attrs, Reply, Request};
use tokio::sync::OnceCell;

use super::core::Core;
use super::naming::is_ours;
use super::opening::{open, open_now};
use super::tree;
use crate::sync::lock;

/// The most names read in a listing unless all of them count.
const FEW_NAMES: usize = 1000;

/// Clones share the same knowledge.
#[derive(Clone, Default)]
pub struct Uploads(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    /// This run's partial files, by the path of the target.
    own: HashMap<Vec<u8>, Own>,
    /// The listings, by the path of the directory.
    listed: HashMap<Vec<u8>, Arc<OnceCell<Vec<Leftover>>>>,
}

/// This run's partial file of a target.
#[derive(Clone)]
pub struct Own {
    pub fingerprint: String,
    pub path: Vec<u8>,
    /// The path at which the file that is being replaced may wait.
    pub aside: Option<Vec<u8>>,
}

/// A file of an earlier or another run, as a listing told.
#[derive(Clone)]
pub struct Leftover {
    pub name: Vec<u8>,
    pub attrs: Attrs,
}

impl Uploads {
    pub fn own(&self, target: &[u8]) -> Option<Own> {
        lock(&self.0).own.get(target).cloned()
    }

    pub fn keep(&self, target: &[u8], own: Own) {
        lock(&self.0).own.insert(target.to_vec(), own);
    }

    pub fn forget(&self, target: &[u8]) {
        lock(&self.0).own.remove(target);
    }

    /// Notes that the file to be replaced is about to step aside.
    pub fn steps_aside(&self, target: &[u8], aside: &[u8]) {
        if let Some(own) = lock(&self.0).own.get_mut(target) {
            own.aside = Some(aside.to_vec());
        }
    }

    /// The leftovers of runs in a directory, as of the first call for that directory; only some of a large directory's, unless
    /// `all` counts.
    pub async fn leftovers(&self, core: &Core, channel: usize, directory: &[u8], all: bool) -> Vec<Leftover> {
        let cell = Arc::clone(lock(&self.0).listed.entry(directory.to_vec()).or_default());
        let path = if directory.is_empty() {
            b".".as_slice()
        } else {
            directory
        };
        let listed = cell.get_or_init(async || {
            let mut found = Vec::new();
            // A caller with an open file does not wait for room for a directory.
            let room = if all {
                Some(core.handles.room(channel).await)
            } else {
                core.handles.try_room(channel)
            };
            let Some(mut room) = room else { return found };
            let request = Request::Opendir { path };
            let opened = if all {
                open(core, &mut room, core.call(channel, &request), &request).await
            } else {
                open_now(core, &mut room, &request).await
            };
            // A directory that cannot be listed has nothing to go on with.
            let Ok(Reply::Handle(handle)) = opened else {
                return found;
            };
            let most = if all { usize::MAX } else { FEW_NAMES };
            tree::read_some(core, channel, &handle, most, |name| {
                if is_ours(&name.file_name) {
                    found.push(Leftover {
                        name: name.file_name,
                        attrs: name.attrs,
                    });
                }
            })
            .await;
            found
        });
        listed.await.clone()
    }
}
