//! The place of a file in a tree, and the facts that distinguish its versions.

use crate::files::mode;

/// The names of a path, from a tree's root down.
pub type Names = Vec<Vec<u8>>;

/// The facts that distinguish two versions of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stamp {
    pub size: Option<u64>,
    /// Seconds since 1970: SFTP knows no fractions.
    pub modified: Option<u64>,
    /// Permission bits; they do not make a version.
    pub mode: Option<u32>,
}

impl Stamp {
    /// Returns true for the same size, and times that differ by at most `window_s`. An unknown value is a different one.
    pub fn same(self, other: Self, window_s: u64) -> bool {
        let sizes = self.size.zip(other.size).is_some_and(|(one, two)| one == two);
        let times = self.modified.zip(other.modified);
        sizes && times.is_some_and(|(one, two)| one.abs_diff(two) <= window_s)
    }

    /// Returns the stamp of a local file.
    pub fn of(found: &std::fs::Metadata) -> Self {
        let modified = found.modified().ok();
        let since = modified.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        Self {
            size: Some(found.len()),
            modified: since.map(|since| since.as_secs()),
            mode: mode::of(found),
        }
    }

    /// Returns the stamp of a file on the server.
    pub fn told(attrs: &ferry_sftp::Attrs) -> Self {
        Self {
            size: attrs.size,
            modified: attrs.times.map(|(_, modified)| modified.into()),
            mode: attrs.permissions.map(mode::bits),
        }
    }
}
