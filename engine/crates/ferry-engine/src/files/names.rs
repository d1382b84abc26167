//! The names that a server may give to a file stored here. A name from elsewhere is one step down, never out of the directory it
//! belongs in.

use std::ffi::OsString;

use super::target::{ASIDE, JOURNAL, PARTIAL};
use crate::error::Error;
use crate::platform;

/// The longest name that file systems take.
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

/// True for a name or a path with control characters, which could forge lines of a log or steer a terminal. Bytes that are not
/// UTF-8 are searched for those of ASCII only.
#[must_use]
pub fn has_control(bytes: &[u8]) -> bool {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.contains(char::is_control),
        Err(_) => bytes.iter().any(u8::is_ascii_control),
    }
}

/// True for a name that a later `--resume` would take for its own; in capitals too, because some file systems ignore case.
fn is_own(name: &[u8]) -> bool {
    name.starts_with(b".")
        && [PARTIAL, JOURNAL, ASIDE].iter().any(|suffix| {
            let from = name.len().saturating_sub(suffix.len());
            name.get(from..)
                .is_some_and(|end| end.eq_ignore_ascii_case(suffix.as_bytes()))
        })
}

/// True for the name of a file that an interrupted ferry transfer leaves behind, here or on a server.
#[must_use]
pub fn is_unfinished(name: &[u8]) -> bool {
    let parts: [&[u8]; 4] = [b".ferry-part", b".ferry-mark", b".ferry-old0", b".ferry-old1"];
    is_own(name) || name.starts_with(b".") && parts.iter().any(|suffix| name.ends_with(suffix))
}

/// Returns the files whose interrupted upload may have left a file of this name beside them on a server: `.FILE.HASH.ferry-part`,
/// or the same with digits behind the hash that tell runs apart. A name of the greatest length may have only the beginning of
/// FILE.
pub fn upload_targets(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    let rest = name.strip_prefix(b".").and_then(|rest| {
        let suffixes: [&[u8]; 2] = [b".ferry-part", b".ferry-mark"];
        suffixes.iter().find_map(|suffix| rest.strip_suffix(*suffix))
    });
    let once = rest.and_then(without_digits);
    let twice = once.and_then(without_digits);
    once.into_iter().chain(twice)
}

/// Hexadecimal digits that tell contents or runs apart.
const OWN_DIGITS: usize = 16;

fn without_digits(name: &[u8]) -> Option<&[u8]> {
    let (rest, digits) = name.split_at_checked(name.len().checked_sub(OWN_DIGITS)?)?;
    let own = digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    match rest {
        [name @ .., b'.' | b'+'] if own && !name.is_empty() => Some(name),
        _ => None,
    }
}

/// True for a name with the greatest number of bytes that most file systems take.
#[must_use]
pub fn is_longest(name: &[u8]) -> bool {
    name.len() == MOST_NAME_BYTES
}

/// The reason for refusing a name; `None` if it is accepted. `windows` is an argument so that its rules are tested on every
/// system.
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

/// A name that is not UTF-8 was refused before.
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
    fn what_an_upload_has_left_names_its_file() {
        let files = |name: &str| -> Vec<String> {
            let found = upload_targets(name.as_bytes());
            found.map(|file| String::from_utf8(file.to_vec()).unwrap()).collect()
        };
        assert_eq!(files(".a.iso.0123456789abcdef.ferry-part"), ["a.iso"]);
        for sign in [".", "+"] {
            let name = format!(".a.0123456789abcdef{sign}fedcba9876543210.ferry-part");
            assert_eq!(files(&name), [&name[1..19], "a"]);
        }
        assert_eq!(files(".a.0123456789abcdef.ferry-mark"), ["a"]);
        for name in [
            "a.0123456789abcdef.ferry-part",
            ".a.0123456789abcde.ferry-part",
            ".a.0123456789ABCDEF.ferry-part",
            ".a.0123456789abcdef.ferry-old0",
            ".a.0123456789abcdef.ferry-part.gz",
            ".0123456789abcdef.ferry-part",
            "..0123456789abcdef.ferry-part",
            ".ferry-part",
            ".a.ferry-partial",
        ] {
            assert_eq!(files(name), [""; 0], "{name}");
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
