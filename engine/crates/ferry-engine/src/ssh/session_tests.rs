//! Against russh's own server, which can be told to behave as OpenSSH would not.

use std::net::TcpStream;
use std::sync::Mutex;

use russh::keys::{Algorithm, PrivateKey};
use russh::server::{self, Auth, ChannelOpenHandle, Response};
use russh::{ChannelId, MethodKind, MethodSet};

use super::*;
use crate::error::Class;
use crate::ssh::{Pin, Secret};

const KEY: &str = "-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW
QyNTUxOQAAACCzPq7zfqLffKoBDe/eo04kH2XxtSmk9D7RQyf1xUqrYgAAAJgAIAxdACAM
XQAAAAtzc2gtZWQyNTUxOQAAACCzPq7zfqLffKoBDe/eo04kH2XxtSmk9D7RQyf1xUqrYg
AAAEC2BsIi0QwW2uFscKTUUXNHLsYX4FxlaSDSblbAj7WR7bM+rvN+ot98qgEN796jTiQf
ZfG1KaT0PtFDJ/XFSqtiAAAAEHVzZXJAZXhhbXBsZS5jb20BAgMEBQ==
-----END OPENSSH PRIVATE KEY-----
";

#[derive(Default)]
struct ConnectionListener {
    data: Mutex<Vec<u8>>,
    ends: Mutex<Vec<Error>>,
}

impl Listener for ConnectionListener {
    fn data(&self, _channel: u32, bytes: &[u8]) {
        self.data.lock().unwrap().extend_from_slice(bytes);
    }

    fn channel_closed(&self, _channel: u32) {}

    fn disconnected(&self, problem: Error) {
        self.ends.lock().unwrap().push(problem);
    }
}

/// A server that lets in any client with the right password, by the methods it has, and echoes.
#[derive(Clone, Copy)]
struct Server {
    methods: &'static [MethodKind],
    /// The reason to hang up with when the subsystem is asked for.
    hang_up: Option<&'static str>,
    has_sftp: bool,
}

const PLAIN: Server = Server {
    methods: &[MethodKind::Password],
    hang_up: None,
    has_sftp: true,
};

impl server::Handler for Server {
    type Error = russh::Error;

    async fn auth_password(&mut self, user: &str, password: &str) -> Result<Auth, russh::Error> {
        Ok(if (user, password) == ("me", "right") {
            Auth::Accept
        } else {
            Auth::reject()
        })
    }

    async fn auth_keyboard_interactive<'a>(
        &'a mut self,
        _user: &str,
        _submethods: &str,
        response: Option<Response<'a>>,
    ) -> Result<Auth, russh::Error> {
        let Some(response) = response else {
            return Ok(Auth::Partial {
                name: "".into(),
                instructions: "".into(),
                prompts: vec![("Password: ".into(), false)].into(),
            });
        };
        let answers: Vec<_> = response.collect();
        Ok(if answers.first().is_some_and(|answer| &answer[..] == b"right") {
            Auth::Accept
        } else {
            Auth::reject()
        })
    }

    async fn channel_open_session(
        &mut self,
        _channel: russh::Channel<server::Msg>,
        reply: ChannelOpenHandle,
        _: &mut server::Session,
    ) -> Result<(), russh::Error> {
        reply.accept().await;
        Ok(())
    }

    async fn subsystem_request(
        &mut self,
        channel: ChannelId,
        name: &str,
        session: &mut server::Session,
    ) -> Result<(), russh::Error> {
        assert_eq!(name, "sftp");
        if let Some(reason) = self.hang_up {
            return session.disconnect(Disconnect::TooManyConnections, reason, "");
        }
        if self.has_sftp {
            session.channel_success(channel)
        } else {
            session.channel_failure(channel)
        }
    }

    async fn data(
        &mut self,
        channel: ChannelId,
        data: &[u8],
        session: &mut server::Session,
    ) -> Result<(), russh::Error> {
        session.data(channel, data.to_vec())
    }
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(work)
}

async fn connect(
    server: Server,
    password: &str,
) -> Result<(Session<ConnectionListener>, Arc<ConnectionListener>), Error> {
    let key = PrivateKey::from_openssh(KEY).unwrap();
    assert_eq!(key.algorithm(), Algorithm::Ed25519);
    let pin = Pin::of(&key.public_key().to_bytes().unwrap());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let config = server::Config {
            methods: MethodSet::from(server.methods),
            auth_rejection_time: Duration::ZERO,
            keys: vec![key],
            ..server::Config::default()
        };
        let (stream, _) = listener.accept().await.unwrap();
        if let Ok(session) = server::run_stream(Arc::new(config), stream, server).await {
            let _ = session.await;
        }
    });
    let options = SshOptions {
        pins: vec![pin],
        password: Some(Secret::new(password.into())),
        ..SshOptions::default()
    };
    let place = HostPort {
        user: "me".into(),
        host: "localhost".into(),
        port: address.port(),
        is_jump: false,
    };
    let socket = TcpStream::connect(address).unwrap();
    socket.set_nonblocking(true).unwrap();
    let listener = Arc::new(ConnectionListener::default());
    let session = open(
        Under::Socket(socket),
        &place,
        &options,
        Duration::from_secs(10),
        Arc::clone(&listener),
    )
    .await?;
    Ok((session, listener))
}

