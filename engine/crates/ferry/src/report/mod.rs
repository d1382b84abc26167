//! What ferry tells about a run: one JSON document, whose schema (`ferry schema`) is generated from these types.

mod output;
mod problem;
mod series;

pub use output::Destination;
pub use problem::{Class, Problem};
pub use series::{Series, SeriesBuilder, SeriesFacts};

use schemars::JsonSchema;
use serde::Serialize;

/// Names the format; changed when a field changes its meaning or goes away.
pub const SCHEMA: &str = "ferry-report-1";

/// One run of the program.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Report {
    /// Always `ferry-report-1`.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: &'static str,
    pub version: &'static str,
    pub command: Command,
    /// Whether everything asked for was done.
    pub ok: bool,
    /// Of the process: 0 done, 2 usage, 10 transient, 11 permanent, 12 integrity, 13 local.
    pub exit_code: u8,
    /// In the order they were asked for; empty for `bench`.
    pub transfers: Vec<Transfer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bench: Option<Bench>,
    /// Of SFTP; of the last connection where there were several attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssh: Option<SshReport>,
    /// All transfers of an SFTP run together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set: Option<FileSet>,
    /// The first failure of a run that has no transfer to hang it on (`bench`, an unreadable CA file).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    pub process: ProcessUsage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Command {
    Get,
    Put,
    Bench,
}

/// Whole process, start to end.
#[derive(Debug, Clone, Copy, Default, Serialize, JsonSchema)]
pub struct ProcessUsage {
    pub wall_s: f64,
    pub cpu_user_s: f64,
    pub cpu_system_s: f64,
    /// Null where the operating system does not tell.
    pub max_rss_bytes: Option<u64>,
}

/// One URL, all attempts. Where there were several, the figures are those of the last one.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Transfer {
    /// As asked for, without user and password.
    pub url: String,
    /// Where redirects led, when they did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_url: Option<String>,
    pub direction: Command,
    /// `http/1.1`, `h2` or `sftp`; null when no connection was made.
    pub protocol: Option<&'static str>,
    pub status: Option<u16>,
    /// Address and port of the server.
    pub remote: Option<String>,
    pub tls: Option<TlsFacts>,
    /// Neither certificates nor host keys were verified, by `--insecure`.
    pub insecure: bool,
    pub limit_byte_s: Option<u64>,
    /// The limit is shared with the run's other transfers.
    pub limit_shared: bool,
    pub buffer_size_bytes: u64,
    /// Body bytes moved by the last attempt.
    pub bytes: u64,
    /// Where the last attempt began (resume, range).
    pub offset: u64,
    /// Of the whole body, where it is known.
    pub size: Option<u64>,
    pub phases: Phases,
    /// `bytes / phases.body_s`.
    pub body_byte_s: Option<f64>,
    /// `bytes / phases.total_s`.
    pub wall_byte_s: Option<f64>,
    /// `body_byte_s / limit_byte_s - 1`.
    pub deviation: Option<f64>,
    /// Time given up because the network could not follow the limit, in seconds: never made up for by a burst.
    pub shortfall_s: f64,
    /// The most bytes of any 100 ms, per second.
    pub worst_window_byte_s: Option<f64>,
    /// The longest time within the body in which no byte moved.
    pub longest_gap_ms: Option<f64>,
    pub series: Option<Series>,
    /// At the start of the body, every 100 ms, and at its end.
    pub tcp: Vec<TcpSample>,
    /// Of its connection; null when none was made.
    pub sndbuf: Option<SendBufferFacts>,
    /// `ALGORITHM:HEX` of the whole file, when asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    pub attempts: Vec<Attempt>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
}

