//! From flags to options: what flags mean together.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use ferry_engine::options::{
    ClientCertificate, Common, GetOptions, PutOptions, Remote, Source, SshArgs, Target, Timeouts, TransferOptions,
    Version, check_background,
};
use ferry_engine::remote::parse_remote;
use ferry_engine::sftp_url::{names_directory, within};
use ferry_engine::shown_url;
use ferry_engine::stop::Stop;
use http::{HeaderMap, Method};

use super::Reporting;
use super::flags::{self, Http3, UploadMethod};
use super::listed::Listed;
use super::login::{authorize, proxies, secret_from};
use super::scope::{Line, refuse_selection};
use super::ssh::{Kind, ssh_args};
use super::surroundings::Surroundings;
use super::values::parse_header;
use crate::error::Error;
use crate::report_file::Destination;

/// The defaults that `--help` names.
const MAX_REDIRECTS: u32 = 10;
const RETRIES: u32 = 3;

pub fn get(flags: flags::Get, line: Line<'_>) -> Result<GetOptions, Error> {
    let typed = flags.sources.urls.len();
    let written = flags.sources.urls.iter().map(|typed| remote(typed));
    let listed = line.listed.into_iter().flat_map(Listed::remotes);
    let mut sources = written.chain(listed).collect::<Result<Vec<_>, _>>()?;
    if let Some(listed) = line.listed {
        listed.check_count(sources.len())?;
    }
    match get_from(&mut sources, flags, line) {
        Ok(options) => Ok(GetOptions { sources, ..options }),
        Err(problem) => Err(match line.listed {
            Some(listed) => listed.explain(problem, &sources, typed),
            None => problem,
        }),
    }
}

/// The options without the URLs.
fn get_from(sources: &mut [Remote], flags: flags::Get, line: Line<'_>) -> Result<GetOptions, Error> {
    let kind = Kind::of(sources)?;
    kind.refuse(line)?;
    let mut connection = flags.connection;
    let connections = flags.ssh.connections;
    let ssh = ssh_args(flags.ssh, &flags.login, kind, sources, &mut connection)?;
    let common = common(connection, flags.login, kind, ssh, sources)?;
    if !flags.recursive
        && let Some(directory) = sources
            .iter()
            .find(|source| source.is_sftp() && names_directory(source))
    {
        return Err(Error::usage(format!(
            "{}: names a directory, which --recursive (-r) fetches",
            shown_url(&directory.url)
        )));
    }
    let reported = reporting(&flags.reporting);
    let to_stdout = reported.json == Some(Destination::Stdout);
    let target = target(flags.output, kind, flags.recursive, sources.len());
    match target {
        Target::File(_) | Target::Stdout if sources.len() > 1 => {
            return Err(Error::usage(match kind {
                Kind::Http => "--output takes one URL; use --remote-name (-O) or --discard for several",
                Kind::Sftp => "--output takes one URL; for several, it is a directory that exists or ends in /",
            }));
        }
        Target::Stdout if flags.recursive => {
            return Err(Error::usage("--recursive needs a directory, not standard output"));
        }
        Target::Stdout if flags.resume => return Err(Error::usage("--resume needs a file, not standard output")),
        Target::Stdout if flags.overwrite => {
            return Err(Error::usage("--overwrite needs a file, not standard output"));
        }
        Target::Stdout if to_stdout => {
            return Err(Error::usage(
                "body and report cannot both go to standard output; use --json=FILE",
            ));
        }
        Target::FromUrl => different_names(sources, "use --output FILE")?,
        Target::Directory(_) => different_names(sources, "fetch it by itself")?,
        _ => {}
    }
    let connections = match kind {
        Kind::Http => {
            let order = flags.range.is_some() || flags.transfer.checksum.is_some() && target == Target::Discard;
            http_connections(connections, &target, sources.len(), order)?
        }
        Kind::Sftp => {
            alone_in_background(flags.transfer.background, connections)?;
            1
        }
    };
    refuse_selection(line, flags.recursive, "get --recursive (-r)")?;
    let transfer = TransferOptions {
        max_filesize: flags.max_filesize,
        compressed: flags.compressed,
        ..selected(transfer(flags.transfer), flags.selection)?
    };
    if transfer.mirror.is_some() && !matches!(target, Target::Tree(_)) {
        return Err(Error::usage("--mirror takes one URL and --output DIR"));
    }
    if sources.len() > 1 || flags.recursive {
        one_checksum(&transfer, "one URL that is no directory")?;
    }
    let mirror = transfer.mirror.is_some();
    Ok(GetOptions {
        common,
        transfer,
        sources: Vec::new(),
        target,
        // Such a run shows no rows.
        totals: flags.totals || reported.quiet && reported.json.is_none(),
        limit_each: flags.limit_each,
        parallel: usize::from(flags.parallel),
        connections,
        range: flags.range,
        resume: flags.resume,
        overwrite: flags.overwrite || mirror,
        recursive: flags.recursive,
        sync: !flags.no_sync,
    })
}

