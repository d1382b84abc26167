//! One limit shared by several streams.
//!
//! The sum is the business of one [`Pacer`]. Who of the members may use it is decided by a count per member, its
//! *service*: the bytes it took, lifted to the least service of the hungry members whenever it becomes hungry. No one
//! gets more than a quantum ahead of the least-served other hungry member; so whoever asks first, they alternate.
//!
//! ```text
//!   member  service                      may take at most
//!   a       |=====================|      0              (least of the others + quantum - own)
//!   b       |============|               quantum        least served: held back by the sum only
//!   c       |================|           quantum / 2
//!   d (not hungry)  |...|                does not count; starts where b is when it becomes hungry
//! ```

use crate::{Nanos, Options, Pacer, Rate};

/// One stream of a [`Shared`] limit, valid from [`Shared::join`] to [`Shared::leave`].
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member(u64);

#[derive(Clone, Debug)]
struct Seat {
    member: Member,
    hungry: bool,
    taken: u64,
    service: u64,
}

/// One limit shared fairly by several streams.
///
/// Each call looks at every member once: meant for hundreds of them, not for millions.
#[derive(Clone, Debug)]
pub struct Shared {
    pacer: Pacer,
    seats: Vec<Seat>,
    joined: u64,
    /// The least service of the hungry, remembered while nobody is: where the next one starts.
    floor: u64,
}

impl Shared {
    /// A limit of `rate` for the sum of all members, none so far.
    #[must_use]
    pub fn new(rate: Rate, options: Options) -> Self {
        Self {
            pacer: Pacer::new(rate, options),
            seats: Vec::new(),
            joined: 0,
            floor: 0,
        }
    }

    /// A new member: hungry, and with no claim on what the others took before.
    pub fn join(&mut self) -> Member {
        let member = Member(self.joined);
        self.joined += 1;
        self.seats.push(Seat {
            member,
            hungry: true,
            taken: 0,
            service: self.floor,
        });
        member
    }

    /// `member` moves nothing any more. What it took stays in the sum; the handle is void from here on.
    pub fn leave(&mut self, member: Member) {
        self.seats.retain(|seat| seat.member != member);
        self.raise_floor();
    }

    /// How many bytes `member` may move at `now`; 0: wait until [`Shared::next_at`]. 0 also for one that has left.
    pub fn allowance(&mut self, member: Member, now: Nanos) -> u64 {
        let open = self.pacer.allowance(now);
        let Some(seat) = self.seat(member) else { return 0 };
        let lead_left = self.lead_limit(member).saturating_sub(seat.service);
        if lead_left < self.pacer.quantum().div_ceil(4) {
            0
        } else {
            open.min(lead_left)
        }
    }

    /// `member` moved `bytes` at `now`. More than the last allowance is tolerated and paid for: by all in time, by
    /// `member` in turns.
    pub fn take(&mut self, member: Member, now: Nanos, bytes: u64) {
        self.pacer.take(now, bytes);
        if let Some(seat) = self.seats.iter_mut().find(|seat| seat.member == member) {
            seat.taken = seat.taken.saturating_add(bytes);
            seat.service = seat.service.max(self.floor).saturating_add(bytes);
        }
        self.raise_floor();
    }

    /// When `member` should look again: the earliest time at which it will be allowed a quantum, if the others whose
    /// turn is before take theirs.
    ///
    /// When the others take, leave or cease to be hungry, the answer can change: ask again after waiting. For a member
    /// that is held back by one that does not take its turn, it is a quantum's time after the latest look, never now.
    #[must_use]
    pub fn next_at(&self, member: Member) -> Nanos {
        let Some(seat) = self.seat(member) else {
            return Nanos::MAX;
        };
        let turns_before: u64 = self
            .others(member)
            .map(|other| seat.service.saturating_sub(other.service))
            .fold(0, u64::saturating_add);
        if turns_before == 0 {
            return self.pacer.next_at();
        }
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
        self.seat(member).map_or(0, |seat| seat.taken)
    }

    /// The lag of the sum given up so far, in nanoseconds.
    #[must_use]
    pub fn shortfall_ns(&self) -> u64 {
        self.pacer.shortfall_ns()
    }

    /// Says whether `member` has something to move. One that has not (starved by its network) must not hold the others
    /// back; when it has again, it starts at the least service of the hungry, or at its own if that is more.
    pub fn set_hungry(&mut self, member: Member, hungry: bool) {
        let floor = self.floor;
        if let Some(seat) = self.seats.iter_mut().find(|seat| seat.member == member) {
            seat.service = seat.service.max(floor);
            seat.hungry = hungry;
        }
        self.raise_floor();
    }

    fn seat(&self, member: Member) -> Option<&Seat> {
        self.seats.iter().find(|seat| seat.member == member)
    }

    fn others(&self, member: Member) -> impl Iterator<Item = &Seat> {
        self.seats
            .iter()
            .filter(move |seat| seat.hungry && seat.member != member)
    }

    /// The service up to which `member` may go: a quantum above the least of the other hungry ones.
    fn lead_limit(&self, member: Member) -> u64 {
        let least = self.others(member).map(|seat| seat.service).min();
        least.map_or(u64::MAX, |least| least.saturating_add(self.pacer.quantum()))
    }

    fn raise_floor(&mut self) {
        let least = self
            .seats
            .iter()
            .filter(|seat| seat.hungry)
            .map(|seat| seat.service)
            .min();
        self.floor = self.floor.max(least.unwrap_or(0));
    }
}
