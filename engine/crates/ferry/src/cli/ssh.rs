//! What only one kind of server takes, and where SSH finds what is not named.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::flags;
use super::options::{PasswordFrom, Remote, SshArgs};
use crate::report::Problem;

/// Of all servers of a command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Http,
    Sftp,
}

impl Kind {
    /// A run has one engine.
    pub fn of(remotes: &[Remote]) -> Result<Self, Problem> {
        match remotes.iter().filter(|remote| remote.is_sftp()).count() {
            0 => Ok(Self::Http),
            all if all == remotes.len() => Ok(Self::Sftp),
            _ => Err(Problem::usage(
                "http and sftp URLs together; ask for one kind of server at a time",
            )),
        }
    }

    /// Refuses the first flag that was given and means nothing to this kind of server: ignoring it would promise what is not kept.
    pub fn refuse(self, flags: &[(&str, bool)]) -> Result<(), Problem> {
        let (wanted, other) = match self {
            Self::Http => ("sftp", "http"),
            Self::Sftp => ("http", "sftp"),
        };
        match flags.iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(Problem::usage(format!(
                "{flag} is for {wanted} URLs only; leave it out with {other}"
            ))),
            None => Ok(()),
        }
    }

    pub fn check_connection(self, flags: &flags::Connection) -> Result<(), Problem> {
        match self {
            Self::Http => Ok(()),
            Self::Sftp => self.refuse(&[
                ("--http1.1", flags.http11),
                ("--http2", flags.http2),
                ("--header", !flags.header.is_empty()),
                ("--cacert", flags.cacert.is_some()),
            ]),
        }
    }
}

/// The process's surroundings, which tests replace.
pub struct Surroundings<'a> {
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
    pub home: Option<PathBuf>,
}

impl Surroundings<'_> {
    fn text(&self, name: &str) -> Option<OsString> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }
}

/// Checked, and filled in for sftp.
pub fn ssh_args(flags: flags::Ssh, kind: Kind) -> Result<SshArgs, Problem> {
    match kind {
        Kind::Sftp => complete(
            flags,
            &Surroundings {
                variable: &|name| std::env::var_os(name),
                home: std::env::home_dir(),
            },
        ),
        Kind::Http => {
            kind.refuse(&[
                ("--known-hosts", !flags.known_hosts.is_empty()),
                ("--pin", !flags.pin.is_empty()),
                ("--identity", !flags.identity.is_empty()),
                ("--no-agent", flags.no_agent),
                ("--password-file", flags.password_file.is_some()),
                ("--password-env", flags.password_env.is_some()),
                ("--channels", flags.channels.is_some()),
                ("--connections", flags.connections.is_some()),
            ])?;
            Ok(SshArgs::default())
        }
    }
}

fn complete(flags: flags::Ssh, around: &Surroundings) -> Result<SshArgs, Problem> {
    let own = around.home.as_ref().map(|home| home.join(".ssh"));
    let known_hosts = if flags.known_hosts.is_empty() {
        let own = own.as_ref().map(|own| own.join("known_hosts"));
        own.into_iter().chain([system_known_hosts(around)]).collect()
    } else {
        flags.known_hosts
    };
    let identities_are_default = flags.identity.is_empty();
    let identities = if identities_are_default {
        let usual = ["id_ed25519", "id_ecdsa", "id_rsa"].iter();
        let files = own.iter().flat_map(|own| usual.clone().map(|name| own.join(name)));
        files.filter(|file| file.is_file()).collect()
    } else {
        flags.identity
    };
    let password = match (flags.password_file, flags.password_env) {
        (Some(file), _) => Some(PasswordFrom::File(file)),
        // Who takes it for the password's own place has typed the password: nothing of it is repeated.
        (None, Some(name)) if name.is_empty() || name.contains(['=', '\0']) => {
            return Err(Problem::usage(
                "--password-env takes the name of an environment variable, not a value",
            ));
        }
        (None, Some(name)) => Some(PasswordFrom::Variable(name)),
        (None, None) => None,
    };
    let usual = SshArgs::default();
    Ok(SshArgs {
        known_hosts,
        pins: flags.pin,
        identities,
        identities_are_default,
        agent: if flags.no_agent { None } else { agent(around) },
        password,
        user: ["USER", "LOGNAME", "USERNAME"]
            .iter()
            .find_map(|name| around.text(name)?.into_string().ok()),
        channels: flags.channels.map_or(usual.channels, usize::from),
        connections: flags.connections.map(usize::from),
    })
}

fn agent(around: &Surroundings) -> Option<PathBuf> {
    let named = around.text("SSH_AUTH_SOCK").map(PathBuf::from);
    // Where OpenSSH's agent listens on Windows, which sets no variable.
    named.or_else(|| cfg!(windows).then(|| PathBuf::from(r"\\.\pipe\openssh-ssh-agent")))
}

fn system_known_hosts(around: &Surroundings) -> PathBuf {
    if cfg!(windows)
        && let Some(data) = around.text("ProgramData")
    {
        return Path::new(&data).join("ssh").join("ssh_known_hosts");
    }
    PathBuf::from("/etc/ssh/ssh_known_hosts")
}

#[cfg(test)]
mod tests;
