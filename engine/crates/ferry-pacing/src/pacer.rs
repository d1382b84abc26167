//! One stream's limit.
//!
//! Two straight lines bound the bytes taken, and both are computed from where they start, never from increments:
//!
//! ```text
//!   line       slope         starts at                                        taken is at most
//!   deadline   rate          (anchor + shortfall, 0 bytes)                    the line + 1 quantum
//!   catch-up   1.08 x rate   (last time it was full, taken then + its depth)  the line
//!
//!   bytes                            ___--- deadline + quantum: met again, and the bound from here on
//!     |                       ___-+--'
//!     |                 ___---+--'  <- catch-up: 1.08 x rate
//!     |           ___--- +---'
//!     |      __---       |  <- two quanta at once, and no more
//!     | _--+-------------+ <- its depth
//!     +----'   a late wake-up                                              time ->
//! ```
//!
//! - The **deadline** says that byte n is due at anchor + n / rate. A quantum may go when all the bytes before it are
//!   due, so what is taken is at most one quantum ahead. A late wake-up thus corrects itself: the line has gone on.
//! - The **catch-up** line says how fast. It is a bucket two quanta deep or deeper, filled at 1.08 x the rate: whenever it
//!   is full, it starts anew from there. So any window of w seconds sees at most 1.08 x rate x w + the depth, whatever
//!   happened before. At least two quanta, because a waker that is late by less than a quantum's time every time would
//!   otherwise find a full bucket every time, lose what overflows, and never meet the deadline again.
//! - A lag beyond the **horizon** is given up: the deadline line moves to the right, by an amount that is
//!   added to the shortfall. A transfer that its network held back for a minute is not rushed for twelve.
//!
//! A waker that is late by more than the depth's time *every* time cannot keep the rate: the depth is all that it gets per
//! wake-up. A default quantum lasts 2.5 ms or more up to 26 MB/s, but less above (64 KiB at 1 GB/s: 66 us). There, wait
//! more precisely, choose a larger quantum, or a deeper bucket ([`Options::within_peak`]).

use crate::rate::Line;
use crate::{Nanos, Rate};

/// Short enough not to be seen in a rate over 10 ms, long enough for a system call per quantum to cost little.
const QUANTUM_NS: u64 = 2_500_000;
const QUANTUM_MIN: u64 = 1024;
const QUANTUM_MAX: u64 = 64 * 1024;

/// One Ethernet frame or less: on the wire, the last piece ends when it begins.
const LAST_PIECE_MAX: u64 = 1024;

const NS_PER_MS: u64 = 1_000_000;

/// The share of what 100 ms may see above the rate that may go at once; the rest makes the line steeper. Depth makes up for short stops
/// of the process, a steeper line for long ones: with 30 %, one that stands still for a quarter of its time keeps 95 % of its rate,
/// whether a stop lasts 10 ms or 440 ms (tests/starved.rs).
const AT_ONCE_PERCENT: u64 = 30;

/// The options of a [`Pacer`] for its quanta and its catch-up. The defaults suit a transfer of any rate.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes that may move at once, at least 1. `None`: what the rate moves in 2.5 ms, but 1 KiB to 64 KiB.
    pub quantum: Option<u64>,
    /// The longest lag, in nanoseconds, that is made up; the excess is given up. Default: 100 ms.
    pub catch_up_horizon_ns: u64,
    /// The excess over the rate while a lag is made up, in percent of the rate. Default: 8.
    pub catch_up_percent: u32,
    /// The part of a lag, in nanoseconds, that may be made up at once; never less than two quanta. Default: 0, so two quanta.
    pub catch_up_depth_ns: u64,
    /// While the total is unknown, let a quantum go when its last byte is due, and not already when its first is: any byte may
    /// be the last, and the last byte shall not move early. Default: false.
    pub late_while_unknown: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            quantum: None,
            catch_up_horizon_ns: 100_000_000,
            catch_up_percent: 8,
            catch_up_depth_ns: 0,
            late_while_unknown: false,
        }
    }
}

