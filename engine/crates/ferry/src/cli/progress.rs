//! Progress on a terminal. Elsewhere nothing is shown, and nothing is computed.

use std::io::{IsTerminal, stderr};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

const KNOWN: &str =
    "{msg:30!} {wide_bar} {binary_bytes:>10} of {binary_total_bytes:>10} {binary_bytes_per_sec:>13} {eta:>4}";
const UNKNOWN: &str = "{msg:30!} {spinner} {binary_bytes:>10} {binary_bytes_per_sec:>13} {elapsed:>4}";

/// A run's lines.
#[derive(Debug, Clone)]
pub struct Progress {
    lines: Option<MultiProgress>,
}

impl Progress {
    /// Shown when `wanted` and standard error is a terminal.
    #[must_use]
    pub fn new(wanted: bool) -> Self {
        let shown = wanted && stderr().is_terminal();
        Self {
            lines: shown.then(MultiProgress::new),
        }
    }

    /// A line for a transfer, with a bar when the size is known.
    #[must_use]
    pub fn transfer(&self, name: &str, total: Option<u64>) -> Bar {
        Bar {
            line: self.lines.as_ref().map(|lines| {
                let line = lines.add(total.map_or_else(ProgressBar::new_spinner, ProgressBar::new));
                let template = if total.is_some() { KNOWN } else { UNKNOWN };
                line.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
                // A name must not move the terminal's cursor.
                line.set_message(name.replace(char::is_control, "?"));
                line
            }),
        }
    }
}

/// A transfer's line; gone when it is dropped.
#[derive(Debug)]
pub struct Bar {
    line: Option<ProgressBar>,
}

impl Bar {
    /// Bytes so far, in all. Every 100 ms is often enough.
    pub fn set(&self, bytes: u64) {
        if let Some(line) = &self.line {
            line.set_position(bytes);
        }
    }

    /// Makes room for the summary.
    pub fn finish(self) {
        drop(self);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(line) = &self.line {
            line.finish_and_clear();
        }
    }
}
