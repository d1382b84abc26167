//! The peer of `ferry get` and `ferry put` in benchmarks: one file over HTTP/1.1 or h2 with hyper, to a file or discarded.
//!
//! The limit is what a user of hyper writes, because hyper has none: before a piece of the body is taken or given, sleep until the bytes so
//! far were due. tokio's timers count milliseconds. What the server sends meanwhile waits in hyper's windows over h2.
//!
//! hyper's own windows (2 MB for a stream) are too small for a long fat link, and large ones cost time and memory where the link is fast:
//! hyper reads all that has come before the body is asked for. So the window is an option, as it is the user's choice; over HTTP/1.1 it is the
//! size of hyper's read buffer. A limited download needs a small one, because what it holds comes at once.
//!
//! The last line on standard output is the report: bytes and seconds since the start; downloads also have the times of the first body byte and
//! of the body. An upload's body is timed on the wire: hyper does not tell when its last byte has left.

use std::fs::File;
use std::io::{Read, Write};
use std::pin::Pin;
use std::process::ExitCode;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Either, Empty};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::{http1, http2};
use hyper_peers::{Failure, Local, connect, is_tls, runtime, secure};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Sleep, sleep, sleep_until};

type Sent = Either<Empty<Bytes>, FileBody>;

const USAGE: &str = "usage: hyper-transfer [--http1.1|--http2] [--cacert FILE] [--limit-rate BYTES_PER_SECOND] [--window BYTES] get URL [-o FILE] | put FILE URL";
/// What one read of the file takes. Under a limit less, so that a piece is not a burst.
const PIECE: usize = 64 << 10;
const LIMITED_PIECE: usize = 16 << 10;
/// hyper takes no smaller one.
const LEAST_HTTP1_BUFFER: usize = 8 << 10;

#[derive(Default)]
struct Options {
    url: Uri,
    http2: bool,
    cacert: String,
    limit: Option<f64>,
    window: Option<u32>,
    upload: Option<String>,
    output: Option<String>,
}

/// Bytes of the body, and when they are due.
struct Pace {
    limit: Option<f64>,
    begun: Option<Instant>,
    bytes: u64,
}

impl Pace {
    fn new(limit: Option<f64>) -> Self {
        Self {
            limit,
            begun: None,
            bytes: 0,
        }
    }

    fn moved(&mut self, count: usize) {
        self.begun.get_or_insert_with(Instant::now);
        self.bytes += count as u64;
    }

