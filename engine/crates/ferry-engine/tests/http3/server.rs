//! An HTTP/3 server of quinn and h3, as odd as a test wants it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use h3::error::Code;
use h3::server::{Connection, RequestStream};
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use quinn::crypto::rustls::QuicServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;

type Stream = RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>;
type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// The server's record of requests, uploads and connections.
#[derive(Default)]
pub struct Seen {
    pub requests: Vec<(Method, String, HeaderMap)>,
    pub uploads: Vec<Vec<u8>>,
    /// For each piece: the time since the body began, and the body bytes that QUIC had taken by then.
    pub written: Vec<(Duration, u64)>,
    pub connections: usize,
    /// Connections that have not ended yet.
    pub open: usize,
    /// The largest value that `open` has had.
    pub most_open: usize,
}

pub struct Server {
    pub address: SocketAddr,
    /// PEM of its certificate.
    pub ca: PathBuf,
    pub seen: Arc<Mutex<Seen>>,
    _folder: tempfile::TempDir,
    _runtime: tokio::runtime::Runtime,
}

/// The content of every file, up to a length.
pub fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| u8::try_from(at * 31 % 251).unwrap()).collect()
}

/// The content that every file has once it has changed.
pub fn changed(length: usize) -> Vec<u8> {
    content(length).into_iter().rev().collect()
}

impl Server {
    pub fn start() -> Self {
        Self::offering(&[b"h3"])
    }

    /// With these protocols of ALPN.
    pub fn offering(protocols: &[&[u8]]) -> Self {
        Self::with(protocols, None)
    }

    /// Serves only clients with a certificate that this one has signed.
    pub fn asking_for(client: &rcgen::Certificate) -> Self {
        Self::with(&[b"h3"], Some(client.der().clone()))
    }

    fn with(protocols: &[&[u8]], client: Option<CertificateDer<'static>>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let certified = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        let ca = folder.path().join("ca.pem");
        std::fs::write(&ca, certified.cert.pem()).unwrap();
        let chain = vec![CertificateDer::from(certified.cert)];
        let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = if let Some(client) = client {
            let mut roots = rustls::RootCertStore::empty();
            roots.add(client).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        } else {
            builder.with_no_client_auth()
        };
        let mut tls = builder.with_single_cert(chain, key).unwrap();
        tls.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let config = quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).unwrap()));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let guard = runtime.enter();
        let endpoint = quinn::Endpoint::server(config, SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        drop(guard);
        let address = endpoint.local_addr().unwrap();
        let shared = Arc::clone(&seen);
        runtime.spawn(async move {
            while let Some(incoming) = endpoint.accept().await {
                tokio::spawn(serve(incoming, Arc::clone(&shared)));
            }
        });
        Self {
            address,
            ca,
            seen,
            _folder: folder,
            _runtime: runtime,
        }
    }

    pub fn url(&self, path: &str) -> String {
        format!("https://localhost:{}/{path}", self.address.port())
    }
}

async fn serve(incoming: quinn::Incoming, seen: Arc<Mutex<Seen>>) {
    let Ok(quic) = incoming.await else { return };
    {
        let mut seen = seen.lock().unwrap();
        seen.connections += 1;
        seen.open += 1;
        seen.most_open = seen.most_open.max(seen.open);
    }
    requests(quic, Arc::clone(&seen)).await;
    seen.lock().unwrap().open -= 1;
}

async fn requests(quic: quinn::Connection, seen: Arc<Mutex<Seen>>) {
    let handle = quic.clone();
    let Ok(mut connection) = Connection::<_, Bytes>::new(h3_quinn::Connection::new(quic)).await else {
        return;
    };
    while let Ok(Some(resolver)) = connection.accept().await {
        let Ok((request, stream)) = resolver.resolve_request().await else {
            return;
        };
        let (method, path) = (
            request.method().clone(),
            request.uri().path().trim_matches('/').to_owned(),
        );
        let fields = request.headers().clone();
        seen.lock().unwrap().requests.push((method, path.clone(), fields));
        if path.starts_with("close") {
            // With the request on its way.
            handle.close(0x100_u32.into(), b"");
            return;
        }
        let shared = Arc::clone(&seen);
        tokio::spawn(async move {
            let _ = answer(request, stream, shared, &path).await;
        });
    }
}

async fn answer(request: Request<()>, mut stream: Stream, seen: Arc<Mutex<Seen>>, path: &str) -> Outcome {
    let words: Vec<_> = path.split('/').collect();
    let respond = |status: u16| Response::builder().status(status);
    match (request.method().as_str(), words.as_slice()) {
        ("PUT", ["early"]) => {
            // It never reads the body.
            stream.stop_sending(Code::H3_NO_ERROR);
            stream.send_response(respond(200).body(())?).await?;
            stream.finish().await?;
        }
        ("PUT", ["full"]) => {
            stream.stop_sending(Code::H3_NO_ERROR);
            stream.send_response(respond(507).body(())?).await?;
            stream.finish().await?;
        }
        ("PUT", _) => {
            let mut body = Vec::new();
            while let Some(mut piece) = stream.recv_data().await? {
                let count = piece.remaining();
                body.extend_from_slice(&piece.copy_to_bytes(count));
            }
            seen.lock().unwrap().uploads.push(body);
            stream.send_response(respond(201).body(())?).await?;
            stream.finish().await?;
        }
        (_, ["to", rest @ ..]) => {
            let answer = respond(302).header(header::LOCATION, format!("/{}", rest.join("/")));
            stream.send_response(answer.body(())?).await?;
            stream.finish().await?;
        }
        (_, ["status", code]) => {
            stream.send_response(respond(code.parse()?).body(())?).await?;
            stream.finish().await?;
        }
        (_, ["reset", code]) => stream.stop_stream(Code::from(code.parse::<u64>()?)),
        (_, ["short", size]) => {
            let size: usize = size.parse()?;
            let answer = respond(200).header(header::CONTENT_LENGTH, size + 1);
            stream.send_response(answer.body(())?).await?;
            stream.send_data(Bytes::from(content(size))).await?;
            stream.finish().await?;
        }
        // Half of it, once for each file; then the path goes dark for this stream.
        (_, ["cut", size]) => {
            let size: usize = size.parse()?;
            let first = seen.lock().unwrap().requests.len() == 1;
            file(&request, &mut stream, &seen, size, first.then_some(size / 2)).await?;
            if first {
                stream.stop_stream(Code::H3_INTERNAL_ERROR);
            } else {
                stream.finish().await?;
            }
        }
        (_, ["versions", how, size]) => versions(&request, &mut stream, &seen, how, size.parse()?).await?,
        // Without a length, in frames of `frame` bytes.
        (_, ["frames", size, frame]) => {
            stream.send_response(respond(200).body(())?).await?;
            body(&mut stream, &seen, &content(size.parse()?), frame.parse()?).await?;
            stream.finish().await?;
        }
        (_, [size]) => {
            file(&request, &mut stream, &seen, size.parse()?, None).await?;
            stream.finish().await?;
        }
        _ => stream.stop_stream(Code::H3_INTERNAL_ERROR),
    }
    Ok(())
}

