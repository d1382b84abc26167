//! `-v`: the engine's events as lines on standard error.

use std::io::{self, Write, stderr};

use ferry_engine::harmless;
use tracing::Level;
use tracing_subscriber::fmt::time::uptime;

/// Shows the engine's events from now on: once for connections, files, retries and the like, twice for header fields too.
pub fn show(times: u8) {
    let level = match times {
        0 => return,
        1 => Level::DEBUG,
        _ => Level::TRACE,
    };
    let lines = tracing_subscriber::fmt().with_max_level(level).with_timer(uptime());
    // Fails only if another subscriber is set, and none is.
    let _ = lines.with_writer(|| Lines).with_ansi(false).try_init();
}

/// Takes one event at a time. Names and words of a server are in events.
struct Lines;

impl Write for Lines {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let line = harmless(text.strip_suffix('\n').unwrap_or(&text));
        writeln!(stderr().lock(), "{line}")?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
