//! Every flag, once: parser, `--help`, man page and completions all come from here. What flags mean together is checked in `convert`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use ferry_engine::options::{ByteRange, Checksum, KeyHash, Resolve};

use super::rules::Rules;
use super::values::{
    JsonFile, parse_buffer_size, parse_checksum, parse_congestion, parse_pin, parse_range, parse_resolve,
    parse_send_buffer,
};
use crate::net::sndbuf::SendBuffer;
use crate::units::{ByteRate, ByteSize, Peak, parse_duration, parse_time_limit};

const NOTES: &str = "\
sftp://user@host/dir/file is the absolute path /dir/file, sftp://host/~/file is in the home directory, as in curl. %XX is a byte of the name; \
? and # stand for themselves.

Exit codes: 0 done; 2 usage; 10 may work when tried again, and did not in all attempts; 11 will not work when tried again; \
12 what arrived is not what was announced; 13 this machine (disk full, no permission, file exists); 130 and 143 interrupted by Ctrl-C or SIGTERM, with a report.

The configuration file has flags by their long names (limit-rate = \"2 MB/s\"), for all transfers, in [get] and [put], and in tables of hosts such as \
[host.\"*.example.org\"]. What is typed comes first, then the host's table, the command's, the top level. ferry config URL prints what counts, and why.

Rates and sizes: K, M and G are times 1024, as in curl and wget; KiB, MiB and GiB too; kB, MB and GB are times 1000; 8 Mbit/s is 1 MB/s.";

/// Transfers files over HTTP/1.1, HTTP/2, HTTP/3 and SFTP, and keeps to its limits
#[derive(Debug, Parser)]
#[command(name = "ferry", version, after_help = NOTES, subcommand_required = true, arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Download one URL or several
    Get(Box<Get>),
    /// Upload a file, or a directory over SFTP
    Put(Box<Put>),
    /// Print what a command line would use, with what says so: the default, a line of the configuration file, or the command line
    Config(Config),
    /// Print the manual page
    Man,
    /// Print a shell's completions
    Completions { shell: Shell },
    /// Print the JSON Schema of the report
    Schema,
}

#[derive(Debug, ClapArgs)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct Get {
    #[command(flatten)]
    pub sources: Sources,
    #[command(flatten)]
    pub output: Output,
    /// Directories, with everything in them (sftp only)
    #[arg(short, long, conflicts_with = "range")]
    pub recursive: bool,
    /// Begin where an interrupted transfer ended
    #[arg(long, conflicts_with_all = ["discard", "range"])]
    pub resume: bool,
    /// Replace a file that exists
    #[arg(long, conflicts_with = "discard")]
    pub overwrite: bool,
    /// Do not wait until a file is on the disk before it gets its name: after a power failure it may be empty or missing
    #[arg(long, conflicts_with = "discard")]
    pub no_sync: bool,
    /// Only these bytes, both included: 0-499, 500- or -500 (the last 500)
    #[arg(long, value_name = "A-B", value_parser = parse_range, allow_hyphen_values = true)]
    pub range: Option<ByteRange>,
    /// Refuse a file with more bytes than this, before it is fetched or, where its size is not announced, as soon as it has more
    #[arg(long, value_name = "SIZE")]
    pub max_filesize: Option<ByteSize>,
    /// Ask for the file compressed (zstd, gzip) and write it decoded (http only). A compressed body cannot be fetched in parts: an attempt that fails
    /// begins again
    #[arg(long, conflicts_with_all = ["resume", "range", "connections"])]
    pub compressed: bool,
    /// Transfers at once over HTTP; over SFTP ferry decides
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u16).range(1..))]
    pub parallel: u16,
    /// Report all transfers together, and by themselves only those that failed
    #[arg(long)]
    pub totals: bool,
    /// --limit-rate is each transfer's own, instead of shared by all
    #[arg(long, requires = "limit_rate")]
    pub limit_each: bool,
    #[command(flatten)]
    pub transfer: Transfer,
    #[command(flatten)]
    pub selection: Selection,
    #[command(flatten)]
    pub connection: Connection,
    #[command(flatten)]
    pub login: Login,
    #[command(flatten)]
    pub ssh: Ssh,
    #[command(flatten)]
    pub reporting: Reporting,
    #[command(flatten)]
    pub configuration: Configuration,
}

