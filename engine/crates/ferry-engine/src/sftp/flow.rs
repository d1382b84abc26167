//! How much of a download to ask for: what the network holds, and a little more for the server to have at hand.
//!
//! Not everything at once. sshd takes whatever its sftp-server has read into one buffer of at most 16 MiB (`CHAN_INPUT_MAX`); once that is
//! nearly full, every further 32 KiB move the whole of it (`sshbuf_maybe_pack`), which was measured here as 3 MB/s at 100 ms. HPN-SSH caps
//! its window at 15 MiB for the same servers.

use std::time::{Duration, Instant};

/// Whatever the network turns out to hold: enough for the first round trips of slow start, and for a server close by.
const LEAST: u64 = 4 << 20;
/// Of all unlimited downloads together: one and a half times what 1.3 Gbit/s hold at 100 ms, besides the least.
pub const MOST: u64 = 32 << 20;
/// A shorter round trip than this is no time to measure in.
const SHORTEST: Duration = Duration::from_millis(5);

/// Bytes that arrive in a round trip.
#[derive(Debug)]
pub struct Flow {
    since: Instant,
    arrived: u64,
    /// In the last whole round trip.
    last: u64,
}

impl Flow {
    pub fn new(now: Instant) -> Self {
        Self {
            since: now,
            arrived: 0,
            last: 0,
        }
    }

    pub fn arrived(&mut self, bytes: u64, rtt: Duration, now: Instant) {
        self.arrived += bytes;
        if now.saturating_duration_since(self.since) >= rtt.max(SHORTEST) {
            self.last = self.arrived;
            self.arrived = 0;
            self.since = now;
        }
    }

    /// What may be asked for and not yet have been handed on. Half as much again as arrives lets slow start double up to 8 MiB a round trip,
    /// and grow by half from there on.
    pub fn budget(&self) -> u64 {
        (LEAST + self.last.max(self.arrived) / 2 * 3).min(MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    #[test]
    fn the_budget_keeps_ahead_of_slow_start_and_never_drowns_the_server() {
        let mut now = Instant::now();
        let mut flow = Flow::new(now);
        let line = 12_500_000_u64;
        let mut network = 14_480_u64;
        for _ in 0..30 {
            let wanted = (2 * network).min(line);
            assert!(flow.budget() >= wanted, "{} for {wanted}", flow.budget());
            // What the network does not hold waits in sshd.
            assert!(flow.budget() - wanted.min(flow.budget()) < 15 << 20);
            network = wanted;
            for _ in 0..10 {
                now += RTT / 10;
                flow.arrived(network / 10, RTT, now);
            }
        }
        assert_eq!(network, line);
    }

    #[test]
    fn it_falls_with_the_rate() {
        let mut now = Instant::now();
        let mut flow = Flow::new(now);
        for bytes in [30_000_000, 1_000_000, 1_000_000] {
            now += RTT;
            flow.arrived(bytes, RTT, now);
        }
        assert_eq!(flow.budget(), LEAST + 1_500_000);
        now += RTT;
        flow.arrived(1 << 40, RTT, now);
        assert_eq!(flow.budget(), MOST);
    }
}
