//! The keys of a configuration file: the flags that it may have, the tables for them, and the conversion of their values.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::builder::ArgAction;
use clap::{Arg, Command, ValueHint};
use ferry_engine::options::{Proxy, Rule};
use toml::de::DeValue;

use super::NONE;
use super::table::{Name, Setting};
use crate::cli::scope::Verb;
use crate::cli::values::parse_header;

const INSTEAD: &str = "a secret does not belong in this file; name its file by token-file or password-file in a [host] table, or use .netrc";

/// The flag that a key stands for, and the first command that has it.
///
/// # Errors
/// The reason: no flag has this name, or the flag may not be in this table.
pub fn find<'a>(key: &str, table: &Name, commands: &'a Command) -> Result<(Verb, &'a Arg), String> {
    if let Some(why) = never(key) {
        return Err(why.into());
    }
    let wanted = match table {
        Name::Command(verb) => Some(*verb),
        Name::Top | Name::Host(_) => None,
    };
    let mut verbs = Verb::ALL
        .into_iter()
        .filter(|verb| wanted.is_none_or(|wanted| wanted == *verb));
    let Some((verb, arg)) = verbs.find_map(|verb| Some((verb, flag(commands, verb, key)?))) else {
        return Err(unknown(key, wanted, commands));
    };
    if arg.is_required_set() {
        return Err("is always typed; leave it out".into());
    }
    if one_servers(key) && !matches!(table, Name::Host(pattern) if pattern.contains(|c: char| c.is_alphanumeric())) {
        return Err("is for one server, not for all: write it in that server's table, [host.\"NAME\"]".into());
    }
    Ok((verb, arg))
}

/// True if the command has this flag, and a file may set it.
pub fn is_key(commands: &Command, verb: Verb, key: &str) -> bool {
    never(key).is_none() && flag(commands, verb, key).is_some_and(|arg| !arg.is_required_set())
}

pub fn flag<'a>(commands: &'a Command, verb: Verb, key: &str) -> Option<&'a Arg> {
    let command = commands.find_subcommand(verb.name())?;
    command.get_arguments().find(|arg| arg.get_long() == Some(key))
}

/// The commands without any required argument, for the checks of a file's values and for `ferry config`.
pub fn lenient(mut commands: Command) -> Command {
    for verb in Verb::ALL {
        commands = commands.mut_subcommand(verb.name(), |command| {
            let groups: Vec<_> = command.get_groups().map(|group| group.get_id().clone()).collect();
            let command = command.mut_args(|arg| arg.required(false));
            groups.into_iter().fold(command, |command, id| {
                command.mut_group(id, |group| group.required(false))
            })
        });
    }
    commands
}

/// The reason for which no file may have this key; `None` for all other keys.
fn never(key: &str) -> Option<&'static str> {
    Some(match key {
        "config" | "no-config" => "which file is read is typed, or said by the variable FERRY_CONFIG; leave it out",
        "help" | "version" => "is for the command line; leave it out",
        "input" | "output" | "remote-name" | "discard" | "range" | "recursive" | "json" | "url" | "file" => {
            "differs from run to run; leave it out and type it"
        }
        "mirror" | "delete" => "may replace and remove files, so it is always typed; leave it out",
        "password" | "token" | "passphrase" | "proxy-password" | "authorization" | "cookie" => INSTEAD,
        _ => return None,
    })
}

/// True for keys of trust and of secrets: each is meant for one server, and should not apply to others.
fn one_servers(key: &str) -> bool {
    matches!(
        key,
        "insecure" | "pin" | "pinnedpubkey" | "password-file" | "password-env" | "token-file" | "token-env"
    )
}

