//! What a command line means, once parsed and checked: plain values, no strings that someone must parse again.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method};
use url::Url;

use crate::files;
use crate::net::sndbuf::SendBuffer;
use crate::report::Destination;
use crate::units::{ByteRate, ByteSize};

/// What every command that connects has.
#[derive(Debug, Clone)]
pub struct Common {
    pub version: Version,
    /// Instead of the system's certificates.
    pub ca_file: Option<PathBuf>,
    /// Neither certificates nor host keys are verified.
    pub insecure: bool,
    /// Checked, none of them one that ferry sets itself; credentials among them are marked sensitive.
    pub headers: HeaderMap,
    pub resolve: Vec<Resolve>,
    pub send_buffer: SendBuffer,
    /// What is named nowhere on the command line is filled in only where a URL is sftp.
    pub ssh: SshArgs,
    pub timeouts: Timeouts,
    /// Where the report goes; without it, a summary line goes to standard error unless `quiet`.
    pub json: Option<Destination>,
    /// Neither `--quiet` nor `--no-progress`; `Progress` adds that standard error is a terminal.
    pub progress: bool,
    pub quiet: bool,
}

/// How an SSH server is known, and how it knows the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshArgs {
    /// Those named, or the user's and the system's; they need not exist.
    pub known_hosts: Vec<PathBuf>,
    /// `SHA256:` and 43 characters of base64, as `ssh-keygen -l` prints it. With one, `known_hosts` does not count.
    pub pins: Vec<String>,
    pub identities: Vec<PathBuf>,
    /// None was named: `identities` are the usual ones that exist.
    pub identities_are_default: bool,
    /// The agent's socket; on Windows the name of its pipe.
    pub agent: Option<PathBuf>,
    pub password: Option<PasswordFrom>,
    /// For URLs that name none.
    pub user: Option<String>,
    /// At most so many channels on a connection, 1 to 64.
    pub channels: usize,
    /// 1 to 16; none where ferry is to decide.
    pub connections: Option<usize>,
}

impl Default for SshArgs {
    fn default() -> Self {
        Self {
            known_hosts: Vec::new(),
            pins: Vec::new(),
            identities: Vec::new(),
            identities_are_default: true,
            agent: None,
            password: None,
            user: None,
            channels: 8,
            connections: None,
        }
    }
}

/// Where a password is read from. Never the command line, which every process of the machine can read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PasswordFrom {
    File(PathBuf),
    /// Of the environment.
    Variable(String),
}

/// What `get` and `put` have beyond [`Common`].
#[derive(Debug, Clone)]
pub struct TransferOptions {
    pub limit: Option<ByteRate>,
    /// The piece in which a body goes to or comes from its file.
    pub buffer_size: ByteSize,
    /// Attempts after the first.
    pub retries: u32,
    /// Even where nobody answers: the number was typed.
    pub retry_unreached: bool,
    /// The longest wait before another attempt, Retry-After included.
    pub retry_max_wait: Duration,
    /// 0 follows none.
    pub max_redirects: u32,
    pub checksum: Option<Checksum>,
}

/// `ferry get`.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct GetOptions {
    pub common: Common,
    pub transfer: TransferOptions,
    /// At least one. All of them sftp, or none.
    pub sources: Vec<Remote>,
    pub target: Target,
    /// The limit is each transfer's own, instead of shared by all.
    pub limit_each: bool,
    /// Transfers at once, at least one.
    pub parallel: usize,
    pub range: Option<RangeArg>,
    pub resume: bool,
    pub overwrite: bool,
    /// Whole trees; every source is sftp.
    pub recursive: bool,
}

/// `ferry put`.
#[derive(Debug, Clone)]
pub struct PutOptions {
    pub common: Common,
    pub transfer: TransferOptions,
    pub source: Source,
    pub destination: Remote,
    /// PUT or POST.
    pub method: Method,
    /// Repeat also what is not idempotent.
    pub retry_unsafe: bool,
    /// Go on where an interrupted upload ended; sftp only.
    pub resume: bool,
    /// Ask the server to fsync; sftp only.
    pub sync: bool,
}

