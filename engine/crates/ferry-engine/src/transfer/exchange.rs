//! A request and its answer, over any protocol: times, timeouts, length and result.

use std::time::{Duration, Instant};

use socket2::SockRef;

use super::receive::Receiver;
use super::samples::Samples;
use super::send::Sender;
use super::{Answer, Ending, Facts, Head, Outcome, Settings, Task, Timeouts};
use crate::clock::seconds;
use crate::error::Error;
use crate::report::Phases;
use crate::{log, platform};

/// The body of an answer that has no use, such as a redirect's, is read up to this length and for this long: then another request may follow on the
/// connection. A new one would cost more.
const USELESS_BYTES: u64 = 64 * 1024;
const USELESS_TIME: Duration = Duration::from_secs(1);

/// The view that a tick has of its connection.
pub struct Signs<'a> {
    pub socket: SockRef<'a>,
    /// The time at which bytes of an upload last arrived; `in_flight` is set while others are on their way.
    pub moved_at: Instant,
    pub in_flight: bool,
    /// The time of the server's last confirmation, if its subject is unknown; counts at the end of an upload, when nothing more
    /// leaves.
    pub confirmed_at: Option<Instant>,
    /// The time at which the server last sent anything.
    pub heard: Option<Instant>,
}

pub struct Exchange {
    pub task: Task,
    begin: Instant,
    phases: Phases,
    request_sent: Option<Instant>,
    first_byte: Option<Instant>,
    head: Option<Head>,
    pub receiver: Option<Box<Receiver>>,
    pub sender: Option<Sender>,
    /// The answer's body is read and forgotten.
    discarding: bool,
    discarded: u64,
    /// The result that holds once the rest of the answer has been read or given up, and the time at which it became known.
    decided: Option<(Ending, Instant)>,
    /// The time of the answer's last bytes so far.
    heard: Option<Instant>,
    /// The answer has come completely.
    answered: bool,
    ending: Option<Ending>,
    ended: Option<Instant>,
    tcp: Samples,
    /// The most bytes to read before the head of the answer has come.
    first_read: usize,
}

impl Exchange {
    /// `phases` and `begin` are the connection's if this is its first exchange, which bears the cost of the setup.
    pub fn new(mut task: Task, begin: Instant, phases: Phases, rtt: Duration, settings: &Settings) -> Self {
        let mut sender = task.work.sender(settings);
        if let Some(sender) = &mut sender {
            sender.round_trip = rtt;
        }
        Self {
            task,
            begin,
            phases,
            request_sent: None,
            first_byte: None,
            head: None,
            receiver: None,
            sender,
            discarding: false,
            discarded: 0,
            decided: None,
            heard: None,
            answered: false,
            ending: None,
            ended: None,
            tcp: Samples::default(),
            first_read: settings.limit.first_read(),
        }
    }

    /// The URL for messages.
    pub fn shown(&self) -> String {
        log::shown(&self.task.url)
    }

    pub fn request_sent(&mut self, now: Instant) {
        self.request_sent = Some(now);
    }

    pub fn first_byte(&mut self, now: Instant) {
        self.first_byte.get_or_insert(now);
        self.heard = Some(now);
    }

    pub fn head(&mut self, head: Head, settings: &Settings, now: Instant) {
        self.first_byte(now);
        tracing::debug!(
            status = head.status,
            url = log::shown(&self.task.url),
            length = head.content_length,
            "answer"
        );
        log::fields("answer", &head.headers);
        let answer = self.task.work.answer(&head, settings);
        self.head = Some(head);
        if let Some(sender) = &mut self.sender {
            sender.arrived(now);
        }
        match answer {
            Answer::Receive(receiver) => self.receiver = Some(receiver),
            Answer::Discard => self.discarding = true,
            Answer::Over(ending) if self.has_short_rest() => self.decided = Some((ending, now)),
            Answer::Over(ending) => self.end(ending, now),
        }
    }

    /// The rest of the answer is short enough to be read. While a body is being sent, that rest may never end.
    fn has_short_rest(&self) -> bool {
        let short = |head: &Head| head.delimited && head.content_length.is_none_or(|length| length <= USELESS_BYTES);
        self.sender.is_none() && self.head.as_ref().is_some_and(short)
    }

