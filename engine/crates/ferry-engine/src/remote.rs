//! URLs of the command line: http and https, their credentials taken out, and the file name of `-O`. Those of sftp are `sftp_url`'s.

use base64ct::{Base64, Encoding};
use http::HeaderValue;
use percent_encoding::percent_decode_str;
use url::Url;

use crate::log::{is_harmless, without_query};
use crate::options::Remote;
use crate::platform;
use crate::sftp_url::parse_sftp;

/// The error does not repeat what was typed if there may be a password in it.
pub fn parse_remote(typed: &str) -> Result<Remote, String> {
    let typed = typed.trim();
    let wrong = |why: &str| {
        // An error is one line, and steers no terminal.
        let hidden = |c: char| c == '@' || !is_harmless(c);
        let shown = if typed.contains(hidden) { "URL" } else { typed };
        format!("{}: {why}", without_query(shown))
    };
    let (scheme, rest) = typed.split_once("://").unwrap_or_default();
    match scheme.to_ascii_lowercase().as_str() {
        "http" | "https" => {}
        "sftp" => return parse_sftp(rest).map_err(|why| wrong(&why)),
        _ => return Err(wrong("expected http://, https:// or sftp://")),
    }
    let mut url = Url::parse(typed).map_err(|error| wrong(&error.to_string()))?;
    let (authorization, user) = login(&url).map_err(wrong)?;
    // Neither fails: an http URL has a host.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_fragment(None);
    Ok(Remote {
        url,
        authorization,
        file_name: file_name(typed),
        user,
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

/// The URL's login as a header, and its user where the password has yet to be found.
fn login(url: &Url) -> Result<(Option<HeaderValue>, Option<String>), &'static str> {
    if url.username().is_empty() && url.password().is_none() {
        return Ok((None, None));
    }
    let decoded = |text| percent_decode_str(text).collect::<Vec<u8>>();
    let user = decoded(url.username());
    let password = decoded(url.password().unwrap_or_default());
    let value = basic(&user, &password)?;
    let user = String::from_utf8(user).ok().filter(|_| url.password().is_none());
    Ok((Some(value), user))
}

/// The value of Authorization for a user and a password (RFC 7617), marked sensitive.
///
/// # Errors
/// When the user's name has a colon. The message repeats neither.
pub fn basic_authorization(user: &str, password: &str) -> Result<HeaderValue, &'static str> {
    basic(user.as_bytes(), password.as_bytes())
}

fn basic(user: &[u8], password: &[u8]) -> Result<HeaderValue, &'static str> {
    if user.contains(&b':') {
        return Err("a user name cannot contain a colon");
    }
    let credentials = [user, password].join(&b':');
    sensitive(&format!("Basic {}", Base64::encode_string(&credentials))).ok_or("unusable user name")
}

/// The value of Authorization for a token (RFC 6750, section 2.1), marked sensitive.
///
/// # Errors
/// When it has characters that no token has. The message does not repeat it.
pub fn bearer_authorization(token: &str) -> Result<HeaderValue, &'static str> {
    let token = token.trim_ascii();
    let usable = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    let value = sensitive(&format!("Bearer {token}")).filter(|_| usable);
    value.ok_or("is empty, or has a character that no token has")
}

fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        // An incomplete escape stays as it is: `a/b%zz%4:`.
        let odd = parse_remote("http://a%2Fb%zz%4@h/").unwrap().authorization.unwrap();
        assert_eq!(odd, "Basic YS9iJXp6JTQ6");
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
