//! A file of a local tree whose turn has not come. A run has one for each of its files, so little is kept.

use std::path::Path;
use std::sync::Mutex;

use super::super::entry::LocalFile;
use super::factory::TaskFactory;
use crate::options::Remote;
use crate::sftp::join;

pub struct Waiting {
    /// The path from the tree's root down.
    pub below: Box<Path>,
    /// Bytes, where they could be learnt.
    pub length: Option<u64>,
}

impl Waiting {
    /// Returns the place of the file on the server, and the local file.
    pub fn unpacked(&self, factory: &TaskFactory) -> (Remote, LocalFile) {
        let root = factory.local_root.as_deref().unwrap_or(Path::new(""));
        let local = LocalFile {
            path: Some(root.join(&self.below)),
            length: self.length,
            opened: Mutex::new(None),
        };
        (remote_below(&factory.root, &self.below), local)
    }
}

/// The place on the server of something in a local tree.
pub fn remote_below(root: &Remote, below: &Path) -> Remote {
    let mut remote = root.clone();
    let names = || below.components().map(std::path::Component::as_os_str);
    if let Ok(mut segments) = remote.url.path_segments_mut() {
        segments.pop_if_empty();
        segments.extend(names().map(|name| name.to_string_lossy().into_owned()));
    }
    remote.path = names().fold(remote.path, |path, name| join(&path, name.as_encoded_bytes()));
    remote
}