/// One of them, or both.
#[derive(Debug, ClapArgs)]
#[group(required = true, multiple = true)]
pub struct Sources {
    /// http or https (user:password@ in it is sent as Basic Authorization), or sftp
    #[arg(value_name = "URL", value_hint = clap::ValueHint::Url)]
    pub urls: Vec<String>,
    /// Read URLs from FILE too, one a line; - is standard input. Blank lines and lines that begin with # are skipped
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub input: Option<PathBuf>,
}

/// Exactly one.
#[derive(Debug, ClapArgs)]
#[group(required = true, multiple = false)]
pub struct Output {
    /// Write to FILE (one URL only); - is standard output. With sftp also a directory: one that exists or ends in / takes files under
    /// their own names. With --recursive, FILE is created if missing, and receives the contents of the URL's directory, or several URLs under
    /// their names
    #[arg(short = 'o', long = "output", value_name = "FILE", value_hint = clap::ValueHint::AnyPath)]
    pub file: Option<PathBuf>,
    /// Write to files named by the last part of each URL, as typed (sftp: with %XX decoded)
    #[arg(short = 'O', long)]
    pub remote_name: bool,
    /// Write nowhere
    #[arg(long)]
    pub discard: bool,
}

#[derive(Debug, ClapArgs)]
pub struct Put {
    /// What to send; - is standard input, of unknown size. What is in a directory goes into the one that the URL names (sftp only)
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    pub file: PathBuf,
    /// http or https (user:password@ in it is sent as Basic Authorization), or sftp (a file keeps its name where the URL ends in /)
    #[arg(value_hint = clap::ValueHint::Url)]
    pub url: String,
    /// The method of the HTTP request
    #[arg(long, value_enum, ignore_case = true, default_value = "PUT")]
    pub method: UploadMethod,
    /// Try again also with a method that is not idempotent (POST)
    #[arg(long)]
    pub retry_unsafe: bool,
    /// Begin where an interrupted upload ended (sftp only)
    #[arg(long)]
    pub resume: bool,
    /// Do not ask the server to write to its disk before the file gets its name (sftp only)
    #[arg(long)]
    pub no_sync: bool,
    #[command(flatten)]
    pub transfer: Transfer,
    #[command(flatten)]
    pub selection: Selection,
    #[command(flatten)]
    pub connection: Connection,
    #[command(flatten)]
    pub login: Login,
    #[command(flatten)]
    pub ssh: Ssh,
    #[command(flatten)]
    pub reporting: Reporting,
    #[command(flatten)]
    pub configuration: Configuration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "UPPER")]
