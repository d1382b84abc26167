//! The user's decisions about a connection: the identity of the server, and the credentials that it may be shown.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex};

use aws_lc_rs::digest;
use russh::keys::PrivateKey;
use russh::keys::ssh_key::Fingerprint;

use crate::options::AlgorithmLists;

/// The options of a connection. Only files named here are read; their usual places are the command line's business.
#[derive(Debug, Clone, Default)]
pub struct SshOptions {
    /// The files, read in this order; a file that does not exist has no lines.
    pub known_hosts: Vec<PathBuf>,
    /// The host's name in those files and in its certificates, if that is not its own.
    pub host_key_alias: Option<String>,
    /// If there are any pins, the key must be one of them; of `known_hosts`, only revoked keys count then.
    pub pins: Vec<Pin>,
    /// True if any host key will do.
    pub insecure: bool,
    /// Private keys that the user named: a missing one is a failure.
    pub identities: Vec<PathBuf>,
    /// Certificates that the user named, besides those that lie next to the private keys (`KEY-cert.pub`).
    pub certificates: Vec<PathBuf>,
    /// The socket of an SSH agent; a named pipe on Windows.
    pub agent: Option<PathBuf>,
    /// Offer only those keys of the agent that are in `identities` or `certificates`.
    pub identities_only: bool,
    pub password: Option<Secret>,
    pub passphrase: Passphrase,
    /// The user's choice among ferry's algorithms.
    pub algorithms: AlgorithmLists,
    /// Private keys that have been decrypted: once for all connections of a run.
    pub unlocked: Unlocked,
}

/// The result for each encrypted key: the user is not asked twice, whatever the answer was.
#[derive(Clone, Default)]
pub struct Unlocked(pub(super) Arc<Mutex<HashMap<PathBuf, Opened>>>);

/// The decrypted key, or why there is none, in words for the user.
pub(super) type Opened = Result<Arc<PrivateKey>, String>;

impl fmt::Debug for Unlocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unlocked")
    }
}

/// The source of the passphrase of an encrypted private key.
#[derive(Debug, Clone, Default)]
pub enum Passphrase {
    #[default]
    Unknown,
    Given(Secret),
    /// This program asks the user, as OpenSSH runs `SSH_ASKPASS`: the question is its argument, its standard output the answer.
    Asked(PathBuf),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    pub user: String,
    pub host: String,
    pub port: u16,
    /// True if the host is on the way to the server.
    pub is_jump: bool,
}

impl HostPort {
    /// `host:port`, an IPv6 address in brackets.
    pub fn address(&self) -> String {
        match self.bare_host() {
            bare if bare.contains(':') => format!("[{bare}]:{}", self.port),
            bare => format!("{bare}:{}", self.port),
        }
    }

    /// The host without brackets.
    pub fn bare_host(&self) -> &str {
        self.host.trim_matches(['[', ']'])
    }
}

impl fmt::Display for HostPort {
    /// `sftp://host:port` or `jump host host:port`, for messages: the user is named where it matters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.is_jump { "jump host " } else { "sftp://" };
        write!(f, "{what}{}", self.address())
    }
}

/// A jump host, and the options of its connection.
#[derive(Debug, Clone)]
pub struct Hop {
    pub place: HostPort,
    pub options: SshOptions,
}

/// The SHA-256 fingerprint of a host key, as `ssh-keygen -l` prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pin([u8; 32]);

impl Pin {
    /// The fingerprint of a key in its encoded form.
    pub fn of(key: &[u8]) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest::digest(&digest::SHA256, key).as_ref());
        Self(bytes)
    }
}

impl FromStr for Pin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim_end_matches('=').parse() {
            Ok(Fingerprint::Sha256(bytes)) => Ok(Self(bytes)),
            _ => Err(format!(
                "{text} is no fingerprint: SHA256: and 43 characters of base64 are expected, as ssh-keygen -l prints them"
            )),
        }
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Fingerprint::Sha256(self.0).fmt(f)
    }
}

/// A password or passphrase. Neither Debug nor Display shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(text)
    }

    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.0).into_bytes();
        bytes.fill(0);
        // Otherwise the compiler sees that the zeros are never read.
        std::hint::black_box(&bytes);
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_is_read_as_it_is_shown_and_anything_else_is_refused_in_one_line() {
        let pin = Pin::of(b"key");
        let text = pin.to_string();
        assert!(text.starts_with("SHA256:") && text.len() == 50, "{text}");
        assert_eq!(text.parse(), Ok(pin));
        assert_eq!(format!("{text}=").parse(), Ok(pin));
        for bad in [
            "",
            "SHA256:",
            "SHA256:abc",
            "MD5:00:11",
            "sha256:x",
            &text[7..],
            "SHA512:abcd",
        ] {
            let error = bad.parse::<Pin>().unwrap_err();
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_secret_is_not_shown() {
        let secret = Secret::new("hunter2".into());
        assert!(!format!("{secret} {secret:?} {:?}", Some(&secret)).contains("hunter2"));
        assert_eq!(secret.reveal(), "hunter2");
    }

    #[test]
    fn a_place_names_its_scheme_host_and_port() {
        let place = |host: &str| HostPort {
            user: "u".into(),
            host: host.into(),
            port: 2222,
            is_jump: false,
        };
        assert_eq!(place("h").to_string(), "sftp://h:2222");
        assert_eq!(place("::1").to_string(), "sftp://[::1]:2222");
        assert_eq!(place("[::1]").to_string(), "sftp://[::1]:2222");
        let jump = HostPort {
            is_jump: true,
            ..place("::1")
        };
        assert_eq!(jump.to_string(), "jump host [::1]:2222");
    }
}
