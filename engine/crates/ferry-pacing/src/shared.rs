//! One limit shared by several streams.
//!
//! The sum is the business of one [`Pacer`]. A count per member, its *virtual time* (start-time fair queueing), decides which
//! member may use it: the bytes that the member took, lifted to the least virtual time of the backlogged members whenever the
//! member becomes backlogged. No member gets more than a quantum ahead of the least-served other backlogged member, so the
//! members alternate, in whatever order they ask. (In bytes since two members became backlogged together, the lead can be two
//! quanta: one that the other was ahead then, and one of its own.)
//!
//! ```text
//!   member  virtual time                 may take at most
//!   a       |=====================|      0              (least of the others + quantum - own)
//!   b       |============|               quantum        least served: held back by the sum only
//!   c       |================|           quantum / 2
//!   d (not backlogged)  |...|            does not count; starts where b is when it becomes backlogged
//! ```

use crate::{Nanos, Options, Pacer, Rate};

/// One stream of a [`Shared`] limit, valid from [`Shared::join`] to [`Shared::leave`].
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member(u64);

#[derive(Clone, Debug)]
struct MemberState {
    member: Member,
    backlogged: bool,
    taken: u64,
    virtual_time: u64,
}

/// One limit shared fairly by several streams.
///
/// Each call looks at every member once: meant for hundreds of them, not for millions.
#[derive(Clone, Debug)]
pub struct Shared {
    pacer: Pacer,
    members: Vec<MemberState>,
    joined: u64,
    /// The least virtual time of the backlogged members, remembered while there are none: where the next one starts.
    floor: u64,
}

impl Shared {
    /// A limit of `rate` for the sum of all members, none so far.
    #[must_use]
    pub fn new(rate: Rate, options: Options) -> Self {
        Self {
            pacer: Pacer::new(rate, options),
            members: Vec::new(),
            joined: 0,
            floor: 0,
        }
    }

    /// A new member: backlogged, and with no claim on what the others took before.
    pub fn join(&mut self) -> Member {
        let member = Member(self.joined);
        self.joined += 1;
        self.members.push(MemberState {
            member,
            backlogged: true,
            taken: 0,
            virtual_time: self.floor,
        });
        member
    }

    /// `member` moves nothing any more. What it took stays in the sum; the handle is void from here on.
    pub fn leave(&mut self, member: Member) {
        self.members.retain(|state| state.member != member);
        self.raise_floor();
    }

    /// The number of bytes that `member` may move at `now`; 0: wait until [`Shared::next_at`]. A member that has left gets 0,
    /// too.
    pub fn allowance(&mut self, member: Member, now: Nanos) -> u64 {
        let open = self.pacer.allowance(now);
        self.state(member).map_or(0, |state| open.min(self.lead_left(state)))
    }

    /// `member` moved `bytes` at `now`. More than the last allowance is tolerated and paid for: by all in time, by
    /// `member` in turns.
    pub fn take(&mut self, member: Member, now: Nanos, bytes: u64) {
        self.pacer.take(now, bytes);
        if let Some(state) = self.members.iter_mut().find(|state| state.member == member) {
            state.taken = state.taken.saturating_add(bytes);
            state.virtual_time = state.virtual_time.max(self.floor).saturating_add(bytes);
        }
        self.raise_floor();
    }

    /// When `member` should look again: as [`Pacer::next_at`] if it may go on, else when it will be allowed a quantum
    /// if the others take the turns that come before.
    ///
    /// When the others take, leave or cease to be backlogged, the answer can change: ask again after waiting. For a member
    /// that is held back by one that does not take its turn, it is a quantum's time after the latest look, never now.
    #[must_use]
    pub fn next_at(&self, member: Member) -> Nanos {
        let Some(state) = self.state(member) else {
            return Nanos::MAX;
        };
        if self.lead_left(state) > 0 {
            return self.pacer.next_at();
        }
        let turns_before = self
            .others(member)
            .map(|other| state.virtual_time.saturating_sub(other.virtual_time))
            .fold(0, u64::saturating_add);
        let look_again = self
            .pacer
            .latest()
            .saturating_add(self.pacer.rate().time_for(self.pacer.quantum()));
        self.pacer.next_at_after(turns_before).max(look_again)
    }

    /// When everything taken so far, by all members, is due: the final wait.
    #[must_use]
    pub fn due(&self) -> Nanos {
        self.pacer.due()
    }

    /// Bytes `member` took since it joined; 0 if it has left.
    #[must_use]
    pub fn taken(&self, member: Member) -> u64 {
        self.state(member).map_or(0, |state| state.taken)
    }

    /// The lag of the sum given up so far, in nanoseconds.
    #[must_use]
    pub fn shortfall_ns(&self) -> u64 {
        self.pacer.shortfall_ns()
    }