    pub fn data(&mut self, data: &[u8], now: Instant) {
        self.heard = Some(now);
        if self.ending.is_some() {
            return;
        }
        let result = if let Some(receiver) = &mut self.receiver {
            receiver.accept(data, now)
        } else {
            self.discarded += data.len() as u64;
            if self.discarded > USELESS_BYTES
                && let Some((ending, _)) = self.decided.take()
            {
                self.end(ending, now);
            }
            Ok(())
        };
        if let Err(problem) = result {
            self.end(Ending::Failed(problem), now);
        }
    }

    /// The answer is complete as the protocol sees it; its length is checked here.
    pub fn answered(&mut self, now: Instant) {
        if self.ending.is_some() {
            return;
        }
        let Some(head) = &self.head else {
            let problem = Error::integrity(format!("{}: the answer ended before it began", self.shown()));
            return self.end(Ending::Failed(problem), now);
        };
        if let Some((ending, _)) = self.decided.take() {
            self.answered = true;
            return self.end(ending, now);
        }
        let came = self
            .receiver
            .as_ref()
            .map_or(self.discarded, |receiver| receiver.arrived);
        if let Some(length) = head.content_length
            && length != came
            && self.task.method != http::Method::HEAD
        {
            let problem = Error::integrity(format!(
                "{}: {length} bytes were announced and {came} came",
                self.shown()
            ));
            return self.end(Ending::Failed(problem), now);
        }
        let delimited = head.delimited;
        if self.receiver.is_some()
            && let Err(problem) = self.task.work.complete(came, delimited)
        {
            return self.end(Ending::Failed(problem), now);
        }
        self.answered = true;
        if let Some(receiver) = &mut self.receiver {
            receiver.complete(now);
        }
        if let Some(sender) = &mut self.sender {
            // The whole of it may have been given after the head of the answer had come.
            sender.arrived(now);
        }
        self.try_finish(now);
    }

    /// True while the complete answer to an upload waits for `delivered`, which decides if it is to be believed.
    pub fn awaits_delivery(&self) -> bool {
        self.answered && self.sender.is_some() && !self.is_over()
    }

    /// An upload's answer was read when at most `arrived` bytes of the connection's stream had reached the server. An answer that comes before
    /// the end of the body is not about all of it. The segment that ends an honest answer acknowledges all that the server has read.
    pub fn delivered(&mut self, arrived: u64, now: Instant) {
        if !self.awaits_delivery() {
            return;
        }
        let ends_at = self.sender.as_ref().and_then(|sender| sender.ends_at);
        if ends_at.is_some_and(|ends_at| ends_at <= arrived) {
            return self.end(Ending::Done, now);
        }
        // The remainder of the body makes the connection useless for another request.
        self.answered = false;
        let status = self.head.as_ref().map_or(0, |head| head.status);
        let problem = Error::integrity(format!(
            "{}: the server answered {status} before it had the whole upload",
            self.shown()
        ));
        self.end(Ending::Failed(problem), now);
    }

    /// The connection or the stream is gone. A download whose answer is complete has no more use for it: only the limit holds its last bytes.
    pub fn broken(&mut self, problem: Error, now: Instant) {
        if !self.answered || self.sender.is_some() {
            self.failed(problem, now);
        }
    }

    /// Ends the exchange with `problem`, whose message gains the number of bytes received so far.
    pub fn failed(&mut self, problem: Error, now: Instant) {
        let moved = self.receiver.as_ref().map_or(0, |receiver| receiver.arrived);
        let mut problem = problem;
        if moved > 0 {
            let of = self.head.as_ref().and_then(|head| head.content_length);
            let of = of.map_or(String::new(), |length| format!(" of {length}"));
            problem.message = format!("{} after {moved}{of} bytes", problem.message);
        }
        self.end(Ending::Failed(problem), now);
    }

