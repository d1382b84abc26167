//! The command line: one definition per flag (`flags`), and what it means as plain values (`options`).

mod convert;
mod flags;
mod generate;
mod options;
pub mod progress;
mod remote;
mod sftp_url;
mod ssh;
mod values;

pub use flags::Args;
pub use generate::{completions, man_page, report_schema};
pub use options::{
    Algorithm, BenchOptions, Checksum, Common, GetOptions, PasswordFrom, PutOptions, RangeArg, Remote, Resolve, Source,
    SshArgs, Target, Timeouts, TransferOptions, Version,
};

use std::ffi::OsString;

use clap::Parser;

use crate::report::Problem;

/// What the user asks for.
#[derive(Debug)]
pub enum Invocation {
    Get(Box<GetOptions>),
    Put(Box<PutOptions>),
    Bench(Box<BenchOptions>),
    Man,
    Completions(clap_complete::Shell),
    Schema,
}

/// There is nothing to run: the command line is wrong, or asks for help.
#[derive(Debug)]
pub enum Refusal {
    /// The parser's own; includes `--help` and `--version`, which are no errors.
    Parser(clap::Error),
    /// Flags that are right one by one, but not together; a URL or a header.
    Usage(Problem),
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
        flags::Command::Get(flags) => convert::get(*flags).map(Box::new).map(Invocation::Get),
        flags::Command::Put(flags) => convert::put(*flags).map(Box::new).map(Invocation::Put),
        flags::Command::Bench(flags) => convert::bench(*flags).map(Box::new).map(Invocation::Bench),
        flags::Command::Man => Ok(Invocation::Man),
        flags::Command::Completions { shell } => Ok(Invocation::Completions(shell)),
        flags::Command::Schema => Ok(Invocation::Schema),
    }
    .map_err(Refusal::Usage)
}

#[cfg(test)]
mod tests;
