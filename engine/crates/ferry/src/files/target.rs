//! Looks at where a download is to go before anything is asked of a server.

use std::path::Path;

use super::Resumable;
use crate::report::Problem;

/// Everything that would stop the file from being written there, as far as it shows beforehand.
pub fn check_target(target: &Path, overwrite: bool) -> Result<(), Problem> {
    todo!()
}

/// What an earlier run left for this target.
pub fn existing(target: &Path) -> Option<Resumable> {
    todo!()
}