/// First byte and end of `bytes=FIRST-` or `bytes=FIRST-LAST`.
fn range(text: &str, size: usize) -> Option<(usize, usize)> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let end = if last.is_empty() {
        size
    } else {
        size.min(last.parse::<usize>().ok()? + 1)
    };
    Some((first.parse().ok()?, end))
}

/// Answers a GET, with ranges; at most `most` bytes of it.
async fn file(
    request: &Request<()>,
    stream: &mut Stream,
    seen: &Mutex<Seen>,
    size: usize,
    most: Option<usize>,
) -> Outcome {
    let asked = request.headers().get(header::RANGE).and_then(|text| text.to_str().ok());
    let asked = asked.and_then(|text| range(text, size));
    let (from, to) = asked.unwrap_or((0, size));
    let content = Bytes::from(content(size)).slice(from..to);
    let mut answer = Response::builder()
        .header(header::CONTENT_LENGTH, content.len())
        .header(header::ETAG, "\"one\"")
        .header(header::ACCEPT_RANGES, "bytes");
    if asked.is_some() {
        let range = format!("bytes {from}-{}/{size}", to - 1);
        answer = answer
            .status(StatusCode::PARTIAL_CONTENT)
            .header(header::CONTENT_RANGE, range);
    }
    stream.send_response(answer.body(())?).await?;
    body(
        stream,
        seen,
        content.get(..most.unwrap_or(content.len())).unwrap_or_default(),
        4096,
    )
    .await
}

/// Half of a file until a part is asked for; then an answer that does not go with that half. Who begins again after that is given another version, or
/// the same odd answer.
async fn versions(request: &Request<()>, stream: &mut Stream, seen: &Mutex<Seen>, how: &str, size: usize) -> Outcome {
    let parts = |seen: &Seen| {
        let asked = |(_, _, fields): &&(Method, String, HeaderMap)| fields.contains_key(header::RANGE);
        seen.requests.iter().filter(asked).count()
    };
    let asked = request.headers().get(header::RANGE).and_then(|text| text.to_str().ok());
    let from = asked.and_then(|text| range(text, size)).map(|(from, _)| from);
    let first = from.is_none() && parts(&seen.lock().unwrap()) == 0;
    let from = from.unwrap_or(0);
    let rest = |bytes: Vec<u8>| bytes.get(from..).unwrap_or_default().to_vec();
    let of = format!("bytes {from}-{}/{size}", size - 1);
    let (status, etag, of, body_of) = match (how, from) {
        ("whole", _) if !first => (200, "\"one\"", None, content(size - size / 4)),
        _ if first => (200, "\"one\"", None, content(size)),
        ("416", 1..) => (416, "", Some(format!("bytes */{from}")), Vec::new()),
        ("another", 1..) => (206, "\"two\"", Some(of), rest(changed(size))),
        ("none", 1..) => (206, "", Some(of), rest(changed(size))),
        ("fewer", 1..) => (206, "\"one\"", Some(of), rest(content(size - 1))),
        _ => (200, "\"two\"", None, changed(size)),
    };
    let mut answer = Response::builder().status(status);
    if how != "fewer" || first {
        answer = answer.header(header::CONTENT_LENGTH, body_of.len());
    }
    if !etag.is_empty() {
        answer = answer.header(header::ETAG, etag);
    }
    if let Some(of) = of {
        answer = answer.header(header::CONTENT_RANGE, of);
    }
    stream.send_response(answer.body(())?).await?;
    let most = if first { size / 2 } else { body_of.len() };
    body(stream, seen, body_of.get(..most).unwrap_or_default(), 4096).await?;
    if first {
        // A reset overtakes what was sent before it; a request that has nothing of it is answered so again.
        tokio::time::sleep(Duration::from_millis(50)).await;
        stream.stop_stream(Code::H3_INTERNAL_ERROR);
    } else {
        stream.finish().await?;
    }
    Ok(())
}

/// Sends `content` in frames of `frame` bytes.
async fn body(stream: &mut Stream, seen: &Mutex<Seen>, content: &[u8], frame: usize) -> Outcome {
    let begin = Instant::now();
    let mut written = 0;
    for piece in content.chunks(frame) {
        stream.send_data(Bytes::copy_from_slice(piece)).await?;
        written += piece.len() as u64;
        seen.lock().unwrap().written.push((begin.elapsed(), written));
    }
    Ok(())
}
