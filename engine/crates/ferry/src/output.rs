//! A report for people: a line per transfer.

use std::fmt::Write as _;

use crate::report::{Action, Command, FileSet, Planned, Report, Transfer};
use crate::units::human_bytes;
use ferry_engine::harmless;

/// The failures, for people: a line each.
#[must_use]
pub fn failures(report: &Report) -> Vec<String> {
    let failed = report.transfers.iter().filter(|transfer| transfer.error.is_some());
    let whole = report
        .error
        .as_ref()
        .map(|failure| format!("ferry: {}", failure.message));
    failed.map(transfer_line).chain(whole).collect()
}

/// The outcome, for people: a line per transfer and per planned action, a line for the files without lines of their own, and a
/// line for the failure of the run.
#[must_use]
pub fn summary(report: &Report) -> Vec<String> {
    let mut lines: Vec<_> = report.transfers.iter().map(transfer_line).collect();
    lines.extend(report.planned.iter().flatten().map(planned_line));
    let listed = report.transfers.len() as u64;
    lines.extend(report.set.as_ref().and_then(|set| set_line(set, listed)));
    lines.extend(
        report
            .error
            .as_ref()
            .map(|failure| format!("ferry: {}", failure.message)),
    );
    lines
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

/// The outcome of a transfer, or the reason of its failure.
#[must_use]
pub fn transfer_line(transfer: &Transfer) -> String {
    let url = &transfer.url;
    if let Some(failure) = &transfer.error {
        // Most messages say where by themselves.
        let said = failure.message.contains(url) || failure.message.contains(&without_user(url));
        return if said {
            failure.message.clone()
        } else {
            format!("{url}: {}", failure.message)
        };
    }
    let mut line = url.clone();
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
    format!("{action} {}{size}", harmless(&planned.path))
}

/// The totals of a set, if some files have no lines of their own, and its counts of unchanged, filtered and deleted files; `None`
/// without any of these.
fn set_line(set: &FileSet, listed: u64) -> Option<String> {
    let mut parts = Vec::new();
    if set.files > listed && set.latency_us.is_some() {
        parts.push(totals_line(set));
    } else if set.files > listed {
        let seconds = set.body_s.unwrap_or(set.total_s);
        parts.push(format!("{} files, {} bytes in {seconds:.3} s", set.files, set.bytes));
        if seconds > 0.0 {
            parts.push(format!("{}/s", human_bytes(set.bytes as f64 / seconds)));
        }
        if set.failed > 0 {
            parts.push(format!("{} failed", set.failed));
        }
    }
    let counts = [
        (set.unchanged, "unchanged"),
        (set.filtered, "filtered"),
        (set.deleted, "deleted"),
    ];
    let others = counts.into_iter().filter(|(count, _)| *count > 0);
    parts.extend(others.map(|(count, what)| format!("{count} {what}")));
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The totals of an HTTP run: each of its files is a request.
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
