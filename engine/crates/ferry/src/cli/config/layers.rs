//! The precedence of settings for a command line: typed flags, then the host's tables, the command's, the top level.

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::{Arg, Command};
use ferry_engine::options::Remote;
use ferry_engine::ssh::known_hosts::matches;

use super::file::File;
use super::situation::Situation;
use super::table::{Entry, Name, Setting, Table};
use crate::cli::scope::{Line, Verb};
use crate::error::Error;

/// Flags that mean something only with another one. Those of the second group belong to the other's value: what one place says of a key or a
/// password is not for the certificate or the proxy of a place that comes first.
const NEED: [(&str, &str); 5] = [
    ("limit-peak", "limit-rate"),
    ("limit-each", "limit-rate"),
    ("max-delete", "delete"),
    ("modify-window", "mirror"),
    ("dry-run", "mirror"),
];
const BELONG: [(&str, &str); 3] = [
    ("key", "cert"),
    ("proxy-password-file", "proxy"),
    ("proxy-password-env", "proxy"),
];

/// Fetches the bytes in any order.
const ORDERLESS: &str = "connections";

/// A setting, and what became of it.
#[derive(Debug)]
pub struct Outcome<'f> {
    pub table: &'f Table,
    pub entry: &'f Entry,
    /// The reason for which the setting does not count; `None` if it counts.
    pub without: Option<String>,
}

/// The settings of the tables that are for a command line, those that count most first.
#[derive(Debug)]
pub struct Merged<'f> {
    pub file: &'f File,
    pub outcomes: Vec<Outcome<'f>>,
}

/// A flag that is settled: by the command line (0) or by a table, counted in the order in which they count.
struct Taken<'a> {
    flag: &'a Arg,
    rank: usize,
    off: bool,
    by: String,
}

impl<'f> Merged<'f> {
    /// # Errors
    /// Class Usage: a URL cannot be read, or a host's table is for some of the URLs only.
    pub fn of(file: &'f File, line: Line<'_>) -> Result<Self, Error> {
        let situation = Situation::of(line)?;
        let mut taken: Vec<Taken<'_>> = line
            .command
            .get_arguments()
            .filter(|flag| line.typed(flag.get_id().as_str()))
            .map(|flag| Taken {
                flag,
                rank: 0,
                off: false,
                by: "the command line".into(),
            })
            .collect();
        let tables = ranked(file, line.verb, &situation.remotes)?;
        let mut outcomes = Vec::new();
        // A setting that depends on another flag follows once that flag is settled.
        for late in [false, true] {
            for (table, rank) in tables.iter().zip(1..) {
                for entry in table.entries.iter().filter(|entry| depends(&entry.key) == late) {
                    let Some(flag) = flag(line, entry) else {
                        let why = format!("ferry {} has no such flag", line.verb.name());
                        outcomes.push(Outcome {
                            table,
                            entry,
                            without: Some(why),
                        });
                        continue;
                    };
                    let without = without(line.command, &situation, &taken, flag, entry, rank);
                    if without.is_none() {
                        let by = format!("{} ({})", file.place(entry), table.name);
                        let off = entry.setting == Setting::Off;
                        taken.push(Taken { flag, rank, off, by });
                    }
                    outcomes.push(Outcome { table, entry, without });
                }
            }
        }
        Ok(Self { file, outcomes })
    }

    pub fn used(&self) -> impl DoubleEndedIterator<Item = &Outcome<'f>> {
        self.outcomes.iter().filter(|outcome| outcome.without.is_none())
    }

    /// The words of the settings that count, to be put in front of the typed ones.
    pub fn words(&self) -> Vec<OsString> {
        self.used().flat_map(|outcome| outcome.entry.words()).collect()
    }

    /// A problem of flags together, with the place of each of them that was not typed.
    pub fn explain(&self, mut problem: Error) -> Error {
        for outcome in self.used() {
            let flag = format!("--{}", outcome.entry.key);
            if is_named(&problem.message, &flag) {
                let place = self.file.place(outcome.entry);
                // Writing into memory does not fail.
                let _ = write!(problem.message, " ({flag} is said in {place})");
            }
        }
        problem
    }
}

fn is_named(message: &str, flag: &str) -> bool {
    message.match_indices(flag).any(|(at, _)| {
        let behind = message.get(at + flag.len()..).and_then(|rest| rest.chars().next());
        behind.is_none_or(|letter| !letter.is_alphanumeric() && letter != '-')
    })
}