/// Durations of the last attempt in seconds, one after the other; null where the phase did not happen (an address instead of a name,
/// a connection that was there already).
#[derive(Debug, Clone, Copy, Default, Serialize, JsonSchema)]
pub struct Phases {
    pub dns_s: Option<f64>,
    pub connect_s: Option<f64>,
    pub tls_s: Option<f64>,
    /// SSH: its banner to the server's key accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kex_s: Option<f64>,
    /// SSH: user accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_s: Option<f64>,
    /// SSH: a channel with the sftp subsystem is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel_s: Option<f64>,
    /// Request sent to the first byte of the answer. For an upload: last body byte to the first byte of the answer.
    pub first_byte_s: Option<f64>,
    /// From the attempt's begin to the begin of the body clock.
    pub body_start_s: Option<f64>,
    /// First to last body byte. Download: handed to the sink. Upload: handed to the kernel, to the last having left it.
    pub body_s: Option<f64>,
    /// From the attempt's begin to its end: the whole body, and the answer of an upload.
    pub total_s: f64,
}

/// The SSH connection of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SshReport {
    /// The server's software.
    pub server: String,
    pub kex: String,
    pub cipher: String,
    /// Type and fingerprint.
    pub host_key: String,
    /// `publickey`, `agent` or `password`.
    pub auth: String,
    /// Times that ferry had to wait for an answer before it was logged in.
    pub round_trips: u32,
    /// On which SFTP ran, all connections together.
    pub channels: u32,
    /// Asked for and not given (`MaxSessions`).
    pub channels_refused: u32,
    pub connections: u32,
}

/// The files of a run, taken together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct FileSet {
    pub files: u64,
    /// Of those that failed.
    pub failed: u64,
    /// Symbolic links, devices and the like in a tree, which are not transferred.
    pub skipped: u64,
    /// Body bytes moved by the last attempts.
    pub bytes: u64,
    /// First body byte of any file to the last of all.
    pub body_s: Option<f64>,
    /// From the begin of the run to the end of its last file.
    pub total_s: f64,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct TlsFacts {
    pub version: String,
    pub cipher: String,
}

/// What Linux and Windows both tell about a connection; null where one does not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct TcpSample {
    /// Since the attempt's begin.
    pub t_s: f64,
    pub rtt_us: Option<u32>,
    pub min_rtt_us: Option<u32>,
    pub cwnd_bytes: Option<u64>,
    pub bytes_in_flight: Option<u64>,
    pub bytes_retransmitted: Option<u64>,
    pub unsent_bytes: Option<u64>,
    pub bytes_acked: Option<u64>,
    pub bytes_received: Option<u64>,
    pub receive_window_bytes: Option<u64>,
    pub send_window_bytes: Option<u64>,
}

/// The send buffer of a connection (`--sndbuf`), as the system counts it: Linux doubles what is set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SendBufferFacts {
    /// `auto`, `off` or `bytes`.
    pub mode: &'static str,
    /// When it was connected.
    pub initial_bytes: Option<u64>,
    /// At the end of the transfer.
    pub final_bytes: Option<u64>,
    /// What Windows last answered to `SIO_IDEAL_SEND_BACKLOG_QUERY`; null where nobody is asked (every other system, `off`, `bytes`) or it
    /// did not answer.
    pub ideal_bytes: Option<u64>,
    /// How often it was asked.
    pub queries: u32,
    /// What was last refused, the question or the size, and why.
    pub refused: Option<String>,
}

/// One try at a transfer, in order.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Attempt {
    pub offset: u64,
    pub bytes: u64,
    pub total_s: f64,
    pub status: Option<u16>,
    /// Waited before this attempt, in seconds.
    pub waited_s: f64,
    pub error: Option<Failure>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Failure {
    pub class: Class,
    /// One line: what, where, and what to do.
    pub message: String,
}

/// `ferry bench`: many requests for one URL.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Bench {
    pub url: String,
    pub protocol: Option<&'static str>,
    pub connections: u32,
    pub parallel: u32,
    pub requests: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub bytes: u64,
    /// First request to last answer.
    pub seconds: f64,
    pub requests_per_s: f64,
    pub cpu_us_per_request: f64,
    /// Latency of one request in microseconds.
    pub latency_us: Percentiles,
}

#[derive(Debug, Clone, Copy, Default, Serialize, JsonSchema)]
pub struct Percentiles {
    pub min: u64,
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub max: u64,
}
