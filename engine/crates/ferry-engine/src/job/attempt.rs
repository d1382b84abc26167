//! The end of an attempt, the same for HTTP and SFTP: its record in the entry, and the decision on another attempt.

use std::time::{Duration, Instant};

use http::Method;

use super::entry::{Entry, Kind};
use super::policy::{MOST_ATTEMPTS, Retries};
use crate::error::Error;
use crate::log;
use crate::report::Attempt;
use crate::sync::lock;
use crate::transfer::Facts;
use crate::transfer::receive::Receiver;

/// The facts of a failed attempt that decide whether its request may be repeated.
pub struct Failed<'a> {
    pub problem: Error,
    pub method: &'a Method,
    /// Bytes of the request's body have left.
    pub sent: bool,
    /// Bytes that need not be transferred again.
    pub kept: u64,
}

impl Entry {
    /// Stores the measurements, and returns a download's file to its entry. The attempt for the report has no error yet.
    pub fn end_attempt(&mut self, facts: Facts, offset: u64, receiver: Option<Box<Receiver>>) -> Attempt {
        let attempt = Attempt {
            offset,
            bytes: facts.bytes,
            total_s: facts.phases.total_s,
            status: facts.status,
            waited_s: std::mem::take(&mut self.waited_s),
            error: None,
        };
        self.facts = facts;
        self.offset = offset;
        if let Kind::Get { state, .. } = &self.kind {
            let mut state = lock(state);
            self.size = state.size;
            if let Some(receiver) = receiver {
                state.sink = Some(receiver.into_parts());
            }
        }
        attempt
    }

    /// Keeps the attempt for the report. Returns the wait before the next attempt, or `None` once the entry is over.
    pub fn close(&mut self, mut attempt: Attempt, failed: Option<Failed<'_>>, retries: &Retries) -> Option<Duration> {
        attempt.error = failed.as_ref().map(|failed| failed.problem.failure());
        self.attempts.push(attempt);
        let Some(failed) = failed else {
            self.over = true;
            return None;
        };
        self.next_attempt(failed, retries)
    }

    /// Returns the wait before the next attempt. Without one the entry is over, and keeps its partial file if another run can
    /// resume it.
    fn next_attempt(&mut self, failed: Failed<'_>, retries: &Retries) -> Option<Duration> {
        // Bytes that need not come again earn a fresh set of retries: a long download over a bad line is not given up for having been long.
        self.failures = if failed.kept > 0 && self.keeps_progress() {
            1
        } else {
            self.failures + 1
        };
        let now = Instant::now();
        let wait = retries
            .wait(
                &failed.problem,
                failed.method,
                failed.sent,
                self.failures,
                fastrand::f64(),
            )
            .filter(|wait| self.deadline.is_none_or(|deadline| now + *wait < deadline))
            .filter(|_| self.attempts.len() < MOST_ATTEMPTS && self.rewind());
        let (attempt, class) = (self.attempts.len(), failed.problem.class);
        let url = log::shown(&self.remote.url);
        if let Some(wait) = wait {
            tracing::info!(url, attempt, ?class, ?wait, "failed, and is tried again");
        } else {
            tracing::info!(url, attempt, ?class, "failed");
            self.give_up(failed.problem);
        }
        wait
    }
}
