//! Settings of SSH: the way to a server, and how server and user know each other.

use std::path::PathBuf;

use crate::error::Error;
use crate::files;
use crate::net::dial::Family;

/// A server on the way to another one, as `ssh -J` names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jump {
    /// The name that the user gave; `ssh` may have another one for this server.
    pub host: String,
    /// The options of this server. ferry connects directly only to the first jump host, so `family` counts only for that one.
    pub ssh: SshArgs,
}

/// The options of SSH: the way to a server, its verification, and the user's login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshArgs {
    /// The named `known_hosts` files, or the user's and the system's; they need not exist.
    pub known_hosts: Vec<PathBuf>,
    /// The host's name in `known_hosts` and in its certificates, if not its own.
    pub host_key_alias: Option<String>,
    /// `SHA256:` and 43 characters of base64, as `ssh-keygen -l` prints it. With one, `known_hosts` does not count.
    pub pins: Vec<String>,
    /// Private keys, in the order in which they are tried.
    pub identities: Vec<PathBuf>,
    /// The user's certificates, besides those next to the private keys (`KEY-cert.pub`).
    pub certificates: Vec<PathBuf>,
    /// None was named: `identities` are the usual ones that exist.
    pub identities_are_default: bool,
    /// The agent's socket; on Windows the name of its pipe.
    pub agent: Option<PathBuf>,
    /// Offer only those keys of the agent that are in `identities` or `certificates`.
    pub identities_only: bool,
    /// The source of the password, if there is one.
    pub password: Option<PasswordFrom>,
    /// The source of the passphrase of encrypted private keys, if there is one.
    pub passphrase: Option<PasswordFrom>,
    /// The program that asks the user for a passphrase which is nowhere else, as OpenSSH runs `SSH_ASKPASS`.
    pub askpass: Option<PathBuf>,
    /// The algorithms that may be used.
    pub algorithms: AlgorithmLists,
    /// The user for URLs that name none.
    pub user: Option<String>,
    /// The server, where the URL's host is another name for it.
    pub hostname: Option<String>,
    /// The port for URLs that name none.
    pub port: Option<u16>,
    /// The family of the addresses that may be used for the server.
    pub family: Family,
    /// The jump hosts on the way to the server, in that order. The `jumps` of a jump host do not count.
    pub jumps: Vec<Jump>,
    /// The most channels on a connection, 1 to 64.
    pub channels: usize,
    /// The number of connections, 1 to 64; without one, the engine decides.
    pub connections: Option<usize>,
}

impl Default for SshArgs {
    fn default() -> Self {
        Self {
            known_hosts: Vec::new(),
            host_key_alias: None,
            pins: Vec::new(),
            identities: Vec::new(),
            certificates: Vec::new(),
            identities_are_default: true,
            agent: None,
            identities_only: false,
            password: None,
            passphrase: None,
            askpass: None,
            algorithms: AlgorithmLists::default(),
            user: None,
            hostname: None,
            port: None,
            family: Family::Any,
            jumps: Vec::new(),
            channels: 8,
            connections: None,
        }
    }
}

/// Algorithms of SSH as `ssh_config` writes them: names with commas, behind `+`, `-` (patterns) or `^`, or alone. None leaves it to the engine; a list
/// adds nothing to what the engine has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AlgorithmLists {
    /// `Ciphers`
    pub ciphers: Option<String>,
    /// `MACs`
    pub macs: Option<String>,
    /// `KexAlgorithms`
    pub exchanges: Option<String>,
    /// `HostKeyAlgorithms`
    pub host_keys: Option<String>,
}

/// The source of a password: never the command line, which every process of the machine can read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PasswordFrom {
    /// The first line of a file.
    File(PathBuf),
    /// A variable of the environment.
    Variable(String),
}

impl PasswordFrom {
    /// The secret. `flag` is the stem of its flags, `--password` of `--password-file` and `--password-env`; `variable` reads the environment.
    ///
    /// # Errors
    /// Class Usage, naming the flag. Nothing of the secret is repeated.
    pub fn read(&self, flag: &str, variable: impl Fn(&str) -> Option<String>) -> Result<String, Error> {
        match self {
            Self::File(path) => files::read_secret_line(&format!("{flag}-file"), path),
            Self::Variable(name) => variable(name).ok_or_else(|| {
                Error::usage(format!(
                    "{flag}-env {name}: there is no such variable, or it is no text"
                ))
            }),
        }
    }
}
