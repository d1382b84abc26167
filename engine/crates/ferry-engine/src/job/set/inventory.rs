//! The names in the source of a mirror, and the directories among them whose content is known.

use std::collections::HashMap;

use super::stamp::Names;

/// The names that the source has, whether or not they take part.
#[derive(Debug, Default)]
pub struct Inventory(HashMap<Names, Kind>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A directory whose names are all in the inventory.
    Listed,
    /// A file that takes part.
    File,
    /// Anything else: a link, a special file, an excluded name. Nothing is known of the names below it.
    PassedOver,
}

impl Inventory {
    /// Adds a name. A name of two kinds is passed over from then on: the source changes meanwhile.
    pub fn add(&mut self, names: Names, kind: Kind) {
        let known = self.0.entry(names).or_insert(kind);
        if *known != kind {
            *known = Kind::PassedOver;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, names: &[Vec<u8>]) -> bool {
        self.0.contains_key(names)
    }

    /// Returns true for a file that takes part.
    pub fn is_file(&self, names: &[Vec<u8>]) -> bool {
        self.0.get(names) == Some(&Kind::File)
    }

    /// Returns true if a file that takes part is in this directory and has a name with this beginning.
    pub fn has_file_beginning(&self, directory: &[Vec<u8>], beginning: &[u8]) -> bool {
        let mut files = self.0.iter().filter(|(_, kind)| **kind == Kind::File);
        files.any(|(names, _)| {
            names
                .split_last()
                .is_some_and(|(name, above)| above == directory && name.starts_with(beginning))
        })
    }

    pub fn names(&self) -> impl Iterator<Item = &Names> {
        self.0.keys()
    }

    /// Returns true for a name of the source whose inside is not known.
    pub fn is_opaque(&self, names: &[Vec<u8>]) -> bool {
        self.0.get(names).is_some_and(|kind| *kind != Kind::Listed)
    }

    /// Returns true for a name whose inside is not known, and for everything below it.
    pub fn hides(&self, names: &[Vec<u8>]) -> bool {
        (1..=names.len()).any(|depth| names.get(..depth).is_some_and(|above| self.is_opaque(above)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &str) -> Names {
        path.split('/').map(|name| name.as_bytes().to_vec()).collect()
    }

    #[test]
    fn only_a_listed_directory_shows_what_is_in_it() {
        let mut inventory = Inventory::default();
        assert!(inventory.is_empty());
        for (path, kind) in [
            ("a", Kind::Listed),
            ("a/b", Kind::Listed),
            ("a/link", Kind::PassedOver),
            ("a/file", Kind::File),
        ] {
            inventory.add(names(path), kind);
        }
        for (path, there, hidden) in [
            ("a", true, false),
            ("a/b/c", false, false),
            ("a/link", true, true),
            ("a/link/x/y", false, true),
            ("a/linked", false, false),
            ("a/file/x", false, true),
        ] {
            assert_eq!(inventory.contains(&names(path)), there, "{path}");
            assert_eq!(inventory.hides(&names(path)), hidden, "{path}");
            assert!(!inventory.is_file(&names(path)), "{path}");
        }
        assert!(inventory.is_file(&names("a/file")));
        assert_eq!(inventory.names().count(), 4);
        for (directory, beginning, found) in [("a", "fi", true), ("a", "li", false), ("a/b", "fi", false)] {
            assert_eq!(
                inventory.has_file_beginning(&names(directory), beginning.as_bytes()),
                found,
                "{directory}/{beginning}"
            );
        }
    }

    #[test]
    fn a_directory_that_was_a_link_before_or_becomes_one_is_not_known() {
        for turns in [
            [Kind::Listed, Kind::PassedOver],
            [Kind::PassedOver, Kind::Listed],
            [Kind::File, Kind::Listed],
        ] {
            let mut inventory = Inventory::default();
            for kind in turns {
                inventory.add(names("a"), kind);
            }
            assert!(inventory.hides(&names("a/x")), "{turns:?}");
            assert!(!inventory.is_file(&names("a")), "{turns:?}");
        }
    }
}
