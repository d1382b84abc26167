//! The loop of an HTTP/3 connection: as `transfer::session`, with streams of QUIC in place of one stream of bytes.

use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h3::error::Code;

use super::Connection;
use super::follow::{Follow, Look};
use super::link::Link;
use super::request::{Requests, Stream};
use super::window::Window;
use crate::error::{Class, Error};
use crate::log;
use crate::net::wait::Waiter;
use crate::report::{Phases, SendBufferFacts};
use crate::transfer::exchange::{Exchange, Signs};
use crate::transfer::rounds::{Begins, TICK, tick};
use crate::transfer::{Ending, Settings, Task, Tasks};

/// QUIC holds so much more of an upload than its congestion window: enough for the next round.
const AHEAD: u64 = 256 * 1024;
/// The same under a limit: enough that QUIC knows there is more. The pacer makes up for bytes that the path does not take.
const LITTLE_AHEAD: u64 = 8 * 1024;

/// The time, as a multiple of `--stall`, that a live server may take for the rest of an upload while the number of bytes that
/// arrived is unknown.
const TAIL: u32 = 10;

/// Runs tasks on the connection until there are none, or it is of no more use. Every task pulled comes back through `done`.
pub fn run(connection: Connection, tasks: &mut dyn Tasks, settings: &Settings) {
    let Connection {
        link,
        waiter,
        driver,
        requests,
        remote,
        tls,
        rtt,
        phases,
        begin,
        send_buffer,
    } = connection;
    let session = Session {
        link,
        waiter,
        driver,
        requests,
        streams: Vec::new(),
        window: settings.limit.rate().map(Window::new),
        follow: Follow::new(),
        settings: settings.clone(),
        remote,
        tls,
        rtt,
        send_buffer,
        first: Some((begin, phases)),
        next_tick: Instant::now() + TICK,
        served: false,
        over: false,
    };
    session.run(tasks);
}

pub type Driver = h3::client::Connection<Link, Bytes>;

struct Session {
    link: Link,
    waiter: Waiter,
    driver: Driver,
    requests: Requests,
    streams: Vec<Stream>,
    /// The window that keeps a limit; `None` without one.
    window: Option<Window>,
    /// The window without a limit.
    follow: Follow,
    settings: Settings,
    remote: String,
    tls: crate::report::TlsFacts,
    rtt: Duration,
    send_buffer: SendBufferFacts,
    /// The start and the times of the connection's setup, until its first exchange has taken them over.
    first: Option<(Instant, Phases)>,
    next_tick: Instant,
    /// Something has been done on this connection.
    served: bool,
    /// No other request may follow.
    over: bool,
}

impl Begins for Session {
    fn has_room(&mut self) -> bool {
        !self.over && self.streams.len() < self.settings.parallel && self.link.has_room()
    }

    fn begin(&mut self, task: Task, now: Instant) {
        let (begin, phases) = self.first.take().unwrap_or((now, Phases::default()));
        tracing::debug!(method = %task.method, url = log::shown(&task.url), protocol = "h3", "request");
        log::fields("request", &task.headers);
        let exchange = Exchange::new(task, begin, phases, self.rtt, &self.settings);
        let mut stream = Stream::open(exchange, &self.link, &mut self.requests, now);
        stream.exchange.request_sent(Instant::now());
        if let Some(window) = &mut self.window {
            window.begin(now);
        }
        if let (Some(rate), Some(_)) = (self.settings.limit.rate(), &stream.exchange.sender) {
            self.link.with(|quic| quic.begin_paced(rate));
        }
        self.streams.push(stream);
    }
}

impl Session {
    fn run(mut self, tasks: &mut dyn Tasks) {
        loop {
            let later = self.begin_tasks(tasks);
            if self.streams.is_empty() && (self.over || later.is_none()) {
                break;
            }
            self.turn(later);
            self.retire(tasks);
        }
        self.link.with(|quic| quic.close(Code::H3_NO_ERROR.value(), b""));
    }

    /// One round: moves everything that can move, and waits if nothing did.
    fn turn(&mut self, later: Option<Instant>) {
        let now = Instant::now();
        if now >= self.next_tick {
            self.next_tick = now + TICK;
            self.tick(now);
        }
        for stream in &mut self.streams {
            stream.exchange.poll_paced(now);
        }
        let mut moved = self.link.turn();
        self.drive();
        for stream in &mut self.streams {
            if !stream.exchange.is_over() {
                stream.receive(&self.link, &self.settings);
                stream.send(&self.link, Instant::now());
            }
        }
        self.grant(now);
        moved |= self.link.flush();
        let limited = self.settings.limit.rate().is_some();
        let sent = self.link.with(|quic| {
            let window = quic.connection.congestion_state().window();
            quic.connection.set_send_window(if limited {
                window + LITTLE_AHEAD
            } else {
                2 * window + AHEAD
            });
            quic.drive(Instant::now())
        });
        self.over |= self.link.is_lost();
        if self.streams.iter().any(|stream| stream.exchange.is_over()) || moved || sent {
            return;
        }
        if let Err(error) = self.wait(later) {
            self.end(&Error::transient(format!("{}: {error}", self.remote)), Instant::now());
        }
    }

