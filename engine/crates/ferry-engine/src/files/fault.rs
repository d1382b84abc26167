//! The error of a failed operation on a file, in one line.

use std::io;
use std::path::Path;

use crate::error::Error;

/// `doing` is a verb: "read", "write".
pub(super) fn failed(doing: &str, path: &Path, error: &io::Error) -> Error {
    let path = path.display();
    Error::local(match error.kind() {
        io::ErrorKind::PermissionDenied => format!("no permission to {doing} {path}"),
        io::ErrorKind::NotFound => format!("cannot {doing} {path}: it does not exist"),
        _ => format!("cannot {doing} {path}: {error}"),
    })
    .with_io(error)
}
