//! The transfer that a command line asks for, to which a file's settings apply. A setting that means nothing to the transfer is
//! left out, although the same flag, typed, would be refused: a file is written for all transfers.

use std::path::{Path, PathBuf};

use clap::ArgMatches;
use ferry_engine::options::Remote;
use ferry_engine::remote::parse_remote;
use http::header;

use super::table::Entry;
use crate::cli::listed::Listed;
use crate::cli::scope::{Line, Only, Verb, only};
use crate::cli::ssh::Kind;
use crate::cli::values::parse_header;
use crate::error::Error;

pub struct Situation<'a> {
    line: Line<'a>,
    pub remotes: Vec<Remote>,
    /// Without a URL nothing is known.
    kind: Option<Kind>,
    directories: bool,
    /// The body comes from or goes to a standard stream.
    stream: bool,
}

impl<'a> Situation<'a> {
    /// # Errors
    /// Class Usage: a URL cannot be read, or they are of two kinds.
    pub fn of(line: Line<'a>) -> Result<Self, Error> {
        let urls = all(line.matches, "urls").into_iter().chain(all(line.matches, "url"));
        let remotes = urls.map(|url| parse_remote(&url).map_err(Error::usage));
        let listed = line.listed.into_iter().flat_map(Listed::remotes);
        let remotes = remotes.chain(listed).collect::<Result<Vec<_>, _>>()?;
        let kind = if remotes.is_empty() {
            None
        } else {
            Some(Kind::of(&remotes)?)
        };
        let file = path(line.matches, "file");
        let stream = file.as_deref() == Some(Path::new("-"));
        let sent = file.filter(|_| line.verb == Verb::Put && !stream);
        Ok(Self {
            line,
            remotes,
            kind,
            directories: switch(line.matches, "recursive") || sent.is_some_and(|file| file.is_dir()),
            stream,
        })
    }

    /// The reason for leaving a setting out; `None` if it stays.
    pub fn without(&self, entry: &Entry) -> Option<&'static str> {
        let verb = self.line.verb;
        match (only(verb, &entry.key), self.kind?) {
            (Some(Only::Http), Kind::Sftp) => return Some("it is for http URLs"),
            (Some(Only::Sftp), Kind::Http) => return Some("it is for sftp URLs"),
            (Some(Only::Directories), _) if !self.directories => return Some("it is for directories"),
            _ => {}
        }
        let several = self.remotes.len() > 1;
        match entry.key.as_str() {
            "resume" | "overwrite" if self.stream => Some("it is for files, not for standard input and output"),
            "http2" | "http3" if self.remotes.iter().any(|remote| remote.url.scheme() == "http") => {
                Some("it is for https URLs")
            }
            "perms" if cfg!(windows) => Some("Windows has no permission bits"),
            "checksum" if switch(self.line.matches, "mirror") => Some("a mirror compares sizes and times"),
            "connections" if self.kind != Some(Kind::Sftp) && (several || self.stream || self.line.typed("range")) => {
                Some("it is for one file, fetched in any order")
            }
            "token-file" | "token-env" | "password-file" | "password-env" => self.without_login(&entry.key),
            _ => None,
        }
    }

    fn without_login(&self, key: &str) -> Option<&'static str> {
        if self.kind == Some(Kind::Sftp) {
            return None;
        }
        let is_login = |field: &String| parse_header(field).is_ok_and(|(name, _)| name == header::AUTHORIZATION);
        if all(self.line.matches, "header").iter().any(is_login) {
            return Some("an Authorization header was typed");
        }
        let mut remotes = self.remotes.iter();
        if key.starts_with("token") {
            let named = remotes.any(|remote| remote.authorization.is_some());
            return named.then_some("the URL names a user");
        }
        remotes.find_map(|remote| match (&remote.user, &remote.authorization) {
            (Some(_), _) => None,
            (None, Some(_)) => Some("the URL has a password"),
            (None, None) => Some("the URL names no user: http://USER@HOST/"),
        })
    }

    /// True if the bytes go nowhere: nothing puts them in order before they are summed.
    pub fn discards(&self) -> bool {
        switch(self.line.matches, "discard")
    }
}

fn all(matches: &ArgMatches, id: &str) -> Vec<String> {
    let values = matches.try_get_many::<String>(id).ok().flatten();
    values.into_iter().flatten().cloned().collect()
}

fn path(matches: &ArgMatches, id: &str) -> Option<PathBuf> {
    matches.try_get_one::<PathBuf>(id).ok().flatten().cloned()
}

fn switch(matches: &ArgMatches, id: &str) -> bool {
    matches.try_get_one::<bool>(id).ok().flatten() == Some(&true)
}
