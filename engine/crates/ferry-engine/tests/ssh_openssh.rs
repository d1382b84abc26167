//! ferry's SSH against OpenSSH's sshd: the machine's, or the one that `make setup` has put into the lab's cache. Without one the tests fail.

#[path = "ssh_openssh/certificates.rs"]
mod certificates;
#[path = "support/lacking.rs"]
mod lacking;
#[path = "ssh_openssh/passphrases.rs"]
mod passphrases;
#[path = "ssh_openssh/sshd.rs"]
mod sshd;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ferry_engine::error::Class;
use ferry_engine::ssh::OpenRefused;
use sshd::{Agent, Sshd, run, until};

/// Only a failure waits for so long.
const PATIENCE: Duration = Duration::from_secs(30);
const INIT: &[u8] = b"\x00\x00\x00\x05\x01\x00\x00\x00\x03";

#[test]
fn two_channels_answer_and_the_facts_are_those_of_the_connection() {
    let Some(sshd) = Sshd::start("") else { return };
    run(async {
        let (session, listener) = sshd.open(&sshd.options(&["id"])).await.unwrap();
        let facts = session.facts().clone();
        assert!(facts.server.starts_with("OpenSSH_"), "{facts:?}");
        assert_eq!(facts.cipher, "aes128-gcm@openssh.com");
        assert_eq!(facts.kex, "curve25519-sha256");
        assert!(facts.host_key.starts_with("ssh-ed25519 SHA256:"), "{facts:?}");
        assert_eq!((facts.auth.as_str(), facts.round_trips), ("publickey", 5));
        assert!(session.timings().kex_s > 0.0 && session.timings().auth_s > 0.0);
        let one = session.sftp().await.unwrap();
        let two = session.sftp().await.unwrap();
        for channel in [&one, &two] {
            channel.send(Bytes::from_static(INIT)).await.unwrap();
        }
        for channel in [&one, &two] {
            until(|| listener.heard(channel.id()).get(4) == Some(&2)).await;
        }
        // A channel of ours that we close is silent; the other goes on.
        one.close().await;
        assert!(one.send(Bytes::from_static(INIT)).await.is_err());
        two.send(Bytes::from_static(&[0, 0, 0, 1, 99])).await.unwrap();
        // sftp-server gives up on an unknown request.
        until(|| *listener.closed.lock().unwrap() == [two.id()] || listener.heard(two.id()).len() > 200).await;
        session.close().await;
        assert!(listener.ends.lock().unwrap().is_empty());
    });
}

#[test]
fn a_server_with_one_session_refuses_the_second_and_goes_on() {
    let Some(sshd) = Sshd::start("MaxSessions 1") else {
        return;
    };
    run(async {
        let (session, listener) = sshd.open(&sshd.options(&["id"])).await.unwrap();
        let one = session.sftp().await.unwrap();
        let Err(OpenRefused::Server { message }) = session.sftp().await else {
            panic!("not refused");
        };
        assert!(message.contains("open failed"), "{message}");
        one.send(Bytes::from_static(INIT)).await.unwrap();
        until(|| !listener.heard(one.id()).is_empty()).await;
        session.close().await;
    });
}

#[test]
fn a_server_without_sftp_says_so() {
    // The first value of a keyword counts.
    let Some(sshd) = Sshd::start("Match LocalPort 1\n Banner none\nMatch all\nForceCommand /bin/false") else {
        return;
    };
    run(async {
        let (session, listener) = sshd.open(&sshd.options(&["id"])).await.unwrap();
        // It starts, and is something else that ends at once.
        match session.sftp().await {
            Ok(channel) => {
                until(|| *listener.closed.lock().unwrap() == [channel.id()]).await;
                assert!(channel.send(Bytes::from_static(INIT)).await.is_err());
            }
            Err(refused) => assert!(matches!(refused, OpenRefused::Server { .. })),
        }
        assert!(listener.ends.lock().unwrap().is_empty());
        session.close().await;
    });
}

#[test]
fn keys_that_are_refused_are_named_and_so_is_what_the_server_wants() {
    let Some(sshd) = Sshd::start("PasswordAuthentication no") else {
        return;
    };
    run(async {
        let refused = sshd
            .open(&sshd.options(&["stranger", "id_locked"]))
            .await
            .err()
            .unwrap();
        assert_eq!(refused.class, Class::Permanent);
        for part in [
            "the server refused user",
            "publickey (",
            "stranger",
            "it offers publickey",
            "id_locked is encrypted",
        ] {
            assert!(refused.message.contains(part), "{refused}");
        }
        let nothing = sshd.open(&sshd.options(&[])).await.err().unwrap();
        assert!(nothing.message.contains("tried none; it offers publickey"), "{nothing}");
        let missing = sshd.open(&sshd.options(&["nowhere"])).await.err().unwrap();
        assert_eq!(missing.class, Class::Local);
        assert!(missing.message.contains("nowhere"), "{missing}");
        let no_key = sshd.open(&sshd.options(&["config"])).await.err().unwrap();
        assert_eq!(no_key.class, Class::Local);
        // The second is let in.
        let (session, _) = sshd.open(&sshd.options(&["stranger", "id"])).await.unwrap();
        assert_eq!(session.facts().round_trips, 6);
        session.close().await;
    });
}