pub enum UploadMethod {
    Put,
    Post,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Http3 {
    /// Nothing else
    Only,
    /// Else what ALPN decides
    Fallback,
}

/// `get` and `put`.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Transfer options")]
pub struct Transfer {
    /// The most bytes per second: 2MB/s, 500K, 8 Mbit/s
    #[arg(long, value_name = "RATE")]
    pub limit_rate: Option<ByteRate>,
    /// Leave the line to others: keep queues short, give way when others fill them, and use nearly all of what is left.
    /// Over one connection, unless --connections fetches one URL in ranges; Linux only
    #[arg(long, conflicts_with = "http3")]
    pub background: bool,
    /// How many times the limit any 100 ms may see while lost time is made up, 1.15 to 10
    #[arg(long, value_name = "FACTOR", default_value = "1.5", requires = "limit_rate")]
    pub limit_peak: Peak,
    /// The piece in which a body goes to or comes from its file, 4K to 16M
    #[arg(long, value_name = "SIZE", default_value = "64K", value_parser = parse_buffer_size)]
    pub buffer_size: ByteSize,
    /// sha256, sha384, sha512 or sha1 of the complete body; with :HEX, it must be that
    #[arg(long, value_name = "ALGORITHM[:HEX]", value_parser = parse_checksum)]
    pub checksum: Option<Checksum>,
    /// Keep modification times: a download gets the server's, an upload (sftp only) the local file's
    #[arg(long)]
    pub remote_time: bool,
    /// Keep permission bits, of directories too, whatever the umask; never setuid, setgid and sticky (sftp only; not on Windows)
    #[arg(long)]
    pub perms: bool,
    /// Attempts after the first [default: 3, and none if no server accepts a connection]
    // No default of clap's: who types it wants to wait for a server that is not there yet.
    #[arg(long, value_name = "N")]
    pub retry: Option<u32>,
    /// The longest wait before another attempt, even if the server asks for more
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
    pub retry_max_wait: Duration,
    /// HTTP redirects to follow; 0 follows none [default: 10]
    // No default of clap's: with sftp it is refused, so whether it was typed counts.
    #[arg(long, value_name = "N")]
    pub max_redirects: Option<u32>,
}

/// `get -r` and `put` of a directory.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Options for directories (sftp only)")]
pub struct Selection {
    #[command(flatten)]
    pub rules: Rules,
    /// Leave out smaller files
    #[arg(long, value_name = "SIZE")]
    pub min_size: Option<ByteSize>,
    /// Leave out larger files, without an error; --max-filesize is the one that fails
    #[arg(long, value_name = "SIZE")]
    pub max_size: Option<ByteSize>,
    /// Leave out files that were last modified longer ago: 48h, 30m
    #[arg(long, value_name = "AGE", value_parser = parse_duration)]
    pub newer_than: Option<Duration>,
    /// Leave out files that were modified since then
    #[arg(long, value_name = "AGE", value_parser = parse_duration)]
    pub older_than: Option<Duration>,
    /// Make the destination a copy: only files whose size or modification time differs are transferred, and replaced; times are kept. get
    /// takes one URL and --output DIR
    #[arg(long)]
    pub mirror: bool,
    /// Remove at the destination what the source does not have, after everything else was done without error. What is excluded stays
    #[arg(long, requires = "mirror")]
    pub delete: bool,
    /// Remove nothing if more than N files and directories would go
    #[arg(long, value_name = "N", requires = "delete")]
    pub max_delete: Option<u64>,
    /// Say what a mirror would do, and do nothing
    #[arg(long, requires = "mirror")]
    pub dry_run: bool,
    /// Modification times are the same that differ by no more, for servers that round them
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_duration, requires = "mirror")]
    pub modify_window: Duration,
}