impl Options {
    /// Catches up as fast as it can while no 100 ms see more than `percent` more than the rate, less two quanta, which are left for
    /// what the network pushes together. A lag of 20 ms for every percent is made up in some 3.5 s, more is given up.
    ///
    /// Two quanta of `quantum_ns` each may always go at once, so they are the least peak that can be kept.
    #[must_use]
    pub fn within_peak(self, percent: u32, quantum_ns: u64) -> Self {
        // 1 % of 100 ms is 1 ms.
        let spare_ns = (u64::from(percent) * NS_PER_MS).saturating_sub(2 * quantum_ns);
        let depth_ns = (spare_ns * AT_ONCE_PERCENT / 100).max(2 * quantum_ns);
        let steeper = spare_ns.saturating_sub(depth_ns) / NS_PER_MS;
        Self {
            catch_up_horizon_ns: u64::from(percent) * 20 * NS_PER_MS,
            catch_up_percent: u32::try_from(steeper).unwrap_or(u32::MAX).max(1),
            catch_up_depth_ns: depth_ns,
            ..self
        }
    }

    fn quantum_at(&self, rate: Rate) -> u64 {
        match self.quantum {
            Some(bytes) => bytes.max(1),
            None => rate.bytes_in(QUANTUM_NS).clamp(QUANTUM_MIN, QUANTUM_MAX),
        }
    }

    fn depth_at(&self, rate: Rate, quantum: u64) -> u64 {
        rate.bytes_in(self.catch_up_depth_ns).max(quantum.saturating_mul(2))
    }
}

/// Decides when how many bytes of one stream may move.
#[derive(Clone, Debug)]
pub struct Pacer {
    options: Options,
    quantum: u64,
    depth: u64,
    horizon_ns: u64,
    late_while_unknown: bool,
    deadline: Line,
    catch_up: Line,
    anchor: Option<Nanos>,
    shortfall_ns: u64,
    taken: u64,
    total: Option<u64>,
    latest: Nanos,
}

impl Pacer {
    /// A pacer for `rate` that has not begun: its clock starts with the first byte taken.
    #[must_use]
    pub fn new(rate: Rate, options: Options) -> Self {
        let quantum = options.quantum_at(rate);
        let fast = rate.plus_percent(options.catch_up_percent);
        let depth = options.depth_at(rate, quantum);
        Self {
            options,
            quantum,
            depth,
            horizon_ns: options.catch_up_horizon_ns,
            late_while_unknown: options.late_while_unknown,
            deadline: Line {
                rate,
                since: Nanos(0),
                base: 0,
            },
            catch_up: Line {
                rate: fast,
                since: Nanos(0),
                base: depth,
            },
            anchor: None,
            shortfall_ns: 0,
            taken: 0,
            total: None,
            latest: Nanos(0),
        }
    }

    /// Goes on at another rate from `now` on. What was late is forgotten, and a quantum becomes what the new rate makes of it.
    pub fn set_rate(&mut self, now: Nanos, rate: Rate) {
        self.settle(now);
        if rate == self.rate() {
            return;
        }
        self.deadline = Line {
            rate,
            since: self.latest,
            base: self
                .deadline
                .at(self.latest)
                .min(self.taken.saturating_add(self.ahead())),
        };
        self.quantum = self.options.quantum_at(rate);
        self.depth = self.options.depth_at(rate, self.quantum);
        self.catch_up = Line {
            rate: rate.plus_percent(self.options.catch_up_percent),
            since: self.latest,
            base: self.catch_up.at(self.latest).min(self.taken.saturating_add(self.depth)),
        };
    }

    /// The limit.
    #[must_use]
    pub fn rate(&self) -> Rate {
        self.deadline.rate
    }

    /// Bytes that may move at once.
    #[must_use]
    pub fn quantum(&self) -> u64 {
        self.quantum
    }

    /// Bytes taken so far.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// When the first byte was taken; `None` before.
    #[must_use]
    pub fn anchor(&self) -> Option<Nanos> {
        self.anchor
    }

    /// The lag given up so far, in nanoseconds: by so much the end will be later than anchor + bytes / rate.
    #[must_use]
    pub fn shortfall_ns(&self) -> u64 {
        self.shortfall_ns
    }

    /// Says that the body has `bytes` bytes in all, at any time and as often as it becomes known better.
    ///
    /// The last piece (1 KiB or an eighth of a quantum, whichever is less) then waits for the deadline of the last byte
    /// instead of its first, so that an upload's last byte leaves when it is due and not up to a quantum early. Once
    /// `bytes` are taken, nothing more is allowed; taking more nevertheless shows that the total was wrong, and it is
    /// forgotten.
    pub fn expect_total(&mut self, bytes: u64) {
        self.total = (bytes >= self.taken).then_some(bytes);
    }

