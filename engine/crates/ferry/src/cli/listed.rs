//! `--input`: URLs from a file, one a line, as wget and aria2 read theirs.

use std::io::{Read, stdin};
use std::path::{Path, PathBuf};

use clap::ArgMatches;
use ferry_engine::options::Remote;
use ferry_engine::remote::parse_remote;

use crate::error::Error;

/// The text of the file: a list may have a million lines, and they are parsed in place.
#[derive(Debug)]
pub struct Listed {
    name: String,
    text: String,
}

impl Listed {
    /// The file that was typed, if one was.
    ///
    /// # Errors
    /// Class Usage: it cannot be read, or is no text.
    pub fn read(typed: &ArgMatches) -> Result<Option<Self>, Error> {
        let path = typed.try_get_one::<PathBuf>("input").ok().flatten();
        path.map(|path| Self::of(path)).transpose()
    }

    fn of(path: &Path) -> Result<Self, Error> {
        let standard = path.as_os_str() == "-";
        let name = if standard {
            "standard input".to_owned()
        } else {
            path.display().to_string()
        };
        let mut bytes = Vec::new();
        let read = if standard {
            stdin().lock().read_to_end(&mut bytes).map(|_| ())
        } else {
            std::fs::File::open(path).and_then(|mut file| file.read_to_end(&mut bytes).map(|_| ()))
        };
        read.map_err(|error| Error::usage(format!("--input {name}: {error}")).with_source(error))?;
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Self { name, text }),
            Err(error) => {
                let (good, bytes) = (error.utf8_error().valid_up_to(), error.as_bytes());
                let line = bytes.iter().take(good).filter(|byte| **byte == b'\n').count() + 1;
                Err(Error::usage(format!("{name}:{line}: not UTF-8")))
            }
        }
    }

    /// Each URL with its line. Blank lines and those that begin with # have none.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        // Editors of Windows begin a text with a mark.
        let text = self.text.strip_prefix('\u{feff}').unwrap_or(&self.text);
        let numbered = (1..).zip(text.split('\n').map(str::trim));
        numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
    }

    /// # Errors
    /// Class Usage, with file and line.
    pub fn remotes(&self) -> impl Iterator<Item = Result<Remote, Error>> {
        self.lines().map(|(line, url)| {
            // A URL's parser drops tabs, which stand between the URLs of one file in aria2's lists.
            let read = if url.contains(char::is_control) {
                Err("has a tab or another control character; a line is one URL".to_owned())
            } else {
                parse_remote(url)
            };
            read.map_err(|why| Error::usage(format!("{}:{line}: {why}", self.name)))
        })
    }

    /// # Errors
    /// Class Usage: the list is empty.
    pub fn check_count(&self, urls: usize) -> Result<(), Error> {
        match urls {
            0 => Err(Error::usage(format!("--input {}: there is no URL in it", self.name))),
            _ => Ok(()),
        }
    }

    /// Puts the line of the URL that a problem names in front of its message. The first `typed` URLs of the run are not from the
    /// list.
    pub fn explain(&self, mut problem: Error, remotes: &[Remote], typed: usize) -> Error {
        let named = remotes.iter().enumerate().skip(typed);
        let named = named.filter(|(_, remote)| problem.message.contains(remote.url.as_str()));
        // One URL may be the begin of another. What is said of one that stands there twice is said of the second.
        let longest = named.max_by_key(|(_, remote)| remote.url.as_str().len());
        let line = longest.and_then(|(index, _)| self.lines().nth(index - typed));
        if let Some((line, _)) = line {
            problem.message = format!("{}:{line}: {}", self.name, problem.message);
        }
        problem
    }
}

#[cfg(test)]
mod tests;
