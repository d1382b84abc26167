//! The credentials for a server: keys from files, an agent's, a password.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use russh::keys::agent::AgentIdentity;
use russh::keys::agent::client::{AgentClient, AgentStream};
use russh::keys::ssh_key::public::KeyData;
use russh::keys::{self, Algorithm, Certificate, PrivateKey, PublicKey};

use super::certificates;
use super::handler::Shared;
use super::unlock::{self, unlock};
use super::{Passphrase, SshOptions};
use crate::error::Error;
use crate::platform::own_and_open_to_others;

pub(super) type Agent = AgentClient<Box<dyn AgentStream + Send + Unpin>>;

/// A key file that could be read.
pub(super) struct Identity {
    pub(super) path: PathBuf,
    /// The public half; none if the file is encrypted and does not show it.
    pub(super) public: Option<PublicKey>,
    key: Key,
}

/// A credential that a server is shown.
pub(super) enum Shown {
    Key(PublicKey),
    Certificate {
        from: String,
        certificate: Box<Certificate>,
    },
}

impl Shown {
    pub(super) fn algorithm(&self) -> Algorithm {
        match self {
            Self::Key(key) => key.algorithm(),
            Self::Certificate { certificate, .. } => certificate.algorithm(),
        }
    }

    /// The key itself, or the key that the certificate is for.
    fn key(&self) -> &KeyData {
        match self {
            Self::Key(key) => key.key_data(),
            Self::Certificate { certificate, .. } => certificate.public_key(),
        }
    }
}

/// The credentials from files: keys, and certificates for them and for the agent's keys.
pub(super) struct Credentials {
    pub(super) identities: Vec<Identity>,
    certificates: Vec<UserCertificate>,
    /// Notes on certificates that were left out.
    pub(super) notes: Vec<String>,
}

struct UserCertificate {
    path: PathBuf,
    certificate: Certificate,
}

impl Credentials {
    /// A key's certificates, then the key itself.
    pub(super) fn shown(&self, key: &PublicKey) -> Vec<Shown> {
        let certificates = self
            .certificates
            .iter()
            .filter(|own| own.certificate.public_key() == key.key_data());
        let certificates = certificates.map(|own| Shown::Certificate {
            from: own.path.display().to_string(),
            certificate: Box::new(own.certificate.clone()),
        });
        certificates.chain([Shown::Key(key.clone())]).collect()
    }

    /// A server's probable objections to the certificates.
    pub(super) fn doubts(&self) -> Vec<String> {
        let now = SystemTime::now();
        let doubts = self.certificates.iter().filter_map(|own| {
            let why = certificates::against_user(&own.certificate, now)?;
            Some(format!("the certificate {} {why}", own.path.display()))
        });
        doubts.collect()
    }
}

enum Key {
    Plain(Arc<PrivateKey>),
    /// The file's text.
    Encrypted(String),
    /// The file has the public half only: an agent has the other one.
    Elsewhere,
}

impl Identity {
    /// The reason why the file cannot be made to sign, in words for the user, if there is one.
    pub(super) fn unusable(&self, options: &SshOptions) -> Option<String> {
        match &self.key {
            Key::Encrypted(_) if matches!(options.passphrase, Passphrase::Unknown) => Some(unlock::unknown(&self.path)),
            Key::Plain(_) | Key::Encrypted(_) => None,
            Key::Elsewhere => Some(self.elsewhere()),
        }
    }

    fn elsewhere(&self) -> String {
        format!(
            "{} is a public key, whose private key no agent has",
            self.path.display()
        )
    }

    /// Returns the key, decrypted if it was encrypted, or a line for the user with the reason for its absence.
    pub(super) async fn private(&self, options: &SshOptions, shared: &Shared) -> Result<Arc<PrivateKey>, String> {
        match &self.key {
            Key::Plain(key) => Ok(Arc::clone(key)),
            Key::Encrypted(text) => {
                // The time of a question and of a slow derivation does not count as the server's.
                let _pause = shared.pause();
                unlock(&self.path, text, &options.passphrase, &options.unlocked).await
            }
            Key::Elsewhere => Err(self.elsewhere()),
        }
    }
}

/// Loads keys and certificates. Any fault of a file that the user named is a failure, before the server is asked anything.
pub(super) fn load(options: &SshOptions) -> Result<Credentials, Error> {
    let identities: Vec<_> = options.identities.iter().map(load_one).collect::<Result<_, _>>()?;
    let mut certificates = Vec::new();
    for path in &options.certificates {
        let certificate = load_certificate(path);
        let certificate =
            certificate.map_err(|why| Error::local(format!("the certificate {} {why}", path.display())))?;
        certificates.push(UserCertificate {
            path: path.clone(),
            certificate,
        });
    }
    let mut notes = Vec::new();
    for path in options.identities.iter().map(|path| suffixed(path, "-cert.pub")) {
        if !path.exists() || options.certificates.contains(&path) {
            continue;
        }
        match load_certificate(&path) {
            Ok(certificate) => certificates.push(UserCertificate { path, certificate }),
            // The user did not name this file.
            Err(why) => notes.push(format!("the certificate {} was left out: it {why}", path.display())),
        }
    }
    Ok(Credentials {
        identities,
        certificates,
        notes,
    })
}

