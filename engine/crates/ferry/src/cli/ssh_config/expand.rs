//! The expansion of `~`, `%` and `${}` in a value (`ssh_config`(5), TOKENS and ENVIRONMENT VARIABLES).

use std::path::PathBuf;

use super::super::surroundings::Surroundings;
use crate::error::Error;

/// The facts of one host, for which tokens stand.
pub struct Facts<'a> {
    /// The name by `HostName`, else `original_host`.
    pub host: &'a str,
    pub original_host: &'a str,
    pub port: u16,
    pub user: &'a str,
    pub local_user: &'a str,
    pub alias: Option<&'a str>,
    pub around: &'a Surroundings<'a>,
}

/// A `HostName`, in which only `%h` and `%%` stand for something.
pub fn hostname(written: &str, host: &str) -> Result<String, Error> {
    percent(written, |token| (token == 'h').then(|| host.to_owned()))
        .map_err(|why| Error::usage(format!("ssh_config: HostName {written}: {why}")))
}

/// A path.
pub fn expanded(written: &str, facts: &Facts<'_>) -> Result<PathBuf, Error> {
    let home = facts.around.home.as_ref();
    let home = home.and_then(|home| home.to_str());
    let wrong = |why: String| Error::usage(format!("ssh_config: {written}: {why}"));
    let tilde = match (written.strip_prefix('~'), home) {
        (None, _) => written.to_owned(),
        (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => format!("{home}{rest}"),
        (Some(_), Some(_)) => return Err(wrong("ferry does not know other users' home directories".into())),
        (Some(_), None) => return Err(wrong("there is no home directory".into())),
    };
    let filled = environment(&tilde, facts.around).map_err(wrong)?;
    let value = percent(&filled, |token| {
        Some(match token {
            'd' => home?.to_owned(),
            'h' => facts.host.to_owned(),
            'k' => facts.alias.unwrap_or(facts.original_host).to_owned(),
            'n' => facts.original_host.to_owned(),
            'p' => facts.port.to_string(),
            'r' => facts.user.to_owned(),
            'u' => facts.local_user.to_owned(),
            _ => return None,
        })
    });
    value.map(PathBuf::from).map_err(wrong)
}

/// An `IdentityAgent`, if there is to be one.
pub fn agent(written: &str, facts: &Facts<'_>) -> Result<Option<PathBuf>, Error> {
    let variable = if written == "SSH_AUTH_SOCK" {
        Some(written)
    } else {
        written.strip_prefix('$').filter(|name| !name.starts_with('{'))
    };
    match variable {
        Some(name) => Ok(facts.around.text(name).map(PathBuf::from)),
        None if written.eq_ignore_ascii_case("none") => Ok(None),
        None => expanded(written, facts).map(Some),
    }
}

fn percent(text: &str, meaning: impl Fn(char) -> Option<String>) -> Result<String, String> {
    let mut made = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            made.push(character);
            continue;
        }
        match characters.next() {
            Some('%') => made.push('%'),
            Some(token) => {
                let value = meaning(token).ok_or_else(|| format!("ferry does not know what %{token} stands for"))?;
                made.push_str(&value);
            }
            None => return Err("it ends in %".into()),
        }
    }
    Ok(made)
}

fn environment(text: &str, around: &Surroundings) -> Result<String, String> {
    let mut made = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("${") {
        let (name, behind) = behind.split_once('}').ok_or("${ has no end")?;
        let value = around
            .unicode(name)
            .ok_or_else(|| format!("there is no environment variable {name}"))?;
        made.push_str(before);
        made.push_str(&value);
        rest = behind;
    }
    Ok(made + rest)
}
