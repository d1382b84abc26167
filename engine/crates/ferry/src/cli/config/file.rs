//! A file's text as tables of settings, each with its line.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};
use url::Host;

use super::keys::{self, lenient};
use super::table::{Entry, Name, Table};
use crate::cli::flags::Args;
use crate::cli::scope::Verb;
use crate::error::Error;

#[derive(Debug)]
pub struct File {
    pub path: PathBuf,
    /// In the file's order.
    pub tables: Vec<Table>,
}

type Pair<'a, 'i> = (&'a Spanned<DeString<'i>>, &'a Spanned<DeValue<'i>>);

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    commands: &'a Command,
    home: Option<&'a Path>,
}

impl File {
    /// # Errors
    /// Class Usage, with line and key.
    pub fn parse(path: &Path, text: &str, commands: &Command, home: Option<&Path>) -> Result<Self, Error> {
        let reader = Reader {
            path,
            text,
            commands,
            home,
        };
        let document = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let why = error.message().replace(char::is_control, " ");
            Error::usage(format!("{}: not TOML: {why}", reader.place(at))).with_source(error)
        })?;
        let tables = reader.tables(document.get_ref())?;
        let mut lenient = lenient(Args::command());
        for table in &tables {
            reader.check_values(table, &mut lenient)?;
        }
        Ok(Self {
            path: path.to_owned(),
            tables,
        })
    }

    pub fn place(&self, entry: &Entry) -> String {
        place(&self.path, entry.line)
    }
}

fn place(path: &Path, line: usize) -> String {
    format!("{}:{line}", path.display())
}

