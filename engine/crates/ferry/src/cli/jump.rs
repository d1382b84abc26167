//! Jump hosts: what `--jump` and `ProxyJump` name, and what `ssh_config` says of each of them.

use percent_encoding::percent_decode_str;

use super::ssh_config::{self, HostConfig, Reading};
use crate::error::Error;

const INSTEAD: &str = "; say otherwise with --jump HOST, --jump none, -F FILE or -F none";

/// One jump host of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    pub user: Option<String>,
    pub host: String,
    pub port: Option<u16>,
}

/// A jump host, and what `ssh_config` says of it.
pub struct Found {
    pub host: String,
    pub config: HostConfig,
}

/// The jump hosts in the order in which they are passed; `none` is no host.
pub fn parse(list: &str) -> Result<Vec<Spec>, String> {
    // OpenSSH takes what is behind it for a comment.
    let list = list.split('#').next().unwrap_or_default().trim();
    if list.eq_ignore_ascii_case("none") {
        return Ok(Vec::new());
    }
    list.split(',')
        .map(|one| {
            spec(one).ok_or_else(|| {
                format!("{one:?} is no jump host: [USER@]HOST[:PORT] or ssh://[USER@]HOST[:PORT] is expected, several with commas")
            })
        })
        .collect()
}

fn spec(text: &str) -> Option<Spec> {
    let (rest, is_uri) = match text.get(..6) {
        Some(scheme) if scheme.eq_ignore_ascii_case("ssh://") => (text.get(6..)?.trim_end_matches('/'), true),
        _ => (text, false),
    };
    let (user, place) = match rest.rsplit_once('@') {
        Some((user, place)) => (Some(user), place),
        None => (None, rest),
    };
    let user = match user {
        Some("") => return None,
        Some(user) if is_uri => Some(percent_decode_str(user).decode_utf8().ok()?.into_owned()),
        user => user.map(str::to_owned),
    };
    let (host, port) = match place.strip_prefix('[') {
        Some(bracketed) => {
            let (host, behind) = bracketed.split_once(']')?;
            match behind {
                "" => (host, None),
                behind => (host, Some(behind.strip_prefix(':')?)),
            }
        }
        None => match place.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    // A dash would be an option for the programs that OpenSSH starts, and is no name.
    let is_name =
        |letter: char| !letter.is_whitespace() && !letter.is_control() && !"/@'\"\\`;|&<>(){}$".contains(letter);
    if host.is_empty() || host.starts_with('-') || !host.chars().all(is_name) {
        return None;
    }
    let port = match port {
        Some(port) => Some(port.parse().ok().filter(|port| *port > 0)?),
        None => None,
    };
    Some(Spec {
        user,
        host: host.to_ascii_lowercase(),
        port,
    })
}

/// The identity of a server: host name, port and user.
type Key = (String, u16, Option<String>);

/// Every jump host of the way to a server: those of the list, and those that `ssh_config` wants before the first of them.
///
/// The order follows OpenSSH's: the last host of a list is reached through the others, and the first one through its own
/// `ProxyJump`.
///
/// # Errors
/// Class Usage: a name that is not valid, a jump host of itself, what `ssh_config` asks for and ferry does not do.
pub fn way(flag: Option<&str>, host: &str, config: &HostConfig, reading: &Reading<'_>) -> Result<Vec<Found>, Error> {
    let mut wanted = match flag {
        Some(list) => parse(list).map_err(|why| Error::usage(format!("--jump: {why}")))?,
        None => of_config(host, config)?,
    };
    let mut seen = vec![key(host, config, reading)?];
    let mut found = Vec::new();
    while let Some(spec) = wanted.pop() {
        let config = reading.host(&spec.host, spec.user.as_deref(), spec.port)?;
        let own = key(&spec.host, &config, reading)?;
        if seen.contains(&own) {
            return Err(Error::usage(format!(
                "{} is a jump host that is its own jump host{INSTEAD}, or write ProxyJump none for it",
                spec.host
            )));
        }
        seen.push(own);
        if wanted.is_empty() {
            wanted = of_config(&spec.host, &config)?;
        }
        found.push(Found {
            host: spec.host,
            config,
        });
    }
    found.reverse();
    Ok(found)
}

fn of_config(host: &str, config: &HostConfig) -> Result<Vec<Spec>, Error> {
    let command = config.proxy_command.as_deref().unwrap_or("none");
    if !command.eq_ignore_ascii_case("none") {
        return Err(Error::usage(format!(
            "ssh_config has a ProxyCommand for {host}, and ferry connects by no other program{INSTEAD}"
        )));
    }
    let list = config.proxy_jump.as_deref().unwrap_or("none");
    parse(list).map_err(|why| Error::usage(format!("ssh_config's ProxyJump for {host}: {why}")))
}

fn key(host: &str, config: &HostConfig, reading: &Reading<'_>) -> Result<Key, Error> {
    let name = match &config.hostname {
        Some(written) => ssh_config::hostname(written, host)?,
        None => host.to_owned(),
    };
    let user = config.user.clone().or_else(|| reading.local_user.clone());
    Ok((name.to_ascii_lowercase(), config.port.unwrap_or(22), user))
}

#[cfg(test)]
#[path = "jump_tests.rs"]
mod tests;
