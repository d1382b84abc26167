//! The peer of `ferry-bench` in benchmarks: many requests for one URL, done with hyper.
//!
//! One connection, one thread, and what arrives is discarded. Like ferry's, the clock and the CPU time begin when TCP and TLS are up.

use std::cell::Cell;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use http::{Request, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2;
use hyper_peers::{CONNECTION_WINDOW, Failure, Local, STREAM_WINDOW, Secure, connect, cpu, runtime, secure};
use hyper_util::rt::TokioIo;
use tokio::task::{LocalSet, spawn_local};

type Get = Request<Empty<Bytes>>;
type Sender = http2::SendRequest<Empty<Bytes>>;

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
    let runtime = runtime()?;
    let tally = Rc::<Tally>::default();
    tally.left.set(options.requests);
    let local = LocalSet::new();
    let stream = local.block_on(&runtime, async {
        let tcp = connect(&options.url).await?;
        secure(tcp, &options.url, &options.cacert, b"h2").await
    })?;
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

async fn run(options: &Options, stream: Secure, tally: &Rc<Tally>) -> Result<(), Failure> {
    let (sender, connection) = http2::Builder::new(Local)
        .adaptive_window(false)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
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
