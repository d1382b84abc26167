//! The callbacks of russh's reader: bytes go straight on, everything else is noted for the task that waits for it.

use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use russh::client::{self, DisconnectReason};
use russh::keys::PublicKeyOrCertificate;
use russh::{ChannelId, ChannelOpenFailure, Names};
use tokio::sync::{Notify, oneshot};

use super::errors::{self, Failure};
use super::trust::Trust;
use super::{HostPort, Listener, OpenRefused, SshFacts};
use crate::error::Error;
use crate::sync::lock;

/// The end of a channel, as its users see it. russh wakes no task that waits for the window of a channel that is gone.
#[derive(Default)]
pub(super) struct Gate {
    closed: AtomicBool,
    changed: Notify,
    /// The task that waits for the answer to the subsystem request.
    reply: Mutex<Option<oneshot::Sender<bool>>>,
}

impl Gate {
    /// Closes the gate; returns false if it was closed already.
    pub(super) fn close(&self) -> bool {
        let first = !self.closed.swap(true, Ordering::AcqRel);
        self.changed.notify_waiters();
        lock(&self.reply).take();
        first
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(super) async fn closed(&self) {
        let mut changed = pin!(self.changed.notified());
        changed.as_mut().enable();
        if !self.is_closed() {
            changed.await;
        }
    }

    /// Returns the receiver of the answer, whose sender is dropped if the channel closes first.
    pub(super) fn expect_reply(&self) -> oneshot::Receiver<bool> {
        let (sender, receiver) = oneshot::channel();
        let mut reply = lock(&self.reply);
        if !self.is_closed() {
            *reply = Some(sender);
        }
        receiver
    }

    fn answer(&self, success: bool) {
        if let Some(reply) = lock(&self.reply).take() {
            let _ = reply.send(success);
        }
    }
}

#[derive(Default)]
struct State {
    facts: SshFacts,
    gates: HashMap<u32, Arc<Gate>>,
    /// The texts in the order of the refusals, because the number that a refused channel would have had is unknown.
    refusals: VecDeque<String>,
    /// True once `open` has returned: from now on the listener is told of the end.
    open: bool,
    /// True if ferry is closing the connection.
    closing: bool,
    end: Option<Error>,
    /// The time spent waiting for the local user or keys, and the start of the current wait.
    paused: Duration,
    pauses: Option<Instant>,
}

/// A guard: while it lives, the time does not count as the server's.
pub(super) struct Pause<'a>(&'a Shared);

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        if let Some(since) = state.pauses.take() {
            state.paused += since.elapsed();
        }
    }
}

/// The state shared by the handler, which russh owns, and the session.
pub(super) struct Shared {
    pub(super) place: HostPort,
    state: Mutex<State>,
}

impl Shared {
    pub(super) fn new(place: HostPort) -> Self {
        Self {
            place,
            state: Mutex::default(),
        }
    }

    pub(super) fn facts(&self) -> SshFacts {
        lock(&self.state).facts.clone()
    }

    /// Notes that the session is open; fails if the connection ended meanwhile.
    pub(super) fn opened(&self) -> Result<(), Error> {
        let mut state = lock(&self.state);
        state.open = true;
        state.end.clone().map_or(Ok(()), Err)
    }

    pub(super) fn closing(&self) {
        lock(&self.state).closing = true;
    }

    pub(super) fn end(&self) -> Option<Error> {
        lock(&self.state).end.clone()
    }

    pub(super) fn gate(&self, channel: u32) -> Option<Arc<Gate>> {
        lock(&self.state).gates.get(&channel).cloned()
    }

    pub(super) fn forget(&self, channel: u32) {
        lock(&self.state).gates.remove(&channel);
    }

    /// Takes the oldest pending refusal: the server's text.
    pub(super) fn refusal(&self) -> Option<String> {
        lock(&self.state).refusals.pop_front()
    }

    /// The reason for the loss of a channel that has just been opened.
    pub(super) fn channel_lost(&self) -> OpenRefused {
        if self.end().is_some() {
            return OpenRefused::Lost;
        }
        OpenRefused::Server {
            message: "the server closed the channel instead of starting its sftp subsystem".into(),
        }
    }

