//! How a report leaves the program: as JSON for programs, or as a line per transfer for people.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::report::{Action, Command, FileSet, Planned, Report, Transfer};
use crate::units::human_bytes;

/// Where the JSON goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    Stdout,
    File(PathBuf),
}

/// The document and a line feed. A file has either its old content or the whole report, never a part of it.
///
/// # Errors
/// What writing says.
pub fn print_json(report: &Report, destination: &Destination) -> io::Result<()> {
    let mut json = serde_json::to_vec_pretty(report)?;
    json.push(b'\n');
    match destination {
        Destination::Stdout => {
            let mut out = io::stdout().lock();
            out.write_all(&json)?;
            out.flush()
        }
        Destination::File(path) => write_atomically(path, &json),
    }
}

/// What failed, for people: a line each.
#[must_use]
pub fn failures(report: &Report) -> Vec<String> {
    let failed = report.transfers.iter().filter(|transfer| transfer.error.is_some());
    let whole = report
        .error
        .as_ref()
        .map(|failure| format!("ferry: {}", failure.message));
    failed.map(transfer_line).chain(whole).collect()
}

/// What happened, for people: a line per transfer, or one for all, or the failure of a run without either.
#[must_use]
pub fn summary(report: &Report) -> Vec<String> {
    let mut lines: Vec<_> = report.transfers.iter().map(transfer_line).collect();
    lines.extend(report.planned.iter().flatten().map(planned_line));
    if let Some(set) = &report.set {
        // Those that have no line of their own.
        lines.extend((report.transfers.len() as u64 != set.files).then(|| totals_line(set)));
        lines.extend(set_line(set));
    }
    lines.extend(
        report
            .error
            .as_ref()
            .map(|failure| format!("ferry: {}", failure.message)),
    );
    lines
}

/// Renames a finished file into place. What is there and no plain file (`/dev/null`, a pipe) is written to instead: replacing it would destroy it.
fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let target = match fs::metadata(path) {
        Ok(there) if !there.is_file() => return fs::OpenOptions::new().write(true).open(path)?.write_all(bytes),
        // Through a symbolic link, so that the link stays one.
        Ok(_) => fs::canonicalize(path)?,
        Err(_) => path.to_owned(),
    };
    let name = target
        .file_name()
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidFilename))?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}.tmp", std::process::id()));
    let unfinished = target.with_file_name(hidden);
    let written = fs::write(&unfinished, bytes).and_then(|()| fs::rename(&unfinished, &target));
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written
}

/// The URL as people may see it: over HTTP a query may be a signature, over SFTP it is a part of the path.
fn shown(url: &str) -> String {
    if url.starts_with("http") {
        ferry_engine::without_query(url)
    } else {
        url.to_owned()
    }
}

fn without_user(url: &str) -> String {
    let parts = url.split_once("://").and_then(|(scheme, rest)| {
        let (_, host) = rest.split('/').next()?.rsplit_once('@')?;
        Some((scheme, host, rest.split_once('/').map_or("", |(_, path)| path)))
    });
    parts.map_or_else(
        || url.to_owned(),
        |(scheme, host, path)| format!("{scheme}://{host}/{path}"),
    )
}

fn transfer_line(transfer: &Transfer) -> String {
    let url = shown(&transfer.url);
    if let Some(failure) = &transfer.error {
        // Most messages say where by themselves.
        let said = failure.message.contains(&url) || failure.message.contains(&without_user(&url));
        return if said {
            failure.message.clone()
        } else {
            format!("{url}: {}", failure.message)
        };
    }
    let mut line = url;
    let direction = if transfer.direction == Command::Put {
        "sent"
    } else {
        "received"
    };
    let seconds = transfer.phases.body_s.unwrap_or(transfer.phases.total_s);
    let _ = write!(line, ": {direction} {} bytes in {seconds:.3} s", transfer.bytes);
    if let Some(rate) = transfer.body_byte_s {
        let _ = write!(line, ", {}/s", human_bytes(rate));
    }
    if let (Some(coding), Some(decoded)) = (transfer.content_encoding, transfer.decoded_bytes) {
        let _ = write!(line, ", {decoded} bytes decoded ({coding})");
    }
    if let (Some(limit), Some(deviation)) = (transfer.limit_byte_s, transfer.deviation) {
        let _ = write!(
            line,
            " ({:+.2} % of the limit of {}/s)",
            deviation * 100.0,
            human_bytes(limit as f64)
        );
    }
    if transfer.attempts.len() > 1 {
        let _ = write!(line, ", {} attempts", transfer.attempts.len());
    }
    if let Some(checksum) = &transfer.checksum {
        let _ = write!(line, ", {checksum}");
    }
    line
}

fn planned_line(planned: &Planned) -> String {
    let action = match planned.action {
        Action::Receive => "would receive",
        Action::Send => "would send",
        Action::Make => "would make the directory",
        Action::Delete => "would delete",
    };
    let size = planned.size.map(|size| format!(" ({size} bytes)")).unwrap_or_default();
    // A server's name may hold what steers a terminal.
    format!("{action} {}{size}", planned.path.escape_debug())
}

/// What was left as it is, and what was removed, if anything was.
fn set_line(set: &FileSet) -> Option<String> {
    let parts: Vec<_> = [
        (set.unchanged, "unchanged"),
        (set.filtered, "filtered"),
        (set.deleted, "deleted"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, what)| format!("{count} {what}"))
    .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn totals_line(set: &FileSet) -> String {
    let mut line = format!(
        "{} files, {} failed, {} bytes in {:.3} s",
        set.files, set.failed, set.bytes, set.total_s
    );
    if set.total_s > 0.0 {
        let done = set.files - set.failed;
        let _ = write!(line, ", {:.0} files/s", done as f64 / set.total_s);
    }
    if let Some(connections) = set.connections {
        let _ = write!(line, ", connections: {connections}");
    }
    if let Some(latency) = &set.latency_us {
        let _ = write!(line, ", latency p50 {} us, p99 {} us", latency.p50, latency.p99);
    }
    line
}

#[cfg(test)]
mod tests;
