//! Bytes over time: the goodput series, the worst 100 ms and the longest silence, counted as bytes move.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

const NS_PER_MS: u64 = 1_000_000;
const SLOT_MS: u64 = 10;
/// The slots double in length when there would be more of them, so that a transfer of days costs no more memory than one of 41 s.
const MAX_SLOTS: usize = 4096;
const WINDOW_MS: u64 = 100;
const WINDOW_BUCKETS: usize = 100;

/// Bytes per slot since the body's begin. The last slot may be shorter than the others: it ends with the body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Series {
    /// The length of a slot, in milliseconds.
    pub slot_ms: u32,
    /// Body bytes in each slot, from the first body byte on.
    pub bytes: Vec<u64>,
}

/// The figures of a body's bytes over time.
#[derive(Debug, Clone, PartialEq)]
pub struct SeriesFacts {
    /// Bytes over time.
    pub series: Series,
    /// The most bytes of any 100 ms within the body, per second: of 100 neighbouring milliseconds, counted from the body's begin. All windows
    /// count, the first ones too. `None` when the body was shorter than that.
    pub worst_window_byte_s: Option<f64>,
    /// The longest time within the body in which no byte moved, its begin and its end included.
    pub longest_gap_ms: f64,
}

/// Being written: `add(t_ns, bytes)` as they move. Constant time per call and constant memory, whatever the length of the transfer.
#[derive(Debug)]
pub struct SeriesBuilder {
    begin_ns: u64,
    last_ns: u64,
    longest_gap_ns: u64,
    slot_ms: u64,
    slots: Vec<u64>,
    window: Window,
}

impl SeriesBuilder {
    /// The body clock begins.
    #[must_use]
    pub fn new(begin_ns: u64) -> Self {
        Self {
            begin_ns,
            last_ns: begin_ns,
            longest_gap_ns: 0,
            slot_ms: SLOT_MS,
            slots: Vec::new(),
            window: Window::new(),
        }
    }

    /// These bytes moved now. Time does not run backwards: what claims to be earlier counts as simultaneous with the call before.
    pub fn add(&mut self, t_ns: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let millisecond = self.advance(t_ns);
        let slot = self.reach(millisecond);
        self.slots[slot] += bytes;
        self.window.add(millisecond, bytes);
    }

    /// The body clock ends.
    #[must_use]
    pub fn finish(mut self, end_ns: u64) -> SeriesFacts {
        self.advance(end_ns);
        let lasted_ns = self.last_ns - self.begin_ns;
        if lasted_ns > 0 {
            // The end itself is no time: a body of exactly 20 ms has two slots, unless bytes moved in its last instant.
            self.reach((lasted_ns - 1) / NS_PER_MS);
        }
        let long_enough = lasted_ns >= WINDOW_MS * NS_PER_MS;
        SeriesFacts {
            series: Series {
                slot_ms: u32::try_from(self.slot_ms).unwrap_or(u32::MAX),
                bytes: self.slots,
            },
            worst_window_byte_s: long_enough.then(|| self.window.most as f64 * 1000.0 / WINDOW_MS as f64),
            longest_gap_ms: self.longest_gap_ns as f64 / NS_PER_MS as f64,
        }
    }

    /// Milliseconds since the begin.
    fn advance(&mut self, t_ns: u64) -> u64 {
        let now_ns = t_ns.max(self.last_ns);
        self.longest_gap_ns = self.longest_gap_ns.max(now_ns - self.last_ns);
        self.last_ns = now_ns;
        (now_ns - self.begin_ns) / NS_PER_MS
    }

    /// The slot of that millisecond, which exists afterwards. Doubling halves what is held, so its cost per call is constant over time.
    fn reach(&mut self, millisecond: u64) -> usize {
        loop {
            match usize::try_from(millisecond / self.slot_ms) {
                Ok(slot) if slot < MAX_SLOTS => {
                    if self.slots.len() <= slot {
                        self.slots.resize(slot + 1, 0);
                    }
                    return slot;
                }
                _ => {
                    self.slot_ms *= 2;
                    self.slots = self.slots.chunks(2).map(|pair| pair.iter().sum()).collect();
                }
            }
        }
    }
}

/// The last 100 milliseconds in buckets of one, their sum, and the largest sum there was.
#[derive(Debug)]
struct Window {
    buckets: [u64; WINDOW_BUCKETS],
    /// The millisecond of the newest bucket.
    newest: u64,
    sum: u64,
    most: u64,
}

impl Window {
    fn new() -> Self {
        Self {
            buckets: [0; WINDOW_BUCKETS],
            newest: 0,
            sum: 0,
            most: 0,
        }
    }

    fn add(&mut self, millisecond: u64, bytes: u64) {
        // After a silence of a whole window every bucket is stale, and there is no need to visit any of them twice.
        for stale in (self.newest + 1..=millisecond).take(WINDOW_BUCKETS) {
            self.sum -= std::mem::take(&mut self.buckets[Self::index(stale)]);
        }
        self.newest = millisecond;
        self.buckets[Self::index(millisecond)] += bytes;
        self.sum += bytes;
        self.most = self.most.max(self.sum);
    }

