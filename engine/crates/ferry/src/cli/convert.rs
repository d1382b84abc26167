//! From flags to options: what flags mean together.

use std::collections::HashSet;
use std::path::Path;

use http::{HeaderMap, Method, header};

use super::flags::{self, UploadMethod};
use super::options::{
    BenchOptions, Common, GetOptions, PutOptions, Remote, Source, Target, Timeouts, TransferOptions, Version,
};
use super::remote::parse_remote;
use super::values::parse_header;
use crate::report::{Destination, Problem};

pub fn get(flags: flags::Get) -> Result<GetOptions, Problem> {
    let sources = flags
        .urls
        .iter()
        .map(|typed| remote(typed))
        .collect::<Result<Vec<_>, _>>()?;
    let common = common(flags.connection, flags.reporting, &sources)?;
    let target = match flags.output.file {
        Some(path) if is_stdio(&path) => Target::Stdout,
        Some(path) => Target::File(path),
        None if flags.output.remote_name => Target::FromUrl,
        None => Target::Discard,
    };
    match target {
        Target::File(_) | Target::Stdout if sources.len() > 1 => {
            return Err(Problem::usage(
                "--output takes one URL; use --remote-name (-O) or --discard for several",
            ));
        }
        Target::Stdout if flags.resume => return Err(Problem::usage("--resume needs a file, not standard output")),
        Target::Stdout if flags.overwrite => {
            return Err(Problem::usage("--overwrite needs a file, not standard output"));
        }
        Target::Stdout if common.json == Some(Destination::Stdout) => {
            return Err(Problem::usage(
                "body and report cannot both go to standard output; use --json=FILE",
            ));
        }
        Target::FromUrl => different_names(&sources)?,
        _ => {}
    }
    let transfer = transfer(flags.transfer);
    if sources.len() > 1
        && transfer
            .checksum
            .as_ref()
            .is_some_and(|checksum| checksum.expected.is_some())
    {
        return Err(Problem::usage(
            "--checksum with a value takes one URL; leave the value out to compute all",
        ));
    }
    Ok(GetOptions {
        common,
        transfer,
        sources,
        target,
        limit_each: flags.limit_each,
        parallel: usize::from(flags.parallel),
        range: flags.range,
        resume: flags.resume,
        overwrite: flags.overwrite,
    })
}

pub fn put(flags: flags::Put) -> Result<PutOptions, Problem> {
    let destination = remote(&flags.url)?;
    Ok(PutOptions {
        common: common(flags.connection, flags.reporting, std::slice::from_ref(&destination))?,
        transfer: transfer(flags.transfer),
        source: if is_stdio(&flags.file) {
            Source::Stdin
        } else {
            Source::File(flags.file)
        },
        destination,
        method: match flags.method {
            UploadMethod::Put => Method::PUT,
            UploadMethod::Post => Method::POST,
        },
        retry_unsafe: flags.retry_unsafe,
    })
}

pub fn bench(flags: flags::Bench) -> Result<BenchOptions, Problem> {
    let url = remote(&flags.url)?;
    if flags.connections > flags.parallel {
        return Err(Problem::usage(format!(
            "--connections {} would leave some without a request; --parallel is {}, over all connections",
            flags.connections, flags.parallel
        )));
    }
    Ok(BenchOptions {
        common: common(flags.connection, flags.reporting, std::slice::from_ref(&url))?,
        url,
        requests: flags.requests,
        parallel: flags.parallel,
        connections: flags.connections,
    })
}

fn common(flags: flags::Connection, reporting: flags::Reporting, remotes: &[Remote]) -> Result<Common, Problem> {
    if flags.http2
        && let Some(plain) = remotes.iter().find(|remote| remote.url.scheme() == "http")
    {
        return Err(Problem::usage(format!("--http2 needs https: {}", plain.url)));
    }
    let mut headers = HeaderMap::new();
    for text in &flags.header {
        let (name, value) = parse_header(text).map_err(Problem::usage)?;
        headers.append(name, value);
    }
    if headers.contains_key(header::AUTHORIZATION) && remotes.iter().any(|remote| remote.authorization.is_some()) {
        return Err(Problem::usage(
            "an Authorization header and user:password in a URL; give one of them",
        ));
    }
    Ok(Common {
        version: match (flags.http11, flags.http2) {
            (true, _) => Version::Http11,
            (_, true) => Version::Http2,
            _ => Version::Auto,
        },
        ca_file: flags.cacert,
        insecure: flags.insecure,
        headers,
        resolve: flags.resolve,
        timeouts: Timeouts {
            connect: flags.timeout_connect,
            tls: flags.timeout_tls,
            first_byte: flags.timeout_first_byte,
            total: flags.timeout_total,
            stall: flags.stall,
        },
        json: reporting.json.map(|file| {
            if is_stdio(&file) {
                Destination::Stdout
            } else {
                Destination::File(file)
            }
        }),
        progress: !reporting.quiet && !reporting.no_progress,
        quiet: reporting.quiet,
    })
}

fn transfer(flags: flags::Transfer) -> TransferOptions {
    TransferOptions {
        limit: flags.limit_rate,
        buffer_size: flags.buffer_size,
        retries: flags.retry,
        retry_max_wait: flags.retry_max_wait,
        max_redirects: flags.max_redirects,
        checksum: flags.checksum,
    }
}

fn remote(typed: &str) -> Result<Remote, Problem> {
    parse_remote(typed).map_err(Problem::usage)
}

fn is_stdio(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn different_names(sources: &[Remote]) -> Result<(), Problem> {
    let mut seen = HashSet::new();
    for source in sources {
        let name = source
            .file_name
            .as_deref()
            .ok_or_else(|| Problem::usage(format!("{}: ends in no file name; use --output FILE", source.url)))?;
        // Windows and macOS have one file for both spellings.
        let key = if cfg!(any(windows, target_os = "macos")) {
            name.to_lowercase()
        } else {
            name.to_owned()
        };
        if !seen.insert(key) {
            return Err(Problem::usage(format!(
                "{}: another URL goes to the file {name} too",
                source.url
            )));
        }
    }
    Ok(())
}
