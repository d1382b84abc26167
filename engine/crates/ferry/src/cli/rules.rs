//! `--include`, `--exclude` and `--exclude-from`: of three flags, the order in which they were typed counts, which clap's derive does not keep.

use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueHint, value_parser};
use ferry_engine::options::Rule;

use crate::error::Error;

const INCLUDE: &str = "include";
const EXCLUDE: &str = "exclude";
const EXCLUDE_FROM: &str = "exclude_from";

/// In the order in which they were typed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules(Vec<Typed>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Typed {
    Include(String),
    Exclude(String),
    ExcludeFrom(PathBuf),
}

impl Args for Rules {
    fn augment_args(command: Command) -> Command {
        let pattern = |id: &'static str, help: &'static str| {
            Arg::new(id)
                .long(id)
                .value_name("PATTERN")
                .action(ArgAction::Append)
                .allow_hyphen_values(true)
                .help(help)
        };
        command
            .arg(pattern(
                EXCLUDE,
                "Leave out what matches, a directory with everything in it; repeatable. As in rsync, the first pattern of --include and \
                 --exclude that matches decides; * ? [a-z] within a name, ** for directories; / at the begin: from the top; / at the end: directories",
            ))
            .arg(pattern(
                INCLUDE,
                "Take what matches, although a later --exclude matches it; repeatable",
            ))
            .arg(
                Arg::new(EXCLUDE_FROM)
                    .long("exclude-from")
                    .value_name("FILE")
                    .value_hint(ValueHint::FilePath)
                    .action(ArgAction::Append)
                    .value_parser(value_parser!(PathBuf))
                    .help("--exclude each line of FILE; a line that begins with '+ ' is an --include, with # or ; a comment"),
            )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Rules {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut typed = Vec::new();
        for (id, rule) in [
            (INCLUDE, Typed::Include as fn(String) -> Typed),
            (EXCLUDE, Typed::Exclude),
        ] {
            let values = matches.get_many::<String>(id).into_iter().flatten().cloned();
            let places = matches.indices_of(id).into_iter().flatten();
            typed.extend(places.zip(values.map(rule)));
        }
        let files = matches.get_many::<PathBuf>(EXCLUDE_FROM).into_iter().flatten().cloned();
        let places = matches.indices_of(EXCLUDE_FROM).into_iter().flatten();
        typed.extend(places.zip(files.map(Typed::ExcludeFrom)));
        typed.sort_by_key(|(place, _)| *place);
        Ok(Self(typed.into_iter().map(|(_, rule)| rule).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Rules {
    /// The rules in their order, with those of files.
    pub fn read(self) -> Result<Vec<Rule>, Error> {
        let mut rules = Vec::new();
        for typed in self.0 {
            let flag = |flag: &'static str| move |problem: Error| Error::usage(format!("{flag} {problem}"));
            match typed {
                Typed::Include(pattern) => rules.push(Rule::parse(true, &pattern).map_err(flag("--include"))?),
                Typed::Exclude(pattern) => rules.push(Rule::parse(false, &pattern).map_err(flag("--exclude"))?),
                Typed::ExcludeFrom(path) => read_file(&path, &mut rules)?,
            }
        }
        Ok(rules)
    }
}

fn read_file(path: &Path, rules: &mut Vec<Rule>) -> Result<(), Error> {
    let wrong = |why: &str| Error::usage(format!("--exclude-from {}{why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(&format!(": {error}")).with_source(error))?;
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let (include, pattern) = match line.split_at_checked(2) {
            Some(("+ ", pattern)) => (true, pattern),
            Some(("- ", pattern)) => (false, pattern),
            _ => (false, line),
        };
        let rule =
            Rule::parse(include, pattern).map_err(|problem| wrong(&format!(", line {}: {problem}", number + 1)))?;
        rules.push(rule);
    }
    Ok(())
}
