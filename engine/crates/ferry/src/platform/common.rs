//! What is the same on every system.

use std::time::{Duration, Instant};

/// Sleeps until the deadline with the best precision at hand: the system's sleep up to `spin` before it, then a spin.
///
/// Never tokio's or mio's time-outs: they come in whole milliseconds, on Windows in fifteens. std's sleep is `clock_nanosleep`, and a
/// high-resolution waitable timer on Windows.
pub fn sleep_until(deadline: Instant, spin: Duration) {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        match left.checked_sub(spin) {
            Some(sleep) if !sleep.is_zero() => std::thread::sleep(sleep),
            _ => std::hint::spin_loop(),
        }
    }
}

/// Whether a name means a device on Windows, or a different name than it says. Refused on every system: a file fetched here may be
/// copied there.
#[must_use]
pub fn is_reserved_name(name: &str) -> bool {
    if name.ends_with(['.', ' ']) {
        return true;
    }
    // `NUL.txt` and `NUL .txt` are NUL too; a colon names a stream of it.
    let stem = name.split(['.', ':']).next().unwrap_or_default().trim_end_matches(' ');
    if ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$"]
        .iter()
        .any(|device| stem.eq_ignore_ascii_case(device))
    {
        return true;
    }
    let mut letters = stem.chars();
    let port: String = letters.by_ref().take(3).collect();
    // Windows takes the superscript digits of Latin-1 for digits here.
    let numbered = matches!(
        (letters.next(), letters.next()),
        (Some('0'..='9' | '¹' | '²' | '³'), None)
    );
    numbered && (port.eq_ignore_ascii_case("COM") || port.eq_ignore_ascii_case("LPT"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_of_windows_are_reserved_everywhere() {
        for name in [
            "CON",
            "con",
            "NUL",
            "nul.txt",
            "nul .txt",
            "aux.tar.gz",
            "COM1",
            "com9.log",
            "LPT0",
            "LPT³",
            "a.",
            "a ",
            "NUL:x",
        ] {
            assert!(is_reserved_name(name), "{name}");
        }
        for name in [
            "CONSOLE", "COM", "COM10", "nulls", "file.con", "a.b", ".hidden", "-", "LPTX", "ÄÖÜ1",
        ] {
            assert!(!is_reserved_name(name), "{name}");
        }
    }

    #[test]
    fn sleep_never_ends_early() {
        for spin in [Duration::ZERO, Duration::from_micros(500), Duration::from_secs(1)] {
            let deadline = Instant::now() + Duration::from_millis(3);
            sleep_until(deadline, spin);
            assert!(Instant::now() >= deadline);
        }
        sleep_until(Instant::now(), Duration::ZERO);
    }
}
