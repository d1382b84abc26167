//! The arrival of sent bytes: those that the server's machine has acknowledged count, not those that only the local system has
//! taken.

use std::time::Instant;

#[derive(Debug)]
pub struct Delivery {
    arrived: u64,
    /// More was sent than has arrived.
    pub in_flight: bool,
    /// The time at which more had arrived than before, or the first byte after a pause had left.
    pub moved_at: Instant,
}

impl Delivery {
    pub fn new(now: Instant) -> Self {
        Self {
            arrived: 0,
            in_flight: false,
            moved_at: now,
        }
    }

    /// Records that `arrived` bytes of the connection's stream have arrived, of `sent` that were handed to it.
    pub fn look(&mut self, arrived: u64, sent: u64, now: Instant) {
        let in_flight = arrived < sent;
        if arrived > self.arrived || (in_flight && !self.in_flight) {
            self.moved_at = now;
        }
        self.arrived = arrived;
        self.in_flight = in_flight;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_what_arrives_moves() {
        let begin = Instant::now();
        let mut delivery = Delivery::new(begin);
        // Seconds, bytes that have arrived and that were sent; whether they moved then, and whether any are on their way.
        for (at, arrived, sent, moved, in_flight) in [
            (1, 0, 0, false, false),
            (2, 0, 100, true, true),
            (3, 0, 200, false, true),
            (4, 10, 200, true, true),
            (5, 10, 200, false, true),
            (6, 200, 200, true, false),
            (7, 200, 200, false, false),
            (8, 200, 300, true, true),
        ] {
            let now = begin + Duration::from_secs(at);
            delivery.look(arrived, sent, now);
            assert_eq!(
                (delivery.moved_at == now, delivery.in_flight),
                (moved, in_flight),
                "{at}"
            );
        }
    }
}
