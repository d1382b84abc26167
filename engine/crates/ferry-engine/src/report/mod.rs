//! The report of a run: one JSON document, whose schema (`ferry schema`) is generated from these types.

mod series;

pub use series::Series;
#[doc(hidden)]
pub use series::{SeriesBuilder, SeriesFacts};

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

pub use crate::error::Failure;

/// Names the format; changed when a field changes its meaning or goes away.
pub const SCHEMA: &str = "ferry-report-1";

impl Report {
    /// The first failure: of the run, or of a transfer.
    #[must_use]
    pub fn first_failure(&self) -> Option<&Failure> {
        let transfers = self.transfers.iter().filter_map(|transfer| transfer.error.as_ref());
        self.error.as_ref().into_iter().chain(transfers).next()
    }
}

/// One run of the program.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Report {
    /// Always `ferry-report-1`.
    #[cfg_attr(feature = "schema", schemars(extend("const" = SCHEMA)))]
    pub schema: &'static str,
    /// The version of ferry.
    pub version: &'static str,
    /// The command that ran.
    pub command: Command,
    /// In the order they were asked for, those of trees in the order in which they were over; with `--totals` only those that failed.
    pub transfers: Vec<Transfer>,
    /// True if everything asked for was done.
    pub ok: bool,
    /// The process's exit code: 0 done, 2 usage, 10 transient, 11 permanent, 12 integrity, 13 local, 130 interrupted (143 by SIGTERM).
    pub exit_code: u8,
    /// For SFTP only; the last connection, if there were several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssh: Option<SshReport>,
    /// All transfers together: of an SFTP run, of an HTTP run with several URLs, and with `--totals`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set: Option<FileSet>,
    /// For `--dry-run` only: what a mirror would do, in this order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planned: Option<Vec<Planned>>,
    /// The first failure of a run that has no transfer to hang it on (an unreadable CA file).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// The resources that the process used.
    pub process: ProcessUsage,
}

/// A command of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Command {
    /// A download.
    Get,
    /// An upload.
    Put,
}

/// Whole process, start to end.
#[derive(Debug, Clone, Copy, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ProcessUsage {
    /// From the start of the run to its report.
    pub wall_s: f64,
    /// Processor time in user mode.
    pub cpu_user_s: f64,
    /// Processor time in the kernel.
    pub cpu_system_s: f64,
    /// Null where the operating system does not tell.
    pub max_rss_bytes: Option<u64>,
}

/// One URL, all attempts. Where there were several, the figures are those of the last one.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Transfer {
    /// The URL asked for, without user and password, and with `?...` for a query, which may be a credential.
    pub url: String,
    /// The URL that redirects led to, if there were any; written like `url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_url: Option<String>,
    /// Download or upload.
    pub direction: Command,
    /// `http/1.1`, `h2`, `h3` or `sftp`; null when no connection was made.
    pub protocol: Option<&'static str>,
    /// The final status of HTTP.
    pub status: Option<u16>,
    /// Address and port of the server.
    pub remote: Option<String>,
    /// Null without TLS.
    pub tls: Option<TlsFacts>,
    /// Neither certificates nor host keys were verified, by `--insecure`.
    pub insecure: bool,
    /// Connections that were made for it, where its ranges came over several (`--connections`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// Ranges that came over them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranges: Option<u32>,
    /// The limit, in bytes per second; null without one.
    pub limit_byte_s: Option<u64>,
    /// The limit is shared with the run's other transfers.
    pub limit_shared: bool,
    /// The piece in which a body goes to or comes from its file.
    pub buffer_size_bytes: u64,
    /// Body bytes moved by the last attempt, as they are on the wire: with `content_encoding`, those of the compressed body.
    pub bytes: u64,
    /// `gzip` or `zstd` where the body came compressed and was decoded (`--compressed`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_encoding: Option<&'static str>,
    /// Bytes of the file that the last attempt has decoded `bytes` to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decoded_bytes: Option<u64>,
    /// The offset in the file at which the last attempt began (resume, range).
    pub offset: u64,
    /// The size of the complete file, where it is known; of one that came compressed, when it is complete.
    pub size: Option<u64>,
    /// The duration of each step.
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
    /// Bytes over time; null when no body byte moved.
    pub series: Option<Series>,
    /// At the start of the body, every 100 ms, and at its end. Of several connections, that of the first range, for as long as it took.
    pub tcp: Vec<TcpSample>,
    /// The send buffer of its connection; null without one.
    pub sndbuf: Option<SendBufferFacts>,
    /// `ALGORITHM:HEX` of the complete file, when asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// In order, the last one included.
    pub attempts: Vec<Attempt>,
    /// The reason for the failure, if the transfer failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
}

/// Durations of the last attempt in seconds, one after the other; null where the phase did not happen (an address instead of a name,
/// a connection that was there already).
#[derive(Debug, Clone, Copy, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Phases {
    /// Name resolution.
    pub dns_s: Option<f64>,
    /// The TCP connection.
    pub connect_s: Option<f64>,
    /// The TLS handshake.
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
    /// From the attempt's begin to its end: the complete body, and the answer of an upload.
    pub total_s: f64,
}

/// The SSH connection of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SshReport {
    /// The server's software.
    pub server: String,
    /// Key exchange.
    pub kex: String,
    /// Cipher.
    pub cipher: String,
    /// Type and fingerprint, and that of the authority whose certificate counted.
    pub host_key: String,
    /// `publickey`, `certificate`, `agent` or `password`.
    pub auth: String,
    /// Times that ferry had to wait for an answer before it was logged in.
    pub round_trips: u32,
    /// On which SFTP ran, all connections together.
    pub channels: u32,
    /// Asked for and not given (`MaxSessions`).
    pub channels_refused: u32,
    /// TCP connections used.
    pub connections: u32,
    /// Jump hosts on the way to the server, in their order; empty without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub jumps: Vec<JumpReport>,
}

