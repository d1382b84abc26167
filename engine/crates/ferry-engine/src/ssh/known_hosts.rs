//! `known_hosts` files as OpenSSH reads them (sshd(8), `SSH_KNOWN_HOSTS` FILE FORMAT): pure functions of their text. Keys are
//! compared in their encoded form, so that a kind of key ferry cannot use still counts as another key.

use aws_lc_rs::hmac;
use base64ct::{Base64Unpadded, Encoding};

use super::options::Pin;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Marker {
    None,
    Revoked,
    /// Vouches for certificates.
    Authority,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Hosts {
    Hashed { salt: Vec<u8>, hash: Vec<u8> },
    Patterns(Vec<Pattern>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Pattern {
    negated: bool,
    glob: String,
}

/// One line that says something about a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The number of the line's file; `parse` knows only one file and says 0.
    pub file: usize,
    /// The line's number, counted from 1.
    pub number: usize,
    marker: Marker,
    hosts: Hosts,
    key: Vec<u8>,
}

impl Line {
    /// The key's type, such as `ssh-ed25519`.
    pub fn key_type(&self) -> &str {
        key_type(&self.key).unwrap_or("?")
    }

    pub fn has(&self, key: &[u8]) -> bool {
        self.key == key
    }

    pub fn fingerprint(&self) -> Pin {
        Pin::of(&self.key)
    }

    fn is_for(&self, name: &str) -> bool {
        match &self.hosts {
            Hosts::Hashed { salt, hash } => {
                let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, salt);
                hmac::sign(&key, name.as_bytes()).as_ref() == hash
            }
            Hosts::Patterns(patterns) => {
                let mut found = false;
                for pattern in patterns.iter().filter(|pattern| matches(&pattern.glob, name)) {
                    if pattern.negated {
                        return false;
                    }
                    found = true;
                }
                found
            }
        }
    }
}

/// The verdict of the lines on a host and the key it showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict<'a> {
    Known,
    Unknown,
    /// The host is known, but only with these other keys.
    Changed(Vec<&'a Line>),
    Revoked(&'a Line),
}

/// Lines that cannot be read are skipped, as OpenSSH does: they may be of a later version.
pub fn parse(text: &[u8]) -> Vec<Line> {
    text.split(|byte| *byte == b'\n')
        .zip(1..)
        .filter_map(|(line, number)| parse_line(std::str::from_utf8(line).ok()?, number))
        .collect()
}

fn parse_line(text: &str, number: usize) -> Option<Line> {
    let mut words = text.split_ascii_whitespace();
    let mut word = words.next()?;
    if word.starts_with('#') {
        return None;
    }
    let marker = match word {
        "@revoked" => Marker::Revoked,
        "@cert-authority" => Marker::Authority,
        _ if word.starts_with('@') => return None,
        _ => Marker::None,
    };
    if marker != Marker::None {
        word = words.next()?;
    }
    let hosts = parse_hosts(word)?;
    let kind = words.next()?;
    let key = base64(words.next()?)?;
    (key_type(&key)? == kind).then_some(Line {
        file: 0,
        number,
        marker,
        hosts,
        key,
    })
}

fn parse_hosts(word: &str) -> Option<Hosts> {
    if let Some(hashed) = word.strip_prefix('|') {
        // |1|salt|hash: 1 is HMAC-SHA1, and there is no other.
        let (salt, hash) = hashed.strip_prefix("1|")?.split_once('|')?;
        return Some(Hosts::Hashed {
            salt: base64(salt)?,
            hash: base64(hash)?,
        });
    }
    let patterns = word.split(',').filter(|part| !part.is_empty()).map(|part| {
        let (negated, glob) = part.strip_prefix('!').map_or((false, part), |rest| (true, rest));
        Pattern {
            negated,
            glob: glob.to_ascii_lowercase(),
        }
    });
    Some(Hosts::Patterns(patterns.collect()))
}

/// The verdict on a host's key. A host known only with another type of key is `Changed`: a server that answers for the host may
/// not choose a type that has not been noted yet.
pub fn verdict<'a>(lines: &'a [Line], host: &str, port: u16, key: &[u8]) -> Verdict<'a> {
    let name = name(host, port);
    let bare = bare(host);
    let of_host = || lines.iter().filter(|line| line.is_for(&name));
    if let Some(line) = revoked(lines, host, port, key) {
        return Verdict::Revoked(line);
    }
    let plain: Vec<_> = of_host().filter(|line| line.marker == Marker::None).collect();
    if plain.iter().any(|line| line.key == key) {
        return Verdict::Known;
    }
    if !plain.is_empty() {
        return Verdict::Changed(plain);
    }
    // Like OpenSSH: a key known for the host at the usual port is its key at any other port.
    let elsewhere = lines
        .iter()
        .any(|line| line.marker == Marker::None && line.key == key && line.is_for(&bare));
    if elsewhere { Verdict::Known } else { Verdict::Unknown }
}

