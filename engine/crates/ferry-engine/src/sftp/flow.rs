//! The amount of a download to ask for: the network's capacity, and a little more for the server to have at hand.
//!
//! A download is not asked for all at once. sshd takes everything that its sftp-server has read into one buffer of at most 16 MiB
//! (`CHAN_INPUT_MAX`). Each growth by 32 KiB copies the whole buffer into new memory, so that N MiB cost N^2; a nearly full
//! buffer is moved at every step (`sshbuf_maybe_pack`). Measured here as 1.3 to 3 MB/s for seconds: at 1 Gbit/s, 53 ms, 500 MB
//! took twice the time of the line. HPN-SSH caps its window at 15 MiB for the same servers.

use std::time::{Duration, Instant};

/// The least amount for any network: the bytes that wait in sshd at any time, and enough for the first round trips of slow start.
const LEAST: u64 = 1 << 20;
/// The least amount for one channel of many. Bytes that wait for a slow channel hold up all others in the end, and cannot be
/// asked for elsewhere.
const LEAST_EACH: u64 = 128 << 10;
/// The most for all unlimited downloads together: twice the bytes that 1.3 Gbit/s hold at 100 ms.
pub const MOST: u64 = 32 << 20;
/// The same over several connections. A connection that lost packets falls behind by some round trips. A file is written in
/// order, so the bytes that the other connections bring meanwhile stay in memory.
pub const MOST_OF_SEVERAL: u64 = 256 << 20;
/// The most asked for, during slow start, beyond the bytes of the last round trip. If slow start ends, all of it waits in sshd.
const MOST_AHEAD: u64 = 8 << 20;
/// The least number of READs that a budget is split into.
const LEAST_READS: u64 = 4;
/// The length of READ that OpenSSH's own client has always asked for, which every server answers whole.
const SHORTEST_READ: u32 = 32 << 10;
/// The shortest time to measure in, even if the round trip is shorter.
const SHORTEST: Duration = Duration::from_millis(5);

/// The bytes that arrive in a round trip, on one channel.
#[derive(Debug)]
pub struct Flow {
    since: Instant,
    arrived: u64,
    /// The estimated capacity of the network: the bytes that arrived in the last whole round trip, at most twice and at least
    /// half of the estimate before. Behind a lost packet no bytes are handed on for a round trip, and then all of two at once;
    /// neither is the network's capacity.
    holds: u64,
    /// The largest estimate so far.
    peak: u64,
    /// True while slow start goes on: the last round trip brought over half as much again as any before.
    grows: bool,
}

impl Flow {
    pub fn new(now: Instant) -> Self {
        Self {
            since: now,
            arrived: 0,
            holds: 0,
            peak: 0,
            grows: true,
        }
    }

    pub fn arrived(&mut self, bytes: u64, rtt: Duration, now: Instant) {
        self.arrived += bytes;
        if now.saturating_duration_since(self.since) >= rtt.max(SHORTEST) {
            self.holds = self.arrived.clamp(self.holds / 2, self.doubled());
            self.grows = self.holds > self.peak / 2 * 3;
            self.peak = self.peak.max(self.holds);
            self.arrived = 0;
            self.since = now;
        }
    }

    fn doubled(&self) -> u64 {
        (2 * self.holds).max(LEAST)
    }

    /// The most bytes that may be asked for and not yet have arrived, on one of `channels` channels. Bytes asked for now come in
    /// the next round trip, when slow start will have doubled twice the amount known here. Once slow start is over, the network
    /// fills up again to its peak after losses, and grows by the least amount.
    pub fn budget(&self, channels: u64) -> u64 {
        let channels = channels.max(1);
        let next = if self.grows {
            let holds = self.holds.max(self.arrived.min(self.doubled()));
            holds + (3 * holds).min(MOST_AHEAD / channels)
        } else {
            self.peak.min(2 * self.holds)
        };
        ((LEAST / channels).max(LEAST_EACH) + next).min(MOST)
    }
}

/// The length of a READ on a channel with this budget. The next READ is sent once a whole one has been answered, so that a single
/// READ would leave its connection idle for a round trip behind it, in slow start most of all.
pub fn read_bytes(budget: u64, longest: u32) -> u32 {
    u32::try_from(budget / LEAST_READS)
        .unwrap_or(u32::MAX)
        .clamp(SHORTEST_READ.min(longest), longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    /// The flow after round trips that bring so many bytes each.
    fn after(round_trips: &[u64]) -> Flow {
        let mut now = Instant::now();
        let mut flow = Flow::new(now);
        for bytes in round_trips {
            for _ in 0..10 {
                now += RTT / 10;
                flow.arrived(bytes / 10, RTT, now);
            }
        }
        flow
    }

    #[test]
    fn the_budget_keeps_ahead_of_slow_start_and_never_drowns_the_server() {
        let line = 12_500_000_u64;
        let mut round_trips = Vec::new();
        let mut network = 14_480_u64;
        for _ in 0..30 {
            let wanted = (2 * network).min(line);
            let budget = after(&round_trips).budget(1);
            assert!(budget >= wanted, "{budget} for {wanted}");
            // Bytes beyond the network's capacity wait in sshd.
            assert!(budget - wanted.min(budget) < 15 << 20);
            network = wanted;
            round_trips.push(network);
        }
        assert_eq!(network, line);
        assert_eq!(after(&round_trips).budget(1), LEAST + line);
    }

    #[test]
    fn a_hole_and_the_burst_behind_it_are_not_what_the_network_holds() {
        let line = 12_000_000_u64;
        let mut round_trips = vec![line / 8, line / 4, line / 2, line, line];
        for arrived in [line / 3, 0, 5 * line / 2, line / 2] {
            round_trips.push(arrived);
            let budget = after(&round_trips).budget(1);
            assert!(budget <= LEAST + 2 * line, "{budget} after {arrived}");
        }
        round_trips.extend([line, line]);
        assert!(after(&round_trips).budget(1) >= LEAST + line);
    }

    #[test]
    fn each_of_many_channels_asks_for_little_more_than_it_brings() {
        assert_eq!(after(&[]).budget(16), LEAST_EACH);
        assert_eq!(after(&[40_000, 80_000, 40_000]).budget(16), LEAST_EACH + 80_000);
        assert_eq!(after(&[]).budget(2), LEAST / 2);
    }

    #[test]
    fn a_channel_of_many_has_several_reads_on_their_way() {
        const LONGEST: u32 = 255 << 10;
        assert_eq!(read_bytes(after(&[]).budget(1), LONGEST), LONGEST);
        for channels in [2, 4, 16, 64] {
            let budget = after(&[]).budget(channels);
            assert!(
                u64::from(read_bytes(budget, LONGEST)) * LEAST_READS <= budget,
                "{channels}"
            );
        }
        // A server may tell its own maximum.
        assert_eq!(read_bytes(1 << 20, 16 << 10), 16 << 10);
    }

    #[test]
    fn it_falls_with_the_rate_by_half_at_most() {
        assert_eq!(after(&[1_000_000, 2_000_000, 1_000_000]).budget(1), LEAST + 2_000_000);
        assert_eq!(
            after(&[1_000_000, 2_000_000, 1_000_000, 0, 0]).budget(1),
            LEAST + 500_000
        );
        assert_eq!(
            after(&(0..6).map(|power| LEAST << power).collect::<Vec<_>>()).budget(1),
            MOST
        );
    }
}
