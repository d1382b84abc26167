//! A run: its transfers, its connections, and the handling of failures.
//!
//! The calling thread runs the scheduler: it decides on retries and redirects, and finishes files, so that an fsync never holds up
//! a limited stream. Connections have a thread each (`worker`).

mod attempt;
mod download;
mod entries;
mod entry;
mod policy;
mod ranged;
mod ranges;
mod run;
mod scheduler;
mod set;
mod version;
mod worker;

pub use entry::redirected;

use std::time::{Duration, Instant};

use ferry_pacing::Rate;

use crate::clock;
use crate::error::Error;
use crate::files::read_secret;
use crate::net::dial::{DialOptions, Override};
use crate::net::tls::{self, AlpnPolicy, Identity, client_config};
use crate::net::verify::Roots;
use crate::observer::{Observer, Progress};
use crate::options::{ClientCertificate, Common, GetOptions, PutOptions, Remote, TransferOptions, Version};
use crate::platform;
use crate::report::{Command, Failure, ProcessUsage, Report, SCHEMA, Transfer};
use crate::transfer::connect::{ConnectOptions, Http3, Without};
use crate::transfer::pace::Pace;
use crate::transfer::throttle::Limit;
use crate::transfer::{Settings, Timeouts};

/// Downloads every source of the options. The report has the outcome, failures included.
///
/// Blocks until everything is over. `observer` is called for the progress of each transfer (SFTP: of all together).
#[must_use]
pub fn download(options: &GetOptions, observer: &dyn Observer) -> Report {
    let begin = clock::begin();
    if options.sources.iter().any(Remote::is_sftp) {
        let failures = OnlyFailures(observer);
        let watched: &dyn Observer = if options.totals { &failures } else { observer };
        let mut report = assemble_set(Command::Get, begin, set::get(options, watched));
        report
            .transfers
            .retain(|transfer| !options.totals || transfer.error.is_some());
        return report;
    }
    let several = options.sources.len() > 1 || options.totals;
    assemble_http(Command::Get, begin, run::get(options, observer), several)
}

/// Uploads the source of the options. The report has the outcome, failures included.
///
/// Blocks until everything is over. `observer` is called for the progress.
#[must_use]
pub fn upload(options: &PutOptions, observer: &dyn Observer) -> Report {
    let begin = clock::begin();
    if options.destination.is_sftp() {
        return assemble_set(Command::Put, begin, set::put(options, observer));
    }
    assemble_http(Command::Put, begin, run::put(options, observer), false)
}

/// With `--totals`, the files of a tree that came have no row.
struct OnlyFailures<'a>(&'a dyn Observer);

impl Observer for OnlyFailures<'_> {
    fn begin(&self, url: &str, total: Option<u64>) -> Box<dyn Progress> {
        self.0.begin(url, total)
    }

    fn finished(&self, transfer: Transfer) -> Option<Transfer> {
        transfer.error.is_some().then(|| self.0.finished(transfer)).flatten()
    }
}

/// Adds the totals to the report of `several` transfers.
fn assemble_http(command: Command, begin: Instant, run: Result<scheduler::Run, Error>, several: bool) -> Report {
    let (transfers, set) = run.map_or_else(|problem| (Err(problem), None), |(rows, set)| (Ok(rows), Some(set)));
    Report {
        set: set.filter(|_| several),
        ..assemble(command, begin, transfers)
    }
}

fn assemble_set(command: Command, begin: Instant, run: Result<set::Run, Error>) -> Report {
    match run {
        Ok(run) => {
            let report = assemble(command, begin, Ok(run.transfers));
            // The exit code of the run counts transfers that the observer has taken, too.
            let exit_code = report.exit_code.max(run.exit_code);
            Report {
                ok: exit_code == 0,
                exit_code,
                ssh: run.ssh,
                set: Some(run.set),
                planned: run.planned,
                ..report
            }
        }
        Err(problem) => assemble(command, begin, Err(problem)),
    }
}

/// Returns the report of a run, with the resources that the process has used.
fn assemble(command: Command, begin: Instant, transfers: Result<Vec<crate::report::Transfer>, Error>) -> Report {
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
        ssh: None,
        set: None,
        planned: None,
        error,
        process,
    }
}

/// The time limit for the first byte of an answer, where the user sets none.
const FIRST_BYTE: Duration = Duration::from_secs(60);

pub fn settings(common: &Common, options: &TransferOptions, limit: Limit, parallel: usize) -> Settings {
    let timeouts = &common.timeouts;
    Settings {
        limit,
        background: options.background.then(Pace::default),
        buffer_size: usize::try_from(options.buffer_size.bytes()).unwrap_or(usize::MAX),
        timeouts: Timeouts {
            connect: timeouts.connect,
            tls: timeouts.tls,
            first_byte: timeouts.first_byte.unwrap_or(FIRST_BYTE),
            answer: timeouts.first_byte,
            stall: timeouts.stall,
            total: timeouts.total,
        },
        stop: common.stop.clone(),
        parallel,
    }
}

fn limit(options: &TransferOptions, each: bool) -> Limit {
    match options.limit.and_then(|rate| Rate::new(rate.bytes_per_second())) {
        None => Limit::None,
        Some(rate) if each => Limit::Each(rate, options.peak),
        Some(rate) => Limit::shared(rate, options.peak),
    }
}

/// Returns the options of a connection. `tls` is made only when some URL needs it, because reading the system's certificates
/// takes milliseconds.
pub fn connect_options(common: &Common, needs_tls: bool, version: Version) -> Result<ConnectOptions, Error> {
    let alpn = match version {
        Version::Auto | Version::Http3 | Version::Http3First => AlpnPolicy::H2OrHttp11,
        Version::Http11 => AlpnPolicy::Http11,
        Version::Http2 => AlpnPolicy::H2,
    };
    let tls = if needs_tls {
        let roots = match &common.ca_file {
            _ if common.insecure => None,
            Some(file) => Some(Roots::of_file(file)?),
            None => Some(Roots::of_system()?),
        };
        Some(client_config(
            roots,
            common.pinned_keys.clone(),
            alpn,
            common.key_log,
            common.client_certificate.as_ref().map(client_identity).transpose()?,
        )?)
    } else {
        None
    };
    Ok(ConnectOptions {
        only_h2: version == Version::Http2,
        http3: match version {
            Version::Auto | Version::Http11 | Version::Http2 => Http3::Never,
            Version::Http3 => Http3::Only,
            Version::Http3First => Http3::First(Without::default()),
        },
        dial: dial_options(common),
        tls,
    })
}

fn dial_options(common: &Common) -> DialOptions {
    DialOptions {
        timeout: common.timeouts.connect,
        family: common.ssh.family,
        overrides: overrides(common),
        window: None,
        send_buffer: common.send_buffer,
        proxies: common.proxies.clone(),
        congestion: common.congestion.clone(),
        stop: common.stop.clone(),
    }
}

fn client_identity(files: &ClientCertificate) -> Result<Identity, Error> {
    let place = files.chain.display();
    let chain = std::fs::read(&files.chain).map_err(|error| Error::usage(format!("--cert {place}: {error}")))?;
    let key = read_secret("--key", &files.key)?;
    tls::identity(&chain, key.as_bytes())
        .map_err(|why| Error::usage(format!("--cert {place}, --key {}: {why}", files.key.display())))
}

/// `--resolve`.
fn overrides(common: &Common) -> Vec<Override> {
    let over = |entry: &crate::options::Resolve| Override {
        host: entry.host.clone(),
        port: entry.port,
        address: entry.address,
    };
    common.resolve.iter().map(over).collect()
}
