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

/// The longest delay with which an event is seen in the last part of a wait, which is slept.
const SLICE: Duration = Duration::from_millis(1);

/// Instants to sleep to, one after the other, the last of them the deadline.
fn slices(from: Instant, deadline: Instant) -> impl Iterator<Item = Instant> {
    let whole = deadline
        .saturating_duration_since(from)
        .as_nanos()
        .div_ceil(SLICE.as_nanos());
    let whole = u32::try_from(whole).unwrap_or(u32::MAX).max(1);
    (1..=whole).map(move |number| (from + SLICE * number).min(deadline))
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
    /// The poll covers whole milliseconds only (`platform::POLL_GRANULARITY`), precise sleeps the rest, in slices of at most
    /// `SLICE`: events of that last part are seen at the end of theirs.
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
                // With a coarse poll, the remainder of the wait is long enough for an event to happen in it.
                for slice in slices(Instant::now(), deadline) {
                    platform::sleep_until(slice, Duration::ZERO);
                    if self.poll_once(Some(Duration::ZERO), &mut each)? {
                        break;
                    }
                }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_part_of_a_wait_is_slept_in_slices_that_end_at_the_deadline() {
        let from = Instant::now();
        let until = |us| {
            let deadline = from + Duration::from_micros(us);
            slices(from, deadline)
                .map(|at| at.duration_since(from).as_micros())
                .collect::<Vec<_>>()
        };
        assert_eq!(until(700), [700]);
        assert_eq!(until(1000), [1000]);
        assert_eq!(until(3200), [1000, 2000, 3000, 3200]);
        // Late already: one look, and no sleep.
        assert_eq!(until(0), [0]);
    }
}
