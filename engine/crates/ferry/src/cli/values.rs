//! Single values of flags, from text to types. Errors are what follows "invalid value 'X' for '--flag': ".

use std::ffi::OsStr;
use std::net::IpAddr;
use std::path::PathBuf;

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{Arg, Command};
use ferry_engine::options::{Algorithm, ByteRange, Checksum, Resolve, check_congestion};
use http::header::{self, HeaderName, HeaderValue};
use url::Host;

use crate::net::sndbuf::SendBuffer;
use crate::units::ByteSize;

const MIN_BUFFER: ByteSize = ByteSize(4 << 10);
const MAX_BUFFER: ByteSize = ByteSize(16 << 20);
const MIN_SEND_BUFFER: ByteSize = ByteSize(4 << 10);
const MAX_SEND_BUFFER: ByteSize = ByteSize(1 << 30);

/// Header fields that are ferry's own: a second field of a name would contradict ferry's, or smuggle a body past a proxy.
const OURS: [(HeaderName, &str); 13] = [
    (
        header::HOST,
        "it is the URL's; --resolve sends a host to another address",
    ),
    (header::CONTENT_LENGTH, "it follows from the file"),
    (header::TRANSFER_ENCODING, "it follows from the file"),
    (header::CONNECTION, "ferry manages its connections"),
    (HeaderName::from_static("keep-alive"), "ferry manages its connections"),
    (
        HeaderName::from_static("proxy-connection"),
        "ferry manages its connections",
    ),
    (header::UPGRADE, "use --http1.1 or --http2"),
    (HeaderName::from_static("http2-settings"), "use --http1.1 or --http2"),
    (header::TE, "ferry knows what it can read"),
    (header::TRAILER, "ferry sends none"),
    (header::EXPECT, "ferry decides"),
    (header::RANGE, "use --range or --resume"),
    (header::CONTENT_RANGE, "ferry sends whole files"),
];

pub fn parse_buffer_size(text: &str) -> Result<ByteSize, String> {
    let size: ByteSize = text
        .parse()
        .map_err(|error: crate::units::UnitError| error.to_string())?;
    if (MIN_BUFFER..=MAX_BUFFER).contains(&size) {
        Ok(size)
    } else {
        Err(format!("expected {MIN_BUFFER} to {MAX_BUFFER}"))
    }
}

pub fn parse_congestion(text: &str) -> Result<String, String> {
    check_congestion(text)?;
    Ok(text.to_owned())
}

pub fn parse_send_buffer(text: &str) -> Result<SendBuffer, String> {
    match text {
        "auto" => return Ok(SendBuffer::Auto),
        "off" => return Ok(SendBuffer::Off),
        _ => {}
    }
    let size: ByteSize = text
        .parse()
        .map_err(|error: crate::units::UnitError| format!("neither auto nor off: {error}"))?;
    usize::try_from(size.bytes())
        .ok()
        .filter(|_| (MIN_SEND_BUFFER..=MAX_SEND_BUFFER).contains(&size))
        .map(SendBuffer::Bytes)
        .ok_or_else(|| format!("expected auto, off, or {MIN_SEND_BUFFER} to {MAX_SEND_BUFFER}"))
}

pub fn parse_range(text: &str) -> Result<ByteRange, String> {
    ByteRange::parse(text).ok_or_else(|| {
        // `parse` takes a plus sign.
        let number = |end: &str| end.parse::<u64>().ok().filter(|_| !end.starts_with('+'));
        let ends: Vec<_> = text.split('-').map(number).collect();
        match ends[..] {
            [None, Some(0)] if text.starts_with('-') => "the last 0 bytes are none".into(),
            [Some(first), Some(last)] if first > last => "its end is before its begin".into(),
            _ => "expected FIRST-LAST, FIRST- or -COUNT, in bytes".into(),
        }
    })
}