    fn index(millisecond: u64) -> usize {
        usize::try_from(millisecond % WINDOW_MS).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All events kept, all windows summed: what the builder must come to.
    fn naive(begin_ns: u64, events: &[(u64, u64)], end_ns: u64) -> (Option<f64>, f64) {
        let last_ms = (end_ns - begin_ns) / NS_PER_MS;
        let in_window = |first: u64| -> u64 {
            let inside = |t: u64| (first..first + WINDOW_MS).contains(&((t - begin_ns) / NS_PER_MS));
            events.iter().filter(|(t, _)| inside(*t)).map(|(_, bytes)| bytes).sum()
        };
        let most = (0..=last_ms).map(in_window).max().unwrap_or(0);
        let moments: Vec<u64> = [begin_ns]
            .into_iter()
            .chain(events.iter().filter(|(_, bytes)| *bytes > 0).map(|(t, _)| *t))
            .chain([end_ns])
            .collect();
        let gap = moments.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        let worst = (end_ns - begin_ns >= WINDOW_MS * NS_PER_MS).then_some(most as f64 * 10.0);
        (worst, gap as f64 / NS_PER_MS as f64)
    }

    proptest! {
        #[test]
        fn is_what_a_naive_count_comes_to(
            begin_ns in 0_u64..1 << 60,
            steps in prop::collection::vec((prop_oneof![0_u64..3_000_000, 0_u64..250_000_000], 0_u64..100_000), 0..60),
            tail_ns in 0_u64..150_000_000,
        ) {
            let mut builder = SeriesBuilder::new(begin_ns);
            let mut now = begin_ns;
            let mut events = Vec::new();
            for (step, bytes) in steps {
                now += step;
                builder.add(now, bytes);
                events.push((now, bytes));
            }
            let facts = builder.finish(now + tail_ns);
            let (worst, gap) = naive(begin_ns, &events, now + tail_ns);
            prop_assert_eq!(facts.worst_window_byte_s, worst);
            prop_assert!((facts.longest_gap_ms - gap).abs() < 1e-9);
            let slot_ns = u64::from(facts.series.slot_ms) * NS_PER_MS;
            for (slot, bytes) in facts.series.bytes.iter().enumerate() {
                let here = |t: u64| (t - begin_ns) / slot_ns == slot as u64;
                prop_assert_eq!(*bytes, events.iter().filter(|(t, _)| here(*t)).map(|(_, b)| b).sum::<u64>());
            }
            prop_assert_eq!(facts.series.bytes.iter().sum::<u64>(), events.iter().map(|(_, b)| b).sum::<u64>());
        }

        #[test]
        fn any_length_keeps_every_byte_in_bounded_memory(
            times in prop::collection::vec(any::<u64>(), 1..200),
        ) {
            let mut times = times;
            times.sort_unstable();
            let mut builder = SeriesBuilder::new(0);
            for t in &times {
                builder.add(*t, 3);
                prop_assert!(builder.slots.len() <= MAX_SLOTS);
            }
            let facts = builder.finish(u64::MAX);
            prop_assert!(facts.series.bytes.len() <= MAX_SLOTS);
            prop_assert_eq!(facts.series.bytes.iter().sum::<u64>(), 3 * times.len() as u64);
        }
    }

    #[test]
    fn slots_double_where_they_must_and_not_before() {
        let mut builder = SeriesBuilder::new(0);
        for slot in 0..MAX_SLOTS as u64 {
            builder.add(slot * SLOT_MS * NS_PER_MS, slot);
        }
        assert_eq!(builder.slot_ms, 10);
        builder.add(MAX_SLOTS as u64 * SLOT_MS * NS_PER_MS, 7);
        assert_eq!(builder.slot_ms, 20);
        assert_eq!(builder.slots.len(), MAX_SLOTS / 2 + 1);
        assert_eq!(builder.slots[..3], [1, 5, 9]);
        assert_eq!(builder.slots.last(), Some(&7));
    }

    #[test]
    fn the_series_covers_the_silence_at_its_end() {
        let mut builder = SeriesBuilder::new(5);
        builder.add(5, 10);
        let facts = builder.finish(5 + 99 * NS_PER_MS);
        assert_eq!(facts.series.bytes, [10, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(facts.worst_window_byte_s, None);
        assert!((facts.longest_gap_ms - 99.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_moved_is_not_a_failure() {
        let facts = SeriesBuilder::new(9).finish(9);
        assert!(facts.series.bytes.is_empty());
        assert_eq!(facts.worst_window_byte_s, None);
    }

    #[test]
    fn time_does_not_run_backwards() {
        let mut builder = SeriesBuilder::new(1_000_000_000);
        builder.add(2_000_000_000, 5);
        builder.add(500_000_000, 5);
        let facts = builder.finish(0);
        assert_eq!(facts.series.bytes.last(), Some(&10));
        assert_eq!(facts.worst_window_byte_s, Some(100.0));
    }
}
