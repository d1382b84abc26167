//! Settings of a caller: checked values of their own types, with no string left to parse.

mod ssh;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use ferry_http::values::ByteRange;
use http::{HeaderMap, HeaderValue, Method};
use url::Url;

use crate::files;
pub use crate::filter::{Filter, Rule};
pub use crate::net::dial::Family;
pub use crate::net::proxy::{Proxies, Proxy};
pub use crate::net::sndbuf::SendBuffer;
pub use crate::net::verify::KeyHash;
pub use crate::platform::{check_background, check_congestion};
use crate::stop::Stop;
use crate::units::{ByteRate, ByteSize, Peak};
pub use ssh::{AlgorithmLists, Jump, PasswordFrom, SshArgs};

/// Options of every run that connects: the way to the servers, their verification, and the time limits.
#[derive(Debug, Clone, Default)]
pub struct Common {
    /// The version of HTTP.
    pub version: Version,
    /// The CA certificates to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// The certificate for servers that ask for one.
    pub client_certificate: Option<ClientCertificate>,
    /// Keys that servers of https may have, whatever else is verified; any without them.
    pub pinned_keys: Vec<KeyHash>,
    /// Neither certificates nor host keys are verified.
    pub insecure: bool,
    /// Write the secrets of TLS connections to the file that the environment variable `SSLKEYLOGFILE` names.
    pub key_log: bool,
    /// Sent with every HTTP request. Not the fields that the engine sets (Host, Range, ...); credentials are marked sensitive.
    pub headers: HeaderMap,
    /// Addresses to use for hosts instead of those that the resolver has.
    pub resolve: Vec<Resolve>,
    /// The send buffer of every socket.
    pub send_buffer: SendBuffer,
    /// The choice of a proxy for each URL.
    pub proxies: Proxies,
    /// Congestion control of what is sent, by the system's name for it, as [`check_congestion`] took it.
    pub congestion: Option<String>,
    /// Used for SFTP only.
    pub ssh: SshArgs,
    /// The time limit of each step.
    pub timeouts: Timeouts,
    /// Ends the run early.
    pub stop: Stop,
}

/// PEM files with a certificate (its chain behind it) and its private key, which may be one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificate's file.
    pub chain: PathBuf,
    /// The key's file, which only its owner may read.
    pub key: PathBuf,
}

/// Limit, retries, checksum: options of a transfer besides those of its connection ([`Common`]).
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct TransferOptions {
    /// The limit, in bytes per second of the body.
    pub limit: Option<ByteRate>,
    /// Leave queues on the path to others: send, or let the server send, no more than keeps them short. Over one connection, or over those that
    /// fetch ranges of one HTTP file; where [`check_background`] says so.
    pub background: bool,
    /// The highest multiple of the limit that any 100 ms may reach while lost time is made up.
    pub peak: Peak,
    /// The piece in which a body goes to or comes from its file.
    pub buffer_size: ByteSize,
    /// Attempts after the first.
    pub retries: u32,
    /// Try again also when no server accepted a first connection.
    pub retry_unreached: bool,
    /// The longest wait before another attempt, Retry-After included.
    pub retry_max_wait: Duration,
    /// The most redirects to follow; 0 follows none.
    pub max_redirects: u32,
    /// Computed while the body moves, and compared before a file gets its name.
    pub checksum: Option<Checksum>,
    /// Downloads with more bytes are refused; of a compressed body, those that come and those that it is decoded to.
    pub max_filesize: Option<ByteSize>,
    /// HTTP downloads ask for a body compressed by zstd or gzip, and decode it. Parts of a file (ranges, resumed downloads) are not asked for so.
    pub compressed: bool,
    /// Files get the modification time of their originals, where the other side reports or accepts one.
    pub remote_time: bool,
    /// Files and directories get the permission bits of their originals; sftp only.
    pub perms: bool,
    /// The filter for the contents of a directory.
    pub filter: Arc<Filter>,
    /// Make the destination a copy of a directory; implies `remote_time`, and that files are replaced.
    pub mirror: Option<Mirror>,
}

impl Default for TransferOptions {
    /// The defaults of the program `ferry`.
    fn default() -> Self {
        Self {
            limit: None,
            background: false,
            peak: Peak::default(),
            buffer_size: ByteSize(64 * 1024),
            retries: 3,
            retry_unreached: false,
            retry_max_wait: Duration::from_secs(60),
            max_redirects: 10,
            checksum: None,
            max_filesize: None,
            compressed: false,
            remote_time: false,
            perms: false,
            filter: Arc::default(),
            mirror: None,
        }
    }
}

/// Options for making a destination a copy of a directory: files of the same size and modification time are not transferred.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mirror {
    /// Remove at the destination what the source does not have, once everything else was done without error.
    pub delete: bool,
    /// If that would be more, remove nothing.
    pub max_delete: Option<u64>,
    /// Say what there is to do, and do nothing.
    pub dry_run: bool,
    /// Modification times that differ by no more are the same.
    pub modify_window: Duration,
}

/// Downloads.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct GetOptions {
    /// Options of the connections.
    pub common: Common,
    /// Limit, retries, checksum.
    pub transfer: TransferOptions,
    /// At least one. All of them sftp, or none.
    pub sources: Vec<Remote>,
    /// The destination of the downloads.
    pub target: Target,
    /// The report has all transfers together, and by themselves only those that failed.
    pub totals: bool,
    /// The limit is each transfer's own, instead of shared by all.
    pub limit_each: bool,
    /// Transfers at once, at least one.
    pub parallel: usize,
    /// HTTP connections over which the ranges of one file are fetched, where the server serves ranges of it; 1 fetches it as one body.
    pub connections: usize,
    /// Only these bytes.
    pub range: Option<ByteRange>,
    /// Go on where an interrupted download ended.
    pub resume: bool,
    /// Replace files that exist.
    pub overwrite: bool,
    /// Directories with everything in them; every source is sftp.
    pub recursive: bool,
    /// A file is on the disk before it gets its name, and its name before the run is over.
    pub sync: bool,
}

