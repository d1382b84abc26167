//! One attempt at a transfer: a request, its answer and its body, over a connection that carries one or several at once.
//!
//! `session` runs the loop; `h1` and `h2` know their protocol, `h3` has a loop of its own; `exchange` and `rounds` are common to
//! all. `line` chooses the protocol. The task (`Work`) decides the meaning of an answer for the local side, and `job` the
//! consequence of a failure for the next attempt.

pub mod background;
pub mod coding;
pub mod connect;
mod decoding;
mod delivery;
pub mod exchange;
mod h1;
mod h2;
pub mod h3;
pub mod line;
pub mod pace;
pub mod receive;
mod rounds;
pub mod samples;
pub mod send;
pub mod session;
pub mod throttle;
mod window;
mod wire;

use std::time::{Duration, Instant};

use http::{HeaderMap, Method};
use url::Url;

use crate::clock::{nanos, seconds};
use crate::error::Error;
use crate::report::{Phases, SendBufferFacts, SeriesFacts, TcpSample};
use crate::stop::Stop;
use coding::Coding;
use pace::Pace;
use receive::Receiver;
use send::Sender;
use throttle::{Limit, Throttle};

pub use decoding::Decoding;
pub use wire::{addressed, host, target};

/// The settings common to every transfer of a run.
#[derive(Clone)]
pub struct Settings {
    pub limit: Limit,
    /// The pace of a run in the background, which leaves queues to others.
    pub background: Option<Pace>,
    pub buffer_size: usize,
    pub timeouts: Timeouts,
    /// Looked at every 100 ms.
    pub stop: Stop,
    /// The most streams at once on one connection.
    pub parallel: usize,
}

impl Settings {
    /// Returns the throttle of an outgoing body: the limit, and the pace of a run in the background.
    #[must_use]
    pub fn outgoing(&self) -> Throttle {
        let limit = self.limit.throttle();
        match &self.background {
            None => limit,
            Some(pace) => Throttle::Yielding {
                limit: Box::new(limit),
                pace: pace.clone(),
            },
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    pub connect: Duration,
    pub tls: Duration,
    pub first_byte: Duration,
    /// The longest silence of a server after a complete upload; `None` allows any.
    pub answer: Option<Duration>,
    pub stall: Duration,
    pub total: Option<Duration>,
}

/// One request to be made.
pub struct Task {
    /// The index of its transfer in the run.
    pub transfer: usize,
    pub url: Url,
    pub method: Method,
    pub headers: HeaderMap,
    /// Body bytes that are there already (resume): the answer's body begins here.
    pub offset: u64,
    /// The deadline of all attempts together, set when the first one begins (`--timeout-total`).
    pub deadline: Option<Instant>,
    pub work: Box<dyn Work>,
}

/// The local side of a task.
pub trait Work: Send {
    /// The body of the request; called once.
    fn sender(&mut self, settings: &Settings) -> Option<Sender>;

    /// Decides the use of this answer's body.
    fn answer(&mut self, head: &Head, settings: &Settings) -> Answer;

    /// Checks that a body which ended after `came` bytes is complete. `delimited` as in [`Head`].
    ///
    /// # Errors
    /// The attempt has failed with this.
    fn complete(&mut self, came: u64, delimited: bool) -> Result<(), Error> {
        let _ = (came, delimited);
        Ok(())
    }

    /// Bytes moved so far, for the progress line; called some ten times a second.
    fn progress(&mut self, moved: u64);

    /// Returns false once the rest of the answer is of no use; called some ten times a second. The attempt is then done, and the
    /// connection is given up.
    fn is_wanted(&self) -> bool {
        true
    }
}

/// Head of a final response.
#[derive(Debug, Clone, Default)]
pub struct Head {
    pub status: u16,
    pub headers: HeaderMap,
    /// Announced by Content-Length, and checked.
    pub content_length: Option<u64>,
    /// Something says where the body ends. In HTTP/1 that may be the end of the connection alone, which a body that is cut short has too.
    pub delimited: bool,
}

pub enum Answer {
    /// The receiver takes the body.
    Receive(Box<Receiver>),
    /// The body is read and dropped: an upload's answer.
    Discard,
    /// The body has no use, and the attempt ends like this.
    Over(Ending),
}

/// The result of an attempt.
pub enum Ending {
    Done,
    /// The answer is a redirect; `location` is as the server wrote it.
    Redirect {
        status: u16,
        location: String,
    },
    Failed(Error),
}

/// An attempt that is over.
pub struct Outcome {
    pub task: Task,
    pub ending: Ending,
    pub facts: Facts,
    /// The download's sink and the upload's source return to the code that made them.
    pub receiver: Option<Box<Receiver>>,
    pub sender: Option<Sender>,
}

/// The measurements of an attempt.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    pub protocol: Option<&'static str>,
    pub remote: Option<String>,
    pub tls: Option<crate::report::TlsFacts>,
    pub status: Option<u16>,
    pub phases: Phases,
    pub bytes: u64,
    /// The coding of the body that was decoded, and the bytes of the file that came of it.
    pub decoded: Option<(Coding, u64)>,
    pub shortfall_s: f64,
    pub series: Option<SeriesFacts>,
    pub tcp: Vec<TcpSample>,
    pub sndbuf: Option<SendBufferFacts>,
}

impl Facts {
    /// Returns the measurements of a body's sender or receiver, and the start and the end of the body. `since` is the start of
    /// the attempt, `sent_by` returns the end of an upload.
    pub fn of_body(
        since: Instant,
        sender: Option<&mut Sender>,
        sent_by: impl Fn(&Sender) -> Option<Instant>,
        receiver: Option<&mut Receiver>,
    ) -> (Self, Option<(Instant, Instant)>) {
        let mut facts = Self::default();
        let (began, ended, series) = if let Some(sender) = sender {
            facts.bytes = sender.given;
            facts.shortfall_s = sender.throttle.shortfall_s();
            (sender.began, sent_by(sender), sender.series.take())
        } else if let Some(receiver) = receiver {
            facts.bytes = receiver.delivered;
            facts.decoded = receiver.decoded();
            facts.shortfall_s = receiver.throttle.shortfall_s();
            let ended = receiver.ended.or(receiver.last_moved());
            (receiver.began, ended, receiver.series.take())
        } else {
            (None, None, None)
        };
        facts.series = series.zip(ended).map(|(series, end)| series.finish(nanos(end).0));
        facts.phases.body_start_s = began.map(|at| seconds(since, at));
        facts.phases.body_s = began.zip(ended).map(|(from, to)| seconds(from, to));
        (facts, began.zip(ended))
    }
}

/// The source of a connection's tasks, which also takes their outcomes.
pub trait Tasks {
    fn pull(&mut self, now: Instant) -> Pull;
    fn done(&mut self, outcome: Outcome);
}

pub enum Pull {
    Task(Box<Task>),
    /// A task is waiting for its time.
    Later(Instant),
    /// Nothing is left for this connection.
    Empty,
}
