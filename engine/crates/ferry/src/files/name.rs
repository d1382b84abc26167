//! The local name of a URL.

use percent_encoding::percent_decode_str;
use url::Url;

use crate::platform::is_reserved_name;
use crate::report::Problem;

/// What the usual file systems take.
const MOST_BYTES: usize = 255;
/// Windows gives them a meaning in a name.
const WINDOWS_REFUSES: [char; 7] = ['<', '>', ':', '"', '|', '?', '*'];

/// The last path segment of the URL as the user typed it: never of a redirect, never of a header, so that no server names a local path.
///
/// # Errors
/// Class Usage when there is none that is safe as a file name everywhere: the user has to give one.
pub fn local_name(url: &Url) -> Result<String, Problem> {
    let refuse = |why: &str| Problem::usage(format!("{}: {why}; give the file a name with --output", url.path()));
    let segment = url
        .path_segments()
        .and_then(|mut segments| segments.next_back())
        .unwrap_or_default();
    // Decoded once, as a server does: what is still encoded then is part of the name.
    let name = percent_decode_str(segment)
        .decode_utf8()
        .map_err(|_| refuse("the URL's last part is not UTF-8"))?
        .into_owned();
    if name.is_empty() {
        return Err(refuse("the URL ends with no file name"));
    }
    if name == "." || name == ".." {
        return Err(refuse("the URL ends with the name of a directory"));
    }
    if name.contains(['/', '\\']) {
        return Err(refuse("the URL's last part holds the separator of a path"));
    }
    if name.chars().any(char::is_control) {
        return Err(refuse("the URL's last part holds a control character"));
    }
    if let [letter, b':', ..] = name.as_bytes()
        && letter.is_ascii_alphabetic()
    {
        return Err(refuse("the URL's last part begins as a drive"));
    }
    if is_reserved_name(&name) || cfg!(windows) && name.contains(WINDOWS_REFUSES) {
        return Err(refuse("the URL's last part means something else on Windows"));
    }
    if name.len() > MOST_BYTES {
        return Err(refuse("the URL's last part is longer than 255 bytes"));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use std::path::{Component, Path};

    use proptest::prelude::*;

    use super::*;
    use crate::report::Class;

    fn name(text: &str) -> Result<String, Problem> {
        local_name(&text.parse().unwrap())
    }

    #[test]
    fn the_last_part_of_the_path_decoded_once() {
        for (url, expected) in [
            ("http://h/a/b.iso", "b.iso"),
            ("http://h/a%20b?c=/d#/e", "a b"),
            ("http://h/%C3%A4", "ä"),
            ("http://h/a%252Fb", "a%2Fb"),
            ("http://h/-rf", "-rf"),
            ("http://h/.hidden", ".hidden"),
            ("http://h/x/../y", "y"),
        ] {
            assert_eq!(name(url).unwrap(), expected);
        }
    }

    #[test]
    fn what_is_no_name_is_refused_in_one_line() {
        let long = format!("http://h/{}", "x".repeat(256));
        for url in [
            "http://h",
            "http://h/",
            "http://h/a/",
            "http://h/a/..",
            "http://h/%2e%2E",
            "http://h/a%2Fb",
            "http://h/..%2f..%2fx",
            "http://h/a%5Cb",
            "http://h/a%00",
            "http://h/a%0Ab",
            "http://h/%1b[2J",
            "http://h/C:x",
            "http://h/c%3A",
            "http://h/NUL",
            "http://h/com1.txt",
            "http://h/a.",
            "http://h/a%20",
            "http://h/%FF",
            "http://h/%C2%85",
            "data:x",
            &long,
        ] {
            let error = name(url).unwrap_err();
            assert_eq!(error.class, Class::Usage, "{url}");
            assert!(!error.message.contains(char::is_control), "{url}");
        }
        assert_eq!(name(&format!("http://h/{}", "x".repeat(255))).unwrap().len(), 255);
    }

    fn hostile() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("..".to_owned()),
            Just("/".to_owned()),
            Just("%2F".to_owned()),
            Just("%5c".to_owned()),
            Just("\\".to_owned()),
            Just("%2e".to_owned()),
            Just("%00".to_owned()),
            Just("C:".to_owned()),
            Just("%3a".to_owned()),
            Just("NUL".to_owned()),
            Just("%25".to_owned()),
            "[ -~]{0,5}",
            ".{0,3}",
            (0_u8..=255).prop_map(|byte| format!("%{byte:02X}")),
        ];
        proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn a_name_never_leaves_its_directory(path in hostile()) {
            let Ok(url) = Url::parse(&format!("http://h/{path}")) else { return Ok(()) };
            if let Ok(name) = local_name(&url) {
                let components: Vec<_> = Path::new(&name).components().collect();
                prop_assert_eq!(components.len(), 1);
                prop_assert!(matches!(components[0], Component::Normal(_)));
                prop_assert!(!name.contains(['/', '\\', '\0']) && name.len() <= 255);
                let joined = Path::new("dir").join(&name);
                prop_assert_eq!(joined.parent(), Some(Path::new("dir")));
            }
        }
    }
}
