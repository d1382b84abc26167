//! The loop of one connection: it moves bytes that are due, sends, reads, and waits until one of these can go on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::background::Watch;
use super::connect::{Connection, Protocol};
use super::delivery::Delivery;
use super::exchange::{Exchange, Signs};
use super::h1::Http1;
use super::h2::Http2;
use super::rounds::{Begins, TICK, tick};
use super::wire::{Stream, Wire};
use super::{Ending, Settings, Task, Tasks};
use crate::error::{Class, Error};
use crate::net::pipe::{Pipe, PipeError, Received};
use crate::net::tls;
use crate::net::wait::{Ready, Waiter};
use crate::report::Phases;
use crate::{log, platform};

/// Reads in a row before the rest of the loop gets its turn.
const READS_IN_A_ROW: usize = 4;
/// A read of the pipe without a limit of the session's own.
const LARGE_READ: usize = usize::MAX;
/// The most reads of a connection that cannot be written to any more: the kernel holds no more than its largest buffer.
const MOST_LAST_READS: usize = 1024;
/// While the send buffer drains after the last byte of an upload, it is looked at this often.
const DRAIN_LOOK: Duration = Duration::from_millis(1);
/// A server that refuses a limited upload half-way is heard after this: a poll costs as much as the step that follows it.
const LISTEN: Duration = Duration::from_millis(20);

/// Runs tasks on the connection until there are none, or it is of no more use. Every task pulled comes back through `done`.
pub fn run(connection: Connection, tasks: &mut dyn Tasks, settings: &Settings) {
    let Connection {
        pipe,
        waiter,
        protocol,
        remote,
        tls,
        forward,
        rtt,
        phases,
        begin,
    } = connection;
    let wire: Box<dyn Wire> = match protocol {
        Protocol::Http11 => Box::new(Http1::new(settings, forward)),
        Protocol::H2 => Box::new(Http2::new(rtt, settings)),
    };
    let session = Session {
        pipe,
        waiter,
        wire,
        streams: Vec::new(),
        settings: settings.clone(),
        protocol,
        remote,
        tls,
        rtt,
        first: Some((begin, phases)),
        delivery: Delivery::new(Instant::now()),
        last_read_at: Instant::now(),
        next_tick: Instant::now() + TICK,
        next_listen: Instant::now(),
        watch: settings.background.as_ref().map(Watch::new),
        served: false,
        lost: false,
    };
    session.run(tasks);
}

struct Session {
    pipe: Pipe,
    waiter: Waiter,
    wire: Box<dyn Wire>,
    streams: Vec<Stream>,
    settings: Settings,
    protocol: Protocol,
    remote: String,
    tls: Option<crate::report::TlsFacts>,
    rtt: Duration,
    /// The start and the times of the connection's setup, until its first exchange has taken them over.
    first: Option<(Instant, Phases)>,
    /// The arrival of uploads.
    delivery: Delivery,
    /// The time at which anything last came from the server.
    last_read_at: Instant,
    next_tick: Instant,
    /// While a limited upload goes on, the socket is asked for an early answer from here on.
    next_listen: Instant,
    /// The watch of `--background`.
    watch: Option<Watch>,
    /// Something has been done on this connection.
    served: bool,
    lost: bool,
}

/// Bytes that the peer has not taken: above, nothing is read, so that answers to its PINGs and SETTINGS cannot pile up.
const MOST_UNSENT: usize = 2 << 20;

impl Begins for Session {
    fn has_room(&mut self) -> bool {
        !self.lost && self.streams.len() < self.settings.parallel && self.wire.slots(self.streams.len()) > 0
    }

