//! The files of trees that have been found already. There may be a million, so each is kept as a number only.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

/// Paths by tree. Two of them have the same number by accident once in 2^128 pairs, and never by intention: the hash is this
/// run's own.
#[derive(Default)]
pub struct Known {
    one: RandomState,
    other: RandomState,
    seen: HashSet<u128>,
}

impl Known {
    /// Returns true for a path that is new.
    pub fn insert(&mut self, tree: usize, path: &[u8], again: bool) -> bool {
        let key = (tree, path, again);
        let number = u128::from(self.one.hash_one(key)) << 64 | u128::from(self.other.hash_one(key));
        self.seen.insert(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_trees_have_in_common_is_new_in_each() {
        let mut known = Known::default();
        for (tree, path, again) in [(0, "a", false), (0, "ab", false), (1, "a", false), (0, "a", true)] {
            assert!(known.insert(tree, path.as_bytes(), again), "{tree} {path}");
            assert!(!known.insert(tree, path.as_bytes(), again), "{tree} {path}");
        }
    }
}
