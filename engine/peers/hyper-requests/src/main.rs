//! The peer beside ferry in benchmarks: the work of `ferry bench`, and with `-n 1 -p 1` that of a bulk download, done with hyper.
//!
//! One connection, one thread, and what arrives is discarded. Like ferry's, the clock and the CPU time begin when TCP and TLS are up.
//! hyper is made as fast as it goes without changing it. Tried with h2o and nginx, 10 KB x 25,000, 100 at once, interleaved, medians of
//! 7 on a noisy machine of two cores (bulk, 1 GiB, medians of 2, told none of them apart):
//! - 256 KiB between TCP and TLS, because rustls reads 4 KiB at a time: kept. h2o's CPU without it +13 %, with 16 or 64 KiB +7 %.
//! - mimalloc, because hyper allocates for each request: kept. CPU -3 % (h2o), -6 % (nginx).
//! - tracing, which h2 cannot do without, compiled to nothing: kept. h2o's CPU -5 %, nginx's the same.
//! - AES-128-GCM first, as ferry has it, and windows of 16 and 64 MiB: kept. AES-256, 64 KiB and 1 MiB (3 runs): within the noise.
//! - Another 256 KiB between TLS and h2 (h2o's CPU +4 %), frames of 64 KiB and 1 MiB, polling for I/O every 31 or 200 tasks instead
//!   of 61 (within the noise): left out.

use std::cell::Cell;
use std::error::Error;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::{Request, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2;
use hyper_util::rt::TokioIo;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio::task::{LocalSet, spawn_local};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

type Failure = Box<dyn Error>;
type Get = Request<Empty<Bytes>>;
type Sender = http2::SendRequest<Empty<Bytes>>;
type Stream = TlsStream<BufReader<TcpStream>>;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "usage: hyper-requests URL -n REQUESTS -p PARALLEL --cacert FILE";

#[derive(Default)]
struct Options {
    url: Uri,
    requests: u64,
    parallel: u64,
    cacert: String,
}

/// What is left to send and what came of it, shared by all tasks of the one thread.
#[derive(Default)]
struct Tally {
    left: Cell<u64>,
    succeeded: Cell<u64>,
    bytes: Cell<u64>,
}

/// hyper's connection and its streams are spawned beside the requests, on the same thread.
#[derive(Clone)]
struct Local;

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for Local {
    fn execute(&self, future: F) {
        spawn_local(future);
    }
}

fn main() -> ExitCode {
    match options(std::env::args().skip(1)).and_then(|options| measure(&options)) {
        Ok(all) => ExitCode::from(u8::from(!all)),
        Err(error) => {
            eprintln!("hyper-requests: {error}");
            ExitCode::from(2)
        }
    }
}

fn options(mut words: impl Iterator<Item = String>) -> Result<Options, Failure> {
    let mut options = Options::default();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(USAGE);
        match word.as_str() {
            "-n" | "--requests" => options.requests = value()?.parse()?,
            "-p" | "--parallel" => options.parallel = value()?.parse()?,
            "--cacert" => options.cacert = value()?,
            _ if word.starts_with('-') => return Err(USAGE.into()),
            _ => options.url = word.parse()?,
        }
    }
    if options.url.host().is_none() || options.cacert.is_empty() || options.requests.min(options.parallel) == 0 {
        return Err(USAGE.into());
    }
    Ok(options)
}

/// Whether every request succeeded.
fn measure(options: &Options) -> Result<bool, Failure> {
    let tls = tls(&options.cacert)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let tally = Rc::<Tally>::default();
    tally.left.set(options.requests);
    let local = LocalSet::new();
    let stream = local.block_on(&runtime, connect(options, tls))?;
    let (begin, cpu_begin) = (Instant::now(), cpu());
    local.block_on(&runtime, run(options, stream, &tally))?;
    let (seconds, cpu_s) = (begin.elapsed().as_secs_f64(), cpu() - cpu_begin);
    let (requests, succeeded, bytes) = (options.requests, tally.succeeded.get(), tally.bytes.get());
    println!(
        r#"{{"requests":{requests},"succeeded":{succeeded},"bytes":{bytes},"seconds":{seconds:.6},"requests_per_s":{:.1},"cpu_us_per_request":{:.3}}}"#,
        succeeded as f64 / seconds,
        cpu_s * 1e6 / requests as f64,
    );
    Ok(succeeded == requests)
}

fn tls(cacert: &str) -> Result<ClientConfig, Failure> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(cacert)? {
        roots.add(certificate?)?;
    }
    let mut provider = aws_lc_rs::default_provider();
    let first = aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256.suite();
    provider.cipher_suites.sort_by_key(|known| known.suite() != first);
    let mut config = ClientConfig::builder_with_provider(Arc::<CryptoProvider>::new(provider))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

async fn connect(options: &Options, tls: ClientConfig) -> Result<Stream, Failure> {
    let host = options.url.host().ok_or(USAGE)?.trim_matches(['[', ']']);
    let tcp = TcpStream::connect((host, options.url.port_u16().unwrap_or(443))).await?;
    tcp.set_nodelay(true)?;
    let name = ServerName::try_from(host.to_owned())?;
    let tls = TlsConnector::from(Arc::new(tls));
    let stream = tls.connect(name, BufReader::with_capacity(256 << 10, tcp)).await?;
    if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
        return Err("the server does not speak h2".into());
    }
    Ok(stream)
}

async fn run(options: &Options, stream: Stream, tally: &Rc<Tally>) -> Result<(), Failure> {
    let (sender, connection) = http2::Builder::new(Local)
        .adaptive_window(false)
        .initial_stream_window_size(16 << 20)
        .initial_connection_window_size(64 << 20)
        .handshake(TokioIo::new(stream))
        .await?;
    let connection = spawn_local(connection);
    let request = Request::get(&options.url).body(Empty::new())?;
    let tasks: Vec<_> = (0..options.parallel.min(options.requests))
        .map(|_| spawn_local(repeat(sender.clone(), request.clone(), Rc::clone(tally))))
        .collect();
    for task in tasks {
        task.await?;
    }
    connection.abort();
    Ok(())
}

/// One request after the other, until none is left.
async fn repeat(mut sender: Sender, request: Get, tally: Rc<Tally>) {
    while let Some(left) = tally.left.get().checked_sub(1) {
        tally.left.set(left);
        match fetch(&mut sender, request.clone(), &tally).await {
            Ok(success) => tally.succeeded.set(tally.succeeded.get() + u64::from(success)),
            Err(error) => eprintln!("hyper-requests: {error}"),
        }
    }
}

/// Whether the answer was a success and came to its end; what it brings is counted and dropped.
async fn fetch(sender: &mut Sender, request: Get, tally: &Tally) -> hyper::Result<bool> {
    let (head, mut body) = sender.send_request(request).await?.into_parts();
    while let Some(frame) = body.frame().await {
        if let Some(data) = frame?.data_ref() {
            tally.bytes.set(tally.bytes.get() + data.len() as u64);
        }
    }
    Ok(head.status.is_success())
}

/// Seconds of the whole process, user and system.
fn cpu() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: getrusage fills what it is given, and all zeroes are a rusage as well.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
