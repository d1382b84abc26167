//! The command line: one definition per flag (`flags`), and what it means as plain values (`options`).

mod convert;
mod flags;
mod generate;
mod jump;
mod login;
mod netrc;
pub mod progress;
mod rules;
mod selection;
mod ssh;
mod ssh_config;
mod surroundings;
mod values;

pub use flags::Args;
pub use generate::{completions, man_page, report_schema};

use std::ffi::OsString;

use clap::Parser;
use ferry_bench::BenchOptions;
use ferry_engine::options::{GetOptions, PutOptions};

use crate::error::Error;
use crate::output::Destination;

/// What the user asks for.
#[derive(Debug)]
pub enum Invocation {
    Get(Box<GetOptions>, Reporting),
    Put(Box<PutOptions>, Reporting),
    Bench(Box<BenchOptions>, Reporting),
    Man,
    Completions(clap_complete::Shell),
    Schema,
}

/// Where a run is reported to the user, and in how much detail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reporting {
    /// Where the report goes; without it, a summary line goes to standard error unless `quiet`.
    pub json: Option<Destination>,
    /// Neither `--quiet`, `--verbose` nor `--no-progress`; `Bars` adds that standard error is a terminal.
    pub progress: bool,
    pub quiet: bool,
    /// How often `-v` was given.
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
                // As the parser has it.
                eprintln!("error: {problem}");
                problem.class.exit_code()
            }
        }
    }
}

/// Reads a command line, the program's name first.
///
/// # Errors
/// When it is wrong, and for `--help` and `--version`.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Invocation, Refusal> {
    let args = Args::try_parse_from(arguments).map_err(Refusal::Parser)?;
    match args.command {
        flags::Command::Get(flags) => {
            let reporting = convert::reporting(&flags.reporting);
            convert::get(*flags).map(|options| Invocation::Get(Box::new(options), reporting))
        }
        flags::Command::Put(flags) => {
            let reporting = convert::reporting(&flags.reporting);
            convert::put(*flags).map(|options| Invocation::Put(Box::new(options), reporting))
        }
        flags::Command::Bench(flags) => {
            let reporting = convert::reporting(&flags.reporting);
            convert::bench(*flags).map(|options| Invocation::Bench(Box::new(options), reporting))
        }
        flags::Command::Man => Ok(Invocation::Man),
        flags::Command::Completions { shell } => Ok(Invocation::Completions(shell)),
        flags::Command::Schema => Ok(Invocation::Schema),
    }
    .map_err(Refusal::Usage)
}

#[cfg(test)]
mod tests;
