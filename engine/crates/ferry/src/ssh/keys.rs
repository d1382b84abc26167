//! What we may show a server: keys from files, an agent's, a password.

use std::path::PathBuf;
use std::sync::Arc;

use russh::keys::agent::AgentIdentity;
use russh::keys::agent::client::{AgentClient, AgentStream};
use russh::keys::{self, PrivateKey, PublicKey};

use super::SshOptions;
use crate::report::Problem;

pub(super) type Agent = AgentClient<Box<dyn AgentStream + Send + Unpin>>;

/// A key file that could be read.
pub(super) struct Identity {
    pub(super) path: PathBuf,
    /// None when it is encrypted: an agent may have it all the same.
    pub(super) private: Option<Arc<PrivateKey>>,
    pub(super) public: Option<PublicKey>,
}

/// Whatever is wrong with a file the user named is a failure, before the server is asked anything.
pub(super) fn load(options: &SshOptions) -> Result<Vec<Identity>, Problem> {
    options.identities.iter().map(load_one).collect()
}

fn load_one(path: &PathBuf) -> Result<Identity, Problem> {
    let unusable = |why: String| Problem::local(format!("the key file {} {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| unusable(format!("cannot be read: {error}")))?;
    match keys::decode_secret_key(&text, None) {
        Ok(key) => Ok(Identity {
            path: path.clone(),
            public: Some(key.public_key().clone()),
            private: Some(Arc::new(key)),
        }),
        Err(error) => {
            // OpenSSH's own format shows the public half of an encrypted key; the others leave it to a file beside them.
            let inner = PrivateKey::from_openssh(&text).ok();
            let is_encrypted = matches!(error, keys::Error::KeyIsEncrypted)
                || inner.as_ref().is_some_and(PrivateKey::is_encrypted)
                || text.contains("ENCRYPTED");
            if !is_encrypted {
                return Err(unusable(format!("is no private key that ferry can read: {error}")));
            }
            let public = inner.map(|key| key.public_key().clone()).or_else(|| {
                let mut beside = path.clone().into_os_string();
                beside.push(".pub");
                PublicKey::from_openssh(&std::fs::read_to_string(beside).ok()?).ok()
            });
            Ok(Identity {
                path: path.clone(),
                private: None,
                public,
            })
        }
    }
}

/// The agent and the keys it has, those of the user's files first and then, as they cost a question each, the others.
pub(super) struct AgentKeys {
    pub(super) agent: Agent,
    pub(super) matching: Vec<PublicKey>,
    pub(super) others: Vec<PublicKey>,
}

pub(super) async fn ask_agent(
    options: &SshOptions,
    identities: &[Identity],
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
        // Only keys that are bound to a destination need it, and older agents do not know it.
        let _ = agent.bind_session(binding, false).await;
    }
    let held = agent.request_identities().await.map_err(failed)?;
    let is_named = |key: &PublicKey| {
        identities
            .iter()
            .filter_map(|identity| identity.public.as_ref())
            .any(|public| public.key_data() == key.key_data())
    };
    let (matching, others) = held
        .into_iter()
        .filter_map(|identity| match identity {
            AgentIdentity::PublicKey { key, .. } => Some(key),
            AgentIdentity::Certificate { .. } => None,
        })
        .partition(is_named);
    Ok(Some(AgentKeys {
        agent,
        matching,
        others,
    }))
}
