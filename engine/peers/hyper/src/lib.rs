//! What both programs share: a TCP connection of hyper's, TLS as ferry has it, and a runtime of one thread.
//!
//! hyper is made as fast as it goes without changing it. Tried with h2o and nginx, 10 KB x 25,000, 100 at once, interleaved, medians of
//! 7 on a noisy machine of two cores (bulk, 1 GiB, medians of 2, showed no difference between them):
//! - 256 KiB between TCP and TLS, because rustls reads 4 KiB at a time: kept. h2o's CPU without it +13 %, with 16 or 64 KiB +7 %.
//! - mimalloc, because hyper allocates for each request: kept. CPU -3 % (h2o), -6 % (nginx).
//! - tracing, which h2 cannot do without, compiled to nothing: kept. h2o's CPU -5 %, nginx's the same.
//! - AES-128-GCM first, as ferry has it, and windows of 16 and 64 MiB: kept. AES-256, 64 KiB and 1 MiB (3 runs): within the noise.
//! - Another 256 KiB between TLS and h2 (h2o's CPU +4 %), frames of 64 KiB and 1 MiB, polling for I/O every 31 or 200 tasks instead
//!   of 61 (within the noise): left out.

use std::error::Error;
use std::sync::Arc;

use http::Uri;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio::task::spawn_local;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub type Failure = Box<dyn Error>;
pub type Secure = TlsStream<BufReader<TcpStream>>;

pub const STREAM_WINDOW: u32 = 16 << 20;
pub const CONNECTION_WINDOW: u32 = 64 << 20;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// hyper's connection and its streams are spawned next to the requests, on the same thread.
#[derive(Clone)]
pub struct Local;

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for Local {
    fn execute(&self, future: F) {
        spawn_local(future);
    }
}

/// A runtime of one thread, with timers.
///
/// # Errors
/// When the system gives it no descriptors.
pub fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// # Errors
/// When there is no such server.
pub async fn connect(url: &Uri) -> Result<TcpStream, Failure> {
    let usual = if is_tls(url) { 443 } else { 80 };
    let tcp = TcpStream::connect((host(url)?, url.port_u16().unwrap_or(usual))).await?;
    tcp.set_nodelay(true)?;
    Ok(tcp)
}

/// TLS on a connection, for `alpn` alone, trusting the certificates in the file `cacert`.
///
/// # Errors
/// When the handshake fails, or the server does not speak the protocol.
pub async fn secure(tcp: TcpStream, url: &Uri, cacert: &str, alpn: &[u8]) -> Result<Secure, Failure> {
    let name = ServerName::try_from(host(url)?.to_owned())?;
    let tls = TlsConnector::from(Arc::new(tls(cacert, alpn)?));
    let stream = tls.connect(name, BufReader::with_capacity(256 << 10, tcp)).await?;
    if stream.get_ref().1.alpn_protocol() != Some(alpn) {
        return Err(format!("the server does not speak {}", String::from_utf8_lossy(alpn)).into());
    }
    Ok(stream)
}

pub fn is_tls(url: &Uri) -> bool {
    url.scheme_str() == Some("https")
}

fn host(url: &Uri) -> Result<&str, Failure> {
    Ok(url.host().ok_or("the URL names no host")?.trim_matches(['[', ']']))
}

fn tls(cacert: &str, alpn: &[u8]) -> Result<ClientConfig, Failure> {
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
    config.alpn_protocols = vec![alpn.to_vec()];
    Ok(config)
}

/// Seconds of the process, user and system.
#[must_use]
pub fn cpu() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: getrusage fills what it is given, and all zeroes are a rusage as well.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