/// The types of key noted for a host, so that it can be asked for one of them.
pub fn known_types<'a>(lines: &'a [Line], host: &str, port: u16) -> Vec<&'a str> {
    let name = name(host, port);
    lines
        .iter()
        .filter(|line| line.marker == Marker::None && line.is_for(&name))
        .map(Line::key_type)
        .collect()
}

/// The line that revokes a key, for this port or for every port of the host.
pub fn revoked<'a>(lines: &'a [Line], host: &str, port: u16, key: &[u8]) -> Option<&'a Line> {
    marked(lines, Marker::Revoked, host, port).find(|line| line.key == key)
}

/// The authorities whose certificates the host may show; like a key, one noted for the usual port counts for every other one.
pub fn authorities<'a>(lines: &'a [Line], host: &str, port: u16) -> impl Iterator<Item = &'a Line> {
    marked(lines, Marker::Authority, host, port)
}

fn marked<'a>(lines: &'a [Line], marker: Marker, host: &str, port: u16) -> impl Iterator<Item = &'a Line> {
    let (name, bare) = (name(host, port), bare(host));
    lines
        .iter()
        .filter(move |line| line.marker == marker && (line.is_for(&name) || line.is_for(&bare)))
}

/// The host's name in a file: `host`, or `[host]:port`.
pub fn name(host: &str, port: u16) -> String {
    let bare = bare(host);
    if port == 22 { bare } else { format!("[{bare}]:{port}") }
}

pub(super) fn bare(host: &str) -> String {
    let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    inner.unwrap_or(host).to_ascii_lowercase()
}

/// The type a key's encoded form begins with.
pub fn key_type(key: &[u8]) -> Option<&str> {
    let (length, rest) = key.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    std::str::from_utf8(rest.get(..length)?).ok()
}

/// Matches a name against a pattern: `*` is any run of characters, `?` is any one. Linear in memory, and in time at most the
/// product of the two lengths.
pub fn matches(glob: &str, name: &str) -> bool {
    let (glob, name) = (glob.as_bytes(), name.as_bytes());
    let (mut g, mut n) = (0, 0);
    let mut star = None;
    while let Some(letter) = name.get(n) {
        match glob.get(g) {
            Some(b'*') => {
                star = Some((g, n));
                g += 1;
            }
            Some(byte) if *byte == b'?' || byte == letter => {
                g += 1;
                n += 1;
            }
            _ => {
                let Some((at, taken)) = star else { return false };
                star = Some((at, taken + 1));
                g = at + 1;
                n = taken + 1;
            }
        }
    }
    glob.iter().skip(g).all(|byte| *byte == b'*')
}

/// Decodes base64, padded or not, as OpenSSH reads it.
fn base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    (text.len() - digits.len() <= 2)
        .then(|| Base64Unpadded::decode_vec(digits).ok())
        .flatten()
}

#[cfg(test)]
#[path = "known_hosts_tests.rs"]
mod tests;