    /// The number of bytes that may move at `now`; 0: wait until [`Pacer::next_at`].
    ///
    /// Before the anchor it is one quantum. Less than a quarter of a quantum is not handed out, unless it is all that's
    /// left: a caller that looks in too early would otherwise pay a system call for every few bytes.
    pub fn allowance(&mut self, now: Nanos) -> u64 {
        self.settle(now);
        let (end, gate) = self.part();
        let left = end - self.taken;
        let open = match self.anchor {
            None => self.quantum,
            Some(_) if self.latest < gate => 0,
            Some(_) => {
                let due = self.deadline.at(self.latest).saturating_add(self.ahead());
                due.min(self.catch_up.at(self.latest)).saturating_sub(self.taken)
            }
        };
        if open < left.min(self.quantum.div_ceil(4)) {
            0
        } else {
            open.min(left)
        }
    }

    /// `bytes` moved at `now`. The first of them anchors the clock; 0 bytes do not.
    ///
    /// More than the last allowance is tolerated and paid for by waiting longer.
    pub fn take(&mut self, now: Nanos, bytes: u64) {
        self.settle(now);
        if bytes == 0 {
            return;
        }
        if self.anchor.is_none() {
            self.anchor = Some(self.latest);
            self.deadline.since = self.latest;
            self.catch_up.since = self.latest;
        }
        self.taken = self.taken.saturating_add(bytes);
        self.total = self.total.filter(|&total| total >= self.taken);
    }

    /// The earliest time at which [`Pacer::allowance`] will be at least one quantum, or all that is left if that is
    /// less: when to wake up. With nothing left it is [`Pacer::due`], before the anchor the latest time this pacer saw.
    #[must_use]
    pub fn next_at(&self) -> Nanos {
        self.next_at_after(0)
    }

    /// When everything taken so far is due, anchor + shortfall + taken / rate: the final wait. Before the anchor: 0.
    #[must_use]
    pub fn due(&self) -> Nanos {
        self.deadline.reaches(self.taken)
    }

    /// [`Pacer::next_at`], if `bytes` others had already been taken.
    pub(crate) fn next_at_after(&self, bytes: u64) -> Nanos {
        if self.anchor.is_none() {
            return self.latest;
        }
        if self.complete() {
            return self.due();
        }
        let (end, gate) = self.part();
        let taken = self.taken.saturating_add(bytes).min(end);
        let wanted = taken.saturating_add(self.quantum.min(end - taken));
        let due = self.deadline.reaches(wanted.saturating_sub(self.ahead()));
        due.max(gate).max(self.catch_up.reaches(wanted))
    }

    /// The latest time this pacer was told.
    pub(crate) fn latest(&self) -> Nanos {
        self.latest
    }

    /// Bytes that may be taken before they are due.
    fn ahead(&self) -> u64 {
        if self.late_while_unknown && self.total.is_none() {
            0
        } else {
            self.quantum
        }
    }

    fn complete(&self) -> bool {
        self.total == Some(self.taken)
    }

    /// The end of the current part, in bytes, and the time before which none of the part may go.
    ///
    /// With a known total there are two parts: all but the last piece, which goes as it is allowed, and the last piece.
    fn part(&self) -> (u64, Nanos) {
        let Some(total) = self.total else {
            return (u64::MAX, Nanos(0));
        };
        let last_piece = (self.quantum / 8).clamp(1, LAST_PIECE_MAX).min(total / 2);
        let body = total - last_piece;
        if self.taken < body {
            (body, Nanos(0))
        } else {
            (total, self.deadline.reaches(total))
        }
    }

