//! The command line: one definition per flag (`flags`), and what it means as plain values (`options`).

mod config;
mod convert;
mod flags;
mod generate;
mod jump;
mod listed;
mod login;
mod netrc;
pub mod progress;
mod rules;
mod scope;
mod selection;
mod ssh;
mod ssh_config;
mod surroundings;
mod values;

pub use flags::Args;
pub use generate::{completions, man_page, report_schema};
pub use surroundings::Surroundings;

use std::ffi::OsString;

use clap::{ArgMatches, Command, CommandFactory, FromArgMatches};
use ferry_engine::options::{GetOptions, PutOptions};

use self::listed::Listed;
use self::scope::Line;
use crate::error::Error;
use crate::report_file::Destination;

/// The user's request.
#[derive(Debug)]
pub enum Invocation {
    Get(Box<GetOptions>, Reporting),
    Put(Box<PutOptions>, Reporting),
    Man,
    Completions(clap_complete::Shell),
    Schema,
    /// The output.
    Config(String),
}

/// The ways in which a run is reported to the user, and the amount of detail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reporting {
    /// The destination of the report; without one, a summary line goes to standard error unless `quiet`.
    pub json: Option<Destination>,
    /// Neither `--quiet`, `--verbose` nor `--no-progress`; `Bars` adds that standard error is a terminal.
    pub progress: bool,
    pub quiet: bool,
    /// The number of `-v` flags.
    pub verbose: u8,
}

/// There is nothing to run: the command line is wrong, or asks for help.
#[derive(Debug)]
pub enum Refusal {
    /// The parser's own; includes `--help` and `--version`, which are no errors.
    Parser(clap::Error),
    /// Flags that are right one by one, but not together; a URL or a header.
    Usage(Error),
}

impl Refusal {
    /// Tells the user, and the exit code.
    #[must_use]
    pub fn report(&self) -> u8 {
        match self {
            Self::Parser(error) => {
                // Nowhere to tell that standard error or output is gone.
                let _ = error.print();
                u8::try_from(error.exit_code()).unwrap_or(2)
            }
            Self::Usage(problem) => {
                // The line has the form of the parser's own errors.
                eprintln!("error: {problem}");
                problem.class.exit_code()
            }
        }
    }
}

/// Reads a command line, the program's name first, and the configuration file for what was not typed.
///
/// # Errors
/// When one of them is wrong, and for `--help` and `--version`.
pub fn parse(arguments: impl IntoIterator<Item = OsString>, around: &Surroundings) -> Result<Invocation, Refusal> {
    let mut words: Vec<OsString> = arguments.into_iter().collect();
    let mut commands = Args::command();
    let mut matches = commands.try_get_matches_from_mut(&words).map_err(Refusal::Parser)?;
    let typed = matches.subcommand().map(|(_, typed)| typed);
    // Once: standard input cannot be read again.
    let listed = typed.map_or(Ok(None), Listed::read).map_err(Refusal::Usage)?;
    let listed = listed.as_ref();
    let Some(line) = Line::of(&commands, &matches, listed) else {
        return other(&matches, around);
    };
    let Some(file) = config::read(line.matches, &commands, around).map_err(Refusal::Usage)? else {
        return build(&commands, &matches, listed);
    };
    let merged = config::Merged::of(&file, line).map_err(Refusal::Usage)?;
    // Behind the program's name and the command's, which has no flags in front of it.
    words.splice(2..2, merged.words());
    matches = commands.try_get_matches_from_mut(words).map_err(Refusal::Parser)?;
    build(&commands, &matches, listed).map_err(|refusal| match refusal {
        Refusal::Usage(problem) => Refusal::Usage(merged.explain(problem)),
        parser @ Refusal::Parser(_) => parser,
    })
}

/// A command that connects.
fn build(commands: &Command, matches: &ArgMatches, listed: Option<&Listed>) -> Result<Invocation, Refusal> {
    let args = Args::from_arg_matches(matches).map_err(Refusal::Parser)?;
    match (args.command, Line::of(commands, matches, listed)) {
        (flags::Command::Get(flags), Some(line)) => {
            let reporting = convert::reporting(&flags.reporting);
            convert::get(*flags, line).map(|options| Invocation::Get(Box::new(options), reporting))
        }
        (flags::Command::Put(flags), Some(line)) => {
            let reporting = convert::reporting(&flags.reporting);
            convert::put(*flags, line).map(|options| Invocation::Put(Box::new(options), reporting))
        }
        _ => Err(Error::usage("the command connects to nothing")),
    }
    .map_err(Refusal::Usage)
}

/// A command that prints.
fn other(matches: &ArgMatches, around: &Surroundings) -> Result<Invocation, Refusal> {
    let args = Args::from_arg_matches(matches).map_err(Refusal::Parser)?;
    Ok(match args.command {
        flags::Command::Config(asked) => match config::show(&asked, around) {
            Ok(text) => Invocation::Config(text),
            Err(config::Problem::Parser(error)) => return Err(Refusal::Parser(error)),
            Err(config::Problem::Usage(problem)) => return Err(Refusal::Usage(problem)),
        },
        flags::Command::Completions { shell } => Invocation::Completions(shell),
        flags::Command::Schema => Invocation::Schema,
        _ => Invocation::Man,
    })
}

#[cfg(test)]
mod tests;
