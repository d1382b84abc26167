//! URLs of the command line: http and https, their credentials taken out, and the file name of `-O`. Those of sftp are `sftp_url`'s.

use http::HeaderValue;
use url::Url;

use super::options::Remote;
use super::sftp_url::parse_sftp;
use crate::platform;

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The error does not repeat what was typed if there may be a password in it.
pub fn parse_remote(typed: &str) -> Result<Remote, String> {
    let typed = typed.trim();
    let wrong = |why: &str| {
        // An error is one line, and steers no terminal.
        let hidden = |c: char| c == '@' || c.is_control();
        let shown = if typed.contains(hidden) { "URL" } else { typed };
        format!("{shown}: {why}")
    };
    let (scheme, rest) = typed.split_once("://").unwrap_or_default();
    match scheme.to_ascii_lowercase().as_str() {
        "http" | "https" => {}
        "sftp" => return parse_sftp(rest).map_err(|why| wrong(&why)),
        _ => return Err(wrong("expected http://, https:// or sftp://")),
    }
    let mut url = Url::parse(typed).map_err(|error| wrong(&error.to_string()))?;
    let authorization = basic_authorization(&url).map_err(wrong)?;
    // Neither fails: an http URL has a host.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_fragment(None);
    Ok(Remote {
        url,
        authorization,
        file_name: file_name(typed),
        user: None,
        path: Vec::new(),
    })
}

/// The last part of the path as typed, where that can be a file's name.
fn file_name(typed: &str) -> Option<String> {
    let (_, rest) = typed.split_once("://")?;
    let path = rest.split(['?', '#']).next()?;
    let (_, name) = path.rsplit_once('/')?;
    // A URL parser reads a backslash as a slash, and Windows reads more than that as something else than a name.
    let forbidden = |c: char| c.is_control() || c == '\\' || cfg!(windows) && "<>:\"|*".contains(c);
    let reserved = cfg!(windows) && platform::is_reserved_name(name);
    let usable = !matches!(name, "" | "." | "..") && !name.contains(forbidden) && !reserved;
    usable.then(|| name.to_owned())
}

/// RFC 7617.
fn basic_authorization(url: &Url) -> Result<Option<HeaderValue>, &'static str> {
    if url.username().is_empty() && url.password().is_none() {
        return Ok(None);
    }
    let user = percent_decode(url.username());
    if user.contains(&b':') {
        return Err("a user name cannot contain a colon");
    }
    let credentials = [user, percent_decode(url.password().unwrap_or_default())].join(&b':');
    let mut value =
        HeaderValue::try_from(format!("Basic {}", base64(&credentials))).map_err(|_| "unusable user name")?;
    value.set_sensitive(true);
    Ok(Some(value))
}

/// What is no `%XX` stays as it is, as the URL standard has it.
pub(super) fn percent_decode(text: &str) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = |digit: u8| {
            char::from(digit)
                .to_digit(16)
                .and_then(|value| u8::try_from(value).ok())
        };
        let escaped = match tail {
            [high, low, after @ ..] if *first == b'%' => hex(*high).zip(hex(*low)).map(|pair| (pair, after)),
            _ => None,
        };
        let (byte, after) = escaped.map_or((*first, tail), |((high, low), after)| (high << 4 | low, after));
        decoded.push(byte);
        rest = after;
    }
    decoded
}

/// RFC 4648, padded. Ten lines for the only place that needs it.
fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0_usize, |bits, at| {
            bits << 8 | usize::from(group.get(at).copied().unwrap_or(0))
        });
        for at in 0..4 {
            let used = at <= group.len();
            text.push(if used {
                char::from(BASE64[bits >> (18 - 6 * at) & 63])
            } else {
                '='
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_the_rfc() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xbf]), "+/+/");
    }

    #[test]
    fn credentials_leave_the_url() {
        let remote = parse_remote("https://Aladdin:open%20sesame@example.com/x?y#z").unwrap();
        assert_eq!(remote.url.as_str(), "https://example.com/x?y");
        let authorization = remote.authorization.clone().unwrap();
        assert_eq!(authorization, "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        assert!(!format!("{remote:?}").contains("QWxh"));
        assert_eq!(
            parse_remote("http://user@h/").unwrap().authorization.unwrap(),
            "Basic dXNlcjo="
        );
        assert_eq!(percent_decode("a%2Fb%zz%4"), b"a/b%zz%4");
    }

    #[test]
    fn no_error_tells_a_password() {
        for typed in [
            "ftp://me:secret@h/",
            "http://me:secret@h:x/",
            "http://a%3Ab:secret@h/",
            "me:secret@h",
            "http://me:secret/@h/",
        ] {
            let error = parse_remote(typed).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn names_are_as_typed() {
        for (typed, name) in [
            ("https://h/dir/a%20b.iso?x=/y#/z", Some("a%20b.iso")),
            ("https://h/%2e%2e", Some("%2e%2e")),
            ("https://h/a/..", None),
            ("https://h/a/", None),
            ("https://h", None),
            ("https://h?/x", None),
            ("https://h/a\\b", None),
            ("https://h/a\nb", None),
        ] {
            assert_eq!(parse_remote(typed).unwrap().file_name.as_deref(), name, "{typed}");
        }
    }

    #[test]
    fn only_http() {
        for typed in [
            "",
            "h/x",
            "ftp://h/",
            "file:///etc/passwd",
            "http:h",
            "http://",
            "https://[::1",
        ] {
            assert!(parse_remote(typed).is_err(), "{typed}");
        }
    }
}
