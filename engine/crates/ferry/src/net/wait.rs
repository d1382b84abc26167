//! Waiting for sockets and deadlines at once, finer than a poll's whole milliseconds.

use std::io;
use std::time::{Duration, Instant};

use mio::event::Source;
use mio::{Events, Interest, Poll, Token};

use crate::platform;

/// Readiness is edge-triggered: what is reported once stays true until the socket says `WouldBlock`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ready {
    pub readable: bool,
    pub writable: bool,
}

pub struct Waiter {
    poll: Poll,
    events: Events,
}

impl Waiter {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            poll: Poll::new()?,
            events: Events::with_capacity(128),
        })
    }

    pub fn add(&self, source: &mut impl Source, token: usize) -> io::Result<()> {
        self.poll
            .registry()
            .register(source, Token(token), Interest::READABLE | Interest::WRITABLE)
    }

    pub fn remove(&self, source: &mut impl Source) -> io::Result<()> {
        self.poll.registry().deregister(source)
    }

    /// Waits for an event or the deadline, whichever is first; `each` is called for every event.
    ///
    /// The poll covers whole milliseconds only (`platform::POLL_GRANULARITY`), a precise sleep the rest. Events of that last part are
    /// seen at its end.
    pub fn wait(&mut self, until: Option<Instant>, mut each: impl FnMut(usize, Ready)) -> io::Result<()> {
        let mut rest = None;
        let timeout = match until {
            None => None,
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                let coarse = left.checked_sub(platform::POLL_GRANULARITY).unwrap_or_default();
                if !left.is_zero() {
                    rest = Some(deadline);
                }
                Some(Duration::from_millis(
                    u64::try_from(coarse.as_millis()).unwrap_or(u64::MAX),
                ))
            }
        };
        let found = self.poll_once(timeout, &mut each)?;
        if let (false, Some(deadline)) = (found, rest) {
            // A poll that ended early for no event (a signal) leaves more than a moment; the caller's loop comes again.
            if deadline.saturating_duration_since(Instant::now()) <= platform::POLL_GRANULARITY * 2 {
                platform::sleep_until(deadline, Duration::ZERO);
                self.poll_once(Some(Duration::ZERO), &mut each)?;
            }
        }
        Ok(())
    }

    fn poll_once(&mut self, timeout: Option<Duration>, each: &mut impl FnMut(usize, Ready)) -> io::Result<bool> {
        match self.poll.poll(&mut self.events, timeout) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(false),
            Err(error) => return Err(error),
        }
        let mut found = false;
        for event in &self.events {
            found = true;
            // A closed or broken socket is readable: the read tells how it ended.
            let broken = event.is_error() || event.is_read_closed() || event.is_write_closed();
            each(
                event.token().0,
                Ready {
                    readable: event.is_readable() || broken,
                    writable: event.is_writable() || event.is_error(),
                },
            );
        }
        Ok(found)
    }
}
