//! Functions that are the same on every system.

use std::path::Path;
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

/// The directory in which a path's last name is looked up.
#[must_use]
pub fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// True if Windows takes the name for a device, or for a different name. Such names are refused on every system: a file fetched
/// here may be copied there.
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

/// The meaning that Windows gives to the last part of a path that the user typed for a file to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowsName {
    File,
    /// The device that takes everything, asked for by its name alone.
    Null,
    /// Not what it looks like, and why.
    Refused(&'static str),
}

#[must_use]
pub fn windows_name(name: &str) -> WindowsName {
    if name.eq_ignore_ascii_case("NUL") {
        WindowsName::Null
    } else if name.contains(':') {
        WindowsName::Refused("the colon names a stream of another file")
    } else if name.ends_with(['.', ' ']) {
        WindowsName::Refused("Windows leaves the dot or space at its end away")
    } else if is_reserved_name(name) {
        WindowsName::Refused("Windows reads it as a device")
    } else {
        WindowsName::File
    }
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
    fn what_somebody_types_is_a_file_or_the_null_device_or_refused() {
        assert_eq!(windows_name("NUL"), WindowsName::Null);
        assert_eq!(windows_name("nul"), WindowsName::Null);
        for name in [
            "NUL.txt",
            "CON",
            "com1",
            "file:stream",
            "NUL:",
            "file.",
            "file ",
            "LPT1.log",
        ] {
            assert!(matches!(windows_name(name), WindowsName::Refused(_)), "{name}");
        }
        for name in ["file", "console", "a.b", ".hidden"] {
            assert_eq!(windows_name(name), WindowsName::File, "{name}");
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
