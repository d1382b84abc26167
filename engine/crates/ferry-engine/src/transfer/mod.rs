//! One attempt at a transfer: a request, its answer and its body, over a connection that carries one or several at once.
//!
//! `session` runs the loop; `h1` and `h2` know their protocol, `h3` has a loop of its own; `exchange` and `rounds` are what all have in common. `line` chooses. What an answer means
//! for the local side is decided by the task (`Work`), what a failure means for the next attempt by `job`.

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

/// What holds for every transfer of a run.
#[derive(Clone)]
pub struct Settings {
    pub limit: Limit,
    /// Queues are left to others.
    pub background: Option<Pace>,
    pub buffer_size: usize,
    pub timeouts: Timeouts,
    /// Looked at every 100 ms.
    pub stop: Stop,
    /// Streams at once on one connection.
    pub parallel: usize,
}

impl Settings {
    /// What holds a body back that is sent.
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
    /// Of silence after a complete upload.
    pub answer: Option<Duration>,
    pub stall: Duration,
    pub total: Option<Duration>,
}

/// One request to be made.
pub struct Task {
    /// Which of the run's transfers it belongs to.
    pub transfer: usize,
    pub url: Url,
    pub method: Method,
    pub headers: HeaderMap,
    /// Body bytes that are there already (resume): the answer's body begins here.
    pub offset: u64,
    /// For all attempts together, set when the first one begins (`--timeout-total`).
    pub deadline: Option<Instant>,
    pub work: Box<dyn Work>,
}

/// The local side of a task.
pub trait Work: Send {
    /// The body of the request; called once.
    fn sender(&mut self, settings: &Settings) -> Option<Sender>;

    /// What to do with the body of this answer.
    fn answer(&mut self, head: &Head, settings: &Settings) -> Answer;

    /// The body is over, after so many bytes: whether that is all of it. `delimited` as in [`Head`].
    ///
    /// # Errors
    /// The attempt has failed with this.
    fn complete(&mut self, came: u64, delimited: bool) -> Result<(), Error> {
        let _ = (came, delimited);
        Ok(())
    }

    /// Bytes moved so far, for the progress line; called some ten times a second.
    fn progress(&mut self, moved: u64);

    /// Whether the rest of the answer is of any use; asked as often. If not, the attempt is done and the connection is given up.
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
    /// Into this.
    Receive(Box<Receiver>),
    /// Read it and forget it: an upload's answer.
    Discard,
    /// There is nothing to do with it: this is how the attempt ends.
    Over(Ending),
}

/// How an attempt ended.
pub enum Ending {
    Done,
    /// As the server wrote it.
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
    /// The download's sink and the upload's source go back to who made them.
    pub receiver: Option<Box<Receiver>>,
    pub sender: Option<Sender>,
}

/// What was measured of an attempt.
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
    /// What the sender or the receiver of a body has measured, and when the body began and ended. `since` is the begin of the attempt,
    /// `sent_by` the end of an upload.
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

/// Where a connection gets its work from, and gives it back.
pub trait Tasks {
    fn pull(&mut self, now: Instant) -> Pull;
    fn done(&mut self, outcome: Outcome);
}

pub enum Pull {
    Task(Box<Task>),
    /// Something is waiting for its time.
    Later(Instant),
    /// Nothing is left for this connection.
    Empty,
}