#[test]
fn an_rsa_key_is_let_in_without_waiting_for_extensions() {
    let Some(sshd) = Sshd::start("") else { return };
    run(async {
        let (session, _) = sshd.open(&sshd.options(&["id_rsa"])).await.unwrap();
        // russh would wait a second for the server's extensions.
        assert!(session.timings().auth_s < 1.0, "{:?}", session.timings().auth_s);
        assert_eq!(session.facts().round_trips, 5);
        session.close().await;
    });
}

#[test]
fn the_host_key_must_be_the_known_one_or_the_pinned_one() {
    let Some(sshd) = Sshd::start("") else { return };
    run(async {
        let mut options = sshd.options(&["id"]);
        options.known_hosts = vec![sshd.at("nowhere")];
        let unknown = sshd.open(&options).await.err().unwrap();
        assert_eq!(unknown.class, Class::Permanent);
        assert!(unknown.message.contains("--pin SHA256:"), "{unknown}");
        // The line it prints makes the server known.
        let line = unknown.message.rsplit_once("this line: ").unwrap().1;
        std::fs::write(sshd.at("learnt"), line).unwrap();
        options.known_hosts = vec![sshd.at("learnt")];
        let (session, _) = sshd.open(&options).await.unwrap();
        let pin = session.facts().host_key.split_once(' ').unwrap().1.to_owned();
        session.close().await;

        options.known_hosts = Vec::new();
        options.pins = vec![pin.parse().unwrap()];
        sshd.open(&options).await.unwrap().0.close().await;

        // Known by its other key: that one is asked for.
        options.pins = Vec::new();
        options.known_hosts = vec![sshd.known("host_ecdsa")];
        let (session, _) = sshd.open(&options).await.unwrap();
        assert!(session.facts().host_key.starts_with("ecdsa-sha2-nistp256 "));
        session.close().await;

        options.known_hosts = vec![sshd.known("stranger")];
        let changed = sshd.open(&options).await.err().unwrap();
        assert_eq!(changed.class, Class::Permanent);
        assert!(changed.message.contains("known_stranger:1)"), "{changed}");
        options.insecure = true;
        sshd.open(&options).await.unwrap().0.close().await;
    });
}

#[test]
fn an_agent_signs_for_the_key_whose_file_is_locked() {
    let Some(sshd) = Sshd::start("") else { return };
    let Some(agent) = Agent::start(&sshd) else { return };
    let add = |name: &str| agent.add(&sshd.at(name));
    add("stranger");
    add("id");
    run(async {
        let mut options = sshd.options(&["id"]);
        options.agent = Some(agent.socket.clone());
        let (session, _) = sshd.open(&options).await.unwrap();
        assert_eq!(
            (session.facts().auth.as_str(), session.facts().round_trips),
            ("agent", 5)
        );
        session.close().await;
        options.identities = Vec::new();
        let (session, _) = sshd.open(&options).await.unwrap();
        assert_eq!(session.facts().auth, "agent");
        session.close().await;
        // An agent that is not there is no reason to fail while a file will do.
        options.agent = Some(sshd.at("no_agent"));
        options.identities = vec![sshd.at("id")];
        sshd.open(&options).await.unwrap().0.close().await;
        options.identities = vec![sshd.at("stranger")];
        let refused = sshd.open(&options).await.err().unwrap();
        assert!(refused.message.contains("no_agent did not answer"), "{refused}");
    });
}