/// Every command that connects.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Connection options")]
#[expect(clippy::doc_markdown, reason = "help is no Markdown: backticks would be shown")]
pub struct Connection {
    /// Speak HTTP/1.1 [default: ALPN decides on https, HTTP/1.1 on http]
    #[arg(long = "http1.1", conflicts_with_all = ["http2", "http3"])]
    pub http11: bool,
    /// Speak HTTP/2, https only
    #[arg(long, conflicts_with = "http3")]
    pub http2: bool,
    /// Speak HTTP/3, https only and without a proxy; with =fallback, TCP where a server does not answer over QUIC
    #[arg(long, value_enum, value_name = "MODE", num_args = 0..=1, require_equals = true, default_missing_value = "only")]
    pub http3: Option<Http3>,
    /// Trust the certificates in this PEM file instead of the system's: those of CAs, or a server's own
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub cacert: Option<PathBuf>,
    /// Besides, the server must have the public key with this SHA-256, or one of several with ; between them. With --insecure this alone counts
    // Its name and form are curl's.
    #[arg(long, value_name = "sha256//BASE64", value_delimiter = ';')]
    pub pinnedpubkey: Vec<KeyHash>,
    /// Show this certificate (PEM, its chain behind it) to servers that ask for one; without --key the file has its key too
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub cert: Option<PathBuf>,
    /// The certificate's private key (PEM, not encrypted), which only its owner may read
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, requires = "cert")]
    pub key: Option<PathBuf>,
    /// Do not verify certificates, and accept any SSH host key; the report says so
    #[arg(long)]
    pub insecure: bool,
    /// Send this HTTP header too; repeatable
    #[arg(long, value_name = "NAME: VALUE")]
    pub header: Vec<String>,
    /// This host and port is at that address; repeatable
    #[arg(long, value_name = "HOST:PORT:ADDRESS", value_parser = parse_resolve)]
    pub resolve: Vec<Resolve>,
    /// Connect through this proxy: [http://|socks5://|socks5h://][USER@]HOST[:PORT]; with socks5h the proxy resolves names [default:
    /// http_proxy, HTTPS_PROXY, SFTP_PROXY or ALL_PROXY, as curl reads them]; an empty URL switches proxies off
    #[arg(long, value_name = "URL")]
    pub proxy: Option<String>,
    /// Hosts, networks and domains to reach without a proxy, separated by commas; * is all [default: NO_PROXY]
    #[arg(long, value_name = "LIST")]
    pub noproxy: Option<String>,
    /// The proxy's password is in FILE, which only its owner may read
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, conflicts_with = "proxy_password_env")]
    pub proxy_password_file: Option<PathBuf>,
    /// The proxy's password is in this environment variable
    #[arg(long, value_name = "NAME")]
    pub proxy_password_env: Option<String>,
    /// Send buffer of each connection: auto (Windows is asked what suits the path, others see to it themselves), off (as the system makes
    /// it), or a size, 4K to 1G
    #[arg(long, value_name = "auto|off|BYTES", default_value = "auto", value_parser = parse_send_buffer)]
    pub sndbuf: SendBuffer,
    /// Congestion control of what ferry sends, by Linux's name for it: bbr, cubic, reno [default: the system's]
    #[arg(long, value_name = "NAME", value_parser = parse_congestion)]
    pub congestion: Option<String>,
    /// To a TCP connection [default: 10s, over SFTP ssh_config's ConnectTimeout]
    // No default of clap's: what was typed comes before ssh_config.
    #[arg(long, value_name = "DURATION", value_parser = parse_time_limit)]
    pub timeout_connect: Option<Duration>,
    /// From there to the end of the TLS or SSH handshake
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_time_limit)]
    pub timeout_tls: Duration,
    /// From the request to the first byte of its answer [default: 60s, and none after a complete upload: what the server does with it may take its
    /// time, and the answer is worth more than another attempt]
    // No default of clap's: what was typed counts after an upload too.
    #[arg(long, value_name = "DURATION", value_parser = parse_time_limit)]
    pub timeout_first_byte: Option<Duration>,
    /// For everything [default: none]
    #[arg(long, value_name = "DURATION", value_parser = parse_time_limit)]
    pub timeout_total: Option<Duration>,
    /// Give up when no byte moved for so long although the limit would have allowed it. Of what is sent, bytes that the server's machine acknowledges
    /// move (Linux)
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_time_limit)]
    pub stall: Duration,
}

/// Secrets are not values of flags: every process can read a command line.
#[derive(Debug, Default, ClapArgs)]
#[command(next_help_heading = "Login options")]
#[group(id = "secret", multiple = false)]
pub struct Login {
    /// Log in with the password in FILE, which only its owner may read; with http the URL names the user
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub password_file: Option<PathBuf>,
    /// Log in with the password in this environment variable; with http the URL names the user
    #[arg(long, value_name = "NAME")]
    pub password_env: Option<String>,
    /// Send the token in FILE, which only its owner may read, as Bearer Authorization (http only)
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub token_file: Option<PathBuf>,
    /// Send the token in this environment variable as Bearer Authorization (http only)
    #[arg(long, value_name = "NAME")]
    pub token_env: Option<String>,
    /// Take logins that no URL names from ~/.netrc or $NETRC, as curl does (http only)
    #[arg(long)]
    pub netrc: bool,
    /// Take logins that no URL names from FILE, which has the format of .netrc (http only)
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub netrc_file: Option<PathBuf>,
}

