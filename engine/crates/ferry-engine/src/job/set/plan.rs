//! From the command line to a connection's plan: server, credentials, limits of channels.

use url::Url;

use crate::error::Error;
use crate::options::{Common, PasswordFrom, Remote, SshArgs};
use crate::sftp::{Plan, Uploads};
use crate::ssh::{Hop, HostPort, Passphrase, Secret, SshOptions, Unlocked};
use crate::transfer::Settings;

/// Returns the first source, whose server all of them must share: there is one connection.
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
    let unlocked = Unlocked::default();
    let mut place = place(args, typed, remote.user.as_ref())?;
    place.port = remote.url.port().or(args.port).unwrap_or(remote.port());
    let mut jumps = Vec::new();
    for jump in &args.jumps {
        jumps.push(Hop {
            place: HostPort {
                is_jump: true,
                ..self::place(&jump.ssh, &jump.host, None)?
            },
            options: ssh_options(&jump.ssh, common.insecure, &unlocked)?,
        });
    }
    let mut dial = super::super::dial_options(common);
    dial.family = args.jumps.first().map_or(args, |jump| &jump.ssh).family;
    let url = at(&remote.url, &place, typed)?;
    let first = match jumps.first() {
        Some(hop) => at(&url, &hop.place, &hop.place.host)?,
        None => url.clone(),
    };
    Ok(Plan {
        ssh: ssh_options(args, common.insecure, &unlocked)?,
        place,
        url,
        first,
        jumps,
        dial,
        connections: if settings.background.is_some() {
            Some(1)
        } else {
            args.connections
        },
        settings,
        deadline: None,
        channels: args.channels,
        sync,
        uploads: Uploads::default(),
    })
}

fn place(args: &SshArgs, typed: &str, user: Option<&String>) -> Result<HostPort, Error> {
    let host = args.hostname.as_deref().unwrap_or(typed).trim_matches(['[', ']']);
    let Some(user) = user.or(args.user.as_ref()) else {
        return Err(Error::usage(format!(
            "nobody says who logs in at {host}: write sftp://USER@{host}/..."
        )));
    };
    Ok(HostPort {
        user: user.clone(),
        host: host.to_owned(),
        port: args.port.unwrap_or(22),
        is_jump: false,
    })
}

/// A URL whose host and port are the place's, so that dialling needs to know no schemes.
fn at(url: &Url, place: &HostPort, typed: &str) -> Result<Url, Error> {
    let mut made = url.clone();
    let host = &place.host;
    let written = if host.contains(':') {
        format!("[{host}]")
    } else {
        host.clone()
    };
    made.set_host(Some(&written))
        .map_err(|error| Error::usage(format!("HostName {host}, for {typed}: {error}")).with_source(error))?;
    let _ = made.set_port(Some(place.port));
    Ok(made)
}

fn ssh_options(args: &SshArgs, insecure: bool, unlocked: &Unlocked) -> Result<SshOptions, Error> {
    let pins = args
        .pins
        .iter()
        .map(|pin| {
            pin.parse()
                .map_err(|error| Error::usage(format!("--pin {pin}: {error}")).with_source(error))
        })
        .collect::<Result<_, _>>()?;
    Ok(SshOptions {
        known_hosts: args.known_hosts.clone(),
        host_key_alias: args.host_key_alias.clone(),
        pins,
        insecure,
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
        algorithms: args.algorithms.clone(),
        unlocked: unlocked.clone(),
    })
}

fn secret(from: &PasswordFrom, flag: &str) -> Result<Secret, Error> {
    from.read(flag, |name| std::env::var(name).ok()).map(Secret::new)
}