    pub(super) fn pause(&self) -> Pause<'_> {
        lock(&self.state).pauses = Some(Instant::now());
        Pause(self)
    }

    /// The length of all pauses, including the current one.
    pub(super) fn paused(&self) -> Duration {
        let state = lock(&self.state);
        state.paused + state.pauses.map(|since| since.elapsed()).unwrap_or_default()
    }

    fn ended<L: Listener>(&self, listener: &L, problem: Error) {
        let mut state = lock(&self.state);
        if state.end.is_some() {
            return;
        }
        state.end = Some(problem.clone());
        let gates = std::mem::take(&mut state.gates);
        let tell = state.open && !state.closing;
        drop(state);
        for gate in gates.values() {
            gate.close();
        }
        if tell {
            listener.disconnected(problem);
        }
    }
}

pub(super) struct Handler<L: Listener> {
    pub(super) shared: Arc<Shared>,
    pub(super) listener: Arc<L>,
    pub(super) trust: Trust,
}

impl<L: Listener> Handler<L> {
    fn channel_gone(&self, channel: ChannelId) {
        let gate = self.shared.gate(channel.number());
        if gate.is_some_and(|gate| gate.close()) {
            self.listener.channel_closed(channel.number());
        }
    }

    fn answer(&self, channel: ChannelId, success: bool) {
        if let Some(gate) = self.shared.gate(channel.number()) {
            gate.answer(success);
        }
    }
}

impl<L: Listener> Drop for Handler<L> {
    /// Ends all waits, however russh's task ended.
    fn drop(&mut self) {
        self.shared.ended(&*self.listener, errors::lost(&self.shared.place));
    }
}

impl<L: Listener> client::Handler for Handler<L> {
    type Error = Failure;

    async fn check_server_key(&mut self, key: &PublicKeyOrCertificate) -> Result<bool, Failure> {
        let shown = self.trust.check(key).map_err(Failure::Ours)?;
        lock(&self.shared.state).facts.host_key = shown;
        Ok(true)
    }

    async fn kex_done(
        &mut self,
        _secret: Option<&[u8]>,
        names: &Names,
        session: &mut client::Session,
    ) -> Result<(), Failure> {
        let server = String::from_utf8_lossy(session.remote_sshid()).into_owned();
        let mut state = lock(&self.shared.state);
        let software = server.splitn(3, '-').last().unwrap_or_default();
        software.clone_into(&mut state.facts.server);
        names.kex.as_ref().clone_into(&mut state.facts.kex);
        names.cipher.as_ref().clone_into(&mut state.facts.cipher);
        Ok(())
    }

    async fn data(&mut self, channel: ChannelId, bytes: &[u8], _: &mut client::Session) -> Result<(), Failure> {
        self.listener.data(channel.number(), bytes);
        Ok(())
    }

    async fn channel_open_confirmation(
        &mut self,
        channel: ChannelId,
        _max_packet_size: u32,
        _window_size: u32,
        _: &mut client::Session,
    ) -> Result<(), Failure> {
        // The gate is made here, and not by the task that awaits the channel: the server may close the channel at once.
        let gates = &mut lock(&self.shared.state).gates;
        gates.insert(channel.number(), Arc::default());
        Ok(())
    }

    async fn channel_open_failure(
        &mut self,
        _channel: ChannelId,
        reason: ChannelOpenFailure,
        description: &str,
        _language: &str,
        _: &mut client::Session,
    ) -> Result<(), Failure> {
        let text = format!("{} ({})", errors::clean(description), reason.description());
        lock(&self.shared.state).refusals.push_back(text);
        Ok(())
    }

    async fn channel_success(&mut self, channel: ChannelId, _: &mut client::Session) -> Result<(), Failure> {
        self.answer(channel, true);
        Ok(())
    }

    async fn channel_failure(&mut self, channel: ChannelId, _: &mut client::Session) -> Result<(), Failure> {
        self.answer(channel, false);
        Ok(())
    }

    async fn channel_eof(&mut self, channel: ChannelId, _: &mut client::Session) -> Result<(), Failure> {
        self.channel_gone(channel);
        Ok(())
    }

    async fn channel_close(&mut self, channel: ChannelId, _: &mut client::Session) -> Result<(), Failure> {
        self.channel_gone(channel);
        self.shared.forget(channel.number());
        Ok(())
    }

    async fn disconnected(&mut self, reason: DisconnectReason<Failure>) -> Result<(), Failure> {
        let problem = match reason {
            DisconnectReason::ReceivedDisconnect(info) => errors::of_disconnect(&self.shared.place, &info),
            DisconnectReason::Error(failure) => failure.problem(&self.shared.place),
        };
        self.shared.ended(&*self.listener, problem);
        Ok(())
    }
}