#[test]
fn a_password_is_let_in_and_a_channel_carries_data_both_ways() {
    run(async {
        let (session, listener) = connect(PLAIN, "right").await.unwrap();
        // Banner, key exchange, service, password.
        assert_eq!(
            (session.facts().auth.as_str(), session.facts().round_trips),
            ("password", 4)
        );
        let channel = session.sftp().await.unwrap();
        let sent = vec![7; 3 << 20];
        channel.send(Bytes::from(sent.clone())).await.unwrap();
        while listener.data.lock().unwrap().len() < sent.len() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(*listener.data.lock().unwrap() == sent);
        session.close().await;
        assert!(listener.ends.lock().unwrap().is_empty());
    });
}

#[test]
fn a_wrong_password_is_permanent_and_not_in_the_message() {
    run(async {
        let refused = connect(PLAIN, "hunter2").await.err().unwrap();
        assert_eq!(refused.class, Class::Permanent);
        assert!(refused.message.contains("refused user me: tried password"), "{refused}");
        assert!(!refused.message.contains("hunter2"));
    });
}

#[test]
fn a_password_answers_the_one_question_of_keyboard_interactive() {
    let server = Server {
        methods: &[MethodKind::KeyboardInteractive],
        ..PLAIN
    };
    run(async {
        let (session, _) = connect(server, "right").await.unwrap();
        session.close().await;
        let refused = connect(server, "wrong").await.err().unwrap();
        assert_eq!(refused.class, Class::Permanent);
        assert!(
            refused.message.contains("tried password, keyboard-interactive"),
            "{refused}"
        );
    });
}

#[test]
fn a_server_that_hangs_up_is_heard_of_once_with_its_reason() {
    let server = Server {
        hang_up: Some("too many of you"),
        ..PLAIN
    };
    run(async {
        let (session, listener) = connect(server, "right").await.unwrap();
        assert_eq!(session.sftp().await.err(), Some(OpenRefused::Lost));
        let ends = listener.ends.lock().unwrap().clone();
        assert_eq!(ends.len(), 1);
        assert_eq!(ends[0].class, Class::Transient);
        assert!(ends[0].message.contains("too many of you"), "{}", ends[0]);
    });
}

#[test]
fn a_server_without_the_subsystem_says_so_and_stays() {
    let server = Server {
        has_sftp: false,
        ..PLAIN
    };
    run(async {
        let (session, listener) = connect(server, "right").await.unwrap();
        for _ in 0..2 {
            let refused = session.sftp().await.err().unwrap();
            assert_eq!(refused.to_string(), "the server has no sftp subsystem");
        }
        assert!(listener.ends.lock().unwrap().is_empty());
    });
}

/// The error of a connection to a server that does this instead of speaking SSH.
fn against(server: impl FnOnce(TcpStream) + Send + 'static) -> Error {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || server(listener.accept().unwrap().0));
    run(async {
        let place = HostPort {
            user: "me".into(),
            host: "localhost".into(),
            port: address.port(),
            is_jump: false,
        };
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nonblocking(true).unwrap();
        let patience = Duration::from_secs(2);
        let opened = open(
            Under::Socket(socket),
            &place,
            &SshOptions::default(),
            patience,
            Arc::new(ConnectionListener::default()),
        )
        .await;
        opened.err().unwrap()
    })
}

#[test]
fn what_is_no_ssh_server_is_told_in_one_line_with_its_class() {
    use std::io::Write;
    let full = against(|mut socket| {
        let _ = socket.write_all(b"Exceeded MaxStartups\r\n");
    });
    assert_eq!(full.class, Class::Transient);
    assert!(full.message.contains("too many"), "{full}");
    let silent = against(|mut socket| {
        // Until the client has gone.
        let _ = std::io::copy(&mut socket, &mut std::io::sink());
    });
    assert_eq!(silent.class, Class::Transient);
    assert!(silent.message.ends_with("no SSH handshake within 2 s"), "{silent}");
    let other = against(|mut socket| {
        let _ = socket.write_all(&[b'x'; 1000]);
        let _ = std::io::copy(&mut socket, &mut std::io::sink());
    });
    assert_eq!(other.class, Class::Permanent);
    assert!(other.message.contains("does not speak SSH"), "{other}");
}
