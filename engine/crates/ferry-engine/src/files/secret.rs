//! Files that hold a secret.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::Error;
use crate::platform::open_to_others;

/// A file larger than this holds no password, token or list of logins.
const MOST_BYTES: u64 = 1 << 20;

/// Returns the text of a file that only its owner may read. A pipe has no such mode: `--token-file <(pass show host)` works.
///
/// # Errors
/// Class Usage, naming `flag`, when the file cannot be read, is no text, or is readable by other users. Nothing of its content is repeated.
pub fn read_secret(flag: &str, path: &Path) -> Result<String, Error> {
    let wrong = |why: String| Error::usage(format!("{flag} {}: {why}", path.display()));
    let file = File::open(path).map_err(|error| wrong(error.to_string()))?;
    let found = file.metadata().map_err(|error| wrong(error.to_string()))?;
    if let Some(mode) = open_to_others(&found) {
        return Err(wrong(format!(
            "other users of this machine may read it (mode {mode:03o}); chmod 600 it"
        )));
    }
    let mut text = String::new();
    let count = file
        .take(MOST_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(|error| wrong(error.to_string()))?;
    if count as u64 > MOST_BYTES {
        return Err(wrong("it is larger than 1 MiB".into()));
    }
    Ok(text)
}

/// The first line of such a file: editors end a file with a line feed of their own.
///
/// # Errors
/// Those of [`read_secret`].
pub fn read_secret_line(flag: &str, path: &Path) -> Result<String, Error> {
    let text = read_secret(flag, path)?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
