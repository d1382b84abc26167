//! The books of a run, kept on the calling thread while a session works on its own.

use std::sync::mpsc;
use std::time::Instant;

use http::Method;

use super::super::entry::{Entry, Kind};
use super::super::policy::{MOST_ATTEMPTS, Retries};
use super::super::worker::lock;
use super::errand::Tree;
use crate::report::{Attempt, Class, FileSet, Problem, SshReport};
use crate::sftp::{Outcome, SessionFacts, Work};

/// What the session's thread tells the books.
pub enum Event {
    /// Found in a tree; its number is the next one.
    New(Box<Entry>),
    Done(Box<Outcome>),
    Skipped,
    /// There is nothing more to be found in it.
    Listed(usize),
    Over(Box<SessionFacts>, Result<(), Problem>),
}

/// What the calling thread writes down while a session runs.
pub struct Books<'a> {
    pub entries: &'a mut Vec<Entry>,
    pub trees: &'a mut Vec<(usize, Tree)>,
    pub facts: &'a mut FileSet,
    pub ssh: &'a mut Option<SshReport>,
    pub moved: &'a mut Option<(Instant, Instant)>,
    pub progress: &'a mut u64,
    pub retries: Retries,
    pub begin: Instant,
    /// Some file was begun.
    pub touched: bool,
}

impl Books<'_> {
    /// Until the session is over.
    pub fn keep(mut self, inbox: &mpsc::Receiver<Event>) -> Option<Problem> {
        for event in inbox {
            match event {
                Event::New(entry) => self.entries.push(*entry),
                Event::Skipped => self.facts.skipped += 1,
                Event::Listed(tree) => self.trees.retain(|(number, _)| *number != tree),
                Event::Done(outcome) => self.close(*outcome),
                Event::Over(facts, result) => {
                    if facts.ssh.is_some() {
                        *self.ssh = facts.ssh;
                    }
                    return result.err();
                }
            }
        }
        None
    }

    /// Books an attempt at a file, and decides whether there is another.
    fn close(&mut self, mut outcome: Outcome) {
        let entry = &mut self.entries[outcome.task.transfer];
        if let Some((from, to)) = outcome.moved {
            let (first, last) = self.moved.get_or_insert((from, to));
            *first = (*first).min(from);
            *last = (*last).max(to);
        }
        let moved = outcome.facts.bytes;
        // What was sent and not acknowledged has to be sent again.
        let kept = match &outcome.task.work {
            Work::Get(_) => moved,
            Work::Put(_) => outcome.acknowledged.saturating_sub(outcome.offset),
        };
        *self.progress += kept;
        if let Work::Put(outbound) = &mut outcome.task.work {
            let sent = outcome.sender.take().map(|sender| sender.into_parts().0);
            entry.size = outbound.length().or(entry.size);
            entry.take_back(sent.or_else(|| outbound.reclaim()));
        }
        if outcome.untouched {
            let Err(problem) = outcome.result else { return };
            if !self.touched {
                // Nobody got as far as a file, so this was everybody's attempt.
                entry.attempts.push(Attempt {
                    offset: 0,
                    bytes: 0,
                    total_s: self.begin.elapsed().as_secs_f64(),
                    status: None,
                    waited_s: std::mem::take(&mut entry.waited_s),
                    error: Some(problem.failure()),
                });
            }
            if problem.class != Class::Transient {
                entry.give_up(problem);
            }
            return;
        }
        self.touched = true;
        let mut attempt = Attempt {
            offset: outcome.offset,
            bytes: moved,
            total_s: outcome.facts.phases.total_s,
            status: None,
            waited_s: std::mem::take(&mut entry.waited_s),
            error: None,
        };
        entry.facts = outcome.facts;
        entry.offset = outcome.offset;
        if let Kind::Get { notes, .. } = &entry.kind {
            let mut notes = lock(notes);
            entry.size = notes.size;
            if let Some(receiver) = outcome.receiver {
                notes.kept = Some(receiver.into_parts());
            }
        }
        if let Work::Put(outbound) = &mut outcome.task.work {
            entry.digest = outbound.digest();
            entry.acknowledged(outcome.acknowledged);
        }
        let problem = match outcome.result {
            Ok(()) => {
                let sent = matches!(outcome.task.work, Work::Put(_));
                if sent { None } else { entry.complete(None).err() }
            }
            Err(problem) => Some(problem),
        };
        attempt.error = problem.as_ref().map(Problem::failure);
        entry.attempts.push(attempt);
        let Some(problem) = problem else {
            entry.over = true;
            return;
        };
        entry.failures = if kept > 0 && entry.keeps_progress() {
            1
        } else {
            entry.failures + 1
        };
        let again = self
            .retries
            .wait(&problem, &Method::PUT, true, entry.failures, 0.5)
            .is_some();
        if !again || entry.attempts.len() >= MOST_ATTEMPTS || !entry.rewind() {
            entry.give_up(problem);
        }
    }
}
