//! `ferry config`: the values that a command line would use, and their sources.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;

use clap::builder::ArgAction;
use clap::{Arg, CommandFactory};
use ferry_engine::shown_url;
use serde_json::{Value, json};

use super::keys::{is_key, lenient};
use super::layers::{Merged, Outcome};
use super::situation::Situation;
use super::table::Setting;
use crate::cli::flags::{Args, Config};
use crate::cli::listed::Listed;
use crate::cli::scope::{Line, Verb};
use crate::cli::surroundings::Surroundings;
use crate::error::Error;

/// A failure of `ferry config`: the parser refuses the command line that it asks about, or there is a usage error.
#[derive(Debug)]
pub enum Problem {
    Parser(clap::Error),
    Usage(Error),
}

impl From<Error> for Problem {
    fn from(problem: Error) -> Self {
        Self::Usage(problem)
    }
}

struct Row<'a> {
    key: &'a str,
    value: Value,
    from: Source<'a>,
}

enum Source<'a> {
    Default,
    Typed,
    File(&'a Outcome<'a>),
}

/// The values that a command line would use, as text or as JSON.
///
/// # Errors
/// A fault in the file, or in the words after `config`.
pub fn show(asked: &Config, around: &Surroundings) -> Result<String, Problem> {
    let mut words: Vec<OsString> = vec!["ferry".into()];
    let named = asked.words.first().and_then(|word| Verb::of(word.to_str()?));
    if named.is_none() {
        words.push(Verb::Get.name().into());
    }
    words.extend(asked.words.iter().cloned());
    let mut commands = lenient(Args::command());
    // `--config` or `--no-config` typed for `ferry config` itself applies to the command line that it asks about.
    for (place, word) in asked.file.words().into_iter().enumerate() {
        words.insert(2 + place, word);
    }
    let matches = commands.try_get_matches_from_mut(words).map_err(Problem::Parser)?;
    let asked_for = matches
        .subcommand()
        .map(|(_, typed)| Listed::read(typed))
        .transpose()?
        .flatten();
    let Some(line) = Line::of(&commands, &matches, asked_for.as_ref()) else {
        return Ok(String::new());
    };
    let verb = line.verb;
    let situation = Situation::of(line)?;
    let urls: Vec<_> = situation.remotes.iter().map(|remote| shown_url(&remote.url)).collect();
    let strict = Args::command();
    let file = super::read(line.matches, &strict, around)?;
    let merged = file.as_ref().map(|file| Merged::of(file, line)).transpose()?;
    let outcomes = merged.as_ref().map_or(&[][..], |merged| &merged.outcomes);
    let rows: Vec<_> = line
        .command
        .get_arguments()
        .filter(|flag| flag.get_long().is_some_and(|key| is_key(&strict, verb, key)))
        .map(|flag| row(line, flag, outcomes))
        .collect();
    let unused: Vec<_> = outcomes.iter().filter(|outcome| outcome.without.is_some()).collect();
    let path = file.as_ref().map(|file| file.path.display().to_string());
    Ok(if asked.json {
        as_json(verb, &urls, path.as_deref(), &rows, &unused)
    } else {
        as_text(verb, &urls, path.as_deref(), &rows, &unused)
    })
}

fn row<'a>(line: Line<'a>, flag: &'a Arg, outcomes: &'a [Outcome<'a>]) -> Row<'a> {
    let key = flag.get_long().unwrap_or_default();
    let id = flag.get_id().as_str();
    if line.typed(id) {
        let value = match flag.get_action() {
            ArgAction::Count => json!(line.matches.get_count(id)),
            ArgAction::SetTrue => Value::Bool(true),
            _ => texts(flag, line.matches.get_raw(id).into_iter().flatten()),
        };
        let from = Source::Typed;
        return Row { key, value, from };
    }
    let mut used = outcomes.iter().filter(|outcome| outcome.without.is_none());
    let Some(outcome) = used.find(|outcome| outcome.entry.key == key) else {
        let (value, from) = (usual(flag), Source::Default);
        return Row { key, value, from };
    };
    let value = match (&outcome.entry.setting, flag.get_action()) {
        (Setting::Values(values), _) => texts(flag, values.iter().map(OsString::as_os_str)),
        (Setting::On(times), ArgAction::Count) => json!(times),
        (Setting::On(_), _) => Value::Bool(true),
        (Setting::Off, _) => usual(flag),
    };
    let from = Source::File(outcome);
    Row { key, value, from }
}

fn usual(flag: &Arg) -> Value {
    match flag.get_action() {
        ArgAction::SetTrue => Value::Bool(false),
        ArgAction::Count => json!(0),
        ArgAction::Append => json!([]),
        _ => flag
            .get_default_values()
            .first()
            .map_or(Value::Null, |value| json!(value.to_string_lossy())),
    }
}

fn texts<'v>(flag: &Arg, values: impl Iterator<Item = &'v OsStr>) -> Value {
    let mut values: Vec<_> = values.map(|value| value.to_string_lossy().into_owned()).collect();
    match flag.get_action() {
        ArgAction::Append => json!(values),
        _ => values.pop().map_or(Value::Null, Value::String),
    }
}

fn as_json(verb: Verb, urls: &[String], path: Option<&str>, rows: &[Row<'_>], unused: &[&Outcome<'_>]) -> String {
    let values: Vec<_> = rows
        .iter()
        .map(|row| {
            let (from, place) = match &row.from {
                Source::Default => ("default", None),
                Source::Typed => ("typed", None),
                Source::File(outcome) => ("file", Some(outcome)),
            };
            json!({
                "key": row.key,
                "value": row.value,
                "from": from,
                "line": place.map(|outcome| outcome.entry.line),
                "table": place.map(|outcome| outcome.table.name.to_string()),
            })
        })
        .collect();
    let unused: Vec<_> = unused
        .iter()
        .map(|outcome| {
            json!({
                "key": outcome.entry.key,
                "line": outcome.entry.line,
                "table": outcome.table.name.to_string(),
                "why": outcome.without,
            })
        })
        .collect();
    let whole = json!({
        "schema": "ferry-config-1",
        "command": verb.name(),
        "urls": urls,
        "file": path,
        "values": values,
        "not_used": unused,
    });
    format!("{whole:#}\n")
}

/// The values in columns; `-` stands for a missing value.
fn as_text(verb: Verb, urls: &[String], path: Option<&str>, rows: &[Row<'_>], unused: &[&Outcome<'_>]) -> String {
    let path = path.map(|path| path.escape_debug().to_string());
    let mut out = format!("# ferry {}", verb.name());
    for url in urls {
        let _ = write!(out, " {url}");
    }
    let _ = writeln!(out, "\n# {}", path.as_deref().unwrap_or("no configuration file"));
    let place = |outcome: &Outcome<'_>| {
        let path = path.as_deref().unwrap_or_default();
        format!("{path}:{} {}", outcome.entry.line, outcome.table.name)
    };
    for row in rows {
        let value = if row.value.is_null() {
            "-".into()
        } else {
            row.value.to_string()
        };
        let from = match &row.from {
            Source::Default => "default".into(),
            Source::Typed => "typed".into(),
            Source::File(outcome) => place(outcome),
        };
        let _ = writeln!(out, "{:<22} {value:<24} {from}", row.key);
    }
    if !unused.is_empty() {
        out.push_str("# not used\n");
    }
    for outcome in unused {
        let why = outcome
            .without
            .as_deref()
            .unwrap_or_default()
            .replace(char::is_control, " ");
        let _ = writeln!(out, "{:<22} {}: {why}", outcome.entry.key, place(outcome));
    }
    out
}
