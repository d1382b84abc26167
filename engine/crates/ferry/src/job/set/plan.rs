//! From the command line to a connection's plan: server, credentials, limits of channels.

use std::path::Path;

use crate::cli::{Common, PasswordFrom, Remote};
use crate::net::dial::DialOptions;
use crate::report::Problem;
use crate::sftp::Plan;
use crate::ssh::{Place, Secret, SshOptions};
use crate::transfer::Settings;

/// All sources are of one server: there is one connection.
pub fn one_server(sources: &[Remote]) -> Result<&Remote, Problem> {
    let Some(first) = sources.first() else {
        return Err(Problem::usage("no URL"));
    };
    let same = |remote: &&Remote| {
        remote.url.host_str() == first.url.host_str() && remote.port() == first.port() && remote.user == first.user
    };
    match sources.iter().find(|remote| !same(remote)) {
        None => Ok(first),
        Some(other) => Err(Problem::usage(format!(
            "{} and {} are on different servers: one run has one SSH connection",
            first.url, other.url
        ))),
    }
}

pub fn plan(common: &Common, remote: &Remote, settings: Settings, sync: bool) -> Result<Plan, Problem> {
    let args = &common.ssh;
    let host = remote.url.host_str().unwrap_or_default();
    let Some(user) = remote.user.clone().or_else(|| args.user.clone()) else {
        return Err(Problem::usage(format!(
            "nobody says who logs in at {host}: write sftp://USER@{host}/..."
        )));
    };
    let mut url = remote.url.clone();
    // So that dialling needs to know no schemes.
    let _ = url.set_port(Some(remote.port()));
    let pins = args
        .pins
        .iter()
        .map(|pin| {
            pin.parse()
                .map_err(|error| Problem::usage(format!("--pin {pin}: {error}")))
        })
        .collect::<Result<_, _>>()?;
    let ssh = SshOptions {
        known_hosts: args.known_hosts.clone(),
        pins,
        insecure: common.insecure,
        identities: args.identities.clone(),
        agent: args.agent.clone(),
        password: args.password.as_ref().map(password).transpose()?,
    };
    let dial = DialOptions {
        timeout: common.timeouts.connect,
        overrides: super::super::overrides(common),
        window: None,
        send_buffer: common.send_buffer,
    };
    Ok(Plan {
        place: Place {
            user,
            host: host.trim_matches(['[', ']']).to_owned(),
            port: remote.port(),
        },
        url,
        ssh,
        dial,
        settings,
        deadline: None,
        channels: args.channels,
        connections: args.connections,
        sync,
    })
}

fn password(from: &PasswordFrom) -> Result<Secret, Problem> {
    match from {
        PasswordFrom::File(path) => read(path).map(Secret::new),
        PasswordFrom::Variable(name) => std::env::var(name).map(Secret::new).map_err(|_| {
            Problem::usage(format!(
                "--password-env {name}: there is no such variable, or it is no text"
            ))
        }),
    }
}

/// The first line: editors end a file with one that nobody typed.
fn read(path: &Path) -> Result<String, Problem> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Problem::usage(format!("--password-file {}: {error}", path.display())))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
