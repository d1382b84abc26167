//! A run: which transfers, over which connections, and what happens when one of them fails.
//!
//! The calling thread keeps the books (`ledger`): it decides on retries and redirects, and finishes files, so that an fsync never holds up
//! a limited stream. Connections have a thread each (`worker`).

mod download;
mod entry;
mod ledger;
mod policy;
mod set;
mod worker;

use std::time::Instant;

use ferry_pacing::Rate;

use crate::cli::{BenchOptions, Common, GetOptions, PutOptions, Remote, TransferOptions, Version};
use crate::clock;
use crate::net::dial::{DialOptions, Override};
use crate::net::tls::{Offer, client_config};
use crate::platform;
use crate::report::{Command, Failure, Problem, ProcessUsage, Report, SCHEMA};
use crate::transfer::bench;
use crate::transfer::connect::Reach;
use crate::transfer::throttle::Limit;
use crate::transfer::{Settings, Timeouts};

/// `ferry get`.
#[must_use]
pub fn run_get(options: &GetOptions) -> Report {
    let begin = clock::begin();
    if options.sources.iter().any(Remote::is_sftp) {
        return assemble_set(Command::Get, begin, set::get(options));
    }
    assemble(Command::Get, begin, ledger::get(options))
}

/// `ferry put`.
#[must_use]
pub fn run_put(options: &PutOptions) -> Report {
    let begin = clock::begin();
    if options.destination.is_sftp() {
        return assemble_set(Command::Put, begin, set::put(options));
    }
    assemble(Command::Put, begin, ledger::put(options))
}

/// `ferry bench`.
#[must_use]
pub fn run_bench(options: &BenchOptions) -> Report {
    let begin = clock::begin();
    let settings = settings(&options.common, Limit::None, 64 * 1024, options.parallel as usize);
    let result = reach(
        &options.common,
        options.url.url.scheme() == "https",
        options.common.version,
    )
    .and_then(|reach| bench::run(options, &reach, &settings));
    let mut report = assemble(Command::Bench, begin, Ok(Vec::new()));
    match result {
        Ok(found) => {
            report.ok = found.failed == 0;
            report.exit_code = if report.ok { 0 } else { 10 };
            report.bench = Some(found);
        }
        Err(problem) => {
            report.ok = false;
            report.exit_code = problem.class.exit_code();
            report.error = Some(problem.failure());
        }
    }
    report
}

fn assemble_set(command: Command, begin: Instant, run: Result<set::Run, Problem>) -> Report {
    let (transfers, ssh, set) = match run {
        Ok(run) => (Ok(run.transfers), run.ssh, Some(run.set)),
        Err(problem) => (Err(problem), None, None),
    };
    Report {
        ssh,
        set,
        ..assemble(command, begin, transfers)
    }
}

fn assemble(command: Command, begin: Instant, transfers: Result<Vec<crate::report::Transfer>, Problem>) -> Report {
    let usage = platform::process_usage();
    let process = ProcessUsage {
        wall_s: begin.elapsed().as_secs_f64(),
        ..usage
    };
    let (transfers, error) = match transfers {
        Ok(transfers) => (transfers, None),
        Err(problem) => (Vec::new(), Some(problem.failure())),
    };
    let failures = || {
        transfers
            .iter()
            .filter_map(|transfer| transfer.error.as_ref())
            .chain(&error)
    };
    let exit_code = failures()
        .map(|failure: &Failure| failure.class.exit_code())
        .max()
        .unwrap_or(0);
    Report {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        command,
        ok: exit_code == 0,
        exit_code,
        transfers,
        bench: None,
        ssh: None,
        set: None,
        error,
        process,
    }
}

fn settings(common: &Common, limit: Limit, buffer_size: usize, parallel: usize) -> Settings {
    let timeouts = &common.timeouts;
    Settings {
        limit,
        buffer_size,
        timeouts: Timeouts {
            connect: timeouts.connect,
            tls: timeouts.tls,
            first_byte: timeouts.first_byte,
            stall: timeouts.stall,
            total: timeouts.total,
        },
        parallel,
    }
}

fn limit(options: &TransferOptions, each: bool) -> Limit {
    match options.limit.and_then(|rate| Rate::new(rate.bytes_per_second())) {
        None => Limit::None,
        Some(rate) if each => Limit::Each(rate),
        Some(rate) => Limit::shared(rate),
    }
}

/// How servers are reached; `tls` is made only when some URL needs it, because reading the system's certificates takes milliseconds.
fn reach(common: &Common, needs_tls: bool, version: Version) -> Result<Reach, Problem> {
    let offer = match version {
        Version::Auto => Offer::H2OrHttp11,
        Version::Http11 => Offer::Http11,
        Version::Http2 => Offer::H2,
    };
    let tls = if needs_tls {
        Some(client_config(common.ca_file.as_deref(), common.insecure, offer)?)
    } else {
        None
    };
    let dial = DialOptions {
        timeout: common.timeouts.connect,
        overrides: overrides(common),
        window: None,
        send_buffer: common.send_buffer,
    };
    Ok(Reach {
        only_h2: version == Version::Http2,
        dial,
        tls,
    })
}

/// `--resolve`.
fn overrides(common: &Common) -> Vec<Override> {
    let over = |entry: &crate::cli::Resolve| Override {
        host: entry.host.clone(),
        port: entry.port,
        address: entry.address,
    };
    common.resolve.iter().map(over).collect()
}