/// The connections of SFTP have no controller in common.
fn alone_in_background(background: bool, connections: Option<u8>) -> Result<(), Error> {
    if background && connections.is_some() {
        return Err(Error::usage(
            "--background uses one connection for SFTP; leave --connections out",
        ));
    }
    Ok(())
}

/// Connections over which one URL is fetched in ranges.
///
/// `order`: the bytes are wanted in their order, or are some bytes only.
fn http_connections(typed: Option<u8>, target: &Target, sources: usize, order: bool) -> Result<usize, Error> {
    let connections = typed.map_or(1, usize::from);
    let why = match target {
        _ if connections == 1 => return Ok(1),
        _ if sources > 1 => "fetches one URL in ranges; --parallel is for several URLs",
        _ if order => {
            "fetches a file in any order; it cannot be combined with --range, nor with --checksum where there is no file"
        }
        Target::Stdout => "writes its ranges as they come; it needs a file, not standard output",
        _ => return Ok(connections),
    };
    Err(Error::usage(format!("--connections {why}")))
}

fn target(flags: flags::Output, kind: Kind, recursive: bool, sources: usize) -> Target {
    match flags.file {
        Some(path) if is_stdio(&path) => Target::Stdout,
        // Not whether it exists: a second run, after the first has made it, must mean the same.
        Some(path) if recursive && sources == 1 => Target::Tree(path),
        Some(path) if recursive || kind == Kind::Sftp && is_directory(&path) => Target::Directory(path),
        Some(path) => Target::File(path),
        None if flags.remote_name => Target::FromUrl,
        None => Target::Discard,
    }
}

pub fn put(flags: flags::Put, line: Line<'_>) -> Result<PutOptions, Error> {
    let mut destination = remote(&flags.url)?;
    let kind = Kind::of(std::slice::from_ref(&destination))?;
    kind.refuse(line)?;
    if kind == Kind::Sftp {
        alone_in_background(flags.transfer.background, flags.ssh.connections)?;
    }
    let directory = !is_stdio(&flags.file) && flags.file.is_dir();
    refuse_selection(line, directory, "put with a directory")?;
    let transfer = selected(transfer(flags.transfer), flags.selection)?;
    let source = if is_stdio(&flags.file) {
        if flags.resume {
            return Err(Error::usage("--resume needs a file, not standard input"));
        }
        Source::Stdin
    } else if directory {
        if kind == Kind::Http {
            return Err(Error::usage(format!(
                "{} is a directory, and HTTP has no directories; send its files, or use sftp",
                flags.file.display()
            )));
        }
        one_checksum(&transfer, "a file, not a directory")?;
        Source::Directory(flags.file)
    } else {
        Source::File(flags.file)
    };
    if kind == Kind::Sftp && names_directory(&destination) {
        let name = match &source {
            Source::Directory(_) => None,
            Source::File(file) => Some(file.file_name()),
            Source::Stdin => Some(None),
        };
        if let Some(name) = name {
            let nameless = "names a directory, and what is sent has no name; end the URL with one";
            destination = name
                .ok_or_else(|| nameless.to_owned())
                .and_then(|name| within(&destination, name.as_encoded_bytes()))
                .map_err(|why| Error::usage(format!("{}: {why}", shown_url(&destination.url))))?;
        }
    }
    let remotes = std::slice::from_mut(&mut destination);
    let mut connection = flags.connection;
    let ssh = ssh_args(flags.ssh, &flags.login, kind, remotes, &mut connection)?;
    Ok(PutOptions {
        common: common(connection, flags.login, kind, ssh, remotes)?,
        transfer,
        source,
        destination,
        method: match flags.method {
            UploadMethod::Put => Method::PUT,
            UploadMethod::Post => Method::POST,
        },
        retry_unsafe: flags.retry_unsafe,
        resume: flags.resume,
        sync: !flags.no_sync,
    })
}

