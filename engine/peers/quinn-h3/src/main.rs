//! The peer of `ferry get` and `ferry put` over HTTP/3 in benchmarks: one file with quinn and h3, both with their default settings.
//!
//! quinn's own example speaks HTTP/0.9 under a draft's name, which no server of the lab knows. This is its nearest relative: quinn's endpoint and
//! runtime as the example has them, and h3's client on it as h3's example has it.
//!
//! The last line on standard output is the report: bytes and seconds since the start; downloads also have the times of the first body byte and
//! of the body. An upload's body is timed on the wire.

use std::error::Error;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Buf, Bytes};
use http::{Request, Uri};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Endpoint};
use rustls::RootCertStore;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

type Failure = Box<dyn Error>;

const USAGE: &str = "usage: quinn-h3 --cacert FILE get URL [-o FILE] | put FILE URL";
/// What one read of the file takes.
const PIECE: usize = 64 << 10;

#[derive(Default)]
struct Options {
    url: Uri,
    cacert: String,
    upload: Option<String>,
    output: Option<String>,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words == ["--version"] {
        let version = |name: &str| locked(name).unwrap_or("unknown");
        println!("quinn-h3 with quinn {} and h3 {}", version("quinn"), version("h3"));
        return ExitCode::SUCCESS;
    }
    let done = options(words.into_iter()).and_then(|options| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(transfer(&options))
    });
    match done {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("quinn-h3: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The version of a crate that this program was built with.
fn locked(name: &str) -> Option<&'static str> {
    let lock = include_str!("../Cargo.lock");
    let after = lock.split(&format!("name = \"{name}\"\nversion = \"")).nth(1)?;
    after.split('"').next()
}

fn options(mut words: impl Iterator<Item = String>) -> Result<Options, Failure> {
    let mut options = Options::default();
    let mut places = Vec::new();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(USAGE);
        match word.as_str() {
            "--cacert" => options.cacert = value()?,
            "-o" => options.output = Some(value()?),
            _ if word.starts_with('-') => return Err(USAGE.into()),
            _ => places.push(word),
        }
    }
    match places.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["get", url] => options.url = url.parse()?,
        ["put", file, url] => (options.upload, options.url) = (Some(file.to_owned()), url.parse()?),
        _ => return Err(USAGE.into()),
    }
    Ok(options)
}

fn config(cacert: &str) -> Result<ClientConfig, Failure> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(cacert)? {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    Ok(ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?)))
}

/// Moves the file; the report.
async fn transfer(options: &Options) -> Result<String, Failure> {
    let start = Instant::now();
    let host = options.url.host().ok_or("the URL names no host")?;
    let name = host.trim_matches(['[', ']']);
    let port = options.url.port_u16().unwrap_or(443);
    let remote = (name, port).to_socket_addrs()?.next().ok_or("the host has no address")?;
    let local: SocketAddr = if remote.is_ipv6() {
        (Ipv6Addr::UNSPECIFIED, 0).into()
    } else {
        (Ipv4Addr::UNSPECIFIED, 0).into()
    };
    let mut endpoint = Endpoint::client(local)?;
    endpoint.set_default_client_config(config(&options.cacert)?);
    let connection = endpoint.connect(remote, name)?.await?;
    let (mut driver, mut requests) = h3::client::new(h3_quinn::Connection::new(connection)).await?;
    let drive = async move { std::future::poll_fn(|context| driver.poll_close(context)).await };
    let driving = tokio::spawn(drive);
    let report = exchange(options, &mut requests, start).await;
    // Without a request that may follow, the driver closes the connection.
    drop(requests);
    let _ = driving.await;
    endpoint.wait_idle().await;
    report
}

async fn exchange(
    options: &Options,
    requests: &mut h3::client::SendRequest<h3_quinn::OpenStreams, Bytes>,
    start: Instant,
) -> Result<String, Failure> {
    let mut request = Request::builder().uri(options.url.clone());
    let mut file = options.upload.as_ref().map(File::open).transpose()?;
    let size = file.as_ref().map(File::metadata).transpose()?.map(|facts| facts.len());
    if let Some(size) = size {
        request = request.method("PUT").header(http::header::CONTENT_LENGTH, size);
    }
    let mut stream = requests.send_request(request.body(())?).await?;
    while let Some(source) = &mut file {
        let mut piece = vec![0; PIECE];
        let count = source.read(&mut piece)?;
        if count == 0 {
            break;
        }
        piece.truncate(count);
        stream.send_data(piece.into()).await?;
    }
    stream.finish().await?;
    let answer = stream.recv_response().await?;
    if !answer.status().is_success() {
        return Err(format!("the server answered {}", answer.status()).into());
    }
    let mut output = options.output.as_ref().map(File::create).transpose()?;
    let (mut bytes, mut begun) = (0, None);
    while let Some(mut data) = stream.recv_data().await? {
        begun.get_or_insert_with(Instant::now);
        while data.has_remaining() {
            let piece = data.chunk();
            if let Some(file) = &mut output {
                file.write_all(piece)?;
            }
            let count = piece.len();
            bytes += count;
            data.advance(count);
        }
    }
    let total_s = start.elapsed().as_secs_f64();
    if let Some(size) = size {
        return Ok(format!(r#"{{"bytes":{size},"total_s":{total_s:.6}}}"#));
    }
    let begun: Instant = begun.unwrap_or_else(Instant::now);
    let (first_s, body_s) = ((begun - start).as_secs_f64(), begun.elapsed().as_secs_f64());
    Ok(format!(
        r#"{{"bytes":{bytes},"total_s":{total_s:.6},"first_byte_s":{first_s:.6},"body_s":{body_s:.6}}}"#
    ))
}