pub fn parse_checksum(text: &str) -> Result<Checksum, String> {
    let (name, hex) = text
        .split_once(':')
        .map_or((text, None), |(name, hex)| (name, Some(hex)));
    let algorithm = Algorithm::ALL
        .into_iter()
        .find(|algorithm| algorithm.name().eq_ignore_ascii_case(name))
        .ok_or("expected sha256, sha384, sha512 or sha1, and perhaps :HEX")?;
    let digits = algorithm.digest_len() * 2;
    let wrong = || format!("expected {digits} hexadecimal digits after {}:", algorithm.name());
    let expected = hex.map(|hex| {
        parse_hex(hex)
            .filter(|bytes| bytes.len() * 2 == digits)
            .ok_or_else(wrong)
    });
    Ok(Checksum {
        algorithm,
        expected: expected.transpose()?,
    })
}

fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|digit| digit.to_digit(16).and_then(|value| u8::try_from(value).ok()))
        .collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

pub fn parse_resolve(text: &str) -> Result<Resolve, String> {
    let wrong = || "expected HOST:PORT:ADDRESS, such as example.com:443:127.0.0.1 or example.com:443:[::1]".to_owned();
    // An IPv6 host has colons of its own, inside brackets.
    let end = if text.starts_with('[') {
        text.find(']').map(|at| at + 1)
    } else {
        text.find(':')
    };
    let (host, rest) = text.split_at(end.ok_or_else(wrong)?);
    let (port, address) = rest
        .strip_prefix(':')
        .and_then(|rest| rest.split_once(':'))
        .ok_or_else(wrong)?;
    let bare = address
        .strip_prefix('[')
        .and_then(|inner| inner.strip_suffix(']'))
        .unwrap_or(address);
    Ok(Resolve {
        host: Host::parse(host).map_err(|_| wrong())?.to_string(),
        port: port.parse().map_err(|_| wrong())?,
        address: bare.parse::<IpAddr>().map_err(|_| wrong())?,
    })
}

/// A key's fingerprint as `ssh-keygen -l` prints it: 32 bytes in base64, without padding.
pub fn parse_pin(text: &str) -> Result<String, String> {
    let digits = text.strip_prefix("SHA256:").unwrap_or_default();
    // 43 digits are two bits more than 32 bytes; where those are set, no key has this fingerprint.
    let possible = digits.len() == 43
        && digits
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
        && digits.ends_with(|last| "AEIMQUYcgkosw048".contains(last));
    if possible {
        Ok(text.to_owned())
    } else {
        Err("expected SHA256: and 43 characters of base64, as ssh-keygen -l prints it".into())
    }
}

/// A file's name that is no URL: in `ferry get --json URL` the flag would take the URL for its file. The error does not repeat it.
#[derive(Debug, Clone)]
pub struct JsonFile;

impl TypedValueParser for JsonFile {
    type Value = PathBuf;

    fn parse_ref(&self, command: &Command, _: Option<&Arg>, value: &OsStr) -> Result<PathBuf, clap::Error> {
        if value.to_str().is_some_and(|text| text.contains("://")) {
            let message = "--json would take the URL after it for its file; write --json=FILE, or --json last";
            return Err(command.clone().error(ErrorKind::ValueValidation, message));
        }
        Ok(value.into())
    }
}

/// The error leaves the value out: it may be a credential.
pub fn parse_header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text.split_once(':').ok_or("a header is 'Name: value'")?;
    let name: HeaderName = name
        .parse()
        .map_err(|_| format!("header {name:?}: not a header name"))?;
    if let Some((_, reason)) = OURS.iter().find(|(ours, _)| *ours == name) {
        return Err(format!("header {name}: cannot be set, {reason}"));
    }
    let value = value.trim_matches([' ', '\t']);
    if value.is_empty() {
        return Err(format!("header {name}: has no value"));
    }
    // `from_bytes`, not `from_str`: file names in headers are UTF-8 often enough.
    let mut value =
        HeaderValue::from_bytes(value.as_bytes()).map_err(|_| format!("header {name}: not a header value"))?;
    value.set_sensitive([header::AUTHORIZATION, header::PROXY_AUTHORIZATION, header::COOKIE].contains(&name));
    Ok((name, value))
}
