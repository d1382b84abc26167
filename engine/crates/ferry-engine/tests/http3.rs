//! HTTP/3 against a server of quinn and h3, over UDP on the loopback.

use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ferry_engine::error::Class;
use ferry_engine::observer::Silent;
use ferry_engine::options::{
    ClientCertificate, Common, GetOptions, Proxies, Proxy, PutOptions, Source, Target, Version,
};
use ferry_engine::remote::parse_remote;
use ferry_engine::report::Report;
use ferry_engine::{download, upload};
use http::header;

#[path = "http3/server.rs"]
mod server;

use server::{Server, changed, content};

fn common(server: &Server) -> Common {
    let mut common = Common {
        version: Version::Http3,
        ca_file: Some(server.ca.clone()),
        ..Common::default()
    };
    common.timeouts.stall = Duration::from_secs(20);
    common
}

fn get_options(server: &Server, path: &str, target: Target) -> GetOptions {
    let mut options = GetOptions::new(parse_remote(&server.url(path)).unwrap(), target);
    options.common = common(server);
    options.transfer.retry_max_wait = Duration::from_millis(10);
    options
}

fn get(server: &Server, path: &str, file: &Path) -> Report {
    download(&get_options(server, path, Target::File(file.to_owned())), &Silent)
}

fn put_options(server: &Server, path: &str, source: &Path) -> PutOptions {
    let remote = parse_remote(&server.url(path)).unwrap();
    let mut options = PutOptions::new(Source::File(source.to_owned()), remote);
    options.common = common(server);
    options.transfer.retry_max_wait = Duration::from_millis(10);
    options
}

fn temporary(content: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(content).unwrap();
    file
}

/// The class and the words of the one failure.
fn failure(report: &Report) -> (Class, String) {
    let failure = report.first_failure().unwrap_or_else(|| panic!("{report:?}"));
    (failure.class, failure.message.clone())
}

fn succeeded(report: &Report) {
    assert!(report.ok, "{:?}", report.first_failure());
}

#[test]
fn a_download_is_what_the_server_has() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    for size in [0, 1, 1200, 3_000_000] {
        let file = folder.path().join(size.to_string());
        let report = get(&server, &size.to_string(), &file);
        succeeded(&report);
        assert_eq!(std::fs::read(file).unwrap(), content(size), "{size}");
        let transfer = &report.transfers[0];
        assert_eq!((transfer.protocol, transfer.status), (Some("h3"), Some(200)));
        assert_eq!(transfer.remote, Some(server.address.to_string()));
        assert_eq!(transfer.tls.as_ref().unwrap().version, "TLSv1.3");
        assert!(transfer.phases.connect_s.is_some() && transfer.phases.tls_s.is_some());
        assert_eq!(transfer.bytes, size as u64);
    }
}

#[test]
fn many_downloads_share_a_connection() {
    let server = Server::start();
    let mut options = get_options(&server, "1000", Target::Discard);
    options.sources = (0..20)
        .map(|number| parse_remote(&server.url(&(1000 * number).to_string())).unwrap())
        .collect();
    let report = download(&options, &Silent);
    succeeded(&report);
    assert_eq!(report.transfers.len(), 20);
    assert_eq!(server.seen.lock().unwrap().connections, 1);
}

#[test]
fn an_upload_arrives_with_its_length() {
    let server = Server::start();
    for size in [0, 1, 2_000_000] {
        let file = temporary(&content(size));
        let report = upload(&put_options(&server, "up", file.path()), &Silent);
        succeeded(&report);
        let transfer = &report.transfers[0];
        assert_eq!((transfer.protocol, transfer.status), (Some("h3"), Some(201)));
        let mut seen = server.seen.lock().unwrap();
        assert_eq!(seen.uploads.pop().unwrap(), content(size), "{size}");
        let (_, _, fields) = seen.requests.pop().unwrap();
        assert_eq!(fields.get(header::CONTENT_LENGTH).unwrap(), &size.to_string());
    }
}

