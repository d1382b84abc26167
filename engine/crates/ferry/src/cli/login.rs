//! Logins and their secrets, which come from files and the environment, because every process can read a command line.

use std::path::PathBuf;

use ferry_engine::files::read_secret;
use ferry_engine::options::{PasswordFrom, Proxies, Proxy, Remote};
use ferry_engine::remote::{basic_authorization, bearer_authorization};
use http::{HeaderMap, header};

use super::flags;
use super::netrc::Netrc;
use super::surroundings::Surroundings;
use crate::error::Error;

/// A file or a variable with a secret. The value of a variable's flag is not repeated: it may be the secret itself.
pub fn secret_from(file: Option<PathBuf>, variable: Option<String>, flag: &str) -> Result<Option<PasswordFrom>, Error> {
    match (file, variable) {
        (Some(file), _) => Ok(Some(PasswordFrom::File(file))),
        (None, Some(name)) if name.is_empty() || name.contains(['=', '\0']) => Err(Error::usage(format!(
            "{flag} takes the name of an environment variable, not a value"
        ))),
        (None, Some(name)) => Ok(Some(PasswordFrom::Variable(name))),
        (None, None) => Ok(None),
    }
}

/// Adds what an HTTP server asks for to the URLs. Redirects to another origin do not take it along.
pub fn authorize(
    flags: flags::Login,
    remotes: &mut [Remote],
    headers: &HeaderMap,
    around: &Surroundings,
) -> Result<(), Error> {
    if headers.contains_key(header::AUTHORIZATION) && remotes.iter().any(|remote| remote.authorization.is_some()) {
        return Err(Error::usage(
            "an Authorization header and user:password in a URL; give one of them",
        ));
    }
    let netrc = netrc(&flags, around)?;
    let given = |flag: &str| {
        if headers.contains_key(header::AUTHORIZATION) {
            return Err(Error::usage(format!(
                "an Authorization header and {flag}; give one of them"
            )));
        }
        Ok(())
    };
    if let Some(from) = secret_from(flags.token_file, flags.token_env, "--token-env")? {
        given("a token")?;
        let token = from.read("--token", |name| around.unicode(name))?;
        let value = bearer_authorization(&token).map_err(|why| Error::usage(format!("the token {why}")))?;
        for remote in remotes {
            if remote.authorization.is_some() {
                return Err(Error::usage(format!(
                    "a token and a user in the URL of {}; give one of them",
                    remote.url
                )));
            }
            remote.authorization = Some(value.clone());
        }
    } else if let Some(from) = secret_from(flags.password_file, flags.password_env, "--password-env")? {
        let password = from.read("--password", |name| around.unicode(name))?;
        for remote in remotes {
            let Some(user) = &remote.user else {
                return Err(Error::usage(format!(
                    "{}: a password is for a user; write http://USER@host/ without a password in it",
                    remote.url
                )));
            };
            remote.authorization = Some(basic_authorization(user, &password).map_err(Error::usage)?);
        }
    } else if let Some(netrc) = netrc {
        for remote in remotes {
            // A login in the URL, with its password, or a header is the user's own choice.
            let complete = remote.authorization.is_some() && remote.user.is_none();
            if complete || headers.contains_key(header::AUTHORIZATION) {
                continue;
            }
            if let Some((login, password)) = netrc.find(remote.host(), remote.user.as_deref()) {
                remote.authorization = Some(basic_authorization(login, password).map_err(Error::usage)?);
            }
        }
    }
    Ok(())
}

/// `--proxy`, or the environment's; `--noproxy` and a password apply to either.
pub fn proxies(
    typed: Option<&str>,
    excluded: Option<String>,
    password: Option<PasswordFrom>,
    around: &Surroundings,
) -> Result<Proxies, Error> {
    let variable = |name: &str| around.unicode(name);
    let Some(typed) = typed else {
        if password.is_some() {
            return Err(Error::usage(
                "a proxy's password needs --proxy with its user: http://USER@HOST",
            ));
        }
        let found = Proxies::from_environment(variable)?;
        return Ok(match excluded {
            Some(excluded) => found.without(excluded),
            None => found,
        });
    };
    if typed.trim().is_empty() {
        return Ok(Proxies::default());
    }
    let mut proxy = Proxy::parse(typed).map_err(|why| Error::usage(format!("--proxy: {why}")))?;
    if proxy.password.is_some() {
        return Err(Error::usage(
            "--proxy: every process can read a password there; use --proxy-password-file or --proxy-password-env",
        ));
    }
    if let Some(from) = password {
        if proxy.user.is_none() {
            return Err(Error::usage(
                "--proxy: a password is for a user; write http://USER@HOST",
            ));
        }
        proxy.password = Some(from.read("--proxy-password", variable)?);
    }
    Ok(Proxies::of(
        proxy,
        excluded.unwrap_or_else(|| Proxies::excluded_by(variable)),
    ))
}

/// `--netrc-file`, or with `--netrc` the one that curl reads: `$NETRC`, `~/.netrc`, on Windows also `~\_netrc`.
fn netrc(flags: &flags::Login, around: &Surroundings) -> Result<Option<Netrc>, Error> {
    let (flag, path) = match &flags.netrc_file {
        Some(path) => ("--netrc-file", path.clone()),
        None if flags.netrc => ("--netrc", usual_netrc(around)?),
        None => return Ok(None),
    };
    let text = read_secret(flag, &path)?;
    Netrc::parse(&text).map(Some).map_err(|line| {
        Error::usage(format!(
            "{flag} {}: line {line} cannot be read: a value is missing, or a quotation does not end",
            path.display()
        ))
    })
}

fn usual_netrc(around: &Surroundings) -> Result<PathBuf, Error> {
    if let Some(named) = around.text("NETRC") {
        return Ok(named.into());
    }
    let Some(home) = &around.home else {
        return Err(Error::usage(
            "--netrc: there is no home directory; use --netrc-file FILE",
        ));
    };
    let dot = home.join(".netrc");
    let underscore = home.join("_netrc");
    Ok(if cfg!(windows) && !dot.exists() && underscore.exists() {
        underscore
    } else {
        dot
    })
}

#[cfg(test)]
mod tests;
