//! `ssh_config`: what OpenSSH's configuration says of a host. The answers are those of `ssh -G`, which the tests compare.
//!
//! ferry reads the keywords that decide which server is meant, who logs in, how the server is known and which algorithms may be
//! used. All others are skipped, unless ferry would be less strict than OpenSSH without them.

mod expand;
mod lexer;
mod read;
mod reading;

use std::path::{Path, PathBuf};

pub use expand::{Facts, agent, expanded, hostname};
pub use reading::Reading;

use ferry_engine::options::AlgorithmLists;

use super::surroundings::Surroundings;
use crate::error::Error;

/// The configuration of one host; a value that is given nowhere is `None` or empty. Texts are as written: `~` and `%` are
/// expanded where they are used.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct HostConfig {
    pub hostname: Option<String>,
    pub user: Option<String>,
    pub port: Option<u16>,
    pub identity_files: Vec<String>,
    pub certificate_files: Vec<String>,
    pub identities_only: Option<bool>,
    pub identity_agent: Option<String>,
    pub user_known_hosts: Option<Vec<String>>,
    pub global_known_hosts: Option<Vec<String>>,
    pub revoked_host_keys: Option<String>,
    pub host_key_alias: Option<String>,
    pub strict_host_key_checking: Option<Strict>,
    /// The timeout in seconds; 0 and less are no timeout.
    pub connect_timeout: Option<i64>,
    /// `none`, as the next one, where that was written.
    pub proxy_jump: Option<String>,
    pub proxy_command: Option<String>,
    pub proxy_use_fdpass: Option<bool>,
    pub address_family: Option<Family>,
    pub algorithms: AlgorithmLists,
    /// Keywords that say what may be used, and that ferry does not follow.
    pub not_followed: Vec<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strict {
    Yes,
    No,
    Ask,
    AcceptNew,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    Any,
    Inet,
    Inet6,
}

/// The question: the host as it was typed, and its user and port if they were typed too; these come first.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    pub host: &'a str,
    pub user: Option<&'a str>,
    pub port: Option<u16>,
    /// The user who runs ferry.
    pub local_user: &'a str,
}

/// The files to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Files {
    /// `~/.ssh/config`, then the system's; they need not exist.
    Usual,
    /// Only this one.
    Only(PathBuf),
    None,
}

/// # Errors
/// Class Usage, with file and line: a file cannot be read, a line is wrong, or what it says would have to be guessed.
pub fn resolve(files: &Files, question: &Question<'_>, around: &Surroundings) -> Result<HostConfig, Error> {
    let mut list = Vec::new();
    match files {
        Files::None => return Ok(HostConfig::default()),
        Files::Only(path) => list.push((path.clone(), read::Kind::Named)),
        Files::Usual => {
            if let Some(home) = &around.home {
                list.push((home.join(".ssh").join("config"), read::Kind::User));
            }
            list.push((system_folder(around).join("ssh_config"), read::Kind::System));
        }
    }
    let mut reader = read::Reader::new(question, around);
    for (path, kind) in &list {
        reader.file(path, *kind)?;
    }
    if reader.wants_final_pass() {
        reader.begin_final_pass()?;
        for (path, kind) in &list {
            reader.file(path, *kind)?;
        }
    }
    Ok(reader.into_config())
}

/// The folder of the system's SSH files.
pub fn system_folder(around: &Surroundings) -> PathBuf {
    if cfg!(windows)
        && let Some(data) = around.text("ProgramData")
    {
        return Path::new(&data).join("ssh");
    }
    PathBuf::from("/etc/ssh")
}

#[cfg(test)]
mod tests;
