//! The steps that the loops of all connections share: begin the exchanges that may begin, and give up those that take too long.

use std::time::{Duration, Instant};

use super::exchange::{Exchange, Signs};
use super::{Pull, Settings, Task, Tasks, Timeouts};

/// The interval between looks at time-outs, progress, the stop and TCP's own view.
pub const TICK: Duration = Duration::from_millis(100);

/// A connection that exchanges begin on.
pub trait Begins {
    /// Another exchange may begin now.
    fn has_room(&mut self) -> bool;

    fn begin(&mut self, task: Task, now: Instant);

    /// Starts the tasks that may start; returns the time of the next one that is due later.
    fn begin_tasks(&mut self, tasks: &mut dyn Tasks) -> Option<Instant> {
        while self.has_room() {
            let now = Instant::now();
            match tasks.pull(now) {
                Pull::Empty => return None,
                Pull::Later(at) => return Some(at),
                Pull::Task(task) => self.begin(*task, now),
            }
        }
        None
    }
}

/// Ends exchanges that take too long, or all of them if the run is to stop; called every [`TICK`]. True if no other exchange may
/// begin on this connection.
pub fn tick<'a>(
    exchanges: impl Iterator<Item = &'a mut Exchange>,
    signs: &Signs<'_>,
    settings: &Settings,
    now: Instant,
) -> bool {
    let timeouts = &settings.timeouts;
    let stop = settings.stop.problem();
    let mut late = false;
    for exchange in exchanges {
        late |= exchange.tick(signs, timeouts, now);
        if let Some(problem) = &stop {
            exchange.failed(problem.clone(), now);
        }
    }
    stop.is_some() || (late && is_silent(signs.heard, timeouts, now))
}

/// A server that says nothing on any stream cannot be asked again on this connection: the path may be gone, and only the system does not know it
/// yet. Half of the time-out, because the last bytes that came may have been no content.
fn is_silent(heard: Option<Instant>, timeouts: &Timeouts, now: Instant) -> bool {
    let patience = timeouts.stall.min(timeouts.first_byte) / 2;
    heard.is_none_or(|heard| now.saturating_duration_since(heard) >= patience)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_silent_after_half_of_the_shorter_time_out() {
        let second = Duration::from_secs(1);
        let timeouts = Timeouts {
            connect: second,
            tls: second,
            first_byte: 30 * second,
            answer: None,
            stall: 20 * second,
            total: None,
        };
        let heard = Instant::now();
        let silent = |after: Duration| is_silent(Some(heard), &timeouts, heard + after);
        assert!(!silent(Duration::from_millis(9_999)) && silent(10 * second));
        assert!(is_silent(None, &timeouts, heard));
    }
}
