//! Points in time.

/// Time since an epoch of the caller's choosing, in nanoseconds.
///
/// A `u64` spans 584 years; arithmetic that leaves it stops at its ends, since a deadline beyond them means "never".
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The last point in time: a deadline here never comes.
    pub const MAX: Self = Self(u64::MAX);

    /// The point `ns` nanoseconds later, at most [`Nanos::MAX`].
    #[must_use]
    pub const fn saturating_add(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }

    /// The point `ns` nanoseconds earlier, at least the epoch.
    #[must_use]
    pub const fn saturating_sub(self, ns: u64) -> Self {
        Self(self.0.saturating_sub(ns))
    }

    /// Nanoseconds from `earlier` to `self`; 0 if `earlier` is the later one.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Nanos;

    #[test]
    fn arithmetic_stops_at_the_ends() {
        assert_eq!(Nanos(5).saturating_add(u64::MAX), Nanos::MAX);
        assert_eq!(Nanos(5).saturating_sub(6), Nanos(0));
        assert_eq!(Nanos(5).since(Nanos(2)), 3);
        assert_eq!(Nanos(2).since(Nanos(5)), 0);
    }
}