/// The tables that are for these URLs, those that count most first: of several hosts' the one that says most about the name.
fn ranked<'f>(file: &'f File, verb: Verb, remotes: &[Remote]) -> Result<Vec<&'f Table>, Error> {
    let mut hosts = Vec::new();
    for table in &file.tables {
        let Name::Host(pattern) = &table.name else { continue };
        let (for_it, others): (Vec<_>, Vec<_>) = remotes
            .iter()
            .map(Remote::host)
            .partition(|host| matches(pattern, host));
        if let (Some(one), Some(other)) = (for_it.first(), others.first()) {
            return Err(Error::usage(format!(
                "{}: {} is for {one} and not for {other}; ask for one of them at a time, or use --no-config",
                file.path.display(),
                table.name
            )));
        }
        if !for_it.is_empty() {
            let letters = pattern.chars().filter(|c| !"*?".contains(*c)).count();
            let exact = letters == pattern.chars().count();
            hosts.push(((exact, letters), table));
        }
    }
    hosts.sort_by(|(one, _), (other, _)| other.cmp(one));
    let named = |name: Name| file.tables.iter().filter(move |table| table.name == name);
    let hosts = hosts.into_iter().map(|(_, table)| table);
    Ok(hosts
        .chain(named(Name::Command(verb)))
        .chain(named(Name::Top))
        .collect())
}

fn flag<'a>(line: Line<'a>, entry: &Entry) -> Option<&'a Arg> {
    let mut flags = line.command.get_arguments();
    flags.find(|flag| flag.get_long() == Some(&entry.key))
}

fn depends(key: &str) -> bool {
    key == ORDERLESS || needs(key).is_some()
}

fn needs(key: &str) -> Option<&'static str> {
    let mut pairs = NEED.iter().chain(&BELONG);
    pairs.find_map(|(flag, other)| (*flag == key).then_some(*other))
}

/// The reason for which a setting does not count; `None` if it counts.
fn without(
    command: &Command,
    situation: &Situation<'_>,
    taken: &[Taken<'_>],
    flag: &Arg,
    entry: &Entry,
    rank: usize,
) -> Option<String> {
    let earlier = |taken: &&Taken<'_>| taken.rank < rank;
    let same = |taken: &&Taken<'_>| one(taken.flag) == one(flag);
    if let Some(before) = taken.iter().filter(earlier).find(same) {
        return Some(format!("{} comes first", before.by));
    }
    if entry.setting == Setting::Off {
        return None;
    }
    if let Some(why) = situation.without(entry) {
        return Some(why.into());
    }
    let against = |taken: &&Taken<'_>| !taken.off && conflict(command, taken.flag, flag);
    if let Some(before) = taken.iter().filter(earlier).find(against) {
        let long = before.flag.get_long().unwrap_or_default();
        return Some(format!("--{long} comes first, by {}", before.by));
    }
    let key = entry.key.as_str();
    let find = |wanted: &str| {
        let mut taken = taken.iter();
        taken.find(|taken| taken.flag.get_long() == Some(wanted) && !taken.off)
    };
    if key == ORDERLESS && situation.discards() && find("checksum").is_some() {
        return Some("a checksum is wanted, and no file puts the bytes in order".into());
    }
    let wanted = needs(key)?;
    match find(wanted) {
        None => Some(format!("it needs --{wanted}")),
        Some(other) if other.rank < rank && BELONG.contains(&(key, wanted)) => {
            Some(format!("it belongs to another --{wanted} than that of {}", other.by))
        }
        Some(_) => None,
    }
}

/// Three flags are one list.
fn one(flag: &Arg) -> &str {
    match flag.get_long().unwrap_or_default() {
        "exclude" | "exclude-from" => "include",
        key => key,
    }
}

/// True if the parser, or `cli::convert`, refuses the two flags together.
fn conflict(command: &Command, a: &Arg, b: &Arg) -> bool {
    let refuses = |a: &Arg, b: &Arg| {
        command
            .get_arg_conflicts_with(a)
            .iter()
            .any(|other| other.get_id() == b.get_id())
    };
    let in_group = || {
        let mut groups = command.get_groups().filter(|group| !(*group).clone().is_multiple());
        groups.any(|group| {
            let has = |flag: &Arg| group.get_args().any(|id| id == flag.get_id());
            has(a) && has(b)
        })
    };
    let names = [a.get_long(), b.get_long()];
    let trust = names.contains(&Some("insecure")) && names.contains(&Some("pin"));
    trust || refuses(a, b) || refuses(b, a) || in_group()
}
