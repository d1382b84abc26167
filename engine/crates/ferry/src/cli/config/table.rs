//! The content of a file: tables of settings, each setting with its line.

use std::ffi::OsString;
use std::fmt;

use crate::cli::scope::Verb;

#[derive(Debug)]
pub struct Table {
    pub name: Name,
    pub entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Name {
    /// Before all tables.
    Top,
    Command(Verb),
    /// A pattern, in lower case.
    Host(String),
}

#[derive(Debug)]
pub struct Entry {
    /// A flag's long name, without dashes.
    pub key: String,
    pub line: usize,
    pub setting: Setting,
    /// The first command that has the flag.
    pub verb: Verb,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// The flag keeps its default, as without any table.
    Off,
    /// A flag without a value, given this number of times.
    On(u8),
    Values(Vec<OsString>),
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Top => f.write_str("top level"),
            Self::Command(verb) => write!(f, "[{}]", verb.name()),
            Self::Host(pattern) => write!(f, "[host.{pattern:?}]"),
        }
    }
}

impl Entry {
    /// The entry as words of a command line.
    pub fn words(&self) -> Vec<OsString> {
        let flag = || OsString::from(format!("--{}", self.key));
        match &self.setting {
            Setting::Off => Vec::new(),
            Setting::On(times) => (0..*times).map(|_| flag()).collect(),
            Setting::Values(values) => {
                let with = |value: &OsString| {
                    let mut word = flag();
                    word.push("=");
                    word.push(value);
                    word
                };
                values.iter().map(with).collect()
            }
        }
    }
}