/// The URLs of an HTTP run get their logins.
fn common(
    flags: flags::Connection,
    login: flags::Login,
    kind: Kind,
    ssh: SshArgs,
    remotes: &mut [Remote],
) -> Result<Common, Error> {
    if flags.insecure && !ssh.pins.is_empty() {
        return Err(Error::usage(
            "--insecure accepts any host key, --pin only one; give one of them",
        ));
    }
    let plain = remotes.iter().find(|remote| remote.url.scheme() == "http");
    for (given, flag) in [(flags.http2, "--http2"), (flags.http3.is_some(), "--http3")] {
        if let (true, Some(plain)) = (given, plain) {
            return Err(Error::usage(format!("{flag} needs https: {}", shown_url(&plain.url))));
        }
    }
    let mut headers = HeaderMap::new();
    for text in &flags.header {
        let (name, value) = parse_header(text).map_err(Error::usage)?;
        headers.append(name, value);
    }
    if kind == Kind::Http {
        authorize(login, remotes, &headers, &Surroundings::own())?;
    }
    let proxies = proxies(
        flags.proxy.as_deref(),
        flags.noproxy,
        secret_from(
            flags.proxy_password_file,
            flags.proxy_password_env,
            "--proxy-password-env",
        )?,
        &Surroundings::own(),
    )?;
    Ok(Common {
        version: match (flags.http11, flags.http2, flags.http3) {
            (true, ..) => Version::Http11,
            (_, true, _) => Version::Http2,
            (.., Some(Http3::Only)) => Version::Http3,
            (.., Some(Http3::Fallback)) => Version::Http3First,
            _ => Version::Auto,
        },
        ca_file: flags.cacert,
        pinned_keys: flags.pinnedpubkey,
        client_certificate: flags.cert.map(|chain| ClientCertificate {
            key: flags.key.unwrap_or_else(|| chain.clone()),
            chain,
        }),
        key_log: std::env::var_os("SSLKEYLOGFILE").is_some_and(|name| !name.is_empty()),
        insecure: flags.insecure,
        headers,
        resolve: flags.resolve,
        send_buffer: flags.sndbuf,
        proxies,
        congestion: flags.congestion,
        ssh,
        stop: Stop::default(),
        timeouts: Timeouts {
            connect: flags.timeout_connect.unwrap_or(Timeouts::default().connect),
            tls: flags.timeout_tls,
            first_byte: flags.timeout_first_byte,
            total: flags.timeout_total,
            stall: flags.stall,
        },
    })
}

pub fn reporting(flags: &flags::Reporting) -> Reporting {
    Reporting {
        json: flags.json.as_ref().map(|file| {
            if is_stdio(file) {
                Destination::Stdout
            } else {
                Destination::File(file.clone())
            }
        }),
        progress: !flags.quiet && !flags.no_progress && flags.verbose == 0,
        quiet: flags.quiet,
        verbose: flags.verbose,
    }
}

fn transfer(flags: flags::Transfer) -> TransferOptions {
    TransferOptions {
        limit: flags.limit_rate,
        background: flags.background,
        peak: flags.limit_peak,
        buffer_size: flags.buffer_size,
        retries: flags.retry.unwrap_or(RETRIES),
        retry_unreached: flags.retry.is_some(),
        retry_max_wait: flags.retry_max_wait,
        max_redirects: flags.max_redirects.unwrap_or(MAX_REDIRECTS),
        checksum: flags.checksum,
        max_filesize: None,
        compressed: false,
        remote_time: flags.remote_time,
        perms: flags.perms,
        filter: Arc::default(),
        mirror: None,
    }
}

/// Adds the selection of files and the mirror to the options of a transfer.
fn selected(transfer: TransferOptions, selection: flags::Selection) -> Result<TransferOptions, Error> {
    if transfer.perms && cfg!(windows) {
        return Err(Error::usage("--perms: Windows has no permission bits; leave it out"));
    }
    if transfer.background {
        check_background().map_err(|why| Error::usage(format!("--background: {why}; leave it out")))?;
    }
    let mirror = selection.mirroring();
    if mirror.is_some() && transfer.checksum.is_some() {
        return Err(Error::usage(
            "--mirror compares sizes and modification times: servers compute no checksums over SFTP; leave out --checksum",
        ));
    }
    Ok(TransferOptions {
        remote_time: transfer.remote_time || mirror.is_some(),
        filter: Arc::new(selection.filter(SystemTime::now())?),
        mirror,
        ..transfer
    })
}

fn remote(typed: &str) -> Result<Remote, Error> {
    parse_remote(typed).map_err(Error::usage)
}

fn is_stdio(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// It ends in a separator, or is one already.
fn is_directory(path: &Path) -> bool {
    let last = path.as_os_str().as_encoded_bytes().last();
    last.is_some_and(|byte| std::path::is_separator(char::from(*byte))) || path.is_dir()
}

fn one_checksum(transfer: &TransferOptions, wanted: &str) -> Result<(), Error> {
    match &transfer.checksum {
        Some(checksum) if checksum.expected.is_some() => Err(Error::usage(format!(
            "--checksum with a value takes {wanted}; leave the value out to compute all"
        ))),
        _ => Ok(()),
    }
}

fn different_names(sources: &[Remote], instead: &str) -> Result<(), Error> {
    let mut seen = HashSet::new();
    for source in sources {
        let name = source
            .file_name
            .as_deref()
            .ok_or_else(|| Error::usage(format!("{}: ends in no file name; {instead}", shown_url(&source.url))))?;
        // Windows and macOS have one file for both spellings.
        let key = if cfg!(any(windows, target_os = "macos")) {
            Cow::Owned(name.to_lowercase())
        } else {
            Cow::Borrowed(name)
        };
        if !seen.insert(key) {
            return Err(Error::usage(format!(
                "{}: another URL goes to the file {name} too",
                shown_url(&source.url)
            )));
        }
    }
    Ok(())
}
