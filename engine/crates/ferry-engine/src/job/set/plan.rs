//! From the command line to a connection's plan: server, credentials, limits of channels.

use crate::error::Error;
use crate::options::{Common, PasswordFrom, Remote};
use crate::sftp::Plan;
use crate::ssh::{HostPort, Passphrase, Secret, SshOptions, Unlocked};
use crate::transfer::Settings;

/// All sources are of one server: there is one connection.
pub fn one_server(sources: &[Remote]) -> Result<&Remote, Error> {
    let Some(first) = sources.first() else {
        return Err(Error::usage("no URL"));
    };
    let same = |remote: &&Remote| {
        remote.url.host_str() == first.url.host_str() && remote.port() == first.port() && remote.user == first.user
    };
    match sources.iter().find(|remote| !same(remote)) {
        None => Ok(first),
        Some(other) => Err(Error::usage(format!(
            "{} and {} are on different servers: one run has one SSH connection",
            first.url, other.url
        ))),
    }
}

pub fn plan(common: &Common, remote: &Remote, settings: Settings, sync: bool) -> Result<Plan, Error> {
    let args = &common.ssh;
    let typed = remote.url.host_str().unwrap_or_default();
    let host = args.hostname.as_deref().unwrap_or(typed).trim_matches(['[', ']']);
    let port = remote.url.port().or(args.port).unwrap_or(remote.port());
    let Some(user) = remote.user.clone().or_else(|| args.user.clone()) else {
        return Err(Error::usage(format!(
            "nobody says who logs in at {host}: write sftp://USER@{host}/..."
        )));
    };
    let mut url = remote.url.clone();
    if args.hostname.is_some() {
        let written = if host.contains(':') {
            format!("[{host}]")
        } else {
            host.to_owned()
        };
        url.set_host(Some(&written))
            .map_err(|error| Error::usage(format!("HostName {host}, for {typed}: {error}")).with_source(error))?;
    }
    // So that dialling needs to know no schemes.
    let _ = url.set_port(Some(port));
    let pins = args
        .pins
        .iter()
        .map(|pin| {
            pin.parse()
                .map_err(|error| Error::usage(format!("--pin {pin}: {error}")).with_source(error))
        })
        .collect::<Result<_, _>>()?;
    let ssh = SshOptions {
        known_hosts: args.known_hosts.clone(),
        host_key_alias: args.host_key_alias.clone(),
        pins,
        insecure: common.insecure,
        identities: args.identities.clone(),
        certificates: args.certificates.clone(),
        agent: args.agent.clone(),
        identities_only: args.identities_only,
        password: args
            .password
            .as_ref()
            .map(|from| secret(from, "--password"))
            .transpose()?,
        passphrase: match (&args.passphrase, &args.askpass) {
            (Some(from), _) => Passphrase::Given(secret(from, "--passphrase")?),
            (None, Some(program)) => Passphrase::Asked(program.clone()),
            (None, None) => Passphrase::Unknown,
        },
        unlocked: Unlocked::default(),
    };
    Ok(Plan {
        place: HostPort {
            user,
            host: host.to_owned(),
            port,
        },
        url,
        ssh,
        dial: super::super::dial_options(common),
        settings,
        deadline: None,
        channels: args.channels,
        connections: args.connections,
        sync,
    })
}

fn secret(from: &PasswordFrom, flag: &str) -> Result<Secret, Error> {
    from.read(flag, |name| std::env::var(name).ok()).map(Secret::new)
}
