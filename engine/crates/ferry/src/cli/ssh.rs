//! The sources of SSH options that no flag names.

use std::io::{Write as _, stderr};
use std::path::PathBuf;
use std::time::Duration;

use ferry_engine::options::{Family, Jump, Remote, SshArgs};

use super::flags;
use super::jump;
use super::login::secret_from;
use super::ssh_config::{self, Facts, HostConfig, Reading};
use super::surroundings::Surroundings;
use crate::error::Error;

/// The kind of all servers of a command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Http,
    Sftp,
}

impl Kind {
    /// A run has one engine.
    pub fn of(remotes: &[Remote]) -> Result<Self, Error> {
        let sftp = remotes.first().is_some_and(Remote::is_sftp);
        match remotes.iter().find(|remote| remote.is_sftp() != sftp) {
            None => Ok(if sftp { Self::Sftp } else { Self::Http }),
            Some(other) => Err(Error::usage(format!(
                "{}: http and sftp URLs together; ask for one kind of server at a time",
                other.url
            ))),
        }
    }
}

/// The SSH options, filled in for sftp; the defaults for HTTP.
pub fn ssh_args(
    flags: flags::Ssh,
    login: &flags::Login,
    kind: Kind,
    remotes: &[Remote],
    connection: &mut flags::Connection,
) -> Result<SshArgs, Error> {
    match kind {
        Kind::Sftp => {
            let around = Surroundings::own();
            let (args, config) = with_jumps(flags, login, remotes, &around)?;
            let timeout = config.connect_timeout.filter(|seconds| *seconds > 0);
            let timeout = timeout
                .and_then(|seconds| u64::try_from(seconds).ok())
                .map(Duration::from_secs);
            connection.timeout_connect = connection.timeout_connect.or(timeout);
            Ok(args)
        }
        Kind::Http => Ok(SshArgs::default()),
    }
}

/// The options of the server and of all jump hosts on the way, and the server's configuration. One run has one server.
fn with_jumps(
    flags: flags::Ssh,
    login: &flags::Login,
    remotes: &[Remote],
    around: &Surroundings,
) -> Result<(SshArgs, HostConfig), Error> {
    let reading = Reading::new(flags.config.as_ref(), around);
    let first = remotes.first();
    let host = first.map_or("", Remote::host);
    let config = reading.host(
        host,
        first.and_then(|remote| remote.user.as_deref()),
        first.and_then(|remote| remote.url.port()),
    )?;
    let mut jumps = Vec::new();
    for found in jump::way(flags.jump.as_deref(), host, &config, &reading)? {
        // A password or a fingerprint is one server's.
        let flags = flags::Ssh {
            pin: Vec::new(),
            ..flags.clone()
        };
        let ssh = complete(flags, &flags::Login::default(), &found.config, &found.host, &reading)?;
        jumps.push(Jump { host: found.host, ssh });
    }
    let own = complete(flags, login, &config, host, &reading)?;
    Ok((SshArgs { jumps, ..own }, config))
}