    /// Brings both lines up to `now`. A clock that went back is one that stood still.
    fn settle(&mut self, now: Nanos) {
        self.latest = self.latest.max(now);
        if self.anchor.is_none() || self.complete() {
            return;
        }
        // The last piece is waiting for its gate, not lagging, however long that takes at a low rate.
        let behind = self.quantum - self.ahead();
        let opened = self
            .deadline
            .reaches(self.taken.saturating_add(behind))
            .max(self.part().1);
        let given_up = self.latest.since(opened).saturating_sub(self.horizon_ns);
        self.deadline.since = self.deadline.since.saturating_add(given_up);
        self.shortfall_ns = self.shortfall_ns.saturating_add(given_up);

        // When just full, too, and not only above: that keeps the bound of a window free of roundings.
        let full = self.taken.saturating_add(self.depth);
        if self.catch_up.at(self.latest) >= full {
            self.catch_up.since = self.latest;
            self.catch_up.base = full;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Nanos, Options, Pacer, Rate};

    const MS: u64 = 1_000_000;

    /// 1 byte per microsecond: quantum 2500 bytes, a byte count is a time.
    fn pacer() -> Pacer {
        Pacer::new(Rate::new(1_000_000).expect("not zero"), Options::default())
    }

    #[test]
    fn quanta_follow_the_rate_within_limits() {
        let quantum = |byte_s| Pacer::new(Rate::new(byte_s).expect("not zero"), Options::default()).quantum();
        assert_eq!([1, 1_000_000, u64::MAX].map(quantum), [1024, 2500, 65536]);
        let none = Options {
            quantum: Some(0),
            ..Options::default()
        };
        assert_eq!(Pacer::new(pacer().rate(), none).quantum(), 1);
    }

    #[test]
    fn another_rate_holds_from_now_on() {
        let mut pacer = pacer();
        pacer.take(Nanos(0), 2500);
        pacer.take(Nanos(2_500_000), 2500);
        pacer.set_rate(Nanos(5 * MS), Rate::new(500_000).expect("not zero"));
        assert_eq!((pacer.quantum(), pacer.rate().byte_s()), (1250, 500_000));
        let mut now = Nanos(5 * MS);
        while pacer.taken() < 55_000 {
            match pacer.allowance(now) {
                0 => now = pacer.next_at(),
                bytes => pacer.take(now, bytes),
            }
        }
        // 50 kB at half a byte per microsecond, the last quantum as it begins.
        assert!((Nanos(97 * MS)..=Nanos(105 * MS)).contains(&now), "{now:?}");
    }

    #[test]
    fn nothing_is_early_while_the_total_is_unknown_if_so_asked() {
        let late = Options {
            late_while_unknown: true,
            ..Options::default()
        };
        let mut pacer = Pacer::new(Rate::new(1_000_000).expect("not zero"), late);
        pacer.take(Nanos(0), 2500);
        assert_eq!(
            pacer.next_at(),
            Nanos(5 * MS),
            "the first quantum is due, then the second"
        );
        assert_eq!(pacer.allowance(Nanos(2_500_000)), 0);
        assert_eq!(pacer.allowance(pacer.next_at()), 2500);
        pacer.take(Nanos(5 * MS), 2500);
        assert_eq!(pacer.due(), Nanos(5 * MS), "no wait is left at any end");
        pacer.expect_total(20_000);
        assert_eq!(pacer.next_at(), Nanos(5 * MS), "a quantum goes ahead from here on");
    }

    /// A quantum that lasts longer than the horizon is waiting for its time, not lagging.
    #[test]
    fn a_low_rate_gives_nothing_up_while_the_total_is_unknown() {
        let late = Options {
            late_while_unknown: true,
            ..Options::default()
        };
        let mut pacer = Pacer::new(Rate::new(1000).expect("not zero"), late);
        for _ in 0..10 {
            let now = pacer.next_at();
            let bytes = pacer.allowance(now);
            assert!(bytes > 0);
            pacer.take(now, bytes);
        }
        assert_eq!((pacer.taken(), pacer.shortfall_ns()), (10_240, 0));
    }

    #[test]
    fn a_quantum_goes_when_the_bytes_before_it_are_due() {
        let mut pacer = pacer();
        let start = Nanos(7 * MS);
        assert_eq!((pacer.allowance(start), pacer.anchor()), (2500, None));
        pacer.take(start, 0);
        assert_eq!(pacer.anchor(), None, "nothing has moved yet");
        pacer.take(start, 2500);
        assert_eq!((pacer.anchor(), pacer.next_at()), (Some(start), Nanos(9_500_000)));
        assert_eq!(pacer.allowance(Nanos(7_624_999)), 0, "less than a quarter");
        assert_eq!(pacer.allowance(Nanos(7_625_000)), 625);
        assert_eq!(pacer.allowance(pacer.next_at()), 2500);
    }
}
