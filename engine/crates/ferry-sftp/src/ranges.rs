//! Sets of bytes.

use std::collections::BTreeMap;
use std::ops::Range;

/// Disjoint half-open byte ranges, merged: no two overlap or touch. Operations are O(log n), plus the ranges they swallow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet {
    /// Start to end.
    ranges: BTreeMap<u64, u64>,
    total: u64,
}

impl RangeSet {
    /// An empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            ranges: BTreeMap::new(),
            total: 0,
        }
    }

    /// Adds a range; bytes that are in the set already stay. An empty or reversed range adds nothing.
    pub fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let Range { mut start, mut end } = range;
        // Every range that begins at or before the new end and reaches the new start is merged into the new range.
        while let Some((&first, &last)) = self.ranges.range(..=end).next_back()
            && last >= start
        {
            self.ranges.remove(&first);
            self.total -= last - first;
            start = start.min(first);
            end = end.max(last);
        }
        self.ranges.insert(start, end);
        self.total += end - start;
    }

    /// Removes the bytes of a range that are in the set.
    pub fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        while let Some((&first, &last)) = self.ranges.range(..range.end).next_back()
            && last > range.start
        {
            self.ranges.remove(&first);
            self.total -= last - first;
            for (start, end) in [(first, range.start), (range.end, last)] {
                if start < end {
                    self.ranges.insert(start, end);
                    self.total += end - start;
                }
            }
            if first <= range.start {
                break;
            }
        }
    }

    /// Returns true if the byte at `offset` is in the set.
    #[must_use]
    pub fn contains(&self, offset: u64) -> bool {
        self.first_gap_from(offset) != offset
    }

    /// The lowest offset that is not below `offset` and not in the set.
    #[must_use]
    pub fn first_gap_from(&self, offset: u64) -> u64 {
        match self.ranges.range(..=offset).next_back() {
            Some((_, &end)) if end > offset => end,
            _ => offset,
        }
    }

    /// The lowest range.
    #[must_use]
    pub fn first(&self) -> Option<Range<u64>> {
        self.ranges.first_key_value().map(|(&start, &end)| start..end)
    }

    /// The ranges, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.ranges.iter().map(|(&start, &end)| start..end)
    }

    /// Returns true for an empty set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The number of bytes in the set.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn touching_ranges_merge_and_removal_splits() {
        let mut set = RangeSet::new();
        set.insert(10..20);
        set.insert(30..40);
        set.insert(20..30);
        assert_eq!((set.first(), set.iter().count()), (Some(10..40), 1));
        set.remove(15..35);
        assert_eq!(set.iter().collect::<Vec<_>>(), [10..15, 35..40]);
        assert_eq!(
            (set.total(), set.first_gap_from(12), set.first_gap_from(15)),
            (10, 15, 15)
        );
        set.remove(0..u64::MAX);
        assert!(set.is_empty());
        set.insert(5..5);
        assert!(set.is_empty() && set.first().is_none());
        set.insert(u64::MAX - 1..u64::MAX);
        assert!(set.contains(u64::MAX - 1) && !set.contains(u64::MAX));
    }

    proptest! {
        #[test]
        fn it_is_a_set_of_bytes(steps in prop::collection::vec((any::<bool>(), 0..64u64, 0..64u64), 0..40)) {
            let (mut set, mut naive) = (RangeSet::new(), [false; 64]);
            for (insert, start, end) in steps {
                if insert {
                    set.insert(start..end);
                } else {
                    set.remove(start..end);
                }
                for at in start..end {
                    naive[usize::try_from(at).unwrap()] = insert;
                }
                let total: u64 = naive.iter().map(|is| u64::from(*is)).sum();
                prop_assert_eq!(set.total(), total);
                prop_assert_eq!(set.is_empty(), total == 0);
                for at in 0..64u64 {
                    let from = usize::try_from(at).unwrap();
                    prop_assert_eq!(set.contains(at), naive[from]);
                    let gap = naive[from..].iter().take_while(|is| **is).count() as u64;
                    prop_assert_eq!(set.first_gap_from(at), at + gap);
                }
                let ranges: Vec<_> = set.iter().collect();
                prop_assert!(ranges.iter().all(|range| range.start < range.end));
                prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
                prop_assert_eq!(ranges.first().cloned(), set.first());
            }
        }
    }
}