/// `get` and `put` with sftp. Options, not defaults: with HTTP they are refused, so whether they were typed counts.
#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "SSH options")]
#[expect(clippy::doc_markdown, reason = "help is no Markdown: backticks would be shown")]
pub struct Ssh {
    /// Read hosts, users, keys and the like from FILE instead of ~/.ssh/config and the system's; with none, from nowhere. Flags come first
    #[arg(short = 'F', long = "ssh-config", value_name = "FILE|none", value_hint = clap::ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// Connect through these servers, one after the other: [USER@]HOST[:PORT] or ssh://[USER@]HOST[:PORT]; none is a direct connection
    /// [default: ssh_config's ProxyJump]. Keys, certificates, passphrase and known hosts are for them too, --pin and --password-* for the last server
    #[arg(short = 'J', long = "jump", value_name = "HOST[,HOST]")]
    pub jump: Option<String>,
    /// Host keys and @cert-authority lines to trust; repeatable [default: ~/.ssh/known_hosts and the system's]
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub known_hosts: Vec<PathBuf>,
    /// Trust the host key with this fingerprint instead, as ssh-keygen -l prints it; repeatable
    #[arg(long, value_name = "SHA256:BASE64", value_parser = parse_pin)]
    pub pin: Vec<String>,
    /// Private key to log in with; repeatable [default: ~/.ssh/id_ed25519, id_ecdsa and id_rsa, those that exist]
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub identity: Vec<PathBuf>,
    /// SSH certificate for a private key or a key of the agent's; repeatable [default: KEY-cert.pub next to each private key KEY]
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub certificate: Vec<PathBuf>,
    /// The passphrase of encrypted private keys is in FILE, which only its owner may read
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, conflicts_with = "passphrase_env")]
    pub passphrase_file: Option<PathBuf>,
    /// The passphrase of encrypted private keys is in this environment variable [default: the program in SSH_ASKPASS asks, where there is a
    /// display]
    #[arg(long, value_name = "NAME")]
    pub passphrase_env: Option<String>,
    /// Do not ask the SSH agent (SSH_AUTH_SOCK) for keys
    #[arg(long)]
    pub no_agent: bool,
    /// The most SSH channels on a connection, 1 to 64 [default: 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub channels: Option<u8>,
    /// Connections, 1 to 64: of an HTTP download, over which the ranges of one file come [default: 1]; of SFTP [default: 1, and a second one for
    /// uploads that the first one's send buffer holds back]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub connections: Option<u8>,
}

/// Every command that connects.
#[derive(Debug, Default, ClapArgs)]
#[command(next_help_heading = "Configuration options")]
#[expect(clippy::doc_markdown, reason = "help is no Markdown: backticks would be shown")]
pub struct Configuration {
    /// Read flags that are not typed from FILE (TOML: limit-rate = "2 MB/s"); with none, from nowhere [default: FERRY_CONFIG, or
    /// ~/.config/ferry/config.toml, on Windows %APPDATA%\ferry\config.toml]
    #[arg(long = "config", value_name = "FILE|none", value_hint = clap::ValueHint::FilePath, conflicts_with = "no_config")]
    pub config_file: Option<PathBuf>,
    /// Read no configuration file
    #[arg(long)]
    pub no_config: bool,
}

#[derive(Debug, ClapArgs)]
pub struct Config {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// get or put (without one, get), and as much of its arguments as matters: a URL, flags
    #[arg(value_name = "COMMAND LINE", trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<OsString>,
    #[command(flatten)]
    pub file: Configuration,
}

impl Configuration {
    /// The flags as they were typed.
    pub fn words(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        if let Some(file) = &self.config_file {
            let mut word = OsString::from("--config=");
            word.push(file);
            words.push(word);
        }
        words.extend(self.no_config.then(|| "--no-config".into()));
        words
    }
}

/// How it went, for every command that connects.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Report options")]
pub struct Reporting {
    /// Write the report as JSON, to FILE or (without FILE or with -) to standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", value_parser = JsonFile)]
    pub json: Option<PathBuf>,
    /// No progress, which is shown when standard error is a terminal
    #[arg(long)]
    pub no_progress: bool,
    /// Neither progress nor summary
    #[arg(short, long)]
    pub quiet: bool,
    /// Say on standard error what happens: connections, TLS, requests, answers, retries, redirects; -vv also header fields. Never secrets.
    /// There is no progress then
    #[arg(short, long, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    pub verbose: u8,
}
