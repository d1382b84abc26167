//! sftp URLs. The `url` crate knows none: it keeps a host as typed, and cuts a path at `?`, which is a character of names here. So the
//! parts are read here, and what goes into the `Url` is one spelling that it leaves alone.

use std::fmt::Write as _;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use url::{Host, Url};

use crate::files::{has_control, safe_component};
use crate::options::Remote;

const HOME: &[u8] = b"~";
const SSH_PORT: u16 = 22;
/// Every byte that RFC 3986 does not allow unescaped in a path, so that each file has one spelling.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@');

/// Parses the remainder of a URL after `sftp://`. The error does not repeat any of it.
pub fn parse_sftp(rest: &str) -> Result<Remote, String> {
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    // The last one: a user's name may have it too, a host's cannot.
    let (user, server) = authority.rsplit_once('@').unwrap_or(("", authority));
    if user.contains(':') {
        return Err("passwords come from --password-file or --password-env, not from the URL".into());
    }
    let user = String::from_utf8(percent_decode_str(user).collect()).map_err(|_| "the user name is not UTF-8")?;
    if user.contains(char::is_control) {
        return Err("a control character in the user name".into());
    }
    let (host, port) = host_and_port(server)?;
    let decoded = percent_decode_str(path).collect::<Vec<u8>>();
    let parts = parts(&decoded)?;
    let url = url(&host, port, &parts, decoded.ends_with(b"/"))?;
    Ok(Remote {
        url,
        authorization: None,
        file_name: parts
            .last()
            .filter(|_| parts != [HOME])
            .and_then(|name| local_name(name)),
        user: (!user.is_empty()).then_some(user),
        path: path_of(&parts, decoded.ends_with(b"/")),
    })
}

/// True if the URL's spelling names a directory: a slash at its end, the root, or the home directory.
pub fn names_directory(remote: &Remote) -> bool {
    remote.url.path().ends_with('/')
}

/// The file of this name in the directory that is `remote`.
pub fn within(remote: &Remote, name: &[u8]) -> Result<Remote, String> {
    if has_control(name) {
        return Err("a control character in the file's name; end the URL with another one".into());
    }
    let mut inside = remote.clone();
    if remote.path == b"." {
        inside.path.clear();
    } else if !remote.path.ends_with(b"/") {
        inside.path.push(b'/');
    }
    inside.path.extend_from_slice(name);
    // `join` would take a name with a colon for another URL.
    inside
        .url
        .set_path(&format!("{}{}", remote.url.path(), percent_encode(name, ESCAPED)));
    inside.file_name = local_name(name);
    Ok(inside)
}

fn host_and_port(server: &str) -> Result<(Host, u16), String> {
    // An IPv6 address has colons of its own, inside brackets.
    let bracket = server.rfind(']').map_or(0, |at| at + 1);
    let colon = server[bracket..].find(':').map(|at| bracket + at);
    let (host, port) = server.split_at(colon.unwrap_or(server.len()));
    // Hosts are spelled like those of http: lower case, Punycode, IPv4 addresses with four numbers.
    let host = Host::parse(host).map_err(|error| error.to_string())?;
    let digits = port.strip_prefix(':').unwrap_or_default();
    let port = match digits {
        "" => Some(SSH_PORT),
        // `parse` takes a plus sign.
        _ if digits.starts_with('+') => None,
        _ => digits.parse().ok().filter(|port| *port > 0),
    };
    Ok((host, port.ok_or("invalid port number")?))
}

/// `.` and `..` are resolved here, as curl and browsers do it: a server would follow symbolic links first.
fn parts(decoded: &[u8]) -> Result<Vec<&[u8]>, String> {
    if has_control(decoded) {
        return Err("a control character in the path".into());
    }
    let mut parts = Vec::new();
    for part in decoded.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." if parts == [HOME] => {
                return Err(".. leads out of the home directory; write the path without ~".into());
            }
            b".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    Ok(parts)
}

fn path_of(parts: &[&[u8]], ends_with_slash: bool) -> Vec<u8> {
    match parts {
        [HOME] => b".".to_vec(),
        [HOME, inside @ ..] => inside.join(&b'/'),
        // To Windows `C:` is not the root of the drive, but its current directory.
        [[letter, b':']] if letter.is_ascii_alphabetic() && ends_with_slash => vec![b'/', *letter, b':', b'/'],
        _ => [b"/".as_slice(), &parts.join(&b'/')].concat(),
    }
}

fn url(host: &Host, port: u16, parts: &[&[u8]], ends_with_slash: bool) -> Result<Url, String> {
    let mut text = format!("sftp://{host}");
    if port != SSH_PORT {
        // Writing to a String does not fail.
        let _ = write!(text, ":{port}");
    }
    for part in parts {
        text.push('/');
        text.extend(percent_encode(part, ESCAPED));
    }
    if parts.is_empty() || parts == [HOME] || ends_with_slash {
        text.push('/');
    }
    Url::parse(&text).map_err(|error| error.to_string())
}

/// The name as that of a local file, if it can be one. Without it, `-O` and directories refuse the URL.
fn local_name(name: &[u8]) -> Option<String> {
    safe_component(name).ok()?.into_string().ok()
}

#[cfg(test)]
mod tests;
