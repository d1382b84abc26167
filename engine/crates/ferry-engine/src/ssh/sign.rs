//! Signatures by key files and by an agent, made when the server has said that it would take the key.

use std::sync::Arc;

use russh::Signer;
use russh::keys::agent::AgentIdentity;
use russh::keys::ssh_key::encoding::Encode;
use russh::keys::ssh_key::private::KeypairData;
use russh::keys::{HashAlg, PrivateKey, ssh_key};
use signature::Signer as _;

use super::SshOptions;
use super::handler::Shared;
use super::keys::{Agent, Identity};

pub(super) struct FileSigner<'a> {
    pub(super) identity: &'a Identity,
    pub(super) options: &'a SshOptions,
    pub(super) shared: &'a Shared,
}

/// The reason for a missing signature.
pub(super) enum Unsigned {
    /// The connection is gone.
    Lost,
    Because(String),
}

impl From<russh::SendError> for Unsigned {
    fn from(_: russh::SendError) -> Self {
        Self::Lost
    }
}

impl Signer for FileSigner<'_> {
    type Error = Unsigned;

    async fn auth_sign(
        &mut self,
        _: &AgentIdentity,
        hash: Option<HashAlg>,
        mut to_sign: Vec<u8>,
    ) -> Result<Vec<u8>, Unsigned> {
        let key = self.identity.private(self.options, self.shared).await;
        let key: Arc<PrivateKey> = key.map_err(Unsigned::Because)?;
        let signed = sign(&key, hash, &to_sign).and_then(|signature| Ok(signature.encode(&mut to_sign)?));
        let path = self.identity.path.display();
        signed.map_err(|error| Unsigned::Because(format!("the key {path} cannot sign: {error}")))?;
        Ok(to_sign)
    }
}

/// Signs with a key that an agent holds, which may be the key of a certificate unknown to the agent.
pub(super) struct AgentSigner<'a> {
    pub(super) agent: &'a mut Agent,
    pub(super) signs: &'a AgentIdentity,
}

impl Signer for AgentSigner<'_> {
    type Error = Unsigned;

    async fn auth_sign(
        &mut self,
        _: &AgentIdentity,
        hash: Option<HashAlg>,
        to_sign: Vec<u8>,
    ) -> Result<Vec<u8>, Unsigned> {
        let signed = self.agent.sign_request(self.signs, hash, to_sign).await;
        signed.map_err(|error| {
            Unsigned::Because(format!("the agent did not sign with {}: {error}", self.signs.comment()))
        })
    }
}

/// Signs in the form of RFC 4253, section 6.6. The hash is for RSA, which has a choice.
fn sign(key: &PrivateKey, hash: Option<HashAlg>, data: &[u8]) -> Result<Vec<u8>, ssh_key::Error> {
    let signature = match key.key_data() {
        KeypairData::Rsa(pair) => (pair, hash).try_sign(data)?,
        other => other.try_sign(data)?,
    };
    Ok(signature.encode_vec()?)
}