/// A jump host that the first connection went through.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct JumpReport {
    /// Host and port.
    pub host: String,
    /// The user who logged in there.
    pub user: String,
    /// Its software.
    pub server: String,
    /// Key exchange.
    pub kex: String,
    /// Cipher.
    pub cipher: String,
    /// Type and fingerprint, and that of the authority whose certificate counted.
    pub host_key: String,
    /// `publickey`, `certificate`, `agent` or `password`.
    pub auth: String,
    /// Times that ferry had to wait for an answer before it was logged in.
    pub round_trips: u32,
}

/// The files of a run, taken together.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct FileSet {
    /// Transfers of the run.
    pub files: u64,
    /// Transfers that failed.
    pub failed: u64,
    /// Symbolic links, devices and the like in a tree, which are not transferred.
    pub skipped: u64,
    /// Files, and directories with everything in them, that the filters keep out.
    pub filtered: u64,
    /// Files of a mirror that the destination has already.
    pub unchanged: u64,
    /// Files and directories that a mirror has removed at the destination.
    pub deleted: u64,
    /// Body bytes moved by the last attempts.
    pub bytes: u64,
    /// First body byte of any file to the last of all; null over HTTP.
    pub body_s: Option<f64>,
    /// From the begin of the run to the end of its last file.
    pub total_s: f64,
    /// Over HTTP: `http/1.1`, `h2`, `h3`, those that were spoken.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub protocols: Vec<&'static str>,
    /// Over HTTP: connections that were made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// Over HTTP: from a request to the end of its answer, in microseconds, of the transfers that did not fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<Percentiles>,
}

/// Something that `--dry-run` leaves undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Planned {
    /// The action that would be taken.
    pub action: Action,
    /// At the destination: a local path, or one on the server.
    pub path: String,
    /// The size of a file that would be transferred, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// An action of a mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// A file is fetched.
    Receive,
    /// A file is sent.
    Send,
    /// A directory is made.
    Make,
    /// A file or an empty directory is removed.
    Delete,
}

/// The TLS of a connection.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct TlsFacts {
    /// Such as `TLSv1.3`.
    pub version: String,
    /// The cipher suite; empty over HTTP/3, because QUIC does not tell it.
    pub cipher: String,
}

/// The figures of a connection that Linux and Windows report; null where the system does not report one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct TcpSample {
    /// Since the attempt's begin.
    pub t_s: f64,
    /// Smoothed round trip.
    pub rtt_us: Option<u32>,
    /// The least round trip.
    pub min_rtt_us: Option<u32>,
    /// Congestion window.
    pub cwnd_bytes: Option<u64>,
    /// Sent and not acknowledged.
    pub bytes_in_flight: Option<u64>,
    /// Sent again, since the connection began.
    pub bytes_retransmitted: Option<u64>,
    /// In the send buffer, not sent yet.
    pub unsent_bytes: Option<u64>,
    /// The bytes acknowledged since the connection began.
    pub bytes_acked: Option<u64>,
    /// The bytes received since the connection began.
    pub bytes_received: Option<u64>,
    /// The bytes that the peer may send.
    pub receive_window_bytes: Option<u64>,
    /// The bytes that the peer lets ferry send.
    pub send_window_bytes: Option<u64>,
}

/// The send buffer of a connection (`--sndbuf`), as the system counts it: Linux doubles what is set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SendBufferFacts {
    /// `auto`, `off` or `bytes`.
    pub mode: &'static str,
    /// When it was connected.
    pub initial_bytes: Option<u64>,
    /// At the end of the transfer.
    pub final_bytes: Option<u64>,
    /// The last answer of Windows to `SIO_IDEAL_SEND_BACKLOG_QUERY`; null where the system is not asked (every other system,
    /// `off`, `bytes`) or did not answer.
    pub ideal_bytes: Option<u64>,
    /// The number of times that Windows was asked.
    pub queries: u32,
    /// The last refusal, of a query or of a size, with its reason.
    pub refused: Option<String>,
}

/// One try at a transfer, in order.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Attempt {
    /// The offset in the file at which the attempt began.
    pub offset: u64,
    /// Body bytes moved.
    pub bytes: u64,
    /// From its begin to its end.
    pub total_s: f64,
    /// The status of HTTP.
    pub status: Option<u16>,
    /// Waited before this attempt, in seconds.
    pub waited_s: f64,
    /// The reason for the failure, if the attempt failed.
    pub error: Option<Failure>,
}

/// Percentiles of a distribution.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Percentiles {
    /// The least.
    pub min: u64,
    /// The median.
    pub p50: u64,
    /// The 90th percentile.
    pub p90: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The greatest.
    pub max: u64,
}

impl Percentiles {
    /// The percentiles of values in any order, which are sorted; `None` without any.
    #[must_use]
    pub fn of(values: &mut [u32]) -> Option<Self> {
        let last = values.len().checked_sub(1)?;
        values.sort_unstable();
        let at = |share: usize| u64::from(values[last * share / 100]);
        Some(Self {
            min: at(0),
            p50: at(50),
            p90: at(90),
            p99: at(99),
            max: at(100),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Percentiles;

    #[test]
    fn percentiles_are_those_of_the_sorted_values() {
        let mut values: Vec<u32> = (1..=101).rev().collect();
        let found = Percentiles::of(&mut values).unwrap();
        assert_eq!(
            (found.min, found.p50, found.p90, found.p99, found.max),
            (1, 51, 91, 100, 101)
        );
        assert_eq!(Percentiles::of(&mut []), None);
    }
}