/// The options of one host: flags come first, then `ssh_config`, then OpenSSH's own defaults.
fn complete(
    flags: flags::Ssh,
    login: &flags::Login,
    config: &HostConfig,
    host: &str,
    reading: &Reading<'_>,
) -> Result<SshArgs, Error> {
    for keyword in &config.not_followed {
        // Nowhere to tell that standard error is gone.
        let _ = writeln!(stderr(), "ferry: ssh_config's {keyword} for {host} is not followed");
    }
    let around = reading.around;
    let local_user = reading.local_user.as_deref();
    let hostname = config
        .hostname
        .as_deref()
        .map(|written| ssh_config::hostname(written, host))
        .transpose()?;
    let facts = Facts {
        host: hostname.as_deref().unwrap_or(host),
        original_host: host,
        port: config.port.unwrap_or(22),
        user: config.user.as_deref().or(local_user).unwrap_or_default(),
        local_user: local_user.unwrap_or_default(),
        alias: config.host_key_alias.as_deref(),
        around,
    };
    // `none` stands for no file.
    let files = |names: &[String]| -> Result<Vec<PathBuf>, Error> {
        let names = names.iter().filter(|name| !name.eq_ignore_ascii_case("none"));
        names.map(|name| ssh_config::expanded(name, &facts)).collect()
    };
    let own = around.home.as_ref().map(|home| home.join(".ssh"));
    let known_hosts = if flags.known_hosts.is_empty() {
        let mut found = match &config.user_known_hosts {
            Some(names) => files(names)?,
            None => own.iter().map(|own| own.join("known_hosts")).collect(),
        };
        found.extend(match &config.global_known_hosts {
            Some(names) => files(names)?,
            None => vec![ssh_config::system_folder(around).join("ssh_known_hosts")],
        });
        found
    } else {
        flags.known_hosts
    };
    let identities_are_default = flags.identity.is_empty();
    let identities = if !identities_are_default {
        flags.identity
    } else if config.identity_files.is_empty() {
        let usual = ["id_ed25519", "id_ecdsa", "id_rsa"].iter();
        let files = own.iter().flat_map(|own| usual.clone().map(|name| own.join(name)));
        files.filter(|file| file.is_file()).collect()
    } else {
        // Like OpenSSH: a file that is not there is for another machine.
        let mut found = files(&config.identity_files)?;
        found.retain(|file| file.is_file());
        found
    };
    let certificates = if flags.certificate.is_empty() {
        let mut found = files(&config.certificate_files)?;
        found.retain(|file| file.is_file());
        found
    } else {
        flags.certificate
    };
    let agent = match &config.identity_agent {
        _ if flags.no_agent => None,
        Some(written) => ssh_config::agent(written, &facts)?,
        None => agent(around),
    };
    let password = secret_from(
        login.password_file.clone(),
        login.password_env.clone(),
        "--password-env",
    )?;
    let passphrase = secret_from(flags.passphrase_file, flags.passphrase_env, "--passphrase-env")?;
    let usual = SshArgs::default();
    Ok(SshArgs {
        known_hosts,
        host_key_alias: config.host_key_alias.clone(),
        pins: flags.pin,
        identities,
        certificates,
        identities_are_default,
        agent,
        identities_only: config.identities_only == Some(true),
        password,
        passphrase,
        askpass: askpass(around),
        algorithms: config.algorithms.clone(),
        user: config.user.clone().or_else(|| reading.local_user.clone()),
        port: config.port,
        family: match config.address_family {
            Some(ssh_config::Family::Inet) => Family::Inet,
            Some(ssh_config::Family::Inet6) => Family::Inet6,
            Some(ssh_config::Family::Any) | None => Family::Any,
        },
        hostname,
        jumps: usual.jumps,
        channels: flags.channels.map_or(usual.channels, usize::from),
        connections: flags.connections.map(usize::from),
    })
}

fn agent(around: &Surroundings) -> Option<PathBuf> {
    let named = around.text("SSH_AUTH_SOCK").map(PathBuf::from);
    // The pipe of OpenSSH's agent on Windows, which sets no variable.
    named.or_else(|| cfg!(windows).then(|| PathBuf::from(r"\\.\pipe\openssh-ssh-agent")))
}

/// ssh(1), ENVIRONMENT. ferry asks nothing on a terminal, so a display is reason enough.
fn askpass(around: &Surroundings) -> Option<PathBuf> {
    let program = around.text("SSH_ASKPASS").map(PathBuf::from);
    let display = ["DISPLAY", "WAYLAND_DISPLAY"]
        .iter()
        .any(|name| around.text(name).is_some());
    let wanted = match around.unicode("SSH_ASKPASS_REQUIRE").as_deref() {
        Some("force") => true,
        Some("never") => false,
        _ => display,
    };
    program.filter(|_| wanted)
}

#[cfg(test)]
mod tests;