    /// When all bytes so far are due; none without a limit.
    fn due(&self) -> Option<tokio::time::Instant> {
        let seconds = self.bytes as f64 / self.limit?;
        Some((self.begun? + Duration::from_secs_f64(seconds)).into())
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words == ["--version"] {
        println!("hyper-transfer with hyper {}", hyper_version());
        return ExitCode::SUCCESS;
    }
    let done = options(words.into_iter()).and_then(|options| {
        let local = LocalSet::new();
        local.block_on(&runtime()?, transfer(&options))
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hyper-transfer: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The version of hyper that this program was built with.
fn hyper_version() -> &'static str {
    let lock = include_str!("../../Cargo.lock");
    let after = lock.split("name = \"hyper\"\nversion = \"").nth(1);
    after.and_then(|text| text.split('"').next()).unwrap_or("unknown")
}

fn options(mut words: impl Iterator<Item = String>) -> Result<Options, Failure> {
    let mut options = Options::default();
    let mut places = Vec::new();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(USAGE);
        match word.as_str() {
            "--http1.1" => options.http2 = false,
            "--http2" => options.http2 = true,
            "--cacert" => options.cacert = value()?,
            "--limit-rate" => options.limit = Some(value()?.parse()?),
            "--window" => options.window = Some(value()?.parse()?),
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
    if options.limit.is_some_and(|limit| !limit.is_normal() || limit < 0.0) || (options.http2 && !is_tls(&options.url))
    {
        return Err(USAGE.into());
    }
    Ok(options)
}

async fn transfer(options: &Options) -> Result<(), Failure> {
    let start = Instant::now();
    let request = request(options)?;
    let tcp = connect(&options.url).await?;
    if !is_tls(&options.url) {
        return exchange(options, tcp, request, start).await;
    }
    let alpn: &[u8] = if options.http2 { b"h2" } else { b"http/1.1" };
    let stream = secure(tcp, &options.url, &options.cacert, alpn).await?;
    exchange(options, stream, request, start).await
}

fn request(options: &Options) -> Result<Request<Sent>, Failure> {
    let url = &options.url;
    let builder = if options.http2 {
        Request::builder().uri(url.clone())
    } else {
        // HTTP/1.1 has the host in a field and only the path in the first line.
        let host = url.authority().ok_or("the URL names no host")?.as_str();
        let path = url.path_and_query().map_or("/", |path| path.as_str());
        Request::builder().uri(path).header(http::header::HOST, host)
    };
    Ok(match &options.upload {
        None => builder.body(Either::Left(Empty::new()))?,
        Some(path) => builder
            .method("PUT")
            .body(Either::Right(FileBody::open(path, options.limit)?))?,
    })
}

async fn exchange<S>(options: &Options, stream: S, request: Request<Sent>, start: Instant) -> Result<(), Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = TokioIo::new(stream);
    if options.http2 {
        let mut builder = http2::Builder::new(Local);
        if let Some(window) = options.window {
            builder
                .initial_stream_window_size(window)
                .initial_connection_window_size(window);
        }
        let (mut sender, connection) = builder.handshake(stream).await?;
        spawn_local(connection);
        receive(options, sender.send_request(request).await?, start).await
    } else {
        let mut builder = http1::Builder::new();
        if let Some(window) = options.window {
            builder.max_buf_size((window as usize).max(LEAST_HTTP1_BUFFER));
        }
        let (mut sender, connection) = builder.handshake(stream).await?;
        spawn_local(connection);
        receive(options, sender.send_request(request).await?, start).await
    }
}

/// Takes the answer's body, and prints the report.
async fn receive(options: &Options, answer: Response<Incoming>, start: Instant) -> Result<(), Failure> {
    if !answer.status().is_success() {
        return Err(format!("the server answered {}", answer.status()).into());
    }
    let mut body = answer.into_body();
    let mut output = options.output.as_ref().map(File::create).transpose()?;
    let limit = options.limit.filter(|_| options.upload.is_none());
    let mut pace = Pace::new(limit);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        pace.moved(data.len());
        if let Some(file) = &mut output {
            file.write_all(&data)?;
        }
        if let Some(due) = pace.due() {
            sleep_until(due).await;
        }
    }
    let total_s = start.elapsed().as_secs_f64();
    if let Some(path) = &options.upload {
        let bytes = std::fs::metadata(path)?.len();
        println!(r#"{{"bytes":{bytes},"total_s":{total_s:.6}}}"#);
    } else {
        let begun = pace.begun.unwrap_or_else(Instant::now);
        let (first_s, body_s) = ((begun - start).as_secs_f64(), begun.elapsed().as_secs_f64());
        let bytes = pace.bytes;
        println!(r#"{{"bytes":{bytes},"total_s":{total_s:.6},"first_byte_s":{first_s:.6},"body_s":{body_s:.6}}}"#);
    }
    Ok(())
}

/// A file as the body of a request. Reads block, as a read of the page cache hardly does.
struct FileBody {
    file: File,
    left: u64,
    pace: Pace,
    wait: Pin<Box<Sleep>>,
}

impl FileBody {
    fn open(path: &str, limit: Option<f64>) -> std::io::Result<Self> {
        let file = File::open(path)?;
        let left = file.metadata()?.len();
        Ok(Self {
            file,
            left,
            pace: Pace::new(limit),
            wait: Box::pin(sleep(Duration::ZERO)),
        })
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        if let Some(due) = self.pace.due() {
            if self.wait.deadline() != due {
                self.wait.as_mut().reset(due);
            }
            ready!(self.wait.as_mut().poll(cx));
        }
        let piece = if self.pace.limit.is_some() {
            LIMITED_PIECE
        } else {
            PIECE
        };
        let mut data = vec![0; piece.min(usize::try_from(self.left).unwrap_or(piece))];
        self.file.read_exact(&mut data)?;
        self.left -= data.len() as u64;
        self.pace.moved(data.len());
        Poll::Ready(Some(Ok(Frame::data(data.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