#[test]
fn a_redirect_is_followed_and_a_status_has_its_class() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let report = get(&server, "to/700", &folder.path().join("file"));
    succeeded(&report);
    assert_eq!(report.transfers[0].final_url, Some(server.url("700")));
    assert_eq!(report.transfers[0].bytes, 700);
    for (status, class, attempts) in [(404, Class::Permanent, 1), (503, Class::Transient, 4)] {
        let report = get(&server, &format!("status/{status}"), &folder.path().join("none"));
        assert_eq!(failure(&report).0, class, "{status}");
        assert_eq!(report.transfers[0].status, Some(status));
        assert_eq!(report.transfers[0].attempts.len(), attempts);
    }
}

#[test]
fn what_was_cut_off_goes_on_where_it_ended() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let report = get(&server, "cut/1000000", &file);
    succeeded(&report);
    assert_eq!(std::fs::read(file).unwrap(), content(1_000_000));
    let attempts = &report.transfers[0].attempts;
    assert_eq!(attempts.len(), 2);
    // A reset overtakes what was sent before it.
    assert!(attempts[1].offset <= 500_000);
    let error = attempts[0].error.as_ref().unwrap();
    assert_eq!(error.class, Class::Transient, "{error:?}");
    assert!(error.message.contains("H3_INTERNAL_ERROR"), "{error:?}");
}

#[test]
fn the_file_is_one_version_or_the_run_fails() {
    const SIZE: usize = 200_000;
    for (how, expected) in [
        ("another", Ok(())),
        ("none", Ok(())),
        ("416", Ok(())),
        ("whole", Err((Class::Transient, "150000 bytes for the version"))),
        ("fewer", Err((Class::Integrity, "bytes were announced and"))),
    ] {
        let server = Server::start();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let report = get(&server, &format!("versions/{how}/{SIZE}"), &file);
        match expected {
            Ok(()) => {
                succeeded(&report);
                assert!(std::fs::read(file).unwrap() == changed(SIZE), "{how}");
            }
            Err((class, words)) => {
                let (found, message) = failure(&report);
                assert_eq!(found, class, "{how}: {message}");
                assert!(message.contains(words), "{how}: {message}");
                assert!(!file.exists(), "{how}");
            }
        }
        let seen = server.seen.lock().unwrap();
        let parts = seen
            .requests
            .iter()
            .filter(|(_, _, fields)| fields.contains_key(header::RANGE));
        assert!(parts.count() > 0, "{how}");
    }
}

#[test]
fn a_range_of_a_file_is_fetched() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let mut options = get_options(&server, "5000", Target::File(file.clone()));
    options.range = Some(ferry_engine::options::ByteRange::From(4000));
    let report = download(&options, &Silent);
    succeeded(&report);
    assert_eq!(std::fs::read(file).unwrap(), content(5000)[4000..]);
    assert_eq!(report.transfers[0].status, Some(206));
}

#[test]
fn an_answer_that_breaks_its_promise_is_an_integrity_problem() {
    let server = Server::start();
    let report = download(&get_options(&server, "short/1000", Target::Discard), &Silent);
    let (class, message) = failure(&report);
    assert_eq!(class, Class::Integrity);
    assert!(message.contains("1001 bytes were announced and 1000 came"), "{message}");
}

#[test]
fn a_request_that_was_rejected_costs_an_attempt_only_if_nothing_else_was_served() {
    let server = Server::start();
    let mut options = get_options(&server, "reset/267", Target::Discard);
    options.transfer.retries = 1;
    let report = download(&options, &Silent);
    let (class, message) = failure(&report);
    assert_eq!(class, Class::Transient);
    assert!(message.contains("H3_REQUEST_REJECTED"), "{message}");
    assert_eq!(report.transfers[0].attempts.len(), 2);
}

