//! `--include`, `--exclude` and `--exclude-from`: of three flags, the order in which they were typed counts, which clap's derive does not keep.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueHint, value_parser};
use ferry_engine::options::{Filter, Mirror, Rule};

use super::flags::Selection;
use crate::error::Error;
use crate::units::ByteSize;

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
    fn read(self) -> Result<Vec<Rule>, Error> {
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

impl Selection {
    /// The first flag that was given, for a message that names it.
    pub fn given(&self) -> Option<&'static str> {
        [
            (!self.rules.0.is_empty(), "--include, --exclude and --exclude-from"),
            (self.min_size.is_some(), "--min-size"),
            (self.max_size.is_some(), "--max-size"),
            (self.newer_than.is_some(), "--newer-than"),
            (self.older_than.is_some(), "--older-than"),
            (self.mirror, "--mirror"),
        ]
        .into_iter()
        .find_map(|(given, flag)| given.then_some(flag))
    }

    pub fn mirroring(&self) -> Option<Mirror> {
        self.mirror.then_some(Mirror {
            delete: self.delete,
            max_delete: self.max_delete,
            dry_run: self.dry_run,
            modify_window: self.modify_window,
        })
    }

    /// Ages count from `now`.
    pub fn filter(self, now: SystemTime) -> Result<Filter, Error> {
        if let (Some(least), Some(most)) = (self.min_size, self.max_size)
            && least > most
        {
            return Err(Error::usage(format!(
                "--min-size {least} and --max-size {most} leave nothing between them"
            )));
        }
        if let (Some(newer), Some(older)) = (self.newer_than, self.older_than)
            && older > newer
        {
            return Err(Error::usage(
                "--newer-than and --older-than leave nothing between them; --newer-than takes the longer time",
            ));
        }
        let mut filter = Filter::new(self.rules.read()?)?;
        filter.min_size = self.min_size.map(ByteSize::bytes);
        filter.max_size = self.max_size.map(ByteSize::bytes);
        filter.not_before = self.newer_than.and_then(|age| now.checked_sub(age));
        filter.not_after = self.older_than.and_then(|age| now.checked_sub(age));
        Ok(filter)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::flags::{Args as CommandLine, Command};
    use super::*;
    use crate::error::Class;
    use clap::Parser;

    fn selection(words: &[&str]) -> Selection {
        let line = ["ferry", "get", "-r", "sftp://h/a/", "-o", "b"].iter().chain(words);
        match CommandLine::try_parse_from(line).unwrap().command {
            Command::Get(get) => get.selection,
            other => panic!("{other:?}"),
        }
    }

    fn takes(filter: &Filter, name: &str) -> bool {
        filter.takes_name(&[name], false)
    }

    #[test]
    fn the_order_on_the_command_line_counts() {
        let now = SystemTime::now();
        let include_first = selection(&["--include", "a.o", "--exclude", "*.o"])
            .filter(now)
            .unwrap();
        assert!(takes(&include_first, "a.o") && !takes(&include_first, "b.o"));
        let exclude_first = selection(&["--exclude=*.o", "--include=a.o", "--include", "-x"])
            .filter(now)
            .unwrap();
        assert!(!takes(&exclude_first, "a.o") && takes(&exclude_first, "-x"));
    }

    #[test]
    fn a_file_of_patterns_stands_where_its_flag_stands() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("patterns");
        std::fs::write(&file, "# comment\n; too\n\n+ a.o\n*.o\r\n- *.log\n").unwrap();
        let from = format!("--exclude-from={}", file.display());
        let filter = selection(&["--include", "b.o", &from])
            .filter(SystemTime::now())
            .unwrap();
        for (name, taken) in [
            ("a.o", true),
            ("b.o", true),
            ("c.o", false),
            ("x.log", false),
            ("# comment", true),
        ] {
            assert_eq!(takes(&filter, name), taken, "{name}");
        }
        std::fs::write(&file, "fine\n../up\n").unwrap();
        let problem = selection(&[&from]).filter(SystemTime::now()).unwrap_err();
        assert_eq!(problem.class, Class::Usage);
        assert!(
            problem.message.contains("line 2") && !problem.message.contains('\n'),
            "{problem}"
        );
        std::fs::remove_file(&file).unwrap();
        assert_eq!(
            selection(&[&from]).filter(SystemTime::now()).unwrap_err().class,
            Class::Usage
        );
    }

    #[test]
    fn sizes_and_ages() {
        let now = SystemTime::now();
        let filter = selection(&[
            "--min-size",
            "1K",
            "--max-size=1M",
            "--newer-than",
            "48h",
            "--older-than=1h",
        ])
        .filter(now)
        .unwrap();
        let ago = |hours: u64| Some(now - Duration::from_secs(hours * 3600));
        for (size, time, taken) in [
            (1024, ago(2), true),
            (1 << 20, ago(48), true),
            (1023, ago(2), false),
            ((1 << 20) + 1, ago(2), false),
            (2048, ago(49), false),
            (2048, ago(0), false),
        ] {
            assert_eq!(filter.takes_file(Some(size), time), taken, "{size} {time:?}");
        }
        for words in [
            &["--min-size", "2M", "--max-size", "1M"][..],
            &["--newer-than", "1h", "--older-than", "2h"],
        ] {
            assert_eq!(
                selection(words).filter(now).unwrap_err().class,
                Class::Usage,
                "{words:?}"
            );
        }
    }
}
