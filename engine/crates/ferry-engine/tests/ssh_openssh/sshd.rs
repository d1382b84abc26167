//! An sshd for one test, and what is heard of it.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferry_engine::error::Error;
use ferry_engine::ssh::{HostPort, Listener, Session, SshOptions, open};
use tempfile::TempDir;

use crate::lacking::lacks;

/// Everything that was heard.
#[derive(Default)]
pub struct ConnectionListener {
    pub data: Mutex<Vec<(u32, Vec<u8>)>>,
    pub closed: Mutex<Vec<u32>>,
    pub ends: Mutex<Vec<Error>>,
}

impl Listener for ConnectionListener {
    fn data(&self, channel: u32, bytes: &[u8]) {
        self.data.lock().unwrap().push((channel, bytes.to_vec()));
    }

    fn channel_closed(&self, channel: u32) {
        self.closed.lock().unwrap().push(channel);
    }

    fn disconnected(&self, problem: Error) {
        self.ends.lock().unwrap().push(problem);
    }
}

impl ConnectionListener {
    pub fn heard(&self, channel: u32) -> Vec<u8> {
        let data = self.data.lock().unwrap();
        data.iter()
            .filter(|(id, _)| *id == channel)
            .flat_map(|(_, bytes)| bytes.clone())
            .collect()
    }
}

/// Waits for what another task does.
pub async fn until(what: impl Fn() -> bool) {
    for _ in 0..500 {
        if what() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it did not happen within 5 s");
}

pub struct Sshd {
    child: Child,
    dir: TempDir,
    pub port: u16,
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The sshd that the lab would run: the machine's own, or the copy extracted into the lab's cache.
fn binary() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from);
    let installed = std::env::split_paths(&path).chain(system);
    let extracted = cache()
        .and_then(|cache| std::fs::read_dir(cache).ok())
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("shown"));
    installed
        .chain(extracted)
        .map(|folder| folder.join("sshd"))
        .find(|path| path.is_file())
}

/// The lab's cache, which `lab/model/paths.py` finds in the same way.
fn cache() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    set("ROUGHWATER_CACHE").map(PathBuf::from).or_else(|| {
        let caches = set("XDG_CACHE_HOME").map(PathBuf::from);
        let caches = caches.or_else(|| set("HOME").map(|home| Path::new(&home).join(".cache")));
        caches.map(|caches| caches.join("roughwater"))
    })
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// An sshd of root's wants `/run/sshd` and a user called sshd. A mount namespace of its own has both, whatever is installed.
const ROOT: &str = r#"
mount -t tmpfs tmpfs /run
mkdir -m 755 /run/sshd
cp /etc/passwd /run/passwd
grep -q ^sshd: /run/passwd || echo sshd:x:65534:65534::/run/sshd:/bin/false >>/run/passwd
mount --bind /run/passwd /etc/passwd
exec "$0" "$@""#;

fn command(binary: &Path) -> Command {
    if !is_root() {
        return Command::new(binary);
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "--", "/bin/sh", "-ec", ROOT]);
    command.arg(binary);
    command
}

fn user() -> String {
    let said = Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(said.stdout).unwrap().trim().to_owned()
}

pub fn keygen(path: &Path, kind: &str, phrase: &str) {
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", kind, "-N", phrase, "-C", "", "-f"])
        .arg(path)
        .status();
    assert!(made.is_ok_and(|status| status.success()), "ssh-keygen");
}

impl Sshd {
    /// With a host key of each type, and the user's keys `id` (ed25519) and `id_rsa` let in.
    pub fn start(extra: &str) -> Option<Self> {
        Self::start_with(|_| extra.to_owned())
    }

