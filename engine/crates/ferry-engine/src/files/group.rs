//! Complete files on their way to the disk and to their names, several at a time: the disk works for all of them as long as for one.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use super::PartialFile;
use crate::error::Error;

/// A group goes to disk when it has so many files or bytes, or when its first file has waited so long. Each file is open, and holds its lock.
const MOST_FILES: usize = 128;
const MOST_BYTES: u64 = 64 << 20;
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Complete files, each with the data that its owner needs once the file has its name.
pub struct Group<T> {
    files: Vec<(CompleteFile, T)>,
    bytes: u64,
    since: Option<Instant>,
    /// True if a file and its directory are synced to the disk before the owner hears of the file.
    sync: bool,
}

impl<T> Group<T> {
    #[must_use]
    pub fn new(sync: bool) -> Self {
        Self {
            files: Vec::new(),
            bytes: 0,
            since: None,
            sync,
        }
    }

    pub fn push(&mut self, file: PartialFile, what: T, now: Instant) {
        self.bytes += file.position();
        self.files.push((CompleteFile::of(file), what));
        self.since.get_or_insert(now);
    }

    /// The disk has a file before it gets its name.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.sync
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    #[must_use]
    pub fn is_full(&self, now: Instant) -> bool {
        let waited = self.since.map(|since| now.saturating_duration_since(since));
        self.files.len() >= MOST_FILES
            || self.bytes >= MOST_BYTES
            || waited.is_some_and(|waited| waited >= LONGEST_WAIT)
    }

    /// Gives all of them their names, in the order in which they came.
    pub fn publish(&mut self) -> Vec<(T, Result<(), Error>)> {
        let (files, whats): (Vec<_>, Vec<_>) = std::mem::take(&mut self.files).into_iter().unzip();
        (self.bytes, self.since) = (0, None);
        whats.into_iter().zip(publish(files, self.sync)).collect()
    }
}

/// A file to which nothing more is written, if nothing has failed yet.
pub(super) struct CompleteFile {
    file: PartialFile,
    result: Result<(), Error>,
}

impl CompleteFile {
    pub(super) fn of(mut file: PartialFile) -> Self {
        let result = file.complete();
        Self { file, result }
    }
}

/// Fsync of the files, rename, fsync of the directories: no file has its name before all of it is on disk.
///
/// Writing is begun for all files before the first one is waited for, so that one commit of the file system takes them all along.
pub(super) fn publish(files: Vec<CompleteFile>, sync: bool) -> Vec<Result<(), Error>> {
    let (mut files, mut results): (Vec<_>, Vec<_>) = files.into_iter().map(|each| (each.file, each.result)).unzip();
    if sync {
        for file in &files {
            file.start_writing();
        }
    }
    for (file, result) in files.iter_mut().zip(&mut results) {
        if sync && result.is_ok() {
            *result = file.sync();
        }
    }
    for (file, result) in files.iter_mut().zip(&mut results) {
        if result.is_ok() {
            *result = file.take_name();
        }
    }
    let mut directories: BTreeMap<&Path, Vec<usize>> = BTreeMap::new();
    for (index, (file, result)) in files.iter().zip(&results).enumerate() {
        if let (true, Ok(()), Some(directory)) = (sync, result, file.directory()) {
            directories.entry(directory).or_default().push(index);
        }
    }
    for indices in directories.into_values() {
        let Some(synced) = indices
            .first()
            .and_then(|index| files.get(*index))
            .map(PartialFile::sync_directory)
        else {
            continue;
        };
        for index in indices {
            if let Some(result) = results.get_mut(index) {
                result.clone_from(&synced);
            }
        }
    }
    results
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::partial::tests::{create, key, names_in};
    use super::super::{Sink, existing};
    use super::*;

    fn file(target: &Path, content: &[u8]) -> PartialFile {
        let mut sink = create(target);
        sink.write(content).unwrap();
        match sink {
            Sink::File(file) => file,
            _ => unreachable!("a file was created"),
        }
    }

    #[test]
    fn a_group_gets_its_names_at_once_and_each_file_its_own_result() {
        for sync in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            let other = tempfile::tempdir().unwrap();
            let now = Instant::now();
            let mut group = Group::new(sync);
            for (folder, name) in [(&dir, "a"), (&dir, "b"), (&other, "c"), (&dir, "d")] {
                group.push(file(&folder.path().join(name), name.as_bytes()), name, now);
            }
            assert!(!group.is_full(now) && group.is_full(now + LONGEST_WAIT));
            // It appears meanwhile.
            fs::write(dir.path().join("b"), "theirs").unwrap();
            let results = group.publish();
            let failed: Vec<_> = results.iter().filter(|(_, result)| result.is_err()).collect();
            assert!(matches!(&failed[..], [("b", Err(problem))] if problem.message.contains("appeared")));
            assert_eq!(
                names_in(dir.path()),
                [".b.ferry-partial", ".b.ferry-partial.json", "a", "b", "d"]
            );
            assert_eq!(names_in(other.path()), ["c"]);
            assert_eq!(fs::read(dir.path().join("b")).unwrap(), b"theirs");
            assert!(group.is_empty() && group.publish().is_empty());
        }
    }

    #[test]
    fn a_group_is_bounded_by_files_and_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let now = Instant::now();
        let mut group = Group::new(false);
        for number in 0..MOST_FILES {
            assert!(!group.is_full(now));
            group.push(file(&dir.path().join(number.to_string()), b"x"), (), now);
        }
        assert!(group.is_full(now));
        group.publish();
        assert!(!group.is_full(now));
        let large = vec![0; usize::try_from(MOST_BYTES).unwrap()];
        group.push(file(&dir.path().join("large"), &large), (), now);
        assert!(group.is_full(now));
    }

    #[test]
    fn what_has_not_got_its_name_when_the_run_is_killed_can_be_gone_on_with() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x");
        let mut group = Group::new(true);
        group.push(file(&target, b"content"), (), Instant::now());
        drop(group);
        assert!(!target.exists());
        assert_eq!(existing(&target).unwrap().key, key());
    }
}
