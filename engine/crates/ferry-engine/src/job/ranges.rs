//! The scheduler's part in downloads in ranges: the requests for ranges, and the decision after each of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;
use url::Url;

use super::attempt::Failed;
use super::entry::Kind;
use super::policy::MOST_ATTEMPTS;
use super::ranged::{AFTER_REFUSAL, RangeWork, Verdict};
use super::scheduler::{MOST_REFUSALS, Scheduler};
use super::worker::origin;
use crate::error::{Class, Error};
use crate::log;
use crate::observer::Silent;
use crate::report::Attempt;
use crate::sync::lock;
use crate::transfer::{Ending, Outcome, Task};

/// A connection that was made early looks for its first range at this interval.
const LOOK: Duration = Duration::from_millis(2);
/// A connection that has had ranges looks for another at this interval.
const LOOK_LATER: Duration = Duration::from_millis(25);

impl Scheduler<'_> {
    /// True if the run is a single download, whose connections are the run's. A download among others takes its turns in the
    /// queue.
    fn is_alone(&self) -> bool {
        self.alone
    }

    /// Asks for the first range. The single download of a run makes the connections for the other ranges meanwhile.
    pub(super) fn begin_ranges(&mut self, index: usize, at: Instant) {
        let now = Instant::now();
        let total = self.settings.timeouts.total;
        let entry = &mut self.entries[index];
        entry.deadline = entry
            .deadline
            .or_else(|| total.and_then(|total| now.checked_add(total)));
        self.ask_for_ranges(index, at);
        if !self.is_alone() {
            return;
        }
        let url = self.entries[index].url.clone();
        let origin = origin(&url);
        lock(&self.queue).expecting = Some((origin.clone(), LOOK));
        if at > now {
            return;
        }
        for _ in 1..self.parallel {
            // A thread that cannot be started now is not an error yet: `staff` tries again once a range waits for it, and
            // returns the error.
            if self.start_worker(&origin, Some(url.clone())).is_err() {
                break;
            }
        }
    }

    /// Asks for as many ranges as may be on their way at once. Their tasks wait in the queue for a connection.
    pub(super) fn ask_for_ranges(&mut self, index: usize, at: Instant) {
        if self.entries.get(index).is_none_or(|entry| entry.over) {
            return;
        }
        while let Kind::Ranged(ranged) = &self.entries[index].kind {
            // Under a limit no connection is slow by itself, and bytes that come twice would count. The lock is taken again below.
            let idle = if self.settings.limit.rate().is_some() {
                0
            } else {
                lock(&self.queue).idle(ranged.allowed)
            };
            let Some(part) = ranged.next(idle) else { break };
            let entry = &self.entries[index];
            let mut headers = self.headers(entry);
            ranged.headers(&mut headers, &part);
            let task = Task {
                deadline: entry.deadline,
                transfer: index,
                url: entry.url.clone(),
                method: Method::GET,
                headers,
                offset: part.range().start,
                work: Box::new(RangeWork {
                    url: entry.url.clone(),
                    wanted: Arc::clone(&ranged.wanted),
                    kept: ranged.kept,
                    shared: Arc::clone(&ranged.shared),
                    part_id: part.id(),
                    part: Some(part),
                    due: None,
                    bar: entry.bar.clone().unwrap_or_else(|| Arc::new(Box::new(Silent))),
                    events: self.events.clone(),
                    transfer: index,
                }),
            };
            lock(&self.queue).push(at, task);
        }
        if self.is_alone()
            && let Kind::Ranged(ranged) = &self.entries[index].kind
            && ranged.verdict() != Verdict::Unknown
        {
            self.parallel = ranged.allowed;
            let mut queue = lock(&self.queue);
            queue.most = ranged.allowed;
            // A connection without a range stays: a range of another connection may come back.
            if let Some((_, look)) = &mut queue.expecting {
                *look = LOOK_LATER;
            }
        }
    }

    /// Looks for a connection that holds the file up, when nothing else has happened for a while.
    pub(super) fn relieve_ranges(&mut self) {
        if !self.ranged {
            return;
        }
        for index in self.entries.numbers() {
            if matches!(&self.entries[index].kind, Kind::Ranged(ranged) if ranged.verdict() == Verdict::Ranges) {
                self.ask_for_ranges(index, Instant::now());
            }
        }
    }

    pub(super) fn count_connection(&mut self, rtt: Duration) {
        if !self.ranged {
            return;
        }
        for (_, entry) in self.entries.all_mut() {
            if let Kind::Ranged(ranged) = &mut entry.kind {
                ranged.connections += 1;
                // A lost SYN makes a round trip of a second: the shortest is the path's.
                ranged.rtt = if ranged.rtt.is_zero() { rtt } else { ranged.rtt.min(rtt) };
            }
        }
    }

    /// Writes the journals of downloads in ranges: if this run is killed, another one goes on by them.
    pub(super) fn write_journals(&mut self) {
        // Called for every event of a run, which may have many thousand entries.
        if !self.ranged {
            return;
        }
        for (_, entry) in self.entries.all_mut() {
            if let Kind::Ranged(ranged) = &mut entry.kind
                && !entry.over
                && ranged.verdict() == Verdict::Ranges
            {
                ranged.journal();
            }
        }
    }

    /// Records the outcome of a range's request, and decides on the next step.
    pub(super) fn record_range(&mut self, outcome: Outcome) {
        let Outcome {
            task,
            ending,
            facts,
            receiver,
            ..
        } = outcome;
        let (index, method, deadline, place) = (task.transfer, task.method.clone(), task.deadline, task.url.clone());
        let attempt = Attempt {
            offset: task.offset,
            bytes: facts.bytes,
            total_s: facts.phases.total_s,
            status: facts.status,
            waited_s: std::mem::take(&mut self.entries[index].waited_s),
            error: None,
        };
        let kept = facts.bytes;
        // The bytes of its range that have not come are missing again after this.
        let written = receiver.map_or(Ok(()), |receiver| receiver.into_parts().0.finish());
        drop(task);
        let entry = &mut self.entries[index];
        let Kind::Ranged(ranged) = &mut entry.kind else { return };
        if entry.over {
            return;
        }
        entry.deadline = deadline;
        ranged.proven |= facts.status == Some(206) && place == entry.url;
        let verdict = ranged.verdict();
        if verdict == Verdict::Ranges && ranged.first.is_none() {
            ranged.first = Some(facts);
        }
        let problem = match ending {
            Ending::Done => written.err(),
            Ending::Failed(problem) => Some(written.err().unwrap_or(problem)),
            Ending::Redirect { .. } if matches!(verdict, Verdict::Plain | Verdict::Changed) => None,
            // Another answer has redirected the download meanwhile.
            Ending::Redirect { .. } if place != entry.url => return self.ask_for_ranges(index, Instant::now()),
            Ending::Redirect { status, location } => {
                match entry.redirect(status, &location, self.options.max_redirects) {
                    Ok(()) => {
                        tracing::info!(status, to = log::shown(&entry.url), "redirected");
                        entry.attempts.push(attempt);
                        return self.follow(index, verdict);
                    }
                    Err(problem) => Some(problem),
                }
            }
        };
        match verdict {
            Verdict::Plain => self.go_on_plain(index, problem.as_ref()),
            Verdict::Changed => self.begin_again(index, attempt, &method),
            Verdict::Unknown | Verdict::Ranges => {
                if let Some(problem) = &problem
                    && self.has_left(index, &place, problem)
                {
                    let error = Some(problem.failure());
                    self.entries[index].attempts.push(Attempt { error, ..attempt });
                    return self.ask_for_ranges(index, Instant::now());
                }
                self.go_on(index, attempt, problem, &method, kept);
            }
        }
    }

    /// Asks for ranges at the URL that a redirect has named.
    fn follow(&mut self, index: usize, verdict: Verdict) {
        let now = Instant::now();
        let origin = origin(&self.entries[index].url);
        let mut queue = lock(&self.queue);
        queue.expecting = None;
        if verdict == Verdict::Unknown {
            drop(queue);
            return self.begin_ranges(index, now);
        }
        queue.remove(index);
        queue.expecting = self.is_alone().then_some((origin, LOOK_LATER));
        drop(queue);
        self.ask_for_ranges(index, now);
    }

    /// Returns true if ranges are no longer asked for at the URL of a redirect: another range has found that out, or this one
    /// does, because the server there has served ranges and refuses them now (a signed URL that has expired). The next range is
    /// asked for at the URL that the user gave.
    fn has_left(&mut self, index: usize, place: &Url, problem: &Error) -> bool {
        let entry = &mut self.entries[index];
        let Kind::Ranged(ranged) = &entry.kind else {
            return false;
        };
        if *place == entry.remote.url || entry.attempts.len() >= MOST_ATTEMPTS || problem.not_processed {
            return false;
        }
        if *place != entry.url {
            return matches!(problem.class, Class::Transient | Class::Permanent);
        }
        let expired = problem.class == Class::Permanent && problem.status.is_some() && ranged.proven;
        if expired {
            self.leave(index);
        }
        expired
    }

    /// Returns to the URL that the user gave for the next range: a redirect may name a URL that is valid for a moment only.
    fn leave(&mut self, index: usize) {
        let entry = &mut self.entries[index];
        if entry.url == entry.remote.url {
            return;
        }
        entry.ask_again();
        if let Kind::Ranged(ranged) = &mut entry.kind {
            ranged.proven = false;
        }
        lock(&self.queue).remove(index);
    }

    fn go_on(&mut self, index: usize, mut attempt: Attempt, problem: Option<Error>, method: &Method, kept: u64) {
        let now = Instant::now();
        let active = lock(&self.queue).active;
        let entry = &mut self.entries[index];
        let Kind::Ranged(ranged) = &mut entry.kind else { return };
        let Some(problem) = problem else {
            if ranged.shared.parts.is_complete() {
                return self.finish_ranges(index);
            }
            return self.ask_for_ranges(index, now);
        };
        if problem.not_processed && entry.refusals < MOST_REFUSALS {
            entry.refusals += 1;
            return self.ask_for_ranges(index, now);
        }
        if active > 0 && ranged.allowed > 1 && matches!(problem.class, Class::Transient | Class::Permanent) {
            // Other connections are at work: the server may want no more of them at once.
            ranged.allowed -= 1;
            tracing::info!(
                allowed = ranged.allowed,
                why = problem.message,
                "a range was refused or lost; one connection fewer"
            );
            attempt.error = Some(problem.failure());
            entry.attempts.push(attempt);
            self.leave(index);
            let wait = problem.retry_after.unwrap_or(AFTER_REFUSAL);
            return self.ask_for_ranges(index, now + wait.min(self.retries.longest_wait));
        }
        self.fail_range(index, attempt, problem, method, kept);
    }

    /// Counts another failure of the download, which is tried again after a wait or was the last.
    fn fail_range(&mut self, index: usize, attempt: Attempt, problem: Error, method: &Method, kept: u64) {
        let failed = Failed {
            problem,
            method,
            sent: false,
            kept,
        };
        let entry = &mut self.entries[index];
        let wait = entry.close(attempt, Some(failed), &self.retries);
        match wait {
            Some(wait) => {
                entry.waited_s = wait.as_secs_f64();
                self.leave(index);
                self.ask_for_ranges(index, Instant::now() + wait);
            }
            None => self.end_ranges(index),
        }
    }

    /// Takes the download's tasks from the queue; connections do not wait for more of them.
    fn end_ranges(&mut self, index: usize) {
        let mut queue = lock(&self.queue);
        queue.remove(index);
        queue.expecting = None;
    }

    /// Completes a download whose ranges have all come: its file gets its name, and its entry is over.
    fn finish_ranges(&mut self, index: usize) {
        self.end_ranges(index);
        let entry = &mut self.entries[index];
        if let Kind::Ranged(ranged) = &entry.kind {
            // Bytes that still come are duplicates.
            ranged.shared.parts.close();
        }
        let sync = self.group.is_synced();
        let finished = entry.complete(None);
        let problem = finished
            .and_then(|file| file.map_or(Ok(()), |file| file.publish(sync)))
            .err();
        let Kind::Ranged(ranged) = &mut entry.kind else { return };
        let attempt = Attempt {
            offset: ranged.kept,
            bytes: ranged.shared.parts.bytes(),
            total_s: ranged.begun.elapsed().as_secs_f64(),
            status: Some(206),
            waited_s: 0.0,
            error: problem.as_ref().map(Error::failure),
        };
        entry.attempts.push(attempt);
        match problem {
            None => entry.over = true,
            Some(problem) => entry.give_up(problem),
        }
    }

    /// Goes on over one connection: the server serves no ranges of the file, or no validator tells its versions apart.
    fn go_on_plain(&mut self, index: usize, why: Option<&Error>) {
        self.end_ranges(index);
        if self.is_alone() {
            lock(&self.queue).most = usize::MAX;
            self.parallel = 1;
        }
        let entry = &mut self.entries[index];
        let Kind::Ranged(ranged) = &entry.kind else { return };
        tracing::info!(why = why.map(|problem| &*problem.message), "one connection");
        entry.kind = Kind::Get {
            destination: ranged.wanted.destination.clone(),
            overwrite: ranged.wanted.overwrite,
            range: None,
            state: Arc::new(std::sync::Mutex::new(ranged.plainly())),
        };
        entry.ask_again();
        self.ranged = self.entries.any(|entry| matches!(entry.kind, Kind::Ranged(_)));
        self.enqueue(index, Instant::now());
    }

    /// Begins again once every range on its way has come back, because the file has changed.
    fn begin_again(&mut self, index: usize, mut attempt: Attempt, method: &Method) {
        let entry = &mut self.entries[index];
        let Kind::Ranged(ranged) = &mut entry.kind else { return };
        let why = ranged.changed();
        let problem = Error::transient(format!("{}: {why}; beginning again", log::shown(&entry.url)));
        ranged.shared.parts.close();
        lock(&self.queue).remove(index);
        if ranged.shared.parts.flying() > 0 {
            attempt.error = Some(problem.failure());
            entry.attempts.push(attempt);
            return;
        }
        ranged.restart();
        self.fail_range(index, attempt, problem, method, 0);
    }
}