    fn tick(&mut self, now: Instant) {
        let expects = self.streams.iter().any(|stream| !stream.exchange.was_answered());
        let exchanges = self.streams.iter_mut().map(|stream| &mut stream.exchange);
        let settings = &self.settings;
        self.over |= self.link.with(|quic| {
            quic.look_at_path(expects, now);
            // QUIC repeats lost bytes and asks if the server is there, so not every packet moves something. New bytes can leave
            // only when something has arrived, or the server has made room.
            let moved_at = quic.sent_stream().unwrap_or(now);
            let longest = moved_at + TAIL * settings.timeouts.stall;
            let signs = Signs {
                socket: quic.socket(),
                moved_at,
                in_flight: false,
                confirmed_at: quic.heard().map(|heard| heard.min(longest)),
                heard: quic.heard(),
            };
            tick(exchanges, &signs, settings, now)
        });
    }

    /// The connection's own streams: settings, and the server's wish to end it.
    fn drive(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(error) = self.driver.poll_close(&mut context) {
            // Requests learn of the end from their streams, once the bytes that have come are read.
            tracing::debug!(remote = self.remote, %error, "HTTP/3 ends");
            self.over = true;
        }
    }

    /// A limited download is sent no faster than it may be read, any other no faster than the path carries it.
    fn grant(&mut self, now: Instant) {
        let Some(window) = &mut self.window else {
            let (taken, few_frames) = (self.link.taken(), self.link.keeps_few_frames());
            let look = self.link.with(|quic| {
                let (came, datagrams) = quic.came();
                Look {
                    round_trip: quic.round_trip(),
                    measured: quic.round_trips(),
                    came,
                    datagrams,
                    taken,
                    few_frames,
                }
            });
            if let Some(bytes) = self.follow.next(look, now) {
                self.link.set_window(bytes);
            }
            return;
        };
        let round_trip = self.link.with(|quic| quic.connection.rtt());
        if let (Some(rate), false) = (self.settings.limit.rate(), self.settings.limit.is_shared()) {
            window.share(rate, self.streams.len() as u64);
        }
        if let Some(bytes) = window.next(round_trip, self.link.ungranted(), now) {
            self.link.set_window(bytes);
        }
    }

    fn end(&mut self, problem: &Error, now: Instant) {
        self.over = true;
        for stream in &mut self.streams {
            stream.exchange.failed(problem.clone(), now);
        }
    }

    fn wait(&mut self, later: Option<Instant>) -> std::io::Result<()> {
        let now = Instant::now();
        let paced = self.streams.iter().filter_map(|stream| stream.exchange.next_at()).min();
        let (timeout, round_trip) = self.link.with(|quic| (quic.timeout(), quic.connection.rtt()));
        let window = self
            .window
            .as_ref()
            .filter(|_| !self.streams.is_empty())
            .and_then(|window| window.next_at(round_trip, now));
        let until = [Some(self.next_tick), later, paced, timeout, window]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(self.next_tick);
        let link = &self.link;
        self.waiter
            .wait(Some(until), |_, ready| link.with(|quic| quic.wake(ready)))
    }

    /// Hands back the exchanges that are over.
    fn retire(&mut self, tasks: &mut dyn Tasks) {
        let mut index = 0;
        while let Some(stream) = self.streams.get(index) {
            if !stream.exchange.is_over() {
                index += 1;
                continue;
            }
            let mut stream = self.streams.remove(index);
            stream.retire(&self.link);
            let answered = stream.exchange.was_answered();
            let mut outcome = self.link.with(|quic| stream.exchange.finish(&quic.socket()));
            let lost = self.over && self.served;
            let unanswered = outcome.facts.phases.first_byte_s.is_none() && outcome.task.method.is_idempotent();
            match &mut outcome.ending {
                // A connection that has served others was closed with this request on its way (RFC 9110, section 9.2.2).
                Ending::Failed(problem) if lost && unanswered && problem.class == Class::Transient => {
                    problem.not_processed = true;
                }
                Ending::Failed(problem) => {
                    // A server that takes no request at all is not to be asked again at once.
                    problem.not_processed &= self.served;
                    self.over |= problem.not_processed;
                }
                Ending::Done | Ending::Redirect { .. } => {}
            }
            self.served |= answered || matches!(outcome.ending, Ending::Done);
            outcome.facts.protocol = Some("h3");
            outcome.facts.remote = Some(self.remote.clone());
            outcome.facts.sndbuf = Some(self.send_buffer.clone());
            outcome.facts.tls = Some(self.tls.clone());
            if matches!(outcome.ending, Ending::Failed(_)) {
                // The program may end as soon as it learns of a failure, and the server is owed the reason.
                self.link.with(|quic| quic.drive(Instant::now()));
            }
            tasks.done(outcome);
        }
    }
}
