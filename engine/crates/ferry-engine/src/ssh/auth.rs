//! Authentication of the user: agent keys, key files, a password, in this order; never `none` first, which would cost a round
//! trip for a refusal.

use std::time::Duration;

use russh::client::{AuthResult, Handle, KeyboardInteractiveAuthResponse};
use russh::keys::{Algorithm, Certificate, HashAlg};
use russh::{MethodKind, MethodSet, Signer};

use super::errors::{self, Failure};
use super::handler::{Handler, Shared};
use super::keys::{self, Agent, AgentOffer, Credentials, Identity, Shown};
use super::sign::{AgentSigner, FileSigner, Unsigned};
use super::{Listener, SshOptions};
use crate::error::Error;

/// The method that convinced the server, and the number of waits for the server.
pub(super) struct Login {
    pub(super) method: &'static str,
    pub(super) waits: u32,
}

pub(super) async fn log_in<L: Listener>(
    handle: &mut Handle<Handler<L>>,
    shared: &Shared,
    options: &SshOptions,
    credentials: &Credentials,
) -> Result<Login, Error> {
    let binding = handle.agent_session_binding().cloned();
    let mut attempts = Attempts {
        handle,
        shared,
        tried: Vec::new(),
        notes: [credentials.notes.clone(), credentials.doubts()].concat(),
        unusable: Vec::new(),
        offers: None,
        // One wait is for the service request, whose answer russh awaits separately.
        waits: 1,
    };
    let method = attempts.all(options, credentials, binding.as_ref()).await?;
    match method {
        Some(method) => Ok(Login {
            method,
            waits: attempts.waits,
        }),
        None => Err(attempts.refused()),
    }
}

struct Attempts<'a, L: Listener> {
    handle: &'a mut Handle<Handler<L>>,
    shared: &'a Shared,
    tried: Vec<String>,
    /// Credentials that were not tried, with the reasons, and possible objections of the server.
    notes: Vec<String>,
    /// The reasons for keys that could not sign.
    unusable: Vec<String>,
    /// The methods that the server offers, known after the first refusal.
    offers: Option<MethodSet>,
    waits: u32,
}