impl Reader<'_> {
    fn line(&self, at: usize) -> usize {
        let before = self.text.as_bytes().iter().take(at);
        before.filter(|byte| **byte == b'\n').count() + 1
    }

    fn place(&self, at: usize) -> String {
        place(self.path, self.line(at))
    }

    fn wrong(&self, key: &Spanned<DeString<'_>>, why: &str) -> Error {
        let place = self.place(key.span().start);
        Error::usage(format!("{place}: {}: {why}", key.get_ref().escape_debug()))
    }

    fn tables(&self, document: &DeTable<'_>) -> Result<Vec<Table>, Error> {
        let mut tables = Vec::new();
        let mut top = Vec::new();
        for (key, value) in in_order(document) {
            let name = key.get_ref().as_ref();
            match (name, Verb::of(name), value.get_ref()) {
                ("host", _, DeValue::Table(hosts)) => {
                    for (key, value) in in_order(hosts) {
                        let DeValue::Table(table) = value.get_ref() else {
                            return Err(self.wrong(key, "is in no table of a host; that begins with [host.\"NAME\"]"));
                        };
                        tables.push(self.table(self.pattern(key)?, table)?);
                    }
                }
                (_, Some(verb), DeValue::Table(table)) => tables.push(self.table(Name::Command(verb), table)?),
                ("host", ..) | (_, Some(_), _) => return Err(self.wrong(key, "is a table, not a key")),
                ("http1", _, DeValue::Table(_)) => {
                    return Err(self.wrong(key, "is no flag; a key with a dot is quoted: \"http1.1\" = true"));
                }
                (_, _, DeValue::Table(_)) => {
                    return Err(self.wrong(key, "is no table; there are [get], [put] and [host.\"NAME\"]"));
                }
                _ => top.push(self.entry(&Name::Top, key, value)?),
            }
        }
        tables.push(Table {
            name: Name::Top,
            entries: top,
        });
        Ok(tables)
    }

    fn table(&self, name: Name, table: &DeTable<'_>) -> Result<Table, Error> {
        let entries = in_order(table).map(|(key, value)| self.entry(&name, key, value));
        let entries = entries.collect::<Result<_, _>>()?;
        Ok(Table { name, entries })
    }

    /// A host's name or address, perhaps with `*` and `?`, as URLs have it.
    fn pattern(&self, key: &Spanned<DeString<'_>>) -> Result<Name, Error> {
        let written = key.get_ref().trim_matches(['[', ']']);
        let foreign = |c: char| c.is_whitespace() || c.is_control() || "/@[]#".contains(c);
        if written.is_empty() || written.contains(foreign) {
            return Err(self.wrong(key, "is no host; a table is for a host's name, perhaps with * and ?"));
        }
        if written.contains(['*', '?']) {
            return Ok(Name::Host(written.to_lowercase()));
        }
        let host = match written.parse() {
            Ok(address) => Host::Ipv6(address),
            Err(_) => {
                Host::parse(written).map_err(|_| self.wrong(key, "is no host's name; ports are not part of it"))?
            }
        };
        Ok(Name::Host(host.to_string().trim_matches(['[', ']']).to_owned()))
    }

    fn entry(&self, table: &Name, key: &Spanned<DeString<'_>>, value: &Spanned<DeValue<'_>>) -> Result<Entry, Error> {
        let wrong = |why: String| self.wrong(key, &why);
        if let (Name::Host(_), DeValue::Table(_)) = (table, value.get_ref()) {
            return Err(wrong(
                "is a table in a host's table; a name with dots is quoted: [host.\"files.example.org\"]".into(),
            ));
        }
        let (verb, arg) = keys::find(key.get_ref(), table, self.commands).map_err(wrong)?;
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let setting = keys::setting(arg, value.get_ref(), folder, self.home).map_err(wrong)?;
        Ok(Entry {
            key: key.get_ref().clone().into_owned(),
            line: self.line(key.span().start),
            setting,
            verb,
        })
    }

    /// The parser's own checks of values, for all tables: a mistake should not wait for the host whose table it is in.
    fn check_values(&self, table: &Table, lenient: &mut Command) -> Result<(), Error> {
        for verb in Verb::ALL {
            let words = table.entries.iter().filter(|entry| entry.verb == verb);
            let words: Vec<_> = words.flat_map(Entry::words).collect();
            if words.is_empty() {
                continue;
            }
            let line = ["ferry", verb.name()].into_iter().map(OsString::from).chain(words);
            let Err(error) = lenient.try_get_matches_from_mut(line) else {
                continue;
            };
            let place = |entry: &Entry| place(self.path, entry.line);
            let wrong = match (error.kind(), named(&error, ContextKind::InvalidArg, table)) {
                // It is another table, or the command line, that has what it needs.
                (ErrorKind::MissingRequiredArgument, _) => continue,
                (ErrorKind::ArgumentConflict, Some(entry)) => {
                    let other = named(&error, ContextKind::PriorArg, table);
                    let other = other.map_or_else(String::new, |other| {
                        format!("; {} is on line {}", other.key, other.line)
                    });
                    format!(
                        "{}: {}: cannot be combined with another key of its table{other}",
                        place(entry),
                        entry.key
                    )
                }
                (_, Some(entry)) => format!("{}: {}: {}", place(entry), entry.key, why(&error)),
                (_, None) => format!("{}: {}", self.path.display(), why(&error)),
            };
            return Err(Error::usage(wrong));
        }
        Ok(())
    }
}

fn in_order<'a, 'i>(table: &'a DeTable<'i>) -> impl Iterator<Item = Pair<'a, 'i>> {
    let mut pairs: Vec<_> = table.iter().collect();
    pairs.sort_by_key(|(key, _)| key.span().start);
    pairs.into_iter()
}

/// The key whose flag an error of the parser names.
fn named<'a>(error: &clap::Error, kind: ContextKind, table: &'a Table) -> Option<&'a Entry> {
    let text = match error.get(kind)? {
        ContextValue::String(text) => text,
        ContextValue::Strings(texts) => texts.first()?,
        _ => return None,
    };
    let flag = text.trim_start_matches('-').split([' ', '=', '[']).next()?;
    table.entries.iter().find(|entry| entry.key == flag)
}

/// The parser's error in one line.
fn why(error: &clap::Error) -> String {
    let value = match error.get(ContextKind::InvalidValue) {
        Some(ContextValue::String(value)) if !value.is_empty() => format!("{value:?} is not valid"),
        _ => "a value is needed".into(),
    };
    let expected = match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(values)) => Some(format!("expected {}", values.join(" or "))),
        _ => std::error::Error::source(error).map(ToString::to_string),
    };
    let expected = expected.map(|expected| format!(": {expected}")).unwrap_or_default();
    format!("{value}{expected}").replace(char::is_control, " ")
}