    fn begin(&mut self, task: Task, now: Instant) {
        let (begin, phases) = self.first.take().unwrap_or((now, Phases::default()));
        let mut exchange = Exchange::new(task, begin, phases, self.rtt, &self.settings);
        let key = match self.wire.open(&mut exchange, &mut self.pipe) {
            Ok(key) => key,
            Err(problem) => {
                exchange.broken(problem, now);
                0
            }
        };
        exchange.request_sent(Instant::now());
        let task = &exchange.task;
        tracing::debug!(method = %task.method, url = log::shown(&task.url), protocol = self.protocol.name(), "request");
        log::fields("request", &task.headers);
        exchange.sample_tcp(&self.pipe.socket(), now);
        self.streams.push(Stream { key, exchange });
    }
}

impl Session {
    fn run(mut self, tasks: &mut dyn Tasks) {
        loop {
            let later = self.begin_tasks(tasks);
            if self.streams.is_empty() {
                match later {
                    Some(at) if !self.lost && self.wire.is_reusable() => {
                        // An idle connection still answers PINGs and notices its end.
                        self.turn(Some(at));
                        continue;
                    }
                    _ => break,
                }
            }
            self.turn(later);
            self.retire(tasks);
        }
        self.wire.shutdown();
        let _ = self.wire.flush(&mut self.pipe);
        self.pipe.close();
    }

    /// One round: moves everything that can move, and waits if nothing did.
    fn turn(&mut self, later: Option<Instant>) {
        let now = Instant::now();
        if now >= self.next_tick {
            self.next_tick = now + TICK;
            if self.streams.iter().any(is_upload) {
                self.delivery
                    .look(self.pipe.arrived_at_most(), self.pipe.position(), now);
            }
            let signs = Signs {
                socket: self.pipe.socket(),
                moved_at: self.delivery.moved_at,
                in_flight: self.delivery.in_flight,
                confirmed_at: None,
                heard: Some(self.last_read_at),
            };
            let exchanges = self.streams.iter_mut().map(|stream| &mut stream.exchange);
            if tick(exchanges, &signs, &self.settings, now) {
                self.wire.abandon();
            }
        }
        if let Some(watch) = &mut self.watch {
            let sends = self.streams.iter().any(is_upload);
            watch.look(&self.pipe.socket(), sends, now);
        }
        for stream in &mut self.streams {
            stream.exchange.poll_paced(now);
        }
        if self.streams.iter().any(|stream| stream.exchange.is_over()) {
            return;
        }
        // The remaining bytes of a lost connection are in memory, and wait for their time.
        let moved = if self.lost {
            Ok(false)
        } else {
            self.write(now).and_then(|wrote| Ok(self.read()? || wrote))
        };
        match moved {
            Ok(true) => {}
            Ok(false) => {
                if let Err(error) = self.wait(later) {
                    self.fail(PipeError::Io(error));
                }
            }
            Err(error) => {
                self.drain_response();
                self.fail(error);
            }
        }
    }

    /// A server that refuses an upload answers and closes: the answer is there although writing has failed.
    fn drain_response(&mut self) {
        self.pipe.wake(Ready {
            readable: true,
            writable: false,
        });
        for _ in 0..MOST_LAST_READS {
            if self.streams.iter().all(|stream| stream.exchange.is_over()) || !self.pipe.readable() {
                return;
            }
            // Bytes that cannot be understood are lost with the connection.
            if !matches!(self.receive(LARGE_READ, Instant::now()), (Ok(Received::Some(_)), _)) {
                return;
            }
        }
    }

    /// Bodies and control bytes, as far as the socket takes them.
    fn write(&mut self, now: Instant) -> Result<bool, PipeError> {
        let mut wrote = false;
        loop {
            let mut more = false;
            for stream in &mut self.streams {
                if self.pipe.has_room() && !stream.exchange.is_over() {
                    more |= self.wire.send_body(stream, &mut self.pipe, now)?;
                    if let Some(sender) = stream.exchange.sender.as_mut().filter(|sender| sender.exhausted) {
                        sender.ends_at.get_or_insert(self.pipe.position());
                    }
                }
            }
            if !more || !self.pipe.has_room() {
                break;
            }
        }
        self.wire.grant(&mut self.streams);
        self.wire.flush(&mut self.pipe)?;
        if self.pipe.unsent() > 0 && self.pipe.writable() {
            let before = self.pipe.unsent();
            self.pipe.flush()?;
            if self.pipe.unsent() < before {
                // Room for more of the body: no reason to wait.
                wrote = self.pipe.has_room() && self.streams.iter().any(|stream| wants_to_send(stream, now));
            }
        }
        self.look_at_drained();
        Ok(wrote)
    }