fn unknown(key: &str, wanted: Option<Verb>, commands: &Command) -> String {
    let known = |key: &str| Verb::ALL.into_iter().find(|verb| flag(commands, *verb, key).is_some());
    if let (Some(verb), Some(other)) = (wanted, known(key)) {
        return format!("ferry {} has no such flag, but ferry {} has", verb.name(), other.name());
    }
    let plain = key.trim_start_matches('-').replace('_', "-");
    if plain != key && known(&plain).is_some() {
        return format!("is no flag; write {plain}");
    }
    "is no flag; keys are the long flags of ferry get --help, without dashes".into()
}

/// A value of the file as the flag takes it.
///
/// # Errors
/// The reason for which the flag cannot take the value.
pub fn setting(arg: &Arg, value: &DeValue<'_>, folder: &Path, home: Option<&Path>) -> Result<Setting, String> {
    let key = arg.get_long().unwrap_or_default();
    match (value, arg.get_action()) {
        (DeValue::Boolean(false), _) => Ok(Setting::Off),
        (DeValue::Boolean(true), ArgAction::SetTrue | ArgAction::Count) => Ok(Setting::On(1)),
        (DeValue::Integer(_), ArgAction::Count) => match text(value).and_then(|text| text.parse().ok()) {
            Some(0) => Ok(Setting::Off),
            Some(times) => Ok(Setting::On(times)),
            None => Err("is how often it is given: 1 or 2".into()),
        },
        (DeValue::Table(_), _) => {
            Err("has a table for its value; a name with dots is quoted: [host.\"files.example.org\"]".into())
        }
        (_, ArgAction::SetTrue) => Err("is true or false".into()),
        (_, ArgAction::Count) => Err("is true, false, or how often it is given".into()),
        (DeValue::Array(values), ArgAction::Append) => {
            let values: Option<Vec<_>> = values.iter().map(|value| text(value.get_ref())).collect();
            let values = values.ok_or("is a list of texts, such as [\"a\", \"b\"]")?;
            if values.is_empty() {
                return Ok(Setting::Off);
            }
            let values = values.into_iter().map(|value| word(arg, key, value, folder, home));
            values.collect::<Result<_, _>>().map(Setting::Values)
        }
        (DeValue::Array(_), _) => Err("takes one value, not a list".into()),
        _ => {
            let value = text(value).ok_or("takes a text, such as \"...\", or false")?;
            Ok(Setting::Values(vec![word(arg, key, value, folder, home)?]))
        }
    }
}

/// Numbers are written as they are, in tens.
fn text(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.clone().into_owned()),
        DeValue::Integer(number) => {
            let number = i128::from_str_radix(number.as_str(), number.radix()).ok()?;
            Some(number.to_string())
        }
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        _ => None,
    }
}

/// No shell expands `~` here, and where ferry runs says nothing about where the file's author meant.
fn word(arg: &Arg, key: &str, value: String, folder: &Path, home: Option<&Path>) -> Result<OsString, String> {
    // The parser leaves these checks to `cli::convert`, which knows no line numbers.
    match key {
        "header" if parse_header(&value)?.1.is_sensitive() => return Err(INSTEAD.into()),
        "include" | "exclude" => Rule::parse(key == "include", &value)
            .map(drop)
            .map_err(|problem| problem.message)?,
        "proxy" if !value.trim().is_empty() && Proxy::parse(&value)?.password.is_some() => {
            return Err("a password does not belong in this file; name its file by proxy-password-file".into());
        }
        _ => {}
    }
    if key == "checksum" && value.contains(':') {
        return Err("the checksum of one file is typed; here it is an algorithm: sha256".into());
    }
    let is_none = value == NONE && key == "ssh-config";
    if !matches!(arg.get_value_hint(), ValueHint::FilePath | ValueHint::AnyPath) || value.is_empty() || is_none {
        return Ok(value.into());
    }
    let in_home = value
        .strip_prefix("~/")
        .or_else(|| value.strip_prefix("~\\").filter(|_| cfg!(windows)));
    let path = match in_home {
        Some(rest) => home.ok_or("there is no home directory for ~")?.join(rest),
        None => folder.join(PathBuf::from(value)),
    };
    Ok(path.into())
}
