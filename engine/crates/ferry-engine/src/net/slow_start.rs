//! A slow start that ends when the path's queue grows, and not only when it has overflowed: `HyStart++` (RFC 9406) before quinn's controllers.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

use super::round_trip::RoundTrip;

/// RFC 9406, section 4.3. There a window grows on for five careful rounds, by a quarter each; it would be three times what it was when the queue was
/// seen, and that was up to twice what the path holds. Here it stays as it is for a round.
const SAMPLES: usize = 8;
const LEAST_RISE: Duration = Duration::from_millis(4);
const MOST_RISE: Duration = Duration::from_millis(16);
const RISE_PART: u32 = 8;

/// Makes quinn's controllers, and watches their slow start.
pub struct Watched {
    pub inner: Arc<dyn ControllerFactory + Send + Sync>,
    pub round_trip: RoundTrip,
}

impl ControllerFactory for Watched {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(SlowStart {
            inner: Arc::clone(&self.inner).build(now, current_mtu),
            phase: Phase::Fast,
            round: Round::default(),
            sent: 0,
            round_trip: self.round_trip.clone(),
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Fast,
    /// The round trip has risen, and the window stays as it is until that round has ended and the next one.
    Careful {
        has_ended: bool,
    },
    Over,
}

/// A round: the packets that are sent until the first of them is acknowledged.
#[derive(Debug, Clone, Default)]
struct Round {
    /// It ends when this packet is acknowledged.
    until: u64,
    least: Option<Duration>,
    /// The shortest of the round before, or of the last one in which there was no queue.
    before: Option<Duration>,
    /// The last samples. The shortest of a round is that of its first packets, which have met no queue yet (RFC 9406 takes that one).
    recent: VecDeque<Duration>,
}

impl Round {
    fn sample(&mut self, round_trip: Duration) {
        self.least = Some(self.least.map_or(round_trip, |least| least.min(round_trip)));
        self.recent.push_back(round_trip);
        if self.recent.len() > SAMPLES {
            self.recent.pop_front();
        }
    }

    fn has_risen(&self) -> bool {
        let least = self.recent.iter().min().filter(|_| self.recent.len() == SAMPLES);
        let Some((least, before)) = least.zip(self.before) else {
            return false;
        };
        *least >= before + (before / RISE_PART).clamp(LEAST_RISE, MOST_RISE)
    }
}

struct SlowStart {
    inner: Box<dyn Controller>,
    phase: Phase,
    round: Round,
    /// The last packet that has left.
    sent: u64,
    round_trip: RoundTrip,
}

impl SlowStart {
    fn look(&mut self, acknowledged: u64, now: Instant) {
        match (self.phase, self.round.has_risen()) {
            (Phase::Fast, true) => self.phase = Phase::Careful { has_ended: false },
            // It was no queue.
            (Phase::Careful { .. }, false) => self.phase = Phase::Fast,
            _ => {}
        }
        if acknowledged < self.round.until {
            return;
        }
        self.round.until = self.sent;
        let least = self.round.least.take();
        if self.phase == Phase::Fast {
            self.round.before = least.or(self.round.before);
        }
        if let Phase::Careful { has_ended } = &mut self.phase {
            if *has_ended {
                tracing::debug!(
                    window = self.window(),
                    "the slow start ends, for the round trip has risen"
                );
                // The event of an overflowed queue: nothing else ends the slow start of quinn's controllers.
                self.on_congestion_event(now, now, false, 0);
            } else {
                *has_ended = true;
            }
        }
    }
}

impl Controller for SlowStart {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.sent = last_packet_number;
        self.inner.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        let grows = if matches!(self.phase, Phase::Careful { .. }) {
            0
        } else {
            bytes
        };
        let round_trip = now.saturating_duration_since(sent);
        self.round_trip.set(round_trip);
        self.round.sample(round_trip);
        self.inner.on_ack(now, sent, grows, app_limited, rtt);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest_packet_num_acked: Option<u64>) {
        if self.phase != Phase::Over {
            self.look(largest_packet_num_acked.unwrap_or_default(), now);
        }
        self.inner
            .on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent_congestion: bool, lost_bytes: u64) {
        self.phase = Phase::Over;
        self.inner
            .on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self {
            inner: self.inner.clone_box(),
            phase: self.phase,
            round: self.round.clone(),
            sent: self.sent,
            round_trip: self.round_trip.clone(),
        })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use quinn_proto::congestion::CubicConfig;

    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const LAST: u64 = 99;

    fn watched() -> SlowStart {
        SlowStart {
            inner: Arc::new(CubicConfig::default()).build(Instant::now(), 1452),
            phase: Phase::Fast,
            round: Round::default(),
            sent: 0,
            round_trip: RoundTrip::default(),
        }
    }

    /// A round of `samples` packets that take `round_trip` there and back.
    fn round(watched: &mut SlowStart, round_trip: Duration, samples: u32) {
        watched.sent += LAST;
        for _ in 0..samples {
            watched.round.sample(round_trip);
        }
        watched.look(watched.round.until, Instant::now());
    }

    #[test]
    fn a_round_trip_that_rises_by_an_eighth_ends_the_slow_start_after_another_round() {
        let mut watched = watched();
        for _ in 0..5 {
            round(&mut watched, 100 * MS, 8);
        }
        round(&mut watched, 112 * MS, 8);
        assert_eq!(watched.phase, Phase::Fast);
        round(&mut watched, 126 * MS, 8);
        assert!(matches!(watched.phase, Phase::Careful { .. }));
        let before = watched.window();
        round(&mut watched, 126 * MS, 8);
        assert_eq!(watched.phase, Phase::Over);
        assert_eq!(watched.window(), before * 7 / 10);
    }

    #[test]
    fn few_samples_say_nothing_and_a_queue_that_goes_away_was_none() {
        let mut watched = watched();
        round(&mut watched, 100 * MS, 8);
        round(&mut watched, 100 * MS, 8);
        round(&mut watched, 200 * MS, 7);
        assert_eq!(watched.phase, Phase::Fast);
        round(&mut watched, 100 * MS, 8);
        round(&mut watched, 120 * MS, 8);
        assert!(matches!(watched.phase, Phase::Careful { .. }));
        round(&mut watched, 101 * MS, 8);
        assert_eq!(watched.phase, Phase::Fast);
    }

    #[test]
    fn a_loss_ends_it_at_once() {
        let (mut watched, now) = (watched(), Instant::now());
        let before = watched.window();
        watched.on_congestion_event(now, now, false, 1452);
        assert_eq!(watched.phase, Phase::Over);
        assert!(watched.window() < before);
    }
}
