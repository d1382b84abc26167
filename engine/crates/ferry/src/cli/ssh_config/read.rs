//! Files, blocks, keywords: the first value of a keyword counts, in the order of the files.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ferry_engine::ssh::known_hosts::matches;

use super::super::surroundings::Surroundings;
use super::lexer::{delimited, keyword, words};
use super::{Family, HostConfig, Question, Strict, hostname, system_folder};
use crate::error::Error;

/// The deepest nesting of Include, the same as OpenSSH's.
const DEEPEST: usize = 16;
/// They forbid what ferry may do all the same.
const POLICIES: [&str; 4] = [
    "CASignatureAlgorithms",
    "PubkeyAcceptedAlgorithms",
    "PubkeyAcceptedKeyTypes",
    "RequiredRSASize",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Must exist; its Include is relative to `~/.ssh`.
    Named,
    /// Like `Named`, but the file need not exist, and no other user may write to it.
    User,
    /// Include is relative to the system's folder.
    System,
}

pub struct Reader<'a> {
    question: Question<'a>,
    around: &'a Surroundings<'a>,
    /// The name that `Host` lines are compared with.
    host: String,
    config: HostConfig,
    final_pass: bool,
    wants_final_pass: bool,
}

/// The position of a line, and a mark for lines that never count.
struct Place<'p> {
    path: &'p Path,
    line: usize,
    kind: Kind,
    depth: usize,
    /// In an Include inside a block that does not apply: nothing counts.
    never: bool,
}

impl Place<'_> {
    fn wrong(&self, why: impl std::fmt::Display) -> Error {
        Error::usage(format!("{} line {}: {why}", self.path.display(), self.line))
    }
}

impl<'a> Reader<'a> {
    pub fn new(question: &Question<'a>, around: &'a Surroundings<'a>) -> Self {
        Self {
            question: *question,
            around,
            host: question.host.to_owned(),
            config: HostConfig {
                user: question.user.map(str::to_owned),
                port: question.port,
                ..HostConfig::default()
            },
            final_pass: false,
            wants_final_pass: false,
        }
    }

    pub fn wants_final_pass(&self) -> bool {
        self.wants_final_pass
    }

    /// All files are read a second time, with `Match final`; the host is then called by its new name.
    pub fn begin_final_pass(&mut self) -> Result<(), Error> {
        self.host = self.new_name()?;
        self.config.hostname = Some(self.host.clone());
        self.final_pass = true;
        Ok(())
    }

    pub fn into_config(self) -> HostConfig {
        self.config
    }

    fn new_name(&self) -> Result<String, Error> {
        match &self.config.hostname {
            Some(written) => hostname(written, &self.host),
            None => Ok(self.host.clone()),
        }
    }

    pub fn file(&mut self, path: &Path, kind: Kind) -> Result<(), Error> {
        let mut active = true;
        self.read(path, kind, kind == Kind::User, 0, false, &mut active)
    }