    /// The true end of an upload: nothing of it is left in the send buffer. Where the system does not tell, the answer ends it.
    fn look_at_drained(&mut self) {
        if self.pipe.unsent() > 0 {
            return;
        }
        for stream in &mut self.streams {
            let Some(sender) = &mut stream.exchange.sender else {
                continue;
            };
            if !sender.exhausted || sender.out().is_some() {
                continue;
            }
            match platform::unsent_bytes(&self.pipe.socket()) {
                Some(0) => sender.left(Instant::now()),
                Some(_) => {}
                None => sender.handed_over(Instant::now()),
            }
        }
    }

    fn read_budget(&mut self, now: Instant) -> usize {
        let alone = self.streams.len() == 1;
        self.streams
            .iter_mut()
            .map(|stream| stream.exchange.read_budget(alone, now))
            .max()
            .unwrap_or(LARGE_READ)
    }

    fn read(&mut self) -> Result<bool, PipeError> {
        let mut moved = false;
        for _ in 0..READS_IN_A_ROW {
            let now = Instant::now();
            let read_budget = self.read_budget(now);
            // A peer that asks for answers and does not read them gets no more to ask.
            if read_budget == 0 || !self.pipe.readable() || self.pipe.unsent() > MOST_UNSENT {
                break;
            }
            let (received, problem) = self.receive(read_budget, now);
            if let Some(problem) = problem {
                let now = Instant::now();
                self.lost = true;
                for stream in &mut self.streams {
                    stream.exchange.broken(problem.clone(), now);
                }
                return Ok(true);
            }
            match received? {
                Received::Some(_) => {
                    moved = true;
                    let undecoded = self.pipe.undecoded();
                    if let [stream] = &mut self.streams[..] {
                        stream.exchange.read_off(undecoded, now);
                    }
                }
                Received::Blocked => break,
                Received::Closed => {
                    self.peer_closed();
                    return Ok(true);
                }
            }
            if self.pipe.peer_closed() {
                self.peer_closed();
                return Ok(true);
            }
        }
        Ok(moved)
    }

    /// Reads once, and feeds the streams; returns the result of the read, and the error of bytes that cannot be understood.
    fn receive(&mut self, most: usize, now: Instant) -> (Result<Received, PipeError>, Option<Error>) {
        let (wire, streams) = (&mut self.wire, &mut self.streams);
        let mut problem = None;
        let received = self.pipe.receive(most, |data| {
            if problem.is_none() {
                problem = wire.feed(data, streams, now).err();
            }
        });
        if matches!(received, Ok(Received::Some(_))) {
            self.last_read_at = now;
        }
        self.compare_answers();
        (received, problem)
    }

    /// Compares the uploads that were just answered with the bytes that the server can have had. Done at once: bytes that arrive
    /// later must not speak for an early answer.
    fn compare_answers(&mut self) {
        if !self.streams.iter().any(|stream| stream.exchange.awaits_delivery()) {
            return;
        }
        let (arrived, now) = (self.pipe.arrived_at_most(), Instant::now());
        for stream in &mut self.streams {
            stream.exchange.delivered(arrived, now);
        }
    }

    fn peer_closed(&mut self) {
        self.lost = true;
        self.wire.closed(&mut self.streams, Instant::now());
        self.compare_answers();
    }

