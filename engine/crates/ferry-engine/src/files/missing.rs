//! The missing bytes of a file, and the choice of those to ask for next when several connections fetch it.
//!
//! Large pieces first, because every request costs a round trip in which its connection is idle; small ones last, so that all
//! connections end at about the same time ("guided self-scheduling": Polychronopoulos and Kuck, IEEE Transactions on Computers C-36,
//! 1987).

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// No piece is smaller, unless the file is.
pub const LEAST_PIECE: u64 = 256 << 10;

/// Missing ranges, in order and disjoint; no two of them touch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Missing(Vec<Range<u64>>);

impl Missing {
    pub fn new(ranges: impl IntoIterator<Item = Range<u64>>) -> Self {
        let mut this = Self(Vec::new());
        for range in ranges {
            this.add(range);
        }
        this
    }

    /// One hole.
    pub fn one(range: Range<u64>) -> Self {
        Self::new(std::iter::once(range))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|range| range.end - range.start).sum()
    }

    pub fn ranges(&self) -> &[Range<u64>] {
        &self.0
    }

    /// True if these can be the holes of a file of that size: in order, apart, none of them empty, and not the whole file.
    pub fn is_sound(&self, size: u64) -> bool {
        let apart = self
            .0
            .windows(2)
            .all(|pair| matches!(pair, [one, two] if one.end < two.start));
        let filled = self.0.iter().all(|range| range.start < range.end && range.end <= size);
        apart && filled && self.bytes() < size
    }

    /// Takes the next piece out of a remainder that `connections` share; at least `least` bytes, if so many are in one place.
    pub fn take(&mut self, connections: usize, least: u64) -> Option<Range<u64>> {
        let least = least.max(LEAST_PIECE);
        let share = self.bytes() / (2 * connections.max(1) as u64);
        let first = self.0.first_mut()?;
        let length = first.end - first.start;
        let piece = share.max(least);
        // No crumb is left behind.
        let piece = if length < piece + least { length } else { piece };
        let taken = first.start..first.start + piece;
        first.start = taken.end;
        if first.is_empty() {
            self.0.remove(0);
        }
        Some(taken)
    }

    /// Adds a range that is missing: it has not come, or has not been asked for.
    pub fn add(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let from = self.0.partition_point(|old| old.end < range.start);
        let to = self.0.partition_point(|old| old.start <= range.end);
        let joined = self.0.drain(from..to).fold(range, |joined, old| {
            joined.start.min(old.start)..joined.end.max(old.end)
        });
        self.0.insert(from, joined);
    }

    /// Removes a range that has come. Returns the number of its bytes that were missing.
    pub fn remove(&mut self, range: Range<u64>) -> u64 {
        let from = self.0.partition_point(|old| old.end <= range.start);
        let to = self.0.partition_point(|old| old.start < range.end);
        if range.is_empty() || from >= to {
            return 0;
        }
        let touched: Vec<Range<u64>> = self.0.drain(from..to).collect();
        let mut removed = 0;
        let mut left = Vec::new();
        for old in touched {
            let gone = old.start.max(range.start)..old.end.min(range.end);
            removed += gone.end - gone.start;
            left.extend(
                [old.start..gone.start, gone.end..old.end]
                    .into_iter()
                    .filter(|left| !left.is_empty()),
            );
        }
        self.0.splice(from..from, left);
        removed
    }

    /// Returns the missing parts of this range.
    #[must_use]
    pub fn within(&self, range: &Range<u64>) -> Self {
        let from = self.0.partition_point(|old| old.end <= range.start);
        let touched = self.0.iter().skip(from).take_while(|old| old.start < range.end);
        Self::new(touched.map(|old| old.start.max(range.start)..old.end.min(range.end)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a list of bytes.
        #[test]
        fn what_has_come_is_not_missing(steps in prop::collection::vec((any::<bool>(), 0_u64..60, 0_u64..60), 0..40), from in 0_u64..60, to in 0_u64..60) {
            let mut missing = Missing::default();
            let mut bytes = [false; 60];
            for (add, one, other) in steps {
                let (start, end) = (one.min(other), one.max(other));
                let touched = &mut bytes[usize::try_from(start).unwrap()..usize::try_from(end).unwrap()];
                let before = touched.iter().filter(|missing| **missing).count();
                touched.fill(add);
                if add {
                    missing.add(start..end);
                } else {
                    prop_assert_eq!(missing.remove(start..end), before as u64);
                }
                let listed = (0..60).filter(|at| missing.ranges().iter().any(|range| range.contains(at)));
                let expected = (0..60_u64).filter(|at| bytes[usize::try_from(*at).unwrap()]);
                prop_assert!(listed.eq(expected));
                prop_assert!(missing.ranges().iter().all(|range| !range.is_empty()));
                prop_assert!(missing.ranges().windows(2).all(|pair| pair[0].end < pair[1].start));
            }
            let range = from.min(to)..from.max(to);
            let mut rest = missing.within(&range);
            prop_assert_eq!(rest.bytes(), missing.remove(range.clone()));
            rest.remove(range);
            prop_assert!(rest.is_empty());
        }

        /// Pieces come back in parts, in any order; in the end every byte was taken once.
        #[test]
        fn every_byte_is_fetched_once(size in 1_u64..200_000_000, connections in 1_usize..65, least in 0_u64..9_000_000, percents in prop::collection::vec(0_u64..100, 0..40)) {
            let mut missing = Missing::one(0..size);
            let mut fetched = Missing::new([]);
            let mut bytes = 0;
            let mut percents = percents.into_iter();
            while let Some(piece) = missing.take(connections, least) {
                prop_assert!(!piece.is_empty());
                let until = piece.start + (piece.end - piece.start) * percents.next().unwrap_or(100) / 100;
                bytes += until - piece.start;
                fetched.add(piece.start..until);
                missing.add(until..piece.end);
                prop_assert!(missing.ranges().windows(2).all(|pair| pair[0].end < pair[1].start));
            }
            prop_assert_eq!(bytes, size);
            prop_assert_eq!(fetched, Missing::one(0..size));
        }
    }

    #[test]
    fn pieces_become_smaller_and_never_small() {
        let mut missing = Missing::one(0..100_000_000);
        let mut pieces = Vec::new();
        while let Some(piece) = missing.take(8, 0) {
            pieces.push(piece.end - piece.start);
        }
        assert_eq!(pieces[0], 100_000_000 / 16);
        assert!(pieces.is_sorted_by(|before, after| before >= after || *after < 2 * LEAST_PIECE));
        assert!(pieces.iter().all(|piece| *piece >= LEAST_PIECE));
    }

    #[test]
    fn ranges_that_touch_are_one() {
        let missing = Missing::new([5..7, 0..2, 2..4, 9..9, 6..8]);
        assert_eq!(missing.ranges(), [0..4, 5..8]);
        assert_eq!(missing.bytes(), 7);
    }
}