    pub fn end(&mut self, ending: Ending, now: Instant) {
        if self.ending.is_none() {
            // A decided result stands, even if the useless rest of the answer does not come.
            self.ending = Some(self.decided.take().map_or(ending, |(decided, _)| decided));
            self.ended = Some(now);
        }
    }

    pub fn is_over(&self) -> bool {
        self.ending.is_some()
    }

    /// True once the answer has been read to its end, so that the connection is fit for another request.
    pub fn was_answered(&self) -> bool {
        self.answered
    }

    /// Moves the bytes of a download that are due.
    pub fn poll_paced(&mut self, now: Instant) {
        let result = match &mut self.receiver {
            Some(receiver) if self.ending.is_none() => receiver.poll_paced(now),
            _ => return,
        };
        if let Err(problem) = result {
            self.end(Ending::Failed(problem), now);
        }
        self.try_finish(now);
    }

    /// Returns the most bytes to read from the socket now. `alone`: the connection's next bytes can only be this exchange's.
    pub fn read_budget(&mut self, alone: bool, now: Instant) -> usize {
        if self.is_over() {
            return 0;
        }
        match &mut self.receiver {
            Some(receiver) if !self.answered => receiver.read_budget(alone, now),
            Some(_) => 0,
            None if alone && self.head.is_none() && self.sender.is_none() => self.first_read,
            None => usize::MAX,
        }
    }

    /// The connection, which is this exchange's alone, has had a read; `undecoded` bytes of all reads are not decoded yet.
    pub fn read_off(&mut self, undecoded: usize, now: Instant) {
        if let Some(receiver) = &mut self.receiver
            && !self.answered
            && self.ending.is_none()
        {
            receiver.read_off(undecoded, now);
        }
    }

    pub fn next_at(&self) -> Option<Instant> {
        let received = self.receiver.as_ref().and_then(|receiver| receiver.next_at());
        let sent = self.sender.as_ref().and_then(Sender::next_at);
        received.into_iter().chain(sent).min()
    }

    /// Returns the part of a body's last wait that may be spun: a thousandth of the body's time so far, at most 1 ms. `None`
    /// before that wait.
    pub fn last_wait(&self, now: Instant) -> Option<Duration> {
        let receiver = self.receiver.as_ref().filter(|receiver| receiver.only_waits())?;
        let elapsed = now.saturating_duration_since(receiver.began?);
        Some((elapsed / 1000).min(Duration::from_millis(1)))
    }

    /// Samples TCP, updates the progress line, and ends an exchange that takes too long, every 100 ms. True if it has just ended
    /// for that reason.
    pub fn tick(&mut self, signs: &Signs<'_>, timeouts: &Timeouts, now: Instant) -> bool {
        if self.is_over() {
            return false;
        }
        let t_s = now.saturating_duration_since(self.begin).as_secs_f64();
        self.tcp.tick(|| platform::tcp_sample(&signs.socket, t_s));
        self.task.work.progress(self.moved());
        if !self.answered && !self.task.work.is_wanted() {
            self.end(Ending::Done, now);
            return false;
        }
        if let Some((_, since)) = self.decided
            && now.saturating_duration_since(since) > USELESS_TIME
            && let Some((ending, _)) = self.decided.take()
        {
            self.end(ending, now);
            return true;
        }
        if let Some(problem) = self.overdue(signs, timeouts, now) {
            self.failed(problem, now);
        }
        self.is_over()
    }

    pub fn sample_tcp(&mut self, socket: &SockRef<'_>, now: Instant) {
        let t_s = now.saturating_duration_since(self.begin).as_secs_f64();
        self.tcp.push(platform::tcp_sample(socket, t_s));
    }

    fn moved(&self) -> u64 {
        match (&self.sender, &self.receiver) {
            (Some(sender), _) => sender.given,
            (None, Some(receiver)) => receiver.delivered,
            (None, None) => 0,
        }
    }

