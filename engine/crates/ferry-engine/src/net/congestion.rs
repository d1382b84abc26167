//! Congestion control of what leaves by QUIC: quinn's, and where its window begins.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{
    BbrConfig, Controller, ControllerFactory, ControllerMetrics, CubicConfig, NewRenoConfig,
};

use ferry_pacing::Rate;

use super::round_trip::RoundTrip;
use super::slow_start::Watched;

/// Congestion controls that quinn has, by Linux's names for them.
pub const CONGESTION: [&str; 3] = ["cubic", "reno", "bbr"];

/// Ten datagrams of the size that an Ethernet carries, as TCP begins there (RFC 6928). quinn counts those of 1200 bytes of which it is sure: RFC 9002 (7.2)
/// allows 14,720 bytes once larger ones are.
const FIRST_WINDOW: u64 = 10 * 1452;
/// Under a limit the window begins with 32 datagrams: they leave in steps, not as a burst.
const PACED_WINDOW: u64 = 32 * 1452;
/// It may begin with more where the limit needs it for a round trip, up to this: nothing is known of the path yet.
const MOST_PACED_WINDOW: u64 = 256 * 1024;
/// A server may wait so long before it acknowledges (RFC 9000, section 18.2).
const ACK_DELAY: Duration = Duration::from_millis(25);

type Factory = Arc<dyn ControllerFactory + Send + Sync>;

/// By its name; `None` is cubic. With `start`, what is sent is held to a limit; bbr begins with a window that is large enough.
pub fn controller(name: Option<&str>, start: Option<Start>, round_trip: &RoundTrip) -> Factory {
    let name = name.unwrap_or_default().to_owned();
    match start {
        _ if name == "bbr" => factory(&name, None),
        Some(start) => Arc::new(Paced { name, start }),
        None => Arc::new(Watched {
            inner: factory(&name, Some(FIRST_WINDOW)),
            round_trip: round_trip.clone(),
        }),
    }
}

fn factory(name: &str, window: Option<u64>) -> Factory {
    match name {
        "reno" => {
            let mut reno = NewRenoConfig::default();
            window.map(|window| reno.initial_window(window));
            Arc::new(reno)
        }
        "bbr" => Arc::new(BbrConfig::default()),
        _ => {
            let mut cubic = CubicConfig::default();
            window.map(|window| cubic.initial_window(window));
            Arc::new(cubic)
        }
    }
}

/// The initial congestion window of a limited upload, in bytes. All clones share it.
#[derive(Clone, Default)]
pub struct Start(Arc<AtomicU64>);

impl Start {
    /// Sets the window that an upload at `rate` needs over a path of this round trip. A smaller window would make the upload late
    /// from the first round trip on, and ferry would make up for lost time above the limit.
    pub fn set(&self, rate: Rate, round_trip: Duration) {
        let time = round_trip.mul_f64(1.25) + ACK_DELAY;
        let window = rate.bytes_in(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        self.0.store(window.min(MOST_PACED_WINDOW), Ordering::Relaxed);
    }
}

/// Makes controllers whose window may begin anew, once the round trip is known.
struct Paced {
    name: String,
    start: Start,
}

impl ControllerFactory for Paced {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let inner = factory(&self.name, Some(PACED_WINDOW)).build(now, current_mtu);
        Box::new(Starting {
            paced: self,
            inner,
            mtu: current_mtu,
            lost: false,
        })
    }
}

struct Starting {
    paced: Arc<Paced>,
    inner: Box<dyn Controller>,
    mtu: u16,
    /// The path has lost something: its window is the controller's alone.
    lost: bool,
}

impl Controller for Starting {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        let window = self.paced.start.0.swap(0, Ordering::Relaxed);
        if !self.lost && window > self.inner.window() {
            self.inner = factory(&self.paced.name, Some(window)).build(now, self.mtu);
        }
        self.inner.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest_packet_num_acked: Option<u64>) {
        self.inner
            .on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent_congestion: bool, lost_bytes: u64) {
        self.lost = true;
        self.inner
            .on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = new_mtu;
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
            paced: Arc::clone(&self.paced),
            inner: self.inner.clone_box(),
            mtu: self.mtu,
            lost: self.lost,
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
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn rate(byte_s: u64) -> Rate {
        Rate::new(byte_s).unwrap()
    }

    #[test]
    fn the_window_of_a_limited_upload_begins_with_what_the_limit_needs_for_a_round_trip() {
        for name in ["cubic", "reno"] {
            let (start, now) = (Start::default(), Instant::now());
            let mut window = controller(Some(name), Some(start.clone()), &RoundTrip::default()).build(now, 1452);
            window.on_sent(now, 1200, 0);
            assert_eq!(window.window(), PACED_WINDOW, "{name}: nothing is known yet");
            start.set(rate(1_000_000), 100 * MS);
            window.on_sent(now, 1200, 1);
            assert_eq!(window.window(), 150_000, "{name}");
            // A shorter path takes no window away, and a fast limit gets no more than may be unknown to the path.
            start.set(rate(1_000), MS);
            window.on_sent(now, 1200, 2);
            assert_eq!(window.window(), 150_000, "{name}");
            start.set(rate(1_000_000_000), 100 * MS);
            window.on_sent(now, 1200, 3);
            assert_eq!(window.window(), MOST_PACED_WINDOW, "{name}");
        }
    }

    #[test]
    fn a_path_that_has_lost_something_is_given_no_window() {
        let (start, now) = (Start::default(), Instant::now());
        let mut window = controller(None, Some(start.clone()), &RoundTrip::default()).build(now, 1452);
        window.on_congestion_event(now, now, false, 1452);
        let left = window.window();
        start.set(rate(1_000_000), 100 * MS);
        window.on_sent(now, 1200, 1);
        assert_eq!(window.window(), left);
        assert!(left < PACED_WINDOW);
    }

    #[test]
    fn an_upload_without_a_limit_begins_with_ten_datagrams_of_an_ethernet() {
        for name in [None, Some("cubic"), Some("reno")] {
            let window = controller(name, None, &RoundTrip::default()).build(Instant::now(), 1200);
            assert_eq!(window.window(), 14_520, "{name:?}");
        }
    }

    #[test]
    fn a_round_trip_is_unknown_until_one_was_measured() {
        let told = RoundTrip::default();
        assert_eq!(told.get(), None);
        told.clone().set(20 * MS);
        assert_eq!(told.get(), Some(20 * MS));
    }
}
