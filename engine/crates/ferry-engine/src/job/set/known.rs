//! Which files of trees have been found already: of a million, nothing more is kept of each than a number.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

/// Paths by tree. Two of them are taken for one by accident once in 2^128 pairs, and by nobody's intention: the hash is this run's own.
#[derive(Default)]
pub struct Known {
    one: RandomState,
    other: RandomState,
    seen: HashSet<u128>,
}

impl Known {
    /// Whether it is new.
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