#[test]
fn a_server_that_closes_is_asked_again() {
    let server = Server::start();
    let mut options = get_options(&server, "close", Target::Discard);
    options.transfer.retries = 2;
    let report = download(&options, &Silent);
    let (class, message) = failure(&report);
    assert_eq!(class, Class::Transient);
    assert!(message.contains("connection to localhost lost"), "{message}");
    assert_eq!(server.seen.lock().unwrap().connections, 3);
}

#[test]
fn a_limited_download_takes_its_time_and_the_server_cannot_run_ahead() {
    const LIMIT: u64 = 400_000;
    // One frame for each 4096 bytes, or many small ones, of which h3 would hold more and more.
    for path in ["300000", "frames/300000/200"] {
        let server = Server::start();
        let mut options = get_options(&server, path, Target::Discard);
        options.transfer.limit = Some("400kB/s".parse().unwrap());
        let report = download(&options, &Silent);
        succeeded(&report);
        let transfer = &report.transfers[0];
        // Bytes leave at their deadlines and never before.
        assert!(transfer.phases.body_s.unwrap() >= 0.7499, "{:?}", transfer.phases);
        // Without the limit everything would be written at once. The later it is, the more is allowed; a busy machine has a longer round trip.
        for (since, written) in &server.seen.lock().unwrap().written {
            let allowed = LIMIT as f64 * (since.as_secs_f64() + 0.3);
            assert!(*written as f64 <= allowed, "{path}: {written} bytes after {since:?}");
        }
    }
}

#[test]
fn a_limited_upload_takes_its_time() {
    let server = Server::start();
    let file = temporary(&content(300_000));
    let mut options = put_options(&server, "up", file.path());
    options.transfer.limit = Some("400kB/s".parse().unwrap());
    let report = upload(&options, &Silent);
    succeeded(&report);
    let transfer = &report.transfers[0];
    // The last piece leaves when the bytes before it are due.
    assert!(transfer.phases.body_s.unwrap() >= 0.74, "{:?}", transfer.phases);
    assert_eq!(server.seen.lock().unwrap().uploads[0], content(300_000));
}

#[test]
fn an_upload_is_not_believed_to_have_arrived_before_it_has_left() {
    let server = Server::start();
    let file = temporary(&content(20_000_000));
    let mut options = put_options(&server, "early", file.path());
    options.transfer.retries = 0;
    let (class, message) = failure(&upload(&options, &Silent));
    assert_eq!(class, Class::Integrity, "{message}");
    assert!(message.contains("before it had the whole upload"), "{message}");

    options.destination = parse_remote(&server.url("full")).unwrap();
    let report = upload(&options, &Silent);
    assert_eq!(report.transfers[0].status, Some(507));
    assert_eq!(failure(&report).0, Class::Permanent);
}

#[test]
fn a_certificate_that_nobody_trusts_is_a_permanent_problem_in_the_words_of_tls() {
    let (server, other) = (Server::start(), Server::start());
    let mut options = get_options(&server, "1", Target::Discard);
    options.common.ca_file = Some(other.ca.clone());
    let (class, message) = failure(&download(&options, &Silent));
    assert_eq!(class, Class::Permanent);
    assert!(message.contains("--cacert"), "{message}");
    options.common.insecure = true;
    succeeded(&download(&options, &Silent));
    options.common.pinned_keys = vec!["sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=".parse().unwrap()];
    let (class, message) = failure(&download(&options, &Silent));
    assert_eq!(class, Class::Permanent);
    // It names the key that the server has.
    let key = message.split([' ', ',']).find(|word| word.starts_with("sha256//"));
    options.common.pinned_keys = vec![key.unwrap_or_else(|| panic!("{message}")).parse().unwrap()];
    succeeded(&download(&options, &Silent));
}

