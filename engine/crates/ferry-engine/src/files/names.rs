//! What a server may call a file that lands here. A name from elsewhere is one step down, never out of the directory it belongs in.

use std::ffi::OsString;

use super::target::{ASIDE, JOURNAL, PARTIAL};
use crate::error::Error;
use crate::platform;

/// What file systems take for a name.
const MOST_NAME_BYTES: usize = 255;
/// A name may be as long as a packet; its message may not.
const MOST_SHOWN: usize = 80;

/// A server's name for a file, as a name in a directory here.
///
/// # Errors
/// Class Permanent: the server would say the same again.
pub fn safe_component(name: &[u8]) -> Result<OsString, Error> {
    match forbidden(name, cfg!(windows)) {
        None => Ok(as_written_here(name)),
        Some(why) => Err(why),
    }
    .map_err(|why| {
        let (shown, more) = match name.get(..MOST_SHOWN) {
            Some(beginning) => (beginning, "..."),
            None => (name, ""),
        };
        Error::permanent(format!(
            "the server calls a file '{}{more}', which cannot be a name here ({why}); rename it there",
            shown.escape_ascii()
        ))
    })
}

/// Of a name or a path: they could forge lines of a log or steer a terminal. Bytes that are no UTF-8 are only what ASCII makes of them.
#[must_use]
pub fn has_control(bytes: &[u8]) -> bool {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.contains(char::is_control),
        Err(_) => bytes.iter().any(u8::is_ascii_control),
    }
}

/// A later `--resume` would take it for its own; on some file systems whatever the case.
fn is_own(name: &[u8]) -> bool {
    name.starts_with(b".")
        && [PARTIAL, JOURNAL, ASIDE].iter().any(|suffix| {
            let from = name.len().saturating_sub(suffix.len());
            name.get(from..)
                .is_some_and(|end| end.eq_ignore_ascii_case(suffix.as_bytes()))
        })
}

/// What an interrupted transfer of ferry's leaves, here or on a server.
#[must_use]
pub fn is_unfinished(name: &[u8]) -> bool {
    let parts: [&[u8]; 4] = [b".ferry-part", b".ferry-mark", b".ferry-old0", b".ferry-old1"];
    is_own(name) || name.starts_with(b".") && parts.iter().any(|suffix| name.ends_with(suffix))
}

/// Why it is refused. `windows` is an argument so that its rules are tested on every system.
fn forbidden(name: &[u8], windows: bool) -> Option<&'static str> {
    if matches!(name, b"" | b"." | b"..") {
        return Some("it names no file");
    }
    if name.len() > MOST_NAME_BYTES {
        return Some("longer than 255 bytes");
    }
    if name.contains(&b'/') || windows && name.contains(&b'\\') {
        return Some("a path, not a name");
    }
    if is_own(name) {
        return Some("what ferry calls its own partial files");
    }
    if has_control(name) {
        return Some("a control character in it");
    }
    if !windows {
        return None;
    }
    let Ok(text) = std::str::from_utf8(name) else {
        return Some("not UTF-8");
    };
    // The colon is a drive letter's, and that of a file's other streams.
    if text.contains(['<', '>', ':', '"', '|', '?', '*']) {
        return Some("a character that Windows does not take");
    }
    platform::is_reserved_name(text).then_some("Windows reads it as something else")
}

#[cfg(unix)]
fn as_written_here(name: &[u8]) -> OsString {
    std::os::unix::ffi::OsStringExt::from_vec(name.to_vec())
}

/// What is not UTF-8 was refused before.
#[cfg(not(unix))]
fn as_written_here(name: &[u8]) -> OsString {
    String::from_utf8_lossy(name).into_owned().into()
}

#[cfg(test)]
mod tests {
    use std::path::{Component, Path};

    use proptest::prelude::*;

    use super::*;
    use crate::error::Class;

    #[test]
    fn what_is_refused_everywhere() {
        let long = [b'x'; 256];
        for name in [
            b"".as_slice(),
            b".",
            b"..",
            b"/",
            b"a/b",
            b"../x",
            b"/etc/passwd",
            b"a\0b",
            b"a\nb",
            b"a\x1b[2Jb",
            b"\x7f",
            "a\u{85}b".as_bytes(),
            b".x.ferry-partial",
            b".X.Ferry-Partial.json",
            &long,
        ] {
            let problem = safe_component(name).unwrap_err();
            assert_eq!(problem.class, Class::Permanent);
            assert!(!problem.message.contains(char::is_control), "{}", problem.message);
            assert!(problem.message.len() < 500, "{}", problem.message);
            assert!(forbidden(name, true).is_some());
        }
        assert!(safe_component(b"a\x1bb").unwrap_err().message.contains(r"a\x1bb"));
    }

    #[test]
    fn what_only_windows_refuses() {
        for name in [
            b"a\\b".as_slice(),
            b"..\\x",
            b"C:",
            b"c:x",
            b"file:stream",
            b"NUL",
            b"com1.txt",
            b"a.",
            b"...",
            b"a ",
            b"a?",
            b"<a>",
            b"\xff",
        ] {
            assert!(forbidden(name, true).is_some(), "{}", name.escape_ascii());
            assert_eq!(forbidden(name, false), None, "{}", name.escape_ascii());
        }
    }

    #[test]
    fn what_is_a_name_everywhere() {
        for name in [
            "a",
            ".hidden",
            "-rf",
            "~",
            "a b",
            "ü",
            "日本語",
            "a%2Fb",
            "x".repeat(255).as_str(),
        ] {
            assert_eq!(safe_component(name.as_bytes()).unwrap(), *name);
            assert_eq!(forbidden(name.as_bytes(), true), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_name_stays_in_its_directory(name in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..300),
            prop::collection::vec(prop::sample::select(b"./\\ :aC\0\n".to_vec()), 0..6),
        ]) {
            if let Ok(safe) = safe_component(&name) {
                let path = Path::new("dir").join(&safe);
                let parts: Vec<_> = path.components().collect();
                prop_assert_eq!(parts, [Component::Normal("dir".as_ref()), Component::Normal(&safe)]);
                prop_assert_eq!(safe.as_encoded_bytes(), &name[..]);
            }
            if forbidden(&name, false).is_some() {
                prop_assert!(forbidden(&name, true).is_some());
            }
        }
    }
}