impl GetOptions {
    /// One download, with the defaults of the program `ferry`.
    #[must_use]
    pub fn new(source: Remote, target: Target) -> Self {
        Self {
            common: Common::default(),
            transfer: TransferOptions::default(),
            sources: vec![source],
            target,
            totals: false,
            limit_each: false,
            parallel: 4,
            connections: 1,
            range: None,
            resume: false,
            overwrite: false,
            recursive: false,
            sync: true,
        }
    }
}

/// An upload.
#[derive(Debug, Clone)]
pub struct PutOptions {
    /// Options of the connections.
    pub common: Common,
    /// Limit, retries, checksum.
    pub transfer: TransferOptions,
    /// The content to send.
    pub source: Source,
    /// The destination of the content.
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

impl PutOptions {
    /// One upload by PUT, with the defaults of the program `ferry`.
    #[must_use]
    pub fn new(source: Source, destination: Remote) -> Self {
        Self {
            common: Common::default(),
            transfer: TransferOptions::default(),
            source,
            destination,
            method: Method::PUT,
            retry_unsafe: false,
            resume: false,
            sync: true,
        }
    }
}

/// A URL, as [`crate::remote::parse_remote`] reads it: http, https or sftp, without user, password and fragment, so that it can be printed as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// For sftp, normalized: one spelling for each file, host and port. The server is asked for `path`, not for this.
    pub url: Url,
    /// From user and password in the URL, marked sensitive. Only for this URL's own origin: a redirect elsewhere must not take it along.
    pub authorization: Option<HeaderValue>,
    /// The last part of the path as it was typed (sftp: percent-decoded), where that can be a file's name here; what [`Target::FromUrl`]
    /// writes to. Never `None` with that target and with [`Target::Directory`].
    pub file_name: Option<String>,
    /// The URL's; of http and https only where the URL has no password.
    pub user: Option<String>,
    /// The path for an SFTP server; empty with http and https. Begins with a slash, or is relative to the home directory (which is
    /// itself `.`); no part of it is empty, `.` or `..`, and only the root ends with a slash.
    pub path: Vec<u8>,
}

impl Remote {
    /// True if the scheme is sftp.
    #[must_use]
    pub fn is_sftp(&self) -> bool {
        self.url.scheme() == "sftp"
    }

    /// The URL's host, an IPv6 address without its brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default().trim_matches(['[', ']'])
    }

    /// The URL's port, or the default of its scheme.
    #[must_use]
    pub fn port(&self) -> u16 {
        // `port_or_known_default` knows no sftp.
        self.url.port_or_known_default().unwrap_or(22)
    }
}

/// The destination of downloads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// There is exactly one source, and it is a file.
    File(PathBuf),
    /// There is exactly one source, and `recursive`: its contents go into this directory, which is created if missing (its parents are not).
    Tree(PathBuf),
    /// Each source into its own `file_name` in this directory, all of them different. Created if missing and `recursive`; its parents are not.
    Directory(PathBuf),
    /// Standard output; there is exactly one source.
    Stdout,
    /// Each source into its own `file_name`, all of them different.
    FromUrl,
    /// Nowhere: the bytes are counted and dropped.
    Discard,
}

/// The source of an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file, or a pipe or device.
    File(PathBuf),
    /// A directory, whose contents go into the directory that the URL names; sftp only.
    Directory(PathBuf),
    /// Standard input, of unknown size and not repeatable.
    Stdin,
}

/// The version of HTTP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Version {
    /// ALPN decides on https; HTTP/1.1 on http.
    #[default]
    Auto,
    /// HTTP/1.1 only.
    Http11,
    /// HTTP/2 only; every URL is https.
    Http2,
    /// HTTP/3 only; every URL is https.
    Http3,
    /// HTTP/3 on https, and where a server does not answer so, what `Auto` says.
    Http3First,
}

/// The time limit of each step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Name and TCP connection.
    pub connect: Duration,
    /// The TLS or SSH handshake.
    pub tls: Duration,
    /// From the request to the first byte of the answer: 60 s where none is named. A complete upload has no such default, because
    /// only the user can know how long the server needs for it: without a named limit the server has unlimited time, as long as
    /// its machine is there.
    pub first_byte: Option<Duration>,
    /// All attempts together.
    pub total: Option<Duration>,
    /// No byte moved although the limit would have allowed it.
    pub stall: Duration,
}

impl Default for Timeouts {
    /// The defaults of the program `ferry`: 10 s to connect, 10 s for TLS, 30 s without a byte.
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            tls: Duration::from_secs(10),
            first_byte: None,
            total: None,
            stall: Duration::from_secs(30),
        }
    }
}

/// This host and port is at that address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolve {
    /// The host, in the spelling of `Url::host_str`.
    pub host: String,
    /// The URL's port, named or not.
    pub port: u16,
    /// The address to connect to.
    pub address: IpAddr,
}

/// A checksum's algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// Only to compare with what others publish: it does not withstand an attacker.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl Algorithm {
    /// The usual one first.
    pub const ALL: [Self; 4] = [Self::Sha256, Self::Sha384, Self::Sha512, Self::Sha1];

    /// The name that users type and that reports have.
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

/// `files` does not know the options, so the conversion is here.
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

/// A checksum to compute, and to compare with what is expected, if something is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checksum {
    /// The algorithm that computes the checksum.
    pub algorithm: Algorithm,
    /// The expected digest, of the algorithm's length.
    pub expected: Option<Vec<u8>>,
}