    fn read(
        &mut self,
        path: &Path,
        kind: Kind,
        checked: bool,
        depth: usize,
        never: bool,
        active: &mut bool,
    ) -> Result<(), Error> {
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound && (kind != Kind::Named || depth > 0) => return Ok(()),
            Err(error) => return Err(Error::usage(format!("{}: {error}", path.display())).with_source(error)),
        };
        if checked && is_open_to_others(path) {
            return Err(Error::usage(format!(
                "{}: other users of this machine may write to it; chmod 600 it",
                path.display()
            )));
        }
        let text = String::from_utf8_lossy(&text);
        for (line, number) in text.split('\n').zip(1..) {
            let place = Place {
                path,
                line: number,
                kind,
                depth,
                never,
            };
            self.line(line, &place, active)?;
        }
        Ok(())
    }

    fn line(&mut self, line: &str, place: &Place<'_>, active: &mut bool) -> Result<(), Error> {
        let Some((keyword, value)) = keyword(line) else {
            return Ok(());
        };
        if value.is_empty() {
            return Err(place.wrong(format!("{keyword} has no value")));
        }
        let words = || words(value).map_err(|()| place.wrong("a quotation does not end"));
        match keyword.as_str() {
            "host" => *active = !place.never && self.host_applies(&words()?, place)?,
            "match" => *active = self.match_applies(value, place)? && !place.never,
            "include" => {
                for pattern in words()? {
                    self.include(&pattern, place, *active)?;
                }
            }
            "proxycommand" | "proxyjump" => {
                let value = value.trim_start_matches([' ', '\t', '=']);
                self.proxy(&keyword, value, place, *active)?;
            }
            _ => self.set(&keyword, &words()?, place, *active)?,
        }
        Ok(())
    }

    fn host_applies(&self, patterns: &[String], place: &Place<'_>) -> Result<bool, Error> {
        let mut applies = false;
        for pattern in patterns {
            if pattern.is_empty() {
                return Err(place.wrong("host has an empty pattern"));
            }
            let (negated, glob) = pattern
                .strip_prefix('!')
                .map_or((false, pattern.as_str()), |glob| (true, glob));
            // A URL has no capitals in its host, so those of a pattern do not count.
            if matches(&glob.to_ascii_lowercase(), &self.host) {
                if negated {
                    return Ok(false);
                }
                applies = true;
            }
        }
        Ok(applies)
    }

    fn match_applies(&mut self, criteria: &str, place: &Place<'_>) -> Result<bool, Error> {
        let mut rest = Some(criteria);
        let mut applies = true;
        let mut count = 0;
        while let Some(word) = delimited(&mut rest).filter(|word| !word.is_empty() && !word.starts_with('#')) {
            let (negated, name) = word
                .strip_prefix('!')
                .map_or((false, word.as_str()), |name| (true, name));
            let name = name.to_ascii_lowercase();
            if name == "all" {
                let more = delimited(&mut rest).filter(|word| !word.is_empty() && !word.starts_with('#'));
                if count > 1 || more.is_some() {
                    return Err(place.wrong("match all stands alone, or after canonical or final"));
                }
                return Ok(applies && !negated);
            }
            count += 1;
            if name == "canonical" || name == "final" {
                self.wants_final_pass |= name == "final";
                applies &= self.final_pass != negated;
                continue;
            }
            let Some(pattern) = delimited(&mut rest).filter(|word| !word.is_empty() && !word.starts_with('#')) else {
                return Err(place.wrong(format!("match {name} has no value")));
            };
            let found = match name.as_str() {
                "host" => listed(&pattern.to_ascii_lowercase(), &self.new_name()?.to_ascii_lowercase()),
                "originalhost" => listed(&pattern.to_ascii_lowercase(), self.question.host),
                "user" => listed(
                    &pattern,
                    self.config.user.as_deref().unwrap_or(self.question.local_user),
                ),
                "localuser" => listed(&pattern, self.question.local_user),
                // A block that does not apply anyway needs no further criterion; in another one `exec` needs a run of its
                // command.
                _ if !applies || place.never => continue,
                "exec" => {
                    return Err(place.wrong(
                        "ferry runs no command to find out whether this Match exec block applies; use -F FILE or -F none",
                    ));
                }
                _ => {
                    return Err(place.wrong(format!("ferry does not know Match {name}; use -F FILE or -F none")));
                }
            };
            applies &= found != negated;
        }
        if count == 0 {
            return Err(place.wrong("match has no criteria"));
        }
        Ok(applies)
    }

    fn include(&mut self, pattern: &str, place: &Place<'_>, active: bool) -> Result<(), Error> {
        if place.depth + 1 > DEEPEST {
            return Err(place.wrong(format!("more than {DEEPEST} files include each other")));
        }
        let home = self.around.home.clone().unwrap_or_default();
        let path = match pattern.strip_prefix("~/") {
            Some(rest) if place.kind != Kind::System => home.join(rest),
            _ if place.kind == Kind::System => system_folder(self.around).join(pattern),
            _ => home.join(".ssh").join(pattern),
        };
        let options = glob::MatchOptions {
            require_literal_separator: true,
            require_literal_leading_dot: true,
            case_sensitive: true,
        };
        let found = path.to_str().and_then(|path| glob::glob_with(path, options).ok());
        let Some(found) = found else {
            return Err(place.wrong(format!("include {pattern} is no pattern of files")));
        };
        let mut found: Vec<PathBuf> = found.filter_map(Result::ok).collect();
        found.sort();
        for file in found {
            // A block that an included file begins ends with the file.
            let mut inner = active;
            let checked = place.kind != Kind::System;
            self.read(
                &file,
                place.kind,
                checked,
                place.depth + 1,
                place.never || !active,
                &mut inner,
            )?;
        }
        Ok(())
    }

    /// The first of `ProxyJump` and `ProxyCommand` counts.
    fn proxy(&mut self, keyword: &str, value: &str, place: &Place<'_>, active: bool) -> Result<(), Error> {
        if value.is_empty() {
            return Err(place.wrong(format!("{keyword} has no value")));
        }
        let config = &mut self.config;
        if active && config.proxy_jump.is_none() && config.proxy_command.is_none() {
            let slot = if keyword == "proxyjump" {
                &mut config.proxy_jump
            } else {
                &mut config.proxy_command
            };
            *slot = Some(value.to_owned());
        }
        Ok(())
    }

    fn set(&mut self, keyword: &str, words: &[String], place: &Place<'_>, active: bool) -> Result<(), Error> {
        let lists = ["userknownhostsfile", "globalknownhostsfile"].contains(&keyword);
        let config = &mut self.config;
        let first = words.first().map_or("", String::as_str);
        let one = || -> Result<String, Error> {
            match words {
                [] => Err(place.wrong(format!("{keyword} has no value"))),
                [one] if !one.is_empty() => Ok(one.clone()),
                [_] => Err(place.wrong(format!("{keyword} has an empty value"))),
                _ => Err(place.wrong(format!("{keyword} has more than one value"))),
            }
        };
        let wrong = || place.wrong(format!("{keyword} {first} is no value that OpenSSH has"));
        let yes_or_no = || -> Result<bool, Error> {
            match one()?.to_ascii_lowercase().as_str() {
                "yes" | "true" => Ok(true),
                "no" | "false" => Ok(false),
                _ => Err(wrong()),
            }
        };
        match keyword {
            "hostname" => put(&mut config.hostname, one()?, active),
            "user" => put(&mut config.user, one()?, active),
            "port" => {
                let port = one()?.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
                put(&mut config.port, port, active);
            }
            "identityfile" => add(&mut config.identity_files, one()?, active),
            "certificatefile" => add(&mut config.certificate_files, one()?, active),
            "identitiesonly" => put(&mut config.identities_only, yes_or_no()?, active),
            "identityagent" => put(&mut config.identity_agent, one()?, active),
            "revokedhostkeys" => put(&mut config.revoked_host_keys, one()?, active),
            "hostkeyalias" => put(&mut config.host_key_alias, one()?, active),
            "proxyusefdpass" => put(&mut config.proxy_use_fdpass, yes_or_no()?, active),
            "stricthostkeychecking" => {
                let value = match one()?.to_ascii_lowercase().as_str() {
                    "yes" | "true" => Strict::Yes,
                    "no" | "false" | "off" => Strict::No,
                    "ask" => Strict::Ask,
                    "accept-new" => Strict::AcceptNew,
                    _ => return Err(wrong()),
                };
                put(&mut config.strict_host_key_checking, value, active);
            }
            "ciphers" => put(&mut config.algorithms.ciphers, one()?, active),
            "macs" => put(&mut config.algorithms.macs, one()?, active),
            "kexalgorithms" => put(&mut config.algorithms.exchanges, one()?, active),
            "hostkeyalgorithms" => put(&mut config.algorithms.host_keys, one()?, active),
            "connecttimeout" => {
                let text = one()?;
                let value = if text == "none" {
                    -1
                } else {
                    seconds(&text).ok_or_else(wrong)?
                };
                put(&mut config.connect_timeout, value, active);
            }
            "addressfamily" => {
                let family = match one()?.to_ascii_lowercase().as_str() {
                    "any" => Family::Any,
                    "inet" => Family::Inet,
                    "inet6" => Family::Inet6,
                    _ => return Err(wrong()),
                };
                put(&mut config.address_family, family, active);
            }
            _ if lists => {
                if words.is_empty() || words.iter().any(String::is_empty) {
                    return Err(place.wrong(format!("{keyword} has an empty value")));
                }
                if words.len() > 1 && words.iter().any(|word| word.eq_ignore_ascii_case("none")) {
                    return Err(place.wrong(format!("{keyword} none stands alone")));
                }
                let slot = if keyword == "userknownhostsfile" {
                    &mut config.user_known_hosts
                } else {
                    &mut config.global_known_hosts
                };
                put(slot, words.to_vec(), active);
            }
            _ => {
                let policy = POLICIES.iter().find(|name| name.eq_ignore_ascii_case(keyword));
                // A value that adds to the usual list forbids nothing.
                if let Some(name) =
                    policy.filter(|name| active && !first.starts_with('+') && !config.not_followed.contains(name))
                {
                    config.not_followed.push(name);
                }
            }
        }
        Ok(())
    }
}

