//! `-v`: the engine's events as lines on standard error.

use tracing::Level;
use tracing_subscriber::fmt::time::uptime;

/// Shows the engine's events from now on: once for connections, retries and the like, twice for header fields too.
pub fn show(times: u8) {
    let level = match times {
        0 => return,
        1 => Level::DEBUG,
        _ => Level::TRACE,
    };
    let lines = tracing_subscriber::fmt().with_max_level(level).with_timer(uptime());
    // Fails only if somebody has set another one, and nobody has.
    let _ = lines.with_writer(std::io::stderr).with_ansi(false).try_init();
}
