//! The transfers for which a flag means something. For any other transfer a typed flag is refused, and a setting of the
//! configuration file is left out.

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

use super::listed::Listed;
use super::ssh::Kind;
use crate::error::Error;

/// The commands that connect, and so those that a configuration file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Get,
    Put,
}

impl Verb {
    pub const ALL: [Self; 2] = [Self::Get, Self::Put];

    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Put => "put",
        }
    }
}

/// The kind of transfer that a flag needs to mean something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Only {
    Http,
    Sftp,
    /// Over SFTP, too.
    Directories,
}

/// The kind of transfer that a flag, by its long name without dashes, needs; `None` if the flag means something for every
/// transfer.
pub fn only(verb: Verb, flag: &str) -> Option<Only> {
    match (flag, verb) {
        (
            "http1.1" | "http2" | "http3" | "header" | "cacert" | "pinnedpubkey" | "cert" | "key" | "token-file"
            | "token-env" | "netrc" | "netrc-file" | "max-redirects" | "compressed" | "method" | "retry-unsafe",
            _,
        ) => Some(Only::Http),
        (
            "perms" | "recursive" | "ssh-config" | "jump" | "known-hosts" | "pin" | "identity" | "certificate"
            | "passphrase-file" | "passphrase-env" | "no-agent" | "channels",
            _,
        )
        | ("resume" | "connections" | "remote-time" | "no-sync", Verb::Put) => Some(Only::Sftp),
        (
            "include" | "exclude" | "exclude-from" | "min-size" | "max-size" | "newer-than" | "older-than" | "mirror",
            _,
        ) => Some(Only::Directories),
        _ => None,
    }
}

/// A command line: its command, and what was typed of the command's flags.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    pub verb: Verb,
    pub command: &'a Command,
    pub matches: &'a ArgMatches,
    /// The URLs of `--input`.
    pub listed: Option<&'a Listed>,
}

impl<'a> Line<'a> {
    /// `None` if the command does not connect.
    pub fn of(commands: &'a Command, matches: &'a ArgMatches, listed: Option<&'a Listed>) -> Option<Self> {
        let (name, matches) = matches.subcommand()?;
        Some(Self {
            verb: Verb::of(name)?,
            command: commands.find_subcommand(name)?,
            matches,
            listed,
        })
    }

    /// True if the command has a flag with this id, and the flag was typed.
    pub fn typed(&self, id: &str) -> bool {
        self.matches.try_contains_id(id).is_ok() && self.matches.value_source(id) == Some(ValueSource::CommandLine)
    }

    /// True if a flag was typed with another value than its default: a flag typed with its default asks for nothing.
    pub fn given(&self, flag: &clap::Arg) -> bool {
        let id = flag.get_id().as_str();
        if !self.typed(id) {
            return false;
        }
        let usual = flag.get_default_values();
        let values: Vec<_> = self.matches.get_raw(id).into_iter().flatten().collect();
        let same = usual.len() == values.len()
            && usual
                .iter()
                .zip(&values)
                .all(|(usual, value)| value.eq_ignore_ascii_case(usual));
        usual.is_empty() || !same
    }

    /// The first flag, as it is written, that was given and needs another transfer than this.
    fn first_given(&self, needs: Only) -> Option<&str> {
        let mut flags = self.command.get_arguments();
        flags.find_map(|flag| {
            let name = flag.get_long()?;
            (only(self.verb, name) == Some(needs) && self.given(flag)).then_some(name)
        })
    }
}

impl Kind {
    /// Refuses the first flag that was given and means nothing to this kind of server: ignoring it would promise what is not kept.
    pub fn refuse(self, line: Line<'_>) -> Result<(), Error> {
        let (needs, wanted, other) = match self {
            Self::Http => (Only::Sftp, "sftp", "http"),
            Self::Sftp => (Only::Http, "http", "sftp"),
        };
        match line.first_given(needs) {
            // PUT is the default, and means the same with sftp.
            Some(flag) => Err(Error::usage(format!(
                "--{flag}{} is for {wanted} URLs only; leave it out with {other}",
                if flag == "method" { " POST" } else { "" }
            ))),
            None => Ok(()),
        }
    }
}

/// Refuses the first flag that was given and chooses from directories, where there are none.
pub fn refuse_selection(line: Line<'_>, directories: bool, wanted: &str) -> Result<(), Error> {
    match line.first_given(Only::Directories) {
        Some(flag) if !directories => Err(Error::usage(format!("--{flag}: for directories, {wanted}"))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::super::flags::Args;
    use super::*;

    fn arguments(verb: Verb) -> Vec<clap::Arg> {
        let command = Args::command();
        let own = command.find_subcommand(verb.name()).unwrap();
        own.get_arguments().cloned().collect()
    }

    #[test]
    fn a_flag_whose_help_says_so_is_for_one_kind_of_server() {
        for verb in Verb::ALL {
            for flag in arguments(verb) {
                let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
                let Some(name) = flag.get_long() else { continue };
                if help.contains("(http only)") || ["http2", "http3"].contains(&name) {
                    assert_eq!(only(verb, name), Some(Only::Http), "{name}");
                }
                if help.contains("(sftp only") && !help.contains("an upload (sftp only)") {
                    assert_eq!(only(verb, name), Some(Only::Sftp), "{name}");
                }
            }
        }
    }

    #[test]
    fn every_flag_of_directories_has_their_heading() {
        for verb in Verb::ALL {
            for flag in arguments(verb) {
                let Some(name) = flag.get_long() else { continue };
                if only(verb, name) == Some(Only::Directories) {
                    assert!(flag.get_help_heading().unwrap().contains("directories"), "{name}");
                }
            }
        }
    }
}
