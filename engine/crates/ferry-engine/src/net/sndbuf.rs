//! The send buffer of a connection (`--sndbuf`): what was asked for, what the system finds ideal, and what became of both.
//!
//! Linux tunes the send buffer of every socket by itself, and setting it ends that. Windows does so for blocking sockets only: a
//! non-blocking one stays at its first size, some 64 KiB a round trip, unless its owner asks what would be ideal for the path
//! (`SIO_IDEAL_SEND_BACKLOG_QUERY`) and sets it. When to ask and what to set is decided here; the calls are a [`Socket`]'s.

use std::io;
use std::time::{Duration, Instant};

use socket2::SockRef;

use crate::platform;
use crate::report::SendBufferFacts;

/// `--sndbuf`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SendBuffer {
    /// The size that the path needs: ferry asks Windows for it; other systems find it themselves.
    #[default]
    Auto,
    /// The system's default.
    Off,
    /// Exactly this size.
    Bytes(usize),
}

/// Slow start doubles per round trip: ask often while it lasts, seldom afterwards (a call costs a system call).
const BEGINNING: Duration = Duration::from_secs(1);
const OFTEN: Duration = Duration::from_millis(100);
const SELDOM: Duration = Duration::from_secs(1);
/// A system that has refused so often in a row does not know the question.
const MOST_REFUSALS: u32 = 3;

/// The size that Windows gives every socket. The first ideal that it reports is that size too, and Wine never reports another;
/// setting so little would only end the tuning of a system that tunes by itself, as Linux under Wine does.
const GIVEN: u64 = 64 * 1024;

/// The calls on a socket that a tuner needs.
pub trait Socket {
    /// `None` where the system is not to be asked.
    fn ideal(&self) -> Option<io::Result<u64>>;
    fn size(&self) -> Option<u64>;
    fn resize(&self, bytes: u64) -> io::Result<()>;
}

impl Socket for SockRef<'_> {
    fn ideal(&self) -> Option<io::Result<u64>> {
        platform::ideal_send_backlog(self)
    }

    fn size(&self) -> Option<u64> {
        self.send_buffer_size().ok().map(|bytes| bytes as u64)
    }

    fn resize(&self, bytes: u64) -> io::Result<()> {
        self.set_send_buffer_size(usize::try_from(bytes).unwrap_or(usize::MAX))
    }
}

/// The tuner of one connection's send buffer. It only grows the buffer: shrinking would block sends that fitted a moment ago.
#[derive(Debug)]
pub struct Tuner {
    mode: SendBuffer,
    asks: bool,
    begin: Instant,
    next: Instant,
    initial: Option<u64>,
    /// The buffer's size: the initial one, then the one set here last.
    size: u64,
    ideal: Option<u64>,
    queries: u32,
    refusals: u32,
    refused: Option<String>,
}

impl Tuner {
    /// The socket is connected: before, the question has no answer (`WSAENOTCONN`).
    pub fn new(mode: SendBuffer, socket: &impl Socket, now: Instant) -> Self {
        let initial = socket.size();
        Self {
            mode,
            asks: mode == SendBuffer::Auto && platform::ASKS_FOR_SEND_BACKLOG,
            begin: now,
            next: now,
            initial,
            size: initial.unwrap_or(0),
            ideal: None,
            queries: 0,
            refusals: 0,
            refused: None,
        }
    }

    /// True while there is any use in calling `poll`, now or later.
    #[must_use]
    pub fn asks(&self) -> bool {
        self.asks
    }

    /// When `poll` does something again.
    #[must_use]
    pub fn next(&self) -> Instant {
        self.next
    }

    /// To be called whenever there is something to send; asks no more often than it should.
    pub fn poll(&mut self, socket: &impl Socket, now: Instant) {
        if !self.asks || now < self.next {
            return;
        }
        let Some(answer) = socket.ideal() else {
            self.asks = false;
            return;
        };
        self.queries += 1;
        let mut grows = false;
        match answer {
            Ok(ideal) => {
                self.refusals = 0;
                self.ideal = Some(ideal);
                if ideal > self.size.max(GIVEN) {
                    match socket.resize(ideal) {
                        Ok(()) => {
                            self.size = ideal;
                            grows = true;
                        }
                        Err(error) => self.refused = Some(format!("SO_SNDBUF of {ideal} bytes: {error}")),
                    }
                }
            }
            Err(error) => {
                self.refusals += 1;
                self.asks = self.refusals < MOST_REFUSALS;
                self.refused = Some(format!("SIO_IDEAL_SEND_BACKLOG_QUERY: {error}"));
            }
        }
        let young = now.saturating_duration_since(self.begin) < BEGINNING;
        self.next = now + if young || grows { OFTEN } else { SELDOM };
    }

