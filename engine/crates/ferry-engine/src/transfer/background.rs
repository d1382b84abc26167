//! `--background`: TCP's figures of the one connection go to the controller, its rate to the sender, its window to the socket.

use std::time::{Duration, Instant};

use ferry_pacing::Rate;
use socket2::SockRef;

use super::pace::{Asked, Pace};
use crate::clock::nanos;
use crate::platform::{self, PathFigures};

/// The socket is looked at every quarter of a round trip, within these bounds.
const SHORTEST_LOOK: Duration = Duration::from_millis(2);
const LONGEST_LOOK: Duration = Duration::from_millis(10);

/// More unsent bytes than the rate gives in this time mean that TCP itself sends less, after a loss, and would send all of them
/// at once later.
const LONGEST_UNSENT: Duration = Duration::from_millis(20);
const LEAST_UNSENT: u64 = 8 * 1460;
const HELD_BACK: u64 = 4;
/// Two full packets: a connection with less stands still.
const LEAST_WINDOW: u64 = 2 * 1514;

/// The bytes that have arrived, and those of them that wait for a lost segment. They are counted by segments, because the bytes
/// in order stand still while a gap is open and jump when it closes.
#[derive(Debug, Default)]
struct Arrivals {
    before: Option<(u64, u32)>,
    total: u64,
    waiting: u64,
}

impl Arrivals {
    fn count(&mut self, figures: &PathFigures) {
        let Some(segments) = figures.segments else {
            self.total = self.total.max(figures.in_order);
            return;
        };
        let Some((in_order, counted)) = self.before.replace((figures.in_order, segments)) else {
            self.total = figures.in_order;
            return;
        };
        let in_order = figures.in_order.saturating_sub(in_order);
        let arrived = u64::from(segments.wrapping_sub(counted)) * u64::from(figures.segment_bytes);
        self.total += arrived;
        if in_order == 0 {
            self.waiting += arrived;
        } else if in_order > arrived {
            self.waiting = self.waiting.saturating_sub(in_order - arrived);
        } else {
            // Segments that are not full seem to be more than they are.
            self.waiting /= 2;
        }
    }
}

/// Watches over one connection.
pub struct Watch {
    arrivals: Arrivals,
    pace: Pace,
    connection: usize,
    asked: Option<Asked>,
    next: Instant,
}

impl Watch {
    #[must_use]
    pub fn new(pace: &Pace) -> Self {
        Self {
            arrivals: Arrivals::default(),
            connection: pace.join(nanos(Instant::now())),
            pace: pace.clone(),
            asked: None,
            next: Instant::now(),
        }
    }

    /// When to look again.
    #[must_use]
    pub fn next(&self) -> Instant {
        self.next
    }

    /// Asks TCP, if it is time, and acts on the answer. `sends`: the connection carries an upload.
    pub fn look(&mut self, socket: &SockRef<'_>, sends: bool, now: Instant) {
        if now < self.next {
            return;
        }
        let figures = platform::path_figures(socket, sends);
        let round_trip = figures.map_or(Duration::ZERO, |figures| figures.round_trip);
        if let Some(figures) = figures {
            let before = self.arrivals.total;
            self.arrivals.count(&figures);
            let round_trip = u64::try_from(round_trip.as_nanos()).unwrap_or(u64::MAX);
            let arrived = self.arrivals.total - before;
            self.asked = Some(self.pace.sample(self.connection, nanos(now), round_trip, arrived));
        }
        self.next = now + (round_trip / 4).clamp(SHORTEST_LOOK, LONGEST_LOOK);
        let Some(asked) = self.asked else {
            return;
        };
        if sends {
            self.pace.set(nanos(now), sending_rate(socket, asked.rate));
        } else {
            // Bytes that wait for a lost segment count against the window, but are no longer on their way.
            let window = asked.window.max(LEAST_WINDOW) + self.arrivals.waiting;
            // Every time: the kernel lifts the window when it enlarges the buffer.
            platform::clamp_window(socket, usize::try_from(window).unwrap_or(usize::MAX));
        }
        self.pace
            .with_control(|control| tracing::trace!(?control, "background"));
    }
}

/// Returns `rate`, or a quarter of it while TCP itself holds too many bytes back, so as not to add to them.
fn sending_rate(socket: &SockRef<'_>, rate: Rate) -> Rate {
    let most = u64::try_from(LONGEST_UNSENT.as_millis()).unwrap_or(u64::MAX) * rate.byte_s() / 1000;
    if platform::unsent_bytes(socket).is_some_and(|unsent| unsent > most.max(LEAST_UNSENT)) {
        return Rate::new(rate.byte_s() / HELD_BACK).unwrap_or(Rate::LEAST);
    }
    rate
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.pace.leave(self.connection);
        self.pace.with_control(|control| {
            tracing::debug!(
                rate = control.rate().byte_s(),
                base_ms = control.base_ns().map(|ns| ns / 1_000_000),
                yields = control.yields(),
                "background"
            );
        });
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn figures(in_order: u64, segments: u32) -> PathFigures {
        PathFigures {
            round_trip: Duration::from_millis(50),
            in_order,
            segments: Some(segments),
            segment_bytes: 1000,
        }
    }

    #[test]
    fn what_comes_behind_a_gap_has_arrived_and_waits() {
        let mut arrivals = Arrivals::default();
        arrivals.count(&figures(10_000, 10));
        arrivals.count(&figures(12_000, 12));
        assert_eq!((arrivals.total, arrivals.waiting), (12_000, 0));
        // One is lost, five come, then the lost one.
        arrivals.count(&figures(12_000, 17));
        assert_eq!((arrivals.total, arrivals.waiting), (17_000, 5000));
        arrivals.count(&figures(18_000, 18));
        assert_eq!((arrivals.total, arrivals.waiting), (18_000, 0));
    }

    #[test]
    fn a_count_that_begins_again_at_zero_goes_on() {
        let mut arrivals = Arrivals::default();
        arrivals.count(&figures(1000, u32::MAX));
        arrivals.count(&figures(3000, 1));
        assert_eq!(arrivals.total, 3000);
    }

    #[test]
    fn a_watch_reads_its_socket_and_sets_the_pace() {
        use std::io::{Read, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let (pace, socket) = (Pace::default(), near.try_clone().unwrap());
        let mut watch = Watch::new(&pace);
        let before = pace.rate();
        near.write_all(&[1; 10_000]).unwrap();
        far.read_exact(&mut [0; 10_000]).unwrap();
        let now = Instant::now() + Duration::from_millis(1);
        watch.look(&SockRef::from(&socket), true, now);
        assert!(watch.next() > now);
        // On a loopback four packets in a round trip are more than a controller without a round trip asks for.
        assert!(pace.rate() > before);
    }
}
