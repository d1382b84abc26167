//! The configuration of a host by `ssh_config`, from the files that a command line names.

use std::path::PathBuf;

use super::{Files, HostConfig, Question, Strict};
use crate::cli::surroundings::Surroundings;
use crate::error::Error;

/// The files of `ssh_config`, and the user who asks.
pub struct Reading<'a> {
    files: Files,
    pub local_user: Option<String>,
    pub around: &'a Surroundings<'a>,
}

impl<'a> Reading<'a> {
    pub fn new(file: Option<&PathBuf>, around: &'a Surroundings<'a>) -> Self {
        let local_user = ["USER", "LOGNAME", "USERNAME"]
            .iter()
            .find_map(|name| around.unicode(name));
        Self {
            files: match file {
                None => Files::Usual,
                Some(none) if none.as_os_str().eq_ignore_ascii_case("none") => Files::None,
                Some(file) => Files::Only(file.clone()),
            },
            local_user,
            around,
        }
    }

    /// The configuration of a host. The way to the host is the business of `cli::jump`.
    pub fn host(&self, host: &str, user: Option<&str>, port: Option<u16>) -> Result<HostConfig, Error> {
        let question = Question {
            host,
            user,
            port,
            local_user: self.local_user.as_deref().unwrap_or_default(),
        };
        let mut config = super::resolve(&self.files, &question, self.around)?;
        // Without any file, the configuration lacks the user and port of the question.
        config.user = config.user.or_else(|| user.map(str::to_owned));
        config.port = config.port.or(port);
        let revoked = config.revoked_host_keys.as_deref().unwrap_or("none");
        if !revoked.eq_ignore_ascii_case("none") {
            return Err(Error::usage(format!(
                "ssh_config has RevokedHostKeys for {host}, and ferry reads only @revoked lines of known_hosts; say otherwise with -F FILE or -F none"
            )));
        }
        match config.strict_host_key_checking {
            None | Some(Strict::Yes | Strict::Ask) => {}
            Some(lax) => tracing::info!(
                host,
                ?lax,
                "StrictHostKeyChecking is not followed: ferry takes known host keys only"
            ),
        }
        Ok(config)
    }
}