#[test]
fn a_server_that_asks_for_a_certificate_serves_who_has_it_and_nobody_else() {
    let client = rcgen::generate_simple_self_signed(["client".to_owned()]).unwrap();
    let server = Server::asking_for(&client.cert);
    let chain = temporary(client.cert.pem().as_bytes());
    let key = temporary(client.signing_key.serialize_pem().as_bytes());
    let mut options = get_options(&server, "5000", Target::Discard);
    options.transfer.retries = 0;
    let (class, message) = failure(&download(&options, &Silent));
    assert_eq!(class, Class::Permanent, "{message}");
    assert!(message.contains("--cert"), "{message}");
    assert!(server.seen.lock().unwrap().requests.is_empty());

    options.common.client_certificate = Some(ClientCertificate {
        chain: chain.path().to_owned(),
        key: key.path().to_owned(),
    });
    let report = download(&options, &Silent);
    succeeded(&report);
    assert_eq!(report.transfers[0].bytes, 5000);
}

#[test]
fn the_ranges_of_a_file_come_over_several_connections() {
    const SIZE: usize = 12 << 20;
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let mut options = get_options(&server, &SIZE.to_string(), Target::File(file.clone()));
    options.connections = 3;
    let report = download(&options, &Silent);
    succeeded(&report);
    assert!(std::fs::read(file).unwrap() == content(SIZE));
    let transfer = &report.transfers[0];
    assert_eq!((transfer.protocol, transfer.attempts.len()), (Some("h3"), 1));
    assert!(transfer.ranges.unwrap() > 1, "{transfer:?}");
    let seen = server.seen.lock().unwrap();
    // Three at once: one that ends makes way for another.
    assert!((2..=3).contains(&seen.most_open), "{}", seen.most_open);
    assert!(
        seen.requests
            .iter()
            .all(|(_, _, fields)| fields.contains_key(header::RANGE))
    );
}

#[test]
fn two_downloads_share_a_limit() {
    let server = Server::start();
    let mut options = get_options(&server, "150000", Target::Discard);
    options.sources = vec![options.sources[0].clone(), parse_remote(&server.url("150001")).unwrap()];
    options.transfer.limit = Some("400kB/s".parse().unwrap());
    let begin = Instant::now();
    let report = download(&options, &Silent);
    let took = begin.elapsed();
    succeeded(&report);
    // With a limit of its own, each would take half as long.
    assert!(took >= Duration::from_millis(749), "{took:?}");
    let [one, other] = &report.transfers[..] else {
        panic!("{report:?}");
    };
    assert!(one.limit_shared && other.limit_shared);
    assert_eq!((one.bytes, other.bytes), (150_000, 150_001));
    assert_eq!(server.seen.lock().unwrap().connections, 1);
}