fn put<T>(slot: &mut Option<T>, value: T, active: bool) {
    if active && slot.is_none() {
        *slot = Some(value);
    }
}

fn add(list: &mut Vec<String>, value: String, active: bool) {
    if active && !list.contains(&value) {
        list.push(value);
    }
}

/// A list of patterns with commas: no negated one may match, and one other must.
fn listed(patterns: &str, name: &str) -> bool {
    let mut found = false;
    for pattern in patterns.split(',') {
        match pattern.strip_prefix('!') {
            Some(glob) if matches(glob, name) => return false,
            None if matches(pattern, name) => found = true,
            _ => {}
        }
    }
    found
}

/// `sshd_config`(5), TIME FORMATS: 90, 1m30s, 2h.
fn seconds(text: &str) -> Option<i64> {
    let mut total = 0_i64;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, behind) = rest.split_at(digits);
        let number: i64 = number.parse().ok()?;
        let mut unit = behind.chars();
        let factor = match unit.next() {
            None | Some('s' | 'S') => 1,
            Some('m' | 'M') => 60,
            Some('h' | 'H') => 3600,
            Some('d' | 'D') => 86400,
            Some('w' | 'W') => 604_800,
            Some(_) => return None,
        };
        total = total.checked_add(number.checked_mul(factor)?)?;
        rest = unit.as_str();
    }
    (!text.is_empty() && i32::try_from(total).is_ok()).then_some(total)
}

#[cfg(unix)]
fn is_open_to_others(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).is_ok_and(|found| found.mode() & 0o022 != 0)
}

#[cfg(not(unix))]
fn is_open_to_others(_: &Path) -> bool {
    false
}