impl<L: Listener> Attempts<'_, L> {
    async fn all(
        &mut self,
        options: &SshOptions,
        credentials: &Credentials,
        binding: Option<&russh::keys::agent::AgentSessionBinding>,
    ) -> Result<Option<&'static str>, Error> {
        let mut agent = keys::ask_agent(options, credentials, binding)
            .await
            .unwrap_or_else(|why| {
                self.notes.push(why);
                None
            });
        if let Some(agent) = &mut agent {
            for offer in std::mem::take(&mut agent.matching) {
                if self.agent_key(&mut agent.agent, offer).await? {
                    return Ok(Some("agent"));
                }
            }
        }
        for identity in &credentials.identities {
            if let Some(how) = self.key_file(identity, credentials, options).await? {
                return Ok(Some(how));
            }
        }
        if let Some(agent) = &mut agent {
            for offer in std::mem::take(&mut agent.others) {
                if self.agent_key(&mut agent.agent, offer).await? {
                    return Ok(Some("agent"));
                }
            }
        }
        if let Some(password) = &options.password
            && self.password(password.reveal()).await?
        {
            return Ok(Some("password"));
        }
        if self.tried.is_empty() {
            // With nothing to show, the server at least says what it wants, and some servers want nothing.
            let user = self.shared.place.user.clone();
            let answer = self.handle.authenticate_none(user).await;
            if self.done("none", 1, answer)? {
                return Ok(Some("none"));
            }
        }
        Ok(None)
    }

    /// Returns false if the server has said that it does not take this method.
    fn is_offered(&self, method: MethodKind) -> bool {
        self.offers.as_ref().is_none_or(|offers| offers.contains(&method))
    }

    /// Tries the key's certificates and the key itself; returns the method that the server accepted.
    async fn key_file(
        &mut self,
        identity: &Identity,
        credentials: &Credentials,
        options: &SshOptions,
    ) -> Result<Option<&'static str>, Error> {
        if let Some(why) = identity.unusable(options) {
            self.unusable.push(why);
            return Ok(None);
        }
        let public = match &identity.public {
            Some(public) => public.clone(),
            None => match identity.private(options, self.shared).await {
                Ok(private) => private.public_key().clone(),
                Err(why) => {
                    self.unusable.push(why);
                    return Ok(None);
                }
            },
        };
        for shown in credentials.shown(&public) {
            let label = match &shown {
                Shown::Key(_) => format!("publickey ({})", identity.path.display()),
                Shown::Certificate { from, .. } => format!("certificate ({from})"),
            };
            let signer = FileSigner {
                identity,
                options,
                shared: self.shared,
            };
            if self.show(&label, &shown, signer).await? {
                return Ok(Some(match shown {
                    Shown::Key(_) => "publickey",
                    Shown::Certificate { .. } => "certificate",
                }));
            }
        }
        Ok(None)
    }

    async fn agent_key(&mut self, agent: &mut Agent, offer: AgentOffer) -> Result<bool, Error> {
        let label = match &offer.shown {
            Shown::Key(key) => format!("publickey (agent's {} {})", key.algorithm(), offer.signs.comment()),
            Shown::Certificate { from, .. } => format!("certificate ({from})"),
        };
        let signs = &offer.signs;
        self.show(&label, &offer.shown, AgentSigner { agent, signs }).await
    }

    async fn show<S: Signer<Error = Unsigned>>(
        &mut self,
        label: &str,
        shown: &Shown,
        mut signer: S,
    ) -> Result<bool, Error> {
        for hash in hashes(shown.algorithm()) {
            if !self.is_offered(MethodKind::PublicKey) || !self.may_take(hash).await {
                return Ok(false);
            }
            let user = self.shared.place.user.clone();
            let handle = &mut *self.handle;
            let answer = match shown {
                Shown::Key(key) => {
                    handle
                        .authenticate_publickey_with(user, key.clone(), hash, &mut signer)
                        .await
                }
                Shown::Certificate { certificate, .. } => {
                    let certificate = Certificate::clone(certificate);
                    handle
                        .authenticate_certificate_with(user, certificate, hash, &mut signer)
                        .await
                }
            };
            match answer {
                Ok(answer) => {
                    if self.done(label, 2, Ok(answer))? {
                        return Ok(true);
                    }
                }
                Err(Unsigned::Lost) => return Err(self.broken(russh::Error::SendError)),
                Err(Unsigned::Because(why)) => {
                    self.waits += 1;
                    self.unusable.push(why);
                    return Ok(false);
                }
            }
        }
        Ok(false)
    }

    /// Returns true if an RSA signature with this hash is worth a question. SHA-512 always is: asking russh for the server's
    /// hashes can cost a second if the server does not tell them. After a refusal the answer has long arrived or never will.
    async fn may_take(&self, hash: Option<HashAlg>) -> bool {
        if hash != Some(HashAlg::Sha256) {
            return true;
        }
        let answer = tokio::time::timeout(Duration::from_millis(20), self.handle.best_supported_rsa_hash()).await;
        // Some(Sha512) means that the refusal was of the key and not of the hash.
        !matches!(answer, Ok(Ok(Some(Some(HashAlg::Sha512)))))
    }

    async fn password(&mut self, password: &str) -> Result<bool, Error> {
        let user = self.shared.place.user.clone();
        if self.is_offered(MethodKind::Password) {
            let answer = self.handle.authenticate_password(user.clone(), password).await;
            if self.done("password", 1, answer)? {
                return Ok(true);
            }
            // A wrong password is not sent a second time under another name.
            if self.is_offered(MethodKind::Password) {
                return Ok(false);
            }
        }
        if !self.is_offered(MethodKind::KeyboardInteractive) {
            return Ok(false);
        }
        self.keyboard_interactive(user, password).await
    }

    /// Sends the password by the method of servers with PAM. Only a single question whose answer is not shown is one for a
    /// password.
    async fn keyboard_interactive(&mut self, user: String, password: &str) -> Result<bool, Error> {
        use KeyboardInteractiveAuthResponse as Answer;
        let label = "keyboard-interactive";
        let mut answer = self
            .handle
            .authenticate_keyboard_interactive_start(user, None)
            .await
            .map_err(|error| self.broken(error))?;
        let mut asked = false;
        loop {
            self.waits += 1;
            let responses = match answer {
                Answer::Success => return Ok(true),
                Answer::Failure {
                    remaining_methods,
                    partial_success,
                } => {
                    let failure = AuthResult::Failure {
                        remaining_methods,
                        partial_success,
                    };
                    return self.done(label, 0, Ok(failure));
                }
                Answer::InfoRequest { prompts, .. } => match &prompts[..] {
                    [] => Vec::new(),
                    [prompt] if !prompt.echo && !asked => {
                        asked = true;
                        vec![password.to_owned()]
                    }
                    _ => {
                        let question = prompts.first().map_or("", |prompt| &prompt.prompt);
                        self.notes.push(format!("{label} asks \"{}\"", errors::clean(question)));
                        // Empty answers end the exchange, so that the refusal has the usual form.
                        vec![String::new(); prompts.len()]
                    }
                },
            };
            answer = self
                .handle
                .authenticate_keyboard_interactive_respond(responses)
                .await
                .map_err(|error| self.broken(error))?;
        }
    }

    /// Notes an answer; returns true when the server has let the user in.
    fn done(&mut self, label: &str, waits: u32, answer: Result<AuthResult, russh::Error>) -> Result<bool, Error> {
        match answer.map_err(|error| self.broken(error))? {
            AuthResult::Success => {
                tracing::debug!(method = ?label, "authenticated");
                self.waits += waits;
                Ok(true)
            }
            AuthResult::Failure {
                remaining_methods,
                partial_success,
            } => {
                tracing::debug!(method = ?label, remaining = ?remaining_methods, "authentication refused");
                // A key is refused when it is shown, before anything is signed.
                self.waits += waits.min(1);
                if self.tried.last().is_none_or(|last| last != label) {
                    self.tried.push(label.to_owned());
                }
                if partial_success {
                    self.notes.push(format!("{label} was accepted, but more is wanted"));
                }
                // russh gives the same answer when the connection is gone.
                if let Some(end) = self.shared.end()
                    && remaining_methods.is_empty()
                {
                    return Err(self.ended(end));
                }
                self.offers = Some(remaining_methods);
                Ok(false)
            }
        }
    }

    fn broken(&self, error: russh::Error) -> Error {
        match self.shared.end() {
            Some(end) => self.ended(end),
            None => Failure::from(error).problem(&self.shared.place),
        }
    }

    /// The error for a server that hung up: over the credentials it was shown, or for reasons of its own.
    fn ended(&self, end: Error) -> Error {
        if end.class == crate::error::Class::Permanent {
            let refused = self.refused().message;
            let place = self.shared.place.to_string();
            let why = end.message.strip_prefix(&place).unwrap_or(&end.message);
            return Error::permanent(format!("{refused}{why}"));
        }
        end
    }

    fn refused(&self) -> Error {
        use std::fmt::Write;
        let place = &self.shared.place;
        let nothing_to_show = !self.tried.iter().any(|tried| tried != "none");
        if nothing_to_show && !self.unusable.is_empty() {
            return Error::local(format!("{place}: {}", self.unusable.join("; ")));
        }
        let tried = self.tried.join(", ");
        let mut message = format!("{place}: the server refused user {}: tried {tried}", place.user);
        if let Some(offers) = &self.offers {
            let names: Vec<&str> = offers.iter().map(<&str>::from).collect();
            let _ = write!(
                message,
                "; it offers {}",
                if names.is_empty() {
                    "nothing else".into()
                } else {
                    names.join(", ")
                }
            );
        }
        for note in self.notes.iter().chain(&self.unusable) {
            let _ = write!(message, "; {note}");
        }
        if nothing_to_show {
            message.push_str("; name a key with --identity, or a password with --password-file");
        }
        Error::permanent(message)
    }
}

/// RSA keys sign with one of two hashes; neither is SHA-1.
fn hashes(algorithm: Algorithm) -> Vec<Option<HashAlg>> {
    if algorithm.is_rsa() {
        vec![Some(HashAlg::Sha512), Some(HashAlg::Sha256)]
    } else {
        vec![None]
    }
}
