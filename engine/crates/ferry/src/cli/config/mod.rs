//! The configuration file: flags that need not be typed. Types and checks of values stay the parser's: what the file says becomes words of a
//! command line, in front of those that were typed (ADR 0031).

mod file;
mod keys;
mod layers;
mod show;
mod situation;
mod table;

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use clap::{ArgMatches, Command};

pub use file::File;
pub use layers::Merged;
pub use show::{Problem, show};

use super::surroundings::Surroundings;
use crate::error::Error;

/// Names the file, or is [`NONE`].
const VARIABLE: &str = "FERRY_CONFIG";
/// Stands for no file, as in `--ssh-config none`.
const NONE: &str = "none";
const MOST_BYTES: u64 = 1 << 20;

/// The file that a command line or the environment names, else the user's if there is one.
///
/// # Errors
/// Class Usage: a named file is not there, others may write to it, or it says what no flag takes; then with its line and key.
pub fn read(typed: &ArgMatches, commands: &Command, around: &Surroundings) -> Result<Option<File>, Error> {
    if typed.get_flag("no_config") {
        return Ok(None);
    }
    let named = typed.get_one::<PathBuf>("config_file").cloned();
    let named = named.or_else(|| around.text(VARIABLE).map(PathBuf::from));
    let (path, is_named) = match named {
        Some(none) if none.as_os_str().eq_ignore_ascii_case(NONE) => return Ok(None),
        Some(named) => (named, true),
        None => match usual(around) {
            Some(usual) => (usual, false),
            None => return Ok(None),
        },
    };
    let Some(text) = text(&path, is_named)? else {
        return Ok(None);
    };
    File::parse(&path, &text, commands, around.home.as_deref()).map(Some)
}

/// The path of the user's own file. A relative `XDG_CONFIG_HOME` does not count (XDG Base Directory Specification).
fn usual(around: &Surroundings) -> Option<PathBuf> {
    let folder = if cfg!(windows) {
        PathBuf::from(around.text("APPDATA")?)
    } else {
        let named = around.text("XDG_CONFIG_HOME").map(PathBuf::from);
        let named = named.filter(|folder| folder.is_absolute());
        named.or_else(|| Some(around.home.as_ref()?.join(".config")))?
    };
    Some(folder.join("ferry").join("config.toml"))
}

/// `None` where there is no file, and need not be one.
fn text(path: &Path, is_named: bool) -> Result<Option<String>, Error> {
    let wrong = |why: String| Error::usage(format!("{}: {why}; --no-config goes on without it", path.display()));
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if !is_named && matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(wrong(error.to_string()).with_source(error)),
    };
    let found = file.metadata().map_err(|error| wrong(error.to_string()))?;
    if open_to_others(&found) {
        return Err(wrong(
            "other users of this machine may write to it; chmod go-w it".into(),
        ));
    }
    let mut bytes = Vec::new();
    let count = file
        .take(MOST_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| wrong(error.to_string()))?;
    if count as u64 > MOST_BYTES {
        return Err(wrong("it is larger than 1 MiB".into()));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(text)),
        Err(_) => Err(wrong("it is not UTF-8".into())),
    }
}

/// True if other users may write to the file. A pipe and the null device have no content that could change later.
#[cfg(unix)]
fn open_to_others(found: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    found.is_file() && found.mode() & 0o022 != 0
}

#[cfg(not(unix))]
fn open_to_others(_: &std::fs::Metadata) -> bool {
    false
}

#[cfg(test)]
mod tests;