    fn fail(&mut self, error: PipeError) {
        self.lost = true;
        let now = Instant::now();
        let error = Arc::new(error);
        // In TLS 1.3 a server looks at the client's certificate when the client has done its part of the handshake.
        let refused = match &*error {
            PipeError::Tls(refusal) if tls::refuses_client(refusal) => Some(refusal),
            _ => None,
        };
        for stream in &mut self.streams {
            let place = stream.exchange.task.url.host_str().unwrap_or("?").to_owned();
            let error = match refused {
                Some(refusal) => tls::problem(&place, refusal, None),
                None => {
                    Error::transient(format!("connection to {place} lost: {error}")).with_source(Arc::clone(&error))
                }
            };
            stream.exchange.broken(error, now);
        }
    }

    fn wait(&mut self, later: Option<Instant>) -> std::io::Result<()> {
        let now = Instant::now();
        let paced = self.streams.iter().filter_map(|stream| stream.exchange.next_at()).min();
        let draining = self.streams.iter().any(|stream| {
            stream
                .exchange
                .sender
                .as_ref()
                .is_some_and(|sender| sender.exhausted && sender.out().is_none())
        });
        let drained = draining.then(|| now + DRAIN_LOOK);
        let watched = self
            .watch
            .as_ref()
            .filter(|_| !self.streams.is_empty())
            .map(Watch::next);
        let until = [Some(self.next_tick), later, paced, drained, watched]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(self.next_tick);
        let blocked = self.pipe.unsent() > 0;
        let unheard =
            self.read_budget(now) == 0 || (self.streams.iter().all(is_paced_upload) && now < self.next_listen);
        if unheard && !blocked && paced.is_some() {
            // Every packet would wake a poll, and none of them is wanted before the deadline.
            let spin = self
                .streams
                .iter()
                .filter_map(|stream| stream.exchange.last_wait(now))
                .max()
                .unwrap_or_default();
            platform::sleep_until(until, spin);
            return Ok(());
        }
        self.next_listen = now + LISTEN;
        let pipe = &mut self.pipe;
        self.waiter.wait(Some(until), |_, ready| pipe.wake(ready))
    }

    /// Hands back the exchanges that are over.
    fn retire(&mut self, tasks: &mut dyn Tasks) {
        let mut index = 0;
        while let Some(stream) = self.streams.get(index) {
            if !stream.exchange.is_over() {
                index += 1;
                continue;
            }
            let stream = self.streams.remove(index);
            self.wire.retire(&stream);
            let answered = stream.exchange.was_answered();
            let mut outcome = stream.exchange.finish(&self.pipe.socket());
            let lost = self.lost && self.served;
            let unanswered = outcome.facts.phases.first_byte_s.is_none() && outcome.task.method.is_idempotent();
            match &mut outcome.ending {
                // A connection that has served others was closed with this request on its way (RFC 9110, section 9.2.2).
                Ending::Failed(problem) if lost && unanswered && problem.class == Class::Transient => {
                    problem.not_processed = true;
                }
                Ending::Done | Ending::Failed(_) | Ending::Redirect { .. } => {}
            }
            self.served |= answered || matches!(outcome.ending, Ending::Done);
            outcome.facts.protocol = Some(self.protocol.name());
            outcome.facts.remote = Some(self.remote.clone());
            outcome.facts.sndbuf = Some(self.pipe.send_buffer());
            outcome.facts.tls.clone_from(&self.tls);
            if matches!(outcome.ending, Ending::Failed(_)) {
                // The program may end as soon as it learns of a failure, and the server is owed the reason (RFC 9113, 5.4).
                let _ = self.wire.flush(&mut self.pipe).and_then(|()| self.pipe.flush());
            }
            tasks.done(outcome);
        }
    }
}

fn is_upload(stream: &Stream) -> bool {
    stream.exchange.sender.is_some()
}

fn is_paced_upload(stream: &Stream) -> bool {
    stream
        .exchange
        .sender
        .as_ref()
        .is_some_and(|sender| !sender.exhausted && sender.throttle.is_limited())
}

fn wants_to_send(stream: &Stream, now: Instant) -> bool {
    stream.exchange.sender.as_ref().is_some_and(|sender| {
        !sender.exhausted && !stream.exchange.is_over() && sender.next_at().is_none_or(|next| next <= now)
    })
}
