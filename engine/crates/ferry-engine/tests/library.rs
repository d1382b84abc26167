//! The engine as another program uses it: options in, a report out, errors with their sources.

use std::error::Error as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use ferry_engine::download;
use ferry_engine::error::{Class, Failure};
use ferry_engine::observer::Silent;
use ferry_engine::options::{GetOptions, Target};
use ferry_engine::remote::parse_remote;
use ferry_engine::report::Report;

/// Answers every connection with these bytes, once it has sent something.
fn server(answer: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let _ = connection.read(&mut [0; 4096]);
            let _ = connection.write_all(answer);
        }
    });
    address
}

fn get(url: &str, target: Target) -> Report {
    let mut options = GetOptions::new(parse_remote(url).unwrap(), target);
    options.transfer.retries = 0;
    options.common.timeouts.stall = Duration::from_secs(5);
    options.common.insecure = true;
    download(&options, &Silent)
}

fn below<T: std::error::Error + 'static>(failure: &Failure) -> &T {
    let source = failure.source().expect("the error below");
    source.downcast_ref().unwrap_or_else(|| panic!("{source:?}"))
}

#[test]
fn a_download_is_in_the_file_and_in_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let address = server(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    let report = get(&format!("http://{address}/x"), Target::File(file.clone()));
    assert!(report.first_failure().is_none(), "{report:?}");
    assert_eq!(std::fs::read(file).unwrap(), b"hello");
    assert_eq!(report.transfers[0].bytes, 5);
}

#[test]
fn errors_have_the_class_and_the_error_below() {
    let refused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let report = get(&format!("http://{refused}/"), Target::Discard);
    let failure = report.first_failure().unwrap();
    assert_eq!(failure.class, Class::Transient);
    assert_eq!(below::<io::Error>(failure).kind(), io::ErrorKind::ConnectionRefused);

    let garbage = server(b"HTTP/9 what?\r\n\r\n");
    let report = get(&format!("http://{garbage}/"), Target::Discard);
    let failure = report.first_failure().unwrap();
    assert_eq!(failure.class, Class::Integrity);
    below::<ferry_http::FrameError>(failure);

    let report = get(&format!("https://{garbage}/"), Target::Discard);
    let failure = report.first_failure().unwrap();
    assert_eq!(failure.class, Class::Permanent);
    below::<rustls::Error>(failure);
}

#[test]
fn a_file_that_cannot_be_written_is_a_local_error_before_the_server_is_asked() {
    let nobody = "http://192.0.2.1/x";
    let report = get(nobody, Target::File(Path::new("/nowhere/file").to_owned()));
    let failure = report.first_failure().unwrap();
    assert_eq!(failure.class, Class::Local);
    assert!(report.transfers.is_empty());
}

#[test]
fn the_example_downloads_under_a_limit_and_prints_progress() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let body = "x".repeat(300_000);
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let address = server(answer.leak().as_bytes());
    let example = |rate: &str| {
        Command::new(env!("CARGO"))
            .args(["run", "--quiet", "--locked", "--offline", "--example", "download", "--"])
            .args([&format!("http://{address}/x"), file.to_str().unwrap(), rate])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap()
    };
    let done = example("1MB/s");
    let (lines, errors) = (
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr),
    );
    assert!(done.status.success(), "{lines}{errors}");
    assert!(lines.contains("300000 bytes in all"), "{lines}");
    assert!(lines.lines().count() >= 3, "{lines}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), body);

    // The file exists now.
    let refused = example("1MB/s");
    assert!(!refused.status.success());
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("exists"),
        "{refused:?}"
    );
}
