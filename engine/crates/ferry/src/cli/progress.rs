//! Progress on a terminal. Elsewhere nothing is shown, and nothing is computed.

use std::io::{IsTerminal, stderr};
use std::sync::atomic::{AtomicBool, Ordering};

use ferry_engine::is_harmless;
use ferry_engine::observer::{Observer, Progress};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

const KNOWN: &str =
    "{msg:30} {wide_bar} {binary_bytes:>10} of {binary_total_bytes:>10} {binary_bytes_per_sec:>13} {eta:>4}";
const UNKNOWN: &str = "{msg:30} {spinner} {binary_bytes:>10} {binary_bytes_per_sec:>13} {elapsed:>4}";
const NAME_WIDTH: usize = 30;
/// Callers come every 100 ms; to draw more often would be to draw the same.
const DRAWS_PER_SECOND: u8 = 10;

/// A run's lines.
#[derive(Debug, Clone)]
pub struct Bars {
    lines: Option<MultiProgress>,
}

impl Bars {
    /// Shown when `wanted` and standard error is a terminal.
    #[must_use]
    pub fn new(wanted: bool) -> Self {
        let shown = wanted && stderr().is_terminal();
        let target = || ProgressDrawTarget::stderr_with_hz(DRAWS_PER_SECOND);
        Self {
            lines: shown.then(|| MultiProgress::with_draw_target(target())),
        }
    }

    /// Runs `write`, which writes lines of its own to standard error; the lines of progress make room for it.
    pub fn aside(&self, write: impl FnOnce()) {
        match &self.lines {
            Some(lines) => lines.suspend(write),
            None => write(),
        }
    }

    fn bar(&self, name: &str, total: Option<u64>) -> Bar {
        let line = self.lines.as_ref().map(|lines| {
            let line = lines.add(ProgressBar::no_length());
            line.set_style(style(UNKNOWN));
            line.set_message(shown_name(name));
            line
        });
        let bar = Bar {
            line,
            begun: AtomicBool::new(false),
        };
        if let Some(total) = total {
            bar.total(total);
        }
        bar
    }
}

impl Observer for Bars {
    /// A line for a transfer, shown from the first `moved` on; with a bar when the size is known.
    fn begin(&self, url: &str, total: Option<u64>) -> Box<dyn Progress> {
        Box::new(self.bar(url, total))
    }
}

/// A transfer's line; gone when it is dropped.
#[derive(Debug)]
struct Bar {
    line: Option<ProgressBar>,
    begun: AtomicBool,
}

impl Progress for Bar {
    fn total(&self, bytes: u64) {
        if let Some(line) = &self.line
            && line.length() != Some(bytes)
        {
            line.set_style(style(KNOWN));
            line.set_length(bytes);
        }
    }

    fn moved(&self, bytes: u64) {
        if let Some(line) = &self.line {
            line.set_position(bytes);
            if !self.begun.swap(true, Ordering::Relaxed) {
                // The bytes that a resumed transfer begins with did not arrive just now.
                line.reset_eta();
            }
        }
    }
}

impl Drop for Bar {
    /// Makes room for the summary.
    fn drop(&mut self) {
        if let Some(line) = &self.line {
            line.finish_and_clear();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// The end of a name, which differs more than the begin does; without what would move the terminal's cursor or reorder the line.
fn shown_name(name: &str) -> String {
    let plain = name.replace(|character| !is_harmless(character), "?");
    let length = plain.chars().count();
    if length <= NAME_WIDTH {
        return plain;
    }
    "..."
        .chars()
        .chain(plain.chars().skip(length + 3 - NAME_WIDTH))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_valid() {
        for template in [KNOWN, UNKNOWN] {
            ProgressStyle::with_template(template).unwrap();
        }
    }

    #[test]
    fn names_fit_and_do_no_harm() {
        assert_eq!(shown_name("a.iso"), "a.iso");
        assert_eq!(shown_name("\u{1b}[2J\u{202e}\n"), "?[2J??");
        assert_eq!(
            shown_name("https://example.com/a/long/way/to/file.iso"),
            "....com/a/long/way/to/file.iso"
        );
        assert_eq!(shown_name(&"ü".repeat(99)).chars().count(), NAME_WIDTH);
    }

    #[test]
    fn unwanted_is_nothing() {
        let bar = Bars::new(false).bar("x", None);
        bar.total(3);
        bar.moved(1);
        assert!(bar.line.is_none());
    }
}