fn suffixed(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(suffix);
    name.into()
}

fn load_certificate(path: &Path) -> Result<Certificate, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))?;
    let no = |error: &dyn std::fmt::Display| format!("is no SSH certificate that ferry can read: {error}");
    // russh's reader of keys refuses certificates nested so deep that reading them takes all of the stack.
    keys::parse_public_key_base64(text.split_ascii_whitespace().nth(1).unwrap_or_default())
        .map_err(|error| no(&error))?;
    Certificate::from_openssh(&text).map_err(|error| no(&error))
}

fn load_one(path: &PathBuf) -> Result<Identity, Error> {
    let unusable = |why: String| Error::local(format!("the key file {} {why}", path.display()));
    let cannot = |error: io::Error| unusable(format!("cannot be read: {error}"));
    let mut file = File::open(path).map_err(cannot)?;
    let open_to_others = own_and_open_to_others(&file.metadata().map_err(cannot)?);
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(cannot)?;
    let shut = || match open_to_others {
        None => Ok(()),
        Some(mode) => Err(unusable(format!(
            "may be read by other users of this machine (mode {mode:03o}); chmod 600 it"
        ))),
    };
    let made = |public, key| {
        Ok(Identity {
            path: path.clone(),
            public,
            key,
        })
    };
    if unlock::is_encrypted(&text) {
        shut()?;
        // OpenSSH's own format shows the public half; the others leave it to a file of the same name.
        let public = PrivateKey::from_openssh(&text)
            .map(|key| key.public_key().clone())
            .ok()
            .or_else(|| PublicKey::from_openssh(&std::fs::read_to_string(suffixed(path, ".pub")).ok()?).ok());
        return made(public, Key::Encrypted(text));
    }
    match keys::decode_secret_key(&text, None) {
        Ok(key) => {
            shut()?;
            made(Some(key.public_key().clone()), Key::Plain(Arc::new(key)))
        }
        Err(error) => match PublicKey::from_openssh(&text) {
            Ok(public) => made(Some(public), Key::Elsewhere),
            Err(_) => Err(unusable(format!("is no private key that ferry can read: {error}"))),
        },
    }
}

/// The agent and the offers that it can sign for: first the keys of the user's files and then, as they cost a question each, the
/// others.
pub(super) struct AgentKeys {
    pub(super) agent: Agent,
    pub(super) matching: Vec<AgentOffer>,
    pub(super) others: Vec<AgentOffer>,
}

pub(super) struct AgentOffer {
    pub(super) shown: Shown,
    /// The identity in the agent's form.
    pub(super) signs: AgentIdentity,
}

pub(super) async fn ask_agent(
    options: &SshOptions,
    credentials: &Credentials,
    binding: Option<&keys::agent::AgentSessionBinding>,
) -> Result<Option<AgentKeys>, String> {
    let Some(path) = &options.agent else {
        return Ok(None);
    };
    let failed = |error: keys::Error| format!("the agent {} did not answer: {error}", path.display());
    #[cfg(unix)]
    let client = AgentClient::connect_uds(path).await.map_err(failed)?;
    #[cfg(windows)]
    let client = AgentClient::connect_named_pipe(path).await.map_err(failed)?;
    let mut agent = client.dynamic();
    if let Some(binding) = binding {
        // Only keys that are bound to a destination need the binding, and older agents do not know it.
        let _ = agent.bind_session(binding, false).await;
    }
    let held = agent.request_identities().await.map_err(failed)?;
    let offers = held.into_iter().flat_map(|signs| {
        let shown = match &signs {
            AgentIdentity::PublicKey { key, .. } => credentials.shown(key),
            AgentIdentity::Certificate { certificate, comment } => vec![Shown::Certificate {
                from: format!("the agent's {comment}"),
                certificate: Box::new(certificate.clone()),
            }],
        };
        shown.into_iter().map(move |shown| AgentOffer {
            shown,
            signs: signs.clone(),
        })
    });
    let is_named = |offer: &AgentOffer| {
        let mut named = credentials
            .identities
            .iter()
            .filter_map(|identity| identity.public.as_ref());
        named.any(|public| public.key_data() == offer.shown.key())
    };
    let (matching, mut others): (Vec<_>, Vec<_>) = offers.partition(is_named);
    if options.identities_only {
        let mut certified = credentials.certificates.iter().map(|own| own.certificate.public_key());
        others.retain(|offer| certified.any(|key| key == offer.shown.key()));
    }
    Ok(Some(AgentKeys {
        agent,
        matching,
        others,
    }))
}
