//! Records the attempts of a run, on the calling thread, while the session works on its own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Instant;

use http::Method;

use super::super::attempt::Failed;
use super::super::policy::Retries;
use super::entries::Entries;
use super::events::{Event, Tree};
use crate::error::{Class, Error};
use crate::files::Group;
use crate::report::{Attempt, FileSet, Planned, SshReport};
use crate::sftp::{Outcome, Work};

/// The records that the calling thread makes while a session runs.
pub struct Recorder<'a, 'run> {
    pub entries: &'a mut Entries<'run>,
    pub trees: &'a mut Vec<(usize, Tree)>,
    pub facts: &'a mut FileSet,
    pub planned: &'a mut Vec<Planned>,
    pub ssh: &'a mut Option<SshReport>,
    pub moved: &'a mut Option<(Instant, Instant)>,
    pub progress: &'a mut u64,
    pub retries: Retries,
    pub begin: Instant,
    /// Some file was begun.
    pub touched: bool,
    /// Complete files that have not got their names yet.
    pub group: Group<Completed>,
    /// Outcomes that are on their way here.
    pub unrecorded: Arc<AtomicUsize>,
}

/// The record of an attempt whose file has not got its name yet.
pub struct Completed {
    transfer: usize,
    attempt: Attempt,
    kept: u64,
}

impl Recorder<'_, '_> {
    /// Records events until the session is over. Returns the problem that ended it.
    pub fn record_until_over(mut self, inbox: &mpsc::Receiver<Event>) -> Option<Error> {
        loop {
            if self.group.is_full(Instant::now()) {
                self.publish();
            }
            let event = match inbox.try_recv() {
                Ok(event) => event,
                // Files that came while the disk was at work make the next group.
                Err(_) if !self.group.is_empty() => {
                    self.publish();
                    continue;
                }
                Err(_) => match inbox.recv() {
                    Ok(event) => event,
                    Err(_) => return None,
                },
            };
            match event {
                Event::New(entry) => self.entries.push(*entry),
                Event::Skipped => self.facts.skipped += 1,
                Event::Filtered => self.facts.filtered += 1,
                Event::Unchanged => self.facts.unchanged += 1,
                Event::Deleted => self.facts.deleted += 1,
                Event::Planned(planned) => self.planned.push(planned),
                Event::Listed(tree) => self.trees.retain(|(number, _)| *number != tree),
                Event::Done(outcome) => {
                    self.record_attempt(*outcome);
                    self.unrecorded.fetch_sub(1, Ordering::Relaxed);
                }
                Event::Over(facts, result) => {
                    self.publish();
                    if facts.ssh.is_some() {
                        *self.ssh = facts.ssh;
                    }
                    return result.err();
                }
            }
        }
    }

    fn publish(&mut self) {
        for (completed, result) in self.group.publish() {
            self.close(completed, result.err());
        }
    }

    fn close(&mut self, completed: Completed, problem: Option<Error>) {
        // The wait is decided for the session as one: here only the decision on another attempt counts.
        let failed = problem.map(|problem| Failed {
            problem,
            method: &Method::PUT,
            sent: true,
            kept: completed.kept,
        });
        if let Some(entry) = self.entries.get_mut(completed.transfer) {
            entry.close(completed.attempt, failed, &self.retries);
        }
        self.entries.settle(completed.transfer);
    }

    /// Records an attempt at a file, and decides whether there is another.
    fn record_attempt(&mut self, mut outcome: Outcome) {
        let number = outcome.task.transfer;
        let Some(entry) = self.entries.get_mut(number) else {
            return;
        };
        if let Some((from, to)) = outcome.moved {
            let (first, last) = self.moved.get_or_insert((from, to));
            *first = (*first).min(from);
            *last = (*last).max(to);
        }
        let moved = outcome.facts.bytes;
        // Bytes that were sent and not acknowledged have to be sent again.
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
        if outcome.not_processed {
            let Err(problem) = outcome.result else { return };
            if !self.touched {
                // The session reached no file, so this was an attempt at all of them.
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
            self.entries.settle(number);
            return;
        }
        self.touched = true;
        let attempt = entry.end_attempt(outcome.facts, outcome.offset, outcome.receiver);
        if let Work::Put(outbound) = &mut outcome.task.work {
            entry.digest = outbound.digest();
            entry.acknowledged(outcome.acknowledged);
        }
        let completed = Completed {
            transfer: number,
            attempt,
            kept,
        };
        let problem = match outcome.result {
            Ok(()) if matches!(outcome.task.work, Work::Put(_)) => None,
            Ok(()) => match entry.complete(None) {
                Ok(Some(file)) => return self.group.push(file, completed, Instant::now()),
                Ok(None) => None,
                Err(problem) => Some(problem),
            },
            Err(problem) => Some(problem),
        };
        self.close(completed, problem);
    }
}