    fn overdue(&self, signs: &Signs<'_>, timeouts: &Timeouts, now: Instant) -> Option<Error> {
        let passed = |since: Instant| now.saturating_duration_since(since);
        let late = |what: &str, limit: Duration, flag: &str| {
            Some(Error::transient(format!(
                "{}: {what} within {:.1} s ({flag})",
                self.shown(),
                limit.as_secs_f64()
            )))
        };
        if let Some(total) = timeouts.total
            && self.task.deadline.is_some_and(|deadline| now > deadline)
        {
            return late("not done", total, "--timeout-total");
        }
        if let Some(receiver) = &self.receiver {
            let since = receiver.last_moved().or(self.first_byte)?;
            if receiver.depends_on_network() && passed(since) > timeouts.stall {
                return late("no byte came", timeouts.stall, "--stall");
            }
            return None;
        }
        if let Some(sender) = &self.sender {
            if signs.in_flight {
                let stalls = passed(signs.moved_at) > timeouts.stall;
                return stalls
                    .then(|| late("no byte arrived", timeouts.stall, "--stall"))
                    .flatten();
            }
            if sender.out().is_none() {
                // A limit that holds the body back is no stall; a server that makes no room is.
                let held_back = sender.next_at().is_some_and(|next| next > now);
                let confirmed = signs.confirmed_at.filter(|_| sender.exhausted);
                let since = sender.last_moved().unwrap_or(self.begin).max(signs.moved_at);
                let stalls = !held_back && passed(confirmed.map_or(since, |at| at.max(since))) > timeouts.stall;
                return stalls
                    .then(|| late("no byte left", timeouts.stall, "--stall"))
                    .flatten();
            }
        }
        let out = self
            .sender
            .as_ref()
            .filter(|sender| sender.given > 0)
            .and_then(Sender::out);
        if let Some(out) = out {
            // A server's work on a complete body may take hours, and the body would have to be sent again.
            let silent = passed(self.heard.map_or(out, |heard| heard.max(out)));
            return timeouts
                .answer
                .filter(|limit| silent > *limit)
                .and_then(|limit| late("no answer", limit, "--timeout-first-byte"));
        }
        let since = self.sender.as_ref().and_then(Sender::out).or(self.request_sent)?;
        if self.first_byte.is_none() && passed(since) > timeouts.first_byte {
            return late("no answer", timeouts.first_byte, "--timeout-first-byte");
        }
        (passed(self.first_byte.unwrap_or(since)) > timeouts.stall + timeouts.first_byte)
            .then(|| late("the answer did not end", timeouts.stall, "--stall"))
            .flatten()
    }

    fn try_finish(&mut self, now: Instant) {
        if !self.answered || self.is_over() || self.sender.is_some() {
            return;
        }
        if self.receiver.as_ref().is_some_and(|receiver| receiver.ended.is_none()) {
            return;
        }
        match self.receiver.as_ref().map_or(Ok(()), |receiver| receiver.check()) {
            Ok(()) => self.end(Ending::Done, now),
            Err(problem) => self.end(Ending::Failed(problem), now),
        }
    }

    /// Takes a last sample of TCP, and returns the outcome of the attempt.
    pub fn finish(mut self, socket: &SockRef<'_>) -> Outcome {
        let now = Instant::now();
        self.sample_tcp(socket, now);
        let ended = self.ended.unwrap_or(now);
        let upload_ended = |sender: &Sender| sender.ended;
        let (mut facts, _) = Facts::of_body(
            self.begin,
            self.sender.as_mut(),
            upload_ended,
            self.receiver.as_deref_mut(),
        );
        facts.status = self.head.as_ref().map(|head| head.status);
        let waited_from = self.sender.as_ref().and_then(Sender::out).or(self.request_sent);
        self.phases.first_byte_s = waited_from.zip(self.first_byte).map(|(from, to)| seconds(from, to));
        self.phases.body_start_s = facts.phases.body_start_s;
        self.phases.body_s = facts.phases.body_s;
        self.phases.total_s = seconds(self.begin, ended);
        facts.phases = self.phases;
        facts.tcp = self.tcp.into_vec();
        Outcome {
            task: self.task,
            ending: self
                .ending
                .unwrap_or_else(|| Ending::Failed(Error::transient("the transfer was given up"))),
            facts,
            receiver: self.receiver,
            sender: self.sender,
        }
    }
}

#[cfg(test)]
#[path = "exchange_tests.rs"]
mod tests;
