//! `ferry`, the program: reads the command line, runs what it asks for, tells how it went.

use std::io::{ErrorKind, Write, stderr, stdout};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ferry::cli::{self, Invocation, Reporting, Surroundings};
use ferry::watch::Watch;
use ferry::{output, verbose};
use ferry_engine::error::{Class, Error};
use ferry_engine::harmless;
use ferry_engine::job;
use ferry_engine::platform::is_ignored;
use ferry_engine::report::Report;
use ferry_engine::stop::Stop;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

fn main() -> ExitCode {
    ExitCode::from(match cli::parse(std::env::args_os(), &Surroundings::own()) {
        Ok(invocation) => run(&invocation),
        Err(refusal) => refusal.report(),
    })
}

/// The exit code.
fn run(invocation: &Invocation) -> u8 {
    let (mut report, reporting, stop, watch) = match invocation {
        Invocation::Man => return print(&cli::man_page()),
        Invocation::Completions(shell) => return print(&cli::completions(*shell)),
        Invocation::Config(text) => return print(text.as_bytes()),
        Invocation::Schema => return print(cli::report_schema().as_bytes()),
        Invocation::Get(options, reporting) => {
            let stop = &options.common.stop;
            let watch = begin(reporting, stop, "get");
            (job::download(options, &watch), reporting, stop, watch)
        }
        Invocation::Put(options, reporting) => {
            let stop = &options.common.stop;
            let watch = begin(reporting, stop, "put");
            (job::upload(options, &watch), reporting, stop, watch)
        }
    };
    if report.exit_code == Class::Interrupted.exit_code() {
        report.exit_code = u8::try_from(128 + stop.reason()).unwrap_or(report.exit_code);
    }
    tell(&report, reporting, &watch)
}

/// From here on signals end the run. What the user sees of it while it lasts.
fn begin(reporting: &Reporting, stop: &Stop, command: &'static str) -> Watch {
    hear_signals(stop);
    verbose::show(reporting.verbose);
    Watch::new(reporting, command)
}

/// The first signal ends the run with a report, the second one ends the program.
fn hear_signals(stop: &Stop) {
    let heard = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM].into_iter().filter(|signal| !is_ignored(*signal)) {
        // Without a handler the signal ends the program, as it would have.
        let _ = flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&heard))
            .and_then(|_| flag::register(signal, Arc::clone(&heard)))
            .and_then(|_| flag::register_usize(signal, stop.flag(), signal.unsigned_abs() as usize));
    }
}

/// Report and summary; the exit code is the report's, unless the report itself cannot be written.
fn tell(report: &Report, reporting: &Reporting, watch: &Watch) -> u8 {
    if let Err(error) = watch.finish(report) {
        return fail(&Error::local(format!("the report cannot be written: {error}")));
    }
    if !reporting.quiet {
        let lines = if reporting.json.is_none() {
            output::summary(report)
        } else {
            output::failures(report)
        };
        for line in lines {
            // Nowhere to tell that standard error is gone.
            let _ = writeln!(stderr(), "{}", harmless(&line));
        }
    }
    report.exit_code
}

fn print(bytes: &[u8]) -> u8 {
    let mut out = stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        // `ferry man | head` has what it wants.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            fail(&Error::new(Class::Local, format!("standard output: {error}")))
        }
        _ => 0,
    }
}

fn fail(problem: &Error) -> u8 {
    let _ = writeln!(stderr(), "ferry: {}", harmless(&problem.to_string()));
    problem.class.exit_code()
}
