//! `ferry`, the program: reads the command line, runs what it asks for, tells how it went.

use std::io::{ErrorKind, Write, stderr, stdout};
use std::process::ExitCode;

use ferry::cli::{self, Common, Invocation};
use ferry::job;
use ferry::report::{Class, Problem, Report};

fn main() -> ExitCode {
    ExitCode::from(match cli::parse(std::env::args_os()) {
        Ok(invocation) => run(&invocation),
        Err(refusal) => refusal.report(),
    })
}

/// The exit code.
fn run(invocation: &Invocation) -> u8 {
    let common = match invocation {
        Invocation::Man => return print(&cli::man_page()),
        Invocation::Completions(shell) => return print(&cli::completions(*shell)),
        Invocation::Schema => return print(cli::report_schema().as_bytes()),
        Invocation::Get(options) => &options.common,
        Invocation::Put(options) => &options.common,
        Invocation::Bench(options) => &options.common,
    };
    match dispatch(invocation) {
        Ok(report) => tell(&report, common),
        Err(problem) => fail(&problem),
    }
}

fn dispatch(invocation: &Invocation) -> Result<Report, Problem> {
    match invocation {
        Invocation::Get(options) => Ok(job::run_get(options)),
        Invocation::Put(options) => Ok(job::run_put(options)),
        Invocation::Bench(options) => Ok(job::run_bench(options)),
        Invocation::Man | Invocation::Completions(_) | Invocation::Schema => {
            Err(Problem::usage("this command prints and transfers nothing"))
        }
    }
}

/// Report and summary; the exit code is the report's, unless the report itself cannot be written.
fn tell(report: &Report, common: &Common) -> u8 {
    if let Some(destination) = &common.json
        && let Err(error) = report.print_json(destination)
    {
        return fail(&Problem::local(format!("the report cannot be written: {error}")));
    }
    if !common.quiet {
        let lines = if common.json.is_none() {
            report.summary()
        } else {
            report.failures()
        };
        for line in lines {
            // Nowhere to tell that standard error is gone.
            let _ = writeln!(stderr(), "{line}");
        }
    }
    report.exit_code
}

fn print(bytes: &[u8]) -> u8 {
    let mut out = stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        // `ferry man | head` has what it wants.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            fail(&Problem::new(Class::Local, format!("standard output: {error}")))
        }
        _ => 0,
    }
}

fn fail(problem: &Problem) -> u8 {
    let _ = writeln!(stderr(), "ferry: {problem}");
    problem.class.exit_code()
}