    /// `prepare` gets the folder with all keys, and returns lines for the configuration: the first value of a keyword counts.
    pub fn start_with(prepare: impl FnOnce(&Path) -> String) -> Option<Self> {
        let Some(binary) = binary() else {
            lacks(
                "sshd",
                "none is on PATH or in the lab's cache, where `make setup` puts one",
            );
            return None;
        };
        if Command::new("ssh-keygen")
            .arg("-?")
            .stderr(Stdio::null())
            .status()
            .is_err()
        {
            lacks("ssh-keygen", "it is not on PATH");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        keygen(&at("host"), "ed25519", "");
        keygen(&at("host_ecdsa"), "ecdsa", "");
        keygen(&at("id"), "ed25519", "");
        keygen(&at("id_rsa"), "rsa", "");
        keygen(&at("id_locked"), "ed25519", "secret");
        keygen(&at("stranger"), "ed25519", "");
        let mut keys = String::new();
        for name in ["id.pub", "id_rsa.pub", "id_locked.pub"] {
            keys += &std::fs::read_to_string(at(name)).unwrap();
        }
        std::fs::write(at("authorized_keys"), keys).unwrap();
        let extra = prepare(dir.path());
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folder = dir.path().display();
        let config = format!(
            "{extra}\nPort {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nHostKey {folder}/host_ecdsa\n\
             AuthorizedKeysFile {folder}/authorized_keys\nPidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nUseDNS no\n\
             KbdInteractiveAuthentication no\nMaxSessions 10\nSubsystem sftp internal-sftp\n"
        );
        std::fs::write(at("config"), config).unwrap();
        let log = std::fs::File::create(at("log")).unwrap();
        let mut child = command(&binary)
            .args(["-D", "-e", "-f"])
            .arg(at("config"))
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        for _ in 0..500 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Some(Self { child, dir, port });
            }
            if child.try_wait().is_ok_and(|ended| ended.is_some()) {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = child.kill();
        lacks(
            "a running sshd",
            &std::fs::read_to_string(at("log")).unwrap_or_default(),
        );
        None
    }

    /// One more key of the user's that is let in, encrypted with `secret`; `format` is one of ssh-keygen's.
    pub fn add_locked(&self, name: &str, kind: &str, format: &str) {
        let path = self.at(name);
        keygen(&path, kind, "");
        let changed = Command::new("ssh-keygen")
            .args(["-q", "-p", "-m", format, "-P", "", "-N", "secret", "-f"])
            .arg(&path)
            .stdout(Stdio::null())
            .status();
        assert!(changed.is_ok_and(|status| status.success()), "ssh-keygen -p");
        let mut keys = std::fs::read_to_string(self.at("authorized_keys")).unwrap();
        keys += &std::fs::read_to_string(self.at(&format!("{name}.pub"))).unwrap();
        std::fs::write(self.at("authorized_keys"), keys).unwrap();
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn place(&self) -> HostPort {
        HostPort {
            // The user who runs the test: without root, sshd lets no other user in.
            user: user(),
            host: "127.0.0.1".into(),
            port: self.port,
            is_jump: false,
        }
    }

    /// A `known_hosts` with the host's key of one type.
    pub fn known(&self, host_key: &str) -> PathBuf {
        let key = std::fs::read_to_string(self.at(&format!("{host_key}.pub"))).unwrap();
        let path = self.at(&format!("known_{host_key}"));
        std::fs::write(&path, format!("[127.0.0.1]:{} {key}", self.port)).unwrap();
        path
    }

    pub fn options(&self, identities: &[&str]) -> SshOptions {
        SshOptions {
            known_hosts: vec![self.known("host")],
            identities: identities.iter().map(|name| self.at(name)).collect(),
            ..SshOptions::default()
        }
    }

    pub async fn open(
        &self,
        options: &SshOptions,
    ) -> Result<(Session<ConnectionListener>, Arc<ConnectionListener>), Error> {
        self.open_at(self.port, options).await
    }

    pub async fn open_at(
        &self,
        port: u16,
        options: &SshOptions,
    ) -> Result<(Session<ConnectionListener>, Arc<ConnectionListener>), Error> {
        let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        socket.set_nonblocking(true).unwrap();
        let listener = Arc::new(ConnectionListener::default());
        let session = open(
            ferry_engine::ssh::Under::Socket(socket),
            &self.place(),
            options,
            Duration::from_secs(10),
            Arc::clone(&listener),
        )
        .await?;
        Ok((session, listener))
    }
}

/// An `ssh-agent`, as long as it lives.
pub struct Agent {
    child: Child,
    pub socket: PathBuf,
}

impl Agent {
    pub fn start(sshd: &Sshd) -> Option<Self> {
        let socket = sshd.at("agent");
        let started = Command::new("ssh-agent")
            .args(["-D", "-a"])
            .arg(&socket)
            .stdout(Stdio::null())
            .spawn();
        let Ok(child) = started else {
            lacks("ssh-agent", "it is not on PATH");
            return None;
        };
        for _ in 0..100 {
            if socket.exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(Self { child, socket })
    }

    pub fn add(&self, key: &Path) {
        let added = Command::new("ssh-add")
            .arg("-q")
            .arg(key)
            .env("SSH_AUTH_SOCK", &self.socket)
            .status();
        assert!(added.is_ok_and(|status| status.success()), "ssh-add");
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(work)
}