    /// Says whether `member` has something to move. One that has not (starved by its network) must not hold the others
    /// back; when it has again, it starts at the least virtual time of the backlogged, or at its own if that is more.
    pub fn set_backlogged(&mut self, member: Member, backlogged: bool) {
        let floor = self.floor;
        if let Some(state) = self.members.iter_mut().find(|state| state.member == member) {
            state.virtual_time = state.virtual_time.max(floor);
            state.backlogged = backlogged;
        }
        self.raise_floor();
    }

    fn state(&self, member: Member) -> Option<&MemberState> {
        self.members.iter().find(|state| state.member == member)
    }

    fn others(&self, member: Member) -> impl Iterator<Item = &MemberState> {
        self.members
            .iter()
            .filter(move |state| state.backlogged && state.member != member)
    }

    /// The bytes until `state` is a quantum ahead of the least served of the other backlogged ones; 0 if they are too few to
    /// be worth a system call. The least served has a whole quantum, so there is always one who may go on.
    fn lead_left(&self, state: &MemberState) -> u64 {
        let quantum = self.pacer.quantum();
        let Some(least) = self.others(state.member).map(|other| other.virtual_time).min() else {
            return u64::MAX;
        };
        let left = least.saturating_add(quantum).saturating_sub(state.virtual_time);
        if left < quantum.div_ceil(4) { 0 } else { left }
    }

    fn raise_floor(&mut self) {
        let least = self
            .members
            .iter()
            .filter(|state| state.backlogged)
            .map(|state| state.virtual_time)
            .min();
        self.floor = self.floor.max(least.unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::{Nanos, Options, Rate, Shared};

    /// 1 byte per microsecond: quantum 2500 bytes, a byte count is a time.
    fn shared() -> Shared {
        Shared::new(Rate::new(1_000_000).expect("not zero"), Options::default())
    }

    #[test]
    fn two_alternate_whoever_asks_first() {
        let mut shared = shared();
        let (a, b) = (shared.join(), shared.join());
        for turn in 0..10 {
            let now = Nanos(turn * 2_500_000);
            let (mover, other) = if turn % 2 == 0 { (a, b) } else { (b, a) };
            if turn % 2 == 1 {
                assert_eq!(shared.allowance(other, now), 0, "turn {turn}");
            }
            assert_eq!(shared.allowance(mover, now), 2500);
            shared.take(mover, now, 2500);
            assert_eq!(shared.next_at(other), now.saturating_add(2_500_000));
            assert_eq!(
                shared.next_at(mover),
                now.saturating_add(if turn % 2 == 0 { 5_000_000 } else { 2_500_000 })
            );
        }
        assert_eq!(
            (shared.taken(a), shared.taken(b), shared.due()),
            (12_500, 12_500, Nanos(25_000_000))
        );
    }

    #[test]
    fn who_takes_no_turn_delays_but_does_not_spin_the_others() {
        let mut shared = shared();
        let (a, b) = (shared.join(), shared.join());
        shared.take(a, Nanos(0), 2500);
        let later = Nanos(50_000_000);
        assert_eq!(shared.allowance(a, later), 0, "b is backlogged and has the turn");
        assert!(shared.next_at(a) > later);
        shared.set_backlogged(b, false);
        assert!(shared.next_at(a) <= later);
        assert_eq!(shared.allowance(a, later), 5000, "a quantum and the bounded catch-up");
    }

    #[test]
    fn a_late_comer_starts_at_the_least_and_hunger_forgives_nothing() {
        let mut shared = shared();
        let (a, b) = (shared.join(), shared.join());
        shared.set_backlogged(b, false);
        shared.take(a, Nanos(0), 1_000_000);
        shared.set_backlogged(b, true);
        let c = shared.join();
        let now = Nanos(1_000_000_000);
        for member in [a, b, c] {
            assert_eq!(shared.allowance(member, now), 2500, "all start level");
        }
        shared.take(b, now, 2500);
        shared.set_backlogged(b, false);
        shared.set_backlogged(b, true);
        let later = Nanos(1_002_500_000);
        assert_eq!(shared.allowance(b, later), 0, "still a quantum ahead");
        assert_eq!(shared.allowance(c, later), 2500);
    }

    #[test]
    fn who_has_left_gets_nothing_and_holds_nobody_back() {
        let mut shared = shared();
        let (a, b) = (shared.join(), shared.join());
        shared.take(a, Nanos(0), 2500);
        shared.leave(b);
        let now = Nanos(2_500_000);
        assert_eq!(
            (shared.allowance(b, now), shared.next_at(b), shared.taken(b)),
            (0, Nanos::MAX, 0)
        );
        assert_eq!(shared.allowance(a, now), 2500);
        shared.take(b, now, 2500);
        assert_eq!(
            shared.due(),
            Nanos(5_000_000),
            "bytes that moved are paid for, whoever moved them"
        );
        let (ahead, least) = (a, shared.join());
        assert_ne!(least, b);
        shared.take(ahead, now, 2500);
        shared.leave(least);
        let new = shared.join();
        shared.take(new, now, 0);
        assert_eq!(
            shared.allowance(ahead, shared.due()),
            2500,
            "the new one starts at who is left"
        );
    }
}