#[test]
fn a_server_that_speaks_something_else_over_quic_is_refused() {
    let server = Server::offering(&[b"hq-interop"]);
    let (class, message) = failure(&download(&get_options(&server, "1", Target::Discard), &Silent));
    assert_eq!(class, Class::Permanent);
    assert!(
        message.contains("does not speak the HTTP version asked for"),
        "{message}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_closed_port_is_known_at_once() {
    let server = Server::start();
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut options = get_options(&server, "1", Target::Discard);
    options.sources = vec![parse_remote(&format!("https://127.0.0.1:{}/", free.port())).unwrap()];
    options.common.timeouts.connect = Duration::from_secs(3600);
    let report = download(&options, &Silent);
    let (class, message) = failure(&report);
    assert_eq!(class, Class::Transient);
    assert!(message.contains("cannot connect to"), "{message}");
    // The server has never accepted a connection, so ferry does not try again.
    assert_eq!(report.transfers[0].attempts.len(), 1);
}

#[test]
fn a_silent_port_is_given_up_after_the_time_out() {
    let server = Server::start();
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut options = get_options(&server, "1", Target::Discard);
    let url = format!("https://127.0.0.1:{}/", silent.local_addr().unwrap().port());
    options.sources = vec![parse_remote(&url).unwrap()];
    options.common.timeouts.connect = Duration::from_millis(200);
    let (class, message) = failure(&download(&options, &Silent));
    assert_eq!(class, Class::Transient);
    assert!(
        message.contains("no answer within 0.2 s (--timeout-connect)"),
        "{message}"
    );
}

#[test]
fn a_proxy_is_refused_in_one_line() {
    let server = Server::start();
    let mut options = get_options(&server, "1", Target::Discard);
    options.common.proxies = Proxies::of(Proxy::parse("http://127.0.0.1:9").unwrap(), String::new());
    let (class, message) = failure(&download(&options, &Silent));
    assert_eq!(class, Class::Usage);
    assert!(message.contains("no proxy carries HTTP/3"), "{message}");
}

#[test]
fn with_a_fallback_a_server_without_quic_is_asked_over_tcp() {
    use std::io::Read;
    let server = Server::start();
    // A listener of TCP alone, which need not speak TLS: the bytes that it reads show that it was asked.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let asked = std::thread::spawn(move || listener.accept().unwrap().0.read(&mut [0; 5]).unwrap());
    let mut options = get_options(&server, "1", Target::Discard);
    options.sources = vec![parse_remote(&format!("https://{address}/")).unwrap()];
    options.common.version = Version::Http3First;
    options.common.timeouts.connect = Duration::from_secs(2);
    options.transfer.retries = 0;
    let report = download(&options, &Silent);
    assert!(asked.join().unwrap() > 0);
    assert_ne!(failure(&report).0, Class::Usage);

    // After an answer over QUIC, ferry stays with QUIC.
    options.sources = vec![parse_remote(&server.url("900")).unwrap()];
    let report = download(&options, &Silent);
    succeeded(&report);
    assert_eq!(report.transfers[0].protocol, Some("h3"));
}

/// A router that forgets the client's port once it has passed `after` bytes down, as NAT does. It ends with the test's process.
fn forgetful_router(server: SocketAddr, after: usize) -> (SocketAddr, Arc<AtomicUsize>) {
    let outside = || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        Arc::new(socket)
    };
    let inside = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
    let address = inside.local_addr().unwrap();
    let ports = Arc::new(AtomicUsize::new(1));
    let (current, client) = (Arc::new(Mutex::new(outside())), Arc::new(Mutex::new(None)));
    let (up, to, from) = (Arc::clone(&current), Arc::clone(&inside), Arc::clone(&client));
    std::thread::spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok((count, sender)) = to.recv_from(&mut buffer) {
            *from.lock().unwrap() = Some(sender);
            let socket = Arc::clone(&up.lock().unwrap());
            let _ = socket.send_to(&buffer[..count], server);
        }
    });
    let used = Arc::clone(&ports);
    std::thread::spawn(move || {
        let (mut buffer, mut passed) = ([0; 2048], 0);
        loop {
            let socket = Arc::clone(&current.lock().unwrap());
            let Ok((count, _)) = socket.recv_from(&mut buffer) else {
                continue;
            };
            passed += count;
            if passed > after && used.load(Ordering::Relaxed) == 1 {
                *current.lock().unwrap() = outside();
                used.store(2, Ordering::Relaxed);
                continue;
            }
            if let Some(client) = *client.lock().unwrap() {
                let _ = inside.send_to(&buffer[..count], client);
            }
        }
    });
    (address, ports)
}

#[test]
fn a_router_that_forgets_the_client_costs_no_attempt() {
    let server = Server::start();
    let (router, ports) = forgetful_router(server.address, 100_000);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let mut options = get_options(&server, "300000", Target::File(file.clone()));
    options.sources = vec![parse_remote(&format!("https://localhost:{}/300000", router.port())).unwrap()];
    options.transfer.limit = Some("400kB/s".parse().unwrap());
    let report = download(&options, &Silent);
    succeeded(&report);
    assert_eq!(ports.load(Ordering::Relaxed), 2);
    assert_eq!(report.transfers[0].attempts.len(), 1);
    assert_eq!(server.seen.lock().unwrap().connections, 1);
    assert_eq!(std::fs::read(file).unwrap(), content(300_000));
}
