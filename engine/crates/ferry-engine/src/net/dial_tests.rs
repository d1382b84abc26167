//! Names, addresses, and what a refused connection is.

use super::*;

fn options() -> DialOptions {
    DialOptions {
        timeout: Duration::from_secs(5),
        ..DialOptions::default()
    }
}

#[test]
fn families_take_turns_and_none_is_lost() {
    let addresses: Vec<SocketAddr> = ["[::1]:1", "[::2]:1", "127.0.0.1:1", "[::3]:1"]
        .iter()
        .map(|text| text.parse().unwrap())
        .collect();
    let texts: Vec<_> = alternate(addresses).iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["[::1]:1", "127.0.0.1:1", "[::2]:1", "[::3]:1"]);
}

#[test]
fn localhost_needs_no_resolver() {
    for name in ["localhost", "LocalHost", "localhost.", "a.localhost", "a.b.LOCALHOST."] {
        assert!(is_localhost(name), "{name}");
    }
    for name in ["", ".", "localhost.example", "mylocalhost", "localhost..", "localhos"] {
        assert!(!is_localhost(name), "{name}");
    }
    let url = Url::parse("http://db.localhost:81/").unwrap();
    let deadline = Instant::now() + Duration::from_secs(5);
    let (addresses, resolved) = resolve(&url, &options(), deadline).unwrap();
    let texts: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    assert_eq!(
        (texts, resolved),
        (vec!["127.0.0.1:81".to_owned(), "[::1]:81".to_owned()], false)
    );
}

#[test]
fn it_is_refused_when_somebody_refused_and_nobody_else_could_have_taken_it() {
    use io::ErrorKind::{AddrNotAvailable, ConnectionRefused, NetworkUnreachable, TimedOut};
    let of = |kinds: &[io::ErrorKind]| {
        let failure = summary(kinds.iter().map(|kind| io::Error::from(*kind)).collect());
        (failure.error.kind(), failure.unreached)
    };
    assert_eq!(of(&[ConnectionRefused, ConnectionRefused]), (ConnectionRefused, true));
    assert_eq!(of(&[ConnectionRefused, AddrNotAvailable]), (ConnectionRefused, true));
    assert_eq!(of(&[NetworkUnreachable, ConnectionRefused]), (ConnectionRefused, true));
    assert_eq!(of(&[TimedOut, ConnectionRefused]), (TimedOut, false));
    assert_eq!(of(&[NetworkUnreachable]), (NetworkUnreachable, false));
    assert_eq!(of(&[]), (AddrNotAvailable, false));
}

#[test]
fn a_listener_on_either_loopback_is_reached_as_localhost() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        // A machine may have no IPv6.
        let Ok(listener) = std::net::TcpListener::bind(address) else {
            continue;
        };
        let port = listener.local_addr().unwrap().port();
        let url = Url::parse(&format!("http://localhost:{port}/")).unwrap();
        let dialed = dial(&url, &options()).unwrap();
        assert_eq!((dialed.remote.port(), dialed.dns), (port, None));
    }
}

/// Every Linux has reno.
#[cfg(target_os = "linux")]
#[test]
fn a_connection_has_the_congestion_control_asked_for() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = Url::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
    let congestion = Some("reno".to_owned());
    let dialed = dial(
        &url,
        &DialOptions {
            congestion,
            ..options()
        },
    )
    .unwrap();
    let name = SockRef::from(&dialed.socket).tcp_congestion().unwrap();
    assert!(name.starts_with(b"reno\0"), "{name:?}");
}

#[test]
fn a_closed_port_is_a_transient_problem_that_names_the_place() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    drop(taken);
    let url = Url::parse(&format!("http://127.0.0.1:{port}/")).unwrap();
    let problem = dial(&url, &options()).err().unwrap();
    assert_eq!(problem.class, crate::error::Class::Transient);
    assert!(problem.unreached);
    assert!(problem.message.contains(&format!("127.0.0.1:{port}")), "{problem}");
}

/// TCP connects to no broadcast address: the call itself fails.
#[cfg(target_os = "linux")]
#[test]
fn an_address_that_fails_at_once_gives_way_to_the_next() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = Url::parse(&format!("http://server.example:{port}/")).unwrap();
    let overrides = ["255.255.255.255", "127.0.0.1"].map(|address| Override {
        host: "server.example".into(),
        port,
        address: address.parse().unwrap(),
    });
    let options = DialOptions {
        overrides: overrides.to_vec(),
        ..options()
    };
    let waiter = Waiter::new().unwrap();
    let broadcast = SocketAddr::from(([255; 4], port));
    assert!(start(&waiter, 0, broadcast, &options, true).is_err());
    assert_eq!(dial(&url, &options).unwrap().remote, listener.local_addr().unwrap());
}

/// Only Windows begins an attempt again.
#[test]
fn an_attempt_that_cannot_begin_again_is_one_failure_among_others() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let waiter = Waiter::new().unwrap();
    let (mut attempt, mut failures) = (Attempt::new(address), Vec::new());
    assert!(attempt.begun(start(&waiter, 0, address, &options(), false), &mut failures));
    assert!(attempt.socket.is_some() && failures.is_empty());
    assert!(!attempt.begun(Err(io::ErrorKind::NetworkUnreachable.into()), &mut failures));
    assert!(attempt.socket.is_none() && !attempt.once);
    assert_eq!(failures.len(), 1);
}

#[test]
fn a_name_can_be_given_an_address_and_a_listener_is_reached() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = Url::parse(&format!("http://server.example:{port}/")).unwrap();
    let overrides = vec![Override {
        host: "Server.example".into(),
        port,
        address: "127.0.0.1".parse().unwrap(),
    }];
    let dialed = dial(&url, &DialOptions { overrides, ..options() }).unwrap();
    assert_eq!(dialed.remote.port(), port);
    assert!(dialed.dns.is_none());
}