#[test]
fn a_full_window_of_one_channel_does_not_stop_another_nor_outlive_the_channel() {
    // `sleep` reads nothing: its window stays full.
    let Some(sshd) = Sshd::start("Match all\nForceCommand case \"$SSH_ORIGINAL_COMMAND\" in *) exec sleep 1000;; esac")
    else {
        return;
    };
    run(async {
        let (session, listener) = sshd.open(&sshd.options(&["id"])).await.unwrap();
        let stuck = Arc::new(session.sftp().await.unwrap());
        let other = session.sftp().await.unwrap();
        let pieces = Arc::new(AtomicUsize::new(0));
        let waiting = {
            let (stuck, pieces) = (Arc::clone(&stuck), Arc::clone(&pieces));
            tokio::spawn(async move {
                loop {
                    stuck.send(Bytes::from(vec![0; 256 << 10])).await?;
                    pieces.fetch_add(1, Ordering::Relaxed);
                }
                #[expect(unreachable_code, reason = "says what the loop ends with")]
                Ok::<(), ferry_engine::ssh::Closed>(())
            })
        };
        // Its window is full when nothing more is taken for a while; on a slow machine that comes later.
        let mut before = 0;
        for same in std::iter::repeat_with(|| pieces.load(Ordering::Relaxed)) {
            tokio::time::sleep(Duration::from_millis(300)).await;
            if same == before && same > 0 {
                break;
            }
            before = same;
        }
        assert!(!waiting.is_finished());
        let sent = tokio::time::timeout(PATIENCE, other.send(Bytes::from(vec![0; 1 << 20]))).await;
        assert!(sent.is_ok_and(|sent| sent.is_ok()));
        // A task that waits for the window is woken when the channel goes.
        stuck.close().await;
        let woken = tokio::time::timeout(PATIENCE, waiting).await.unwrap().unwrap();
        assert!(woken.is_err());
        assert!(listener.ends.lock().unwrap().is_empty());
        session.close().await;
    });
}

/// Each way takes this long: much longer than a loaded machine computes between two of them.
const WAY: Duration = Duration::from_millis(400);

/// A loopback connection to `port` on which everything arrives later.
fn far(port: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let entry = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for near in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let far = TcpStream::connect(("127.0.0.1", port)).unwrap();
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    std::thread::spawn(move || carry(from, to));
                }
            });
        }
    });
    entry
}

fn carry(mut from: TcpStream, mut to: TcpStream) {
    let (sender, receiver) = std::sync::mpsc::channel::<(Instant, Vec<u8>)>();
    to.set_nodelay(true).unwrap();
    std::thread::spawn(move || {
        for (due, bytes) in receiver {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    });
    let mut buffer = vec![0; 65536];
    while let Ok(count) = from.read(&mut buffer)
        && count > 0
        && sender.send((Instant::now() + WAY, buffer[..count].to_vec())).is_ok()
    {}
}

#[test]
fn as_many_round_trips_are_waited_for_as_are_reported() {
    let Some(sshd) = Sshd::start("") else { return };
    let port = far(sshd.port);
    run(async {
        let trips = |since: Instant| since.elapsed().as_secs_f64() / (2.0 * WAY.as_secs_f64());
        let begin = Instant::now();
        let (session, listener) = sshd.open_at(port, &sshd.options(&["id"])).await.unwrap();
        let opening = trips(begin);
        let begin = Instant::now();
        let channel = session.sftp().await.unwrap();
        channel.send(Bytes::from_static(INIT)).await.unwrap();
        until(|| !listener.heard(channel.id()).is_empty()).await;
        let channel_trips = trips(begin);
        eprintln!(
            "round trips: open {opening:.2} (kex {:.2}, auth {:.2}), channel to VERSION {channel_trips:.2}",
            session.timings().kex_s / (2.0 * WAY.as_secs_f64()),
            session.timings().auth_s / (2.0 * WAY.as_secs_f64())
        );
        // Above them is what both sides compute, and sshd's own start, which a loaded machine makes long.
        let extra = opening - f64::from(session.facts().round_trips);
        assert!((-0.2..1.9).contains(&extra), "{opening}");
        assert!((2.8..4.5).contains(&channel_trips), "{channel_trips}");
        session.close().await;
    });
}

#[test]
fn a_server_that_dies_is_heard_of_once_and_its_channels_end() {
    let Some(sshd) = Sshd::start("") else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let entry = listener.local_addr().unwrap().port();
    let port = sshd.port;
    let (cut, wait) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        let near = listener.accept().unwrap().0;
        let far = TcpStream::connect(("127.0.0.1", port)).unwrap();
        for (from, to) in [(&near, &far), (&far, &near)] {
            let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut from, &mut to));
        }
        let _ = wait.recv();
        let _ = near.shutdown(Shutdown::Both);
        let _ = far.shutdown(Shutdown::Both);
    });
    run(async {
        let (session, listener) = sshd.open_at(entry, &sshd.options(&["id"])).await.unwrap();
        let channel = session.sftp().await.unwrap();
        cut.send(()).unwrap();
        until(|| !listener.ends.lock().unwrap().is_empty()).await;
        assert!(channel.send(Bytes::from_static(INIT)).await.is_err());
        assert!(matches!(session.sftp().await, Err(OpenRefused::Lost)));
        session.close().await;
        let ends = listener.ends.lock().unwrap();
        assert_eq!(ends.len(), 1);
        assert_eq!(ends[0].class, Class::Transient);
        assert!(listener.closed.lock().unwrap().is_empty());
    });
}
