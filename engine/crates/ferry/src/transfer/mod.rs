//! One attempt at a transfer: a request, its answer and its body, over a connection that carries one or several at once.
//!
//! `session` runs the loop; `h1` and `h2` know their protocol; `exchange` is what both have in common. What an answer means for the
//! local side is decided by the task (`Work`), what a failure means for the next attempt by `job`.

pub mod bench;
pub mod connect;
pub mod exchange;
mod h1;
mod h2;
pub mod receive;
pub mod send;
pub mod session;
pub mod throttle;
mod window;

use std::time::{Duration, Instant};

use http::{HeaderMap, Method};
use url::Url;

use crate::report::{Phases, Problem, SendBufferFacts, SeriesFacts, TcpSample};
use receive::Receiver;
use send::Sender;
use throttle::Limit;

/// What holds for every transfer of a run.
#[derive(Clone)]
pub struct Settings {
    pub limit: Limit,
    pub buffer_size: usize,
    pub timeouts: Timeouts,
    /// Streams at once on one connection.
    pub parallel: usize,
}

#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    pub connect: Duration,
    pub tls: Duration,
    pub first_byte: Duration,
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

    /// Bytes moved so far, for the progress line; called some ten times a second.
    fn progress(&mut self, moved: u64);
}

/// Head of a final response.
#[derive(Debug, Clone, Default)]
pub struct Head {
    pub status: u16,
    pub headers: HeaderMap,
    /// Announced by Content-Length, and checked.
    pub content_length: Option<u64>,
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
    Failed(Problem),
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
    pub shortfall_s: f64,
    pub series: Option<SeriesFacts>,
    pub tcp: Vec<TcpSample>,
    pub sndbuf: Option<SendBufferFacts>,
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