    #[must_use]
    pub fn facts(&self, socket: &impl Socket) -> SendBufferFacts {
        SendBufferFacts {
            mode: match self.mode {
                SendBuffer::Auto => "auto",
                SendBuffer::Off => "off",
                SendBuffer::Bytes(_) => "bytes",
            },
            initial_bytes: self.initial,
            final_bytes: socket.size(),
            ideal_bytes: self.ideal,
            queries: self.queries,
            refused: self.refused.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    /// A socket that finds ideal what it is told to.
    struct Fake {
        ideal: RefCell<Vec<Option<u64>>>,
        size: Cell<u64>,
        resizes: bool,
    }

    impl Fake {
        fn new(ideal: &[Option<u64>]) -> Self {
            Self {
                ideal: RefCell::new(ideal.iter().rev().copied().collect()),
                size: Cell::new(65_536),
                resizes: true,
            }
        }
    }

    impl Socket for Fake {
        fn ideal(&self) -> Option<io::Result<u64>> {
            let mut answers = self.ideal.borrow_mut();
            let next = if answers.len() > 1 {
                answers.pop()
            } else {
                answers.last().copied()
            };
            Some(next.flatten().ok_or_else(|| io::ErrorKind::Unsupported.into()))
        }

        fn size(&self) -> Option<u64> {
            Some(self.size.get())
        }

        fn resize(&self, bytes: u64) -> io::Result<()> {
            if !self.resizes {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            self.size.set(bytes);
            Ok(())
        }
    }

    fn asking(socket: &Fake, now: Instant) -> Tuner {
        Tuner {
            asks: true,
            ..Tuner::new(SendBuffer::Auto, socket, now)
        }
    }

    /// Polled every millisecond; returns when it asked.
    fn watch(tuner: &mut Tuner, socket: &Fake, begin: Instant, ms: u64) -> Vec<u64> {
        let mut asked = Vec::new();
        for at in 0..ms {
            let before = tuner.queries;
            tuner.poll(socket, begin + Duration::from_millis(at));
            if tuner.queries > before {
                asked.push(at);
            }
        }
        asked
    }

    #[test]
    fn it_asks_ten_times_in_the_first_second_and_then_once_a_second() {
        let begin = Instant::now();
        let socket = Fake::new(&[Some(65_536)]);
        let asked = watch(&mut asking(&socket, begin), &socket, begin, 3500);
        assert_eq!(
            asked,
            [0, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000, 2000, 3000]
        );
    }

    #[test]
    fn it_grows_and_never_shrinks() {
        let begin = Instant::now();
        let socket = Fake::new(&[Some(65_536), Some(200_000), Some(100_000), Some(0), Some(1_000_000)]);
        let mut tuner = asking(&socket, begin);
        watch(&mut tuner, &socket, begin, 350);
        assert_eq!(socket.size.get(), 200_000);
        watch(&mut tuner, &socket, begin + Duration::from_millis(400), 1);
        assert_eq!(socket.size.get(), 1_000_000);
        let facts = tuner.facts(&socket);
        assert_eq!(
            (
                facts.mode,
                facts.initial_bytes,
                facts.final_bytes,
                facts.ideal_bytes,
                facts.queries,
                facts.refused
            ),
            ("auto", Some(65_536), Some(1_000_000), Some(1_000_000), 5, None)
        );
    }

    #[test]
    fn the_size_that_windows_begins_with_is_never_set() {
        let begin = Instant::now();
        let socket = Fake::new(&[Some(65_536)]);
        socket.size.set(16_384);
        let mut tuner = asking(&socket, begin);
        watch(&mut tuner, &socket, begin, 500);
        assert_eq!(
            (socket.size.get(), tuner.facts(&socket).ideal_bytes),
            (16_384, Some(65_536))
        );
    }

    #[test]
    fn while_it_grows_it_goes_on_asking_often() {
        let begin = Instant::now();
        let growing: Vec<_> = (1..=14).map(|step| Some(65_536 << step)).collect();
        let socket = Fake::new(&growing);
        let asked = watch(&mut asking(&socket, begin), &socket, begin, 3000);
        assert_eq!(
            asked,
            [(0..=14).map(|step| step * 100).collect::<Vec<_>>(), vec![2400]].concat()
        );
    }

    #[test]
    fn a_system_that_refuses_is_left_alone_and_the_report_says_so() {
        let begin = Instant::now();
        let socket = Fake::new(&[None]);
        let mut tuner = asking(&socket, begin);
        assert_eq!(watch(&mut tuner, &socket, begin, 5000), [0, 100, 200]);
        assert!(!tuner.asks());
        let facts = tuner.facts(&socket);
        assert_eq!((facts.final_bytes, facts.ideal_bytes), (Some(65_536), None));
        assert!(facts.refused.unwrap().starts_with("SIO_IDEAL_SEND_BACKLOG_QUERY: "));
    }

    #[test]
    fn a_size_that_is_refused_is_told() {
        let begin = Instant::now();
        let socket = Fake {
            resizes: false,
            ..Fake::new(&[Some(1 << 20)])
        };
        let mut tuner = asking(&socket, begin);
        tuner.poll(&socket, begin);
        let facts = tuner.facts(&socket);
        assert_eq!((facts.final_bytes, facts.ideal_bytes), (Some(65_536), Some(1 << 20)));
        assert!(facts.refused.unwrap().contains("SO_SNDBUF of 1048576 bytes"));
    }

    #[test]
    fn who_does_not_want_it_is_not_asked() {
        let begin = Instant::now();
        for mode in [SendBuffer::Off, SendBuffer::Bytes(100_000)] {
            let socket = Fake::new(&[Some(1 << 20)]);
            let mut tuner = Tuner::new(mode, &socket, begin);
            assert!(watch(&mut tuner, &socket, begin, 500).is_empty());
            assert_eq!(socket.size.get(), 65_536);
        }
    }

    #[test]
    fn a_real_socket_has_a_size() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = SockRef::from(&near);
        let mut tuner = Tuner::new(SendBuffer::Auto, &socket, Instant::now());
        tuner.poll(&socket, Instant::now());
        assert_eq!(tuner.queries > 0, platform::ASKS_FOR_SEND_BACKLOG);
        let facts = tuner.facts(&socket);
        assert!(facts.initial_bytes.is_some_and(|bytes| bytes >= 4096), "{facts:?}");
        socket.resize(50_000).unwrap();
        assert!(tuner.facts(&socket).final_bytes.is_some_and(|bytes| bytes >= 50_000));
    }
}
