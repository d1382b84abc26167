//! How a report leaves the program: as JSON for programs, or as a line per transfer for people.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::PathBuf;

use crate::report::{Action, Bench, Command, FileSet, Planned, Report, Transfer};
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
        Destination::File(path) => ferry_engine::files::write_whole(path, &json),
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

/// What happened, for people: a line per transfer, or one for the benchmark, or the failure of a run without either.
#[must_use]
pub fn summary(report: &Report) -> Vec<String> {
    let mut lines: Vec<_> = report.transfers.iter().map(transfer_line).collect();
    lines.extend(report.planned.iter().flatten().map(planned_line));
    lines.extend(report.set.as_ref().and_then(set_line));
    lines.extend(report.bench.as_ref().map(bench_line));
    lines.extend(
        report
            .error
            .as_ref()
            .map(|failure| format!("ferry: {}", failure.message)),
    );
    lines
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

fn bench_line(bench: &Bench) -> String {
    format!(
        "{}: {} of {} requests in {:.3} s, {:.0} requests/s, {:.1} us of CPU each, latency p50 {} us, p99 {} us",
        bench.url,
        bench.succeeded,
        bench.requests,
        bench.seconds,
        bench.requests_per_s,
        bench.cpu_us_per_request,
        bench.latency_us.p50,
        bench.latency_us.p99
    )
}

#[cfg(test)]
mod tests;