/// `ferry bench`.
#[derive(Debug, Clone)]
pub struct BenchOptions {
    pub common: Common,
    pub url: Remote,
    /// In all, at least one.
    pub requests: u64,
    /// Requests at once over all connections; no less than `connections`.
    pub parallel: u32,
    pub connections: u32,
}

/// A URL of the command line: http, https or sftp, without user, password and fragment, so that it can be printed as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// Of sftp: in one spelling for each file, host and port included, whatever was typed. `path`, not this, is what a server is asked for.
    pub url: Url,
    /// From user and password in the URL, marked sensitive. Only for this URL's own origin: a redirect elsewhere must not take it along.
    pub authorization: Option<HeaderValue>,
    /// The last part of the path as it was typed (sftp: percent-decoded), where that can be a file's name here; what [`Target::FromUrl`]
    /// writes to. Never `None` with that target and with [`Target::Directory`].
    pub file_name: Option<String>,
    /// The URL's, of sftp only.
    pub user: Option<String>,
    /// What an SFTP server is asked for, empty with http and https. Begins with a slash, or is relative to the home directory (which is
    /// itself `.`); no part of it is empty, `.` or `..`, and only the root ends with a slash.
    pub path: Vec<u8>,
}

impl Remote {
    #[must_use]
    pub fn is_sftp(&self) -> bool {
        self.url.scheme() == "sftp"
    }

    /// The URL's, or its scheme's own.
    #[must_use]
    pub fn port(&self) -> u16 {
        // `port_or_known_default` knows no sftp.
        self.url.port_or_known_default().unwrap_or(22)
    }
}

/// Where `get` puts what it gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// There is exactly one source, and it is a file.
    File(PathBuf),
    /// There is exactly one source, and `recursive`: what is in it goes into this directory, which is made when missing (its parents are not).
    Tree(PathBuf),
    /// Each source into its own `file_name` in this directory, all of them different. Made when missing if `recursive`; its parents are not.
    Directory(PathBuf),
    /// There is exactly one source.
    Stdout,
    /// Each source into its own `file_name`, all of them different.
    FromUrl,
    Discard,
}

/// Where `put` takes what it sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    File(PathBuf),
    /// What is in it goes into the directory that the URL names, an sftp one.
    Directory(PathBuf),
    /// Of unknown size, and not repeatable.
    Stdin,
}

/// Which HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// ALPN decides on https; HTTP/1.1 on http.
    Auto,
    Http11,
    /// Every URL is https.
    Http2,
}

/// How long what may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    pub connect: Duration,
    pub tls: Duration,
    pub first_byte: Duration,
    pub total: Option<Duration>,
    /// No byte moved although the limit would have allowed it.
    pub stall: Duration,
}

/// `--resolve`: this host and port is at that address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolve {
    /// As `Url::host_str` writes it.
    pub host: String,
    pub port: u16,
    pub address: IpAddr,
}

/// `--range`: `first..=last`, `first..` without `last`, and the final `last` bytes without `first`. Never without both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeArg {
    pub first: Option<u64>,
    pub last: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

impl Algorithm {
    pub const ALL: [Self; 4] = [Self::Sha256, Self::Sha384, Self::Sha512, Self::Sha1];

    /// As typed and as reported.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
            Self::Sha384 => "sha384",
            Self::Sha512 => "sha512",
        }
    }

    /// Bytes of a digest.
    #[must_use]
    pub fn digest_len(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }
}

/// `files` knows nothing of the command line, so the way from here to there is here.
impl From<Algorithm> for files::Algorithm {
    fn from(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Sha1 => Self::Sha1,
            Algorithm::Sha256 => Self::Sha256,
            Algorithm::Sha384 => Self::Sha384,
            Algorithm::Sha512 => Self::Sha512,
        }
    }
}

/// `--checksum`: compute it, and compare it with what is expected, if something is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checksum {
    pub algorithm: Algorithm,
    /// As long as the algorithm's digest.
    pub expected: Option<Vec<u8>>,
}
