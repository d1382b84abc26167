//! The names of an upload's files on the server until it is complete.

use super::tree::join;

const PART: &[u8] = b".ferry-part";
pub const MARK: &[u8] = b".ferry-mark";
/// The suffixes of a replaced file; the second one is of earlier versions.
const ASIDE: [&[u8]; 2] = [b".ferry-old0", b".ferry-old1"];

/// Returns true if the name is that of a file which a run of ferry's has left on a server.
pub fn is_ours(name: &[u8]) -> bool {
    name.starts_with(b".")
        && [PART, MARK, ASIDE[0], ASIDE[1]]
            .iter()
            .any(|suffix| name.ends_with(suffix))
}

/// The names of the files of one version of a source next to their target: `.NAME.FINGERPRINT`, a part that tells runs apart, and
/// a suffix. The runs' part begins with a full stop in files with one writer, and with a plus in those that were taken over.
pub struct Naming {
    pub directory: Vec<u8>,
    stem: Vec<u8>,
}

const HEX: usize = 16;
/// The longest name that most file systems take.
const MOST_NAME: usize = 255;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only the run that has made the file has written to it.
    Made,
    TakenOver,
}

impl Naming {
    pub fn of(target: &[u8], fingerprint: &str) -> Self {
        let split = target.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        let (directory, name) = target.split_at(split);
        let room = MOST_NAME - 1 - (1 + fingerprint.len()) - (1 + HEX) - PART.len();
        let name = name.get(..room).unwrap_or(name);
        Self {
            directory: directory.to_vec(),
            stem: [b".", name, b".", fingerprint.as_bytes()].concat(),
        }
    }

    pub fn path(&self, name: &[u8]) -> Vec<u8> {
        join(&self.directory, name)
    }

    /// A path that no other file has, nor had.
    pub fn fresh(&self, kind: Kind) -> Vec<u8> {
        let sign = match kind {
            Kind::Made => '.',
            Kind::TakenOver => '+',
        };
        let own = format!("{sign}{:016x}", fastrand::u64(..));
        self.path(&[&self.stem, own.as_bytes(), PART].concat())
    }

    /// The kind of a partial file in this directory, if it is one of this version.
    pub fn kind(&self, name: &[u8]) -> Option<Kind> {
        let rest = name.strip_prefix(self.stem.as_slice())?.strip_suffix(PART)?;
        match rest {
            [b'.', own @ ..] if own.len() == HEX => Some(Kind::Made),
            [b'+', own @ ..] if own.len() == HEX => Some(Kind::TakenOver),
            _ => None,
        }
    }

    /// Returns true if the file of this name is of use only to an upload of this version.
    pub fn has(&self, name: &[u8]) -> bool {
        name.strip_prefix(self.stem.as_slice())
            .is_some_and(|rest| rest.first().is_some_and(|byte| matches!(byte, b'.' | b'+')))
    }
}

/// The path of a file that belongs to a partial file.
pub fn companion(partial: &[u8], suffix: &[u8]) -> Vec<u8> {
    [partial.strip_suffix(PART).unwrap_or(partial), suffix].concat()
}

/// The path at which the file waits that a partial file replaces.
pub fn aside_of(partial: &[u8]) -> Vec<u8> {
    companion(partial, ASIDE[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINGERPRINT: &str = "0123456789abcdef";

    #[test]
    fn partial_files_lie_next_to_their_target_under_names_of_their_own() {
        let naming = Naming::of(b"/up/a.iso", FINGERPRINT);
        let (made, taken_over) = (naming.fresh(Kind::Made), naming.fresh(Kind::TakenOver));
        assert!(made.starts_with(b"/up/.a.iso.0123456789abcdef.") && made.ends_with(b".ferry-part"));
        assert_ne!(made, naming.fresh(Kind::Made));
        assert_eq!(naming.kind(&made[4..]), Some(Kind::Made));
        assert_eq!(naming.kind(&taken_over[4..]), Some(Kind::TakenOver));
        assert_eq!(
            companion(&made, MARK),
            [&made[..made.len() - PART.len()], MARK].concat()
        );
        for path in [made.clone(), aside_of(&made), companion(&taken_over, MARK)] {
            assert!(is_ours(&path[4..]) && naming.has(&path[4..]));
        }
        assert!(
            Naming::of(b"a.iso", FINGERPRINT)
                .fresh(Kind::Made)
                .starts_with(b".a.iso.")
        );
    }

    #[test]
    fn other_files_are_left_alone() {
        let naming = Naming::of(b"/up/a", FINGERPRINT);
        for name in [
            "a",
            ".a.0123456789abcdef.ferry-part",
            ".a.0123456789abcdee.0123456789abcdef.ferry-part",
        ] {
            assert_eq!(naming.kind(name.as_bytes()), None, "{name}");
        }
        assert!(!naming.has(b".a.0123456789abcdee.0123456789abcdef.ferry-part"));
        assert!(!is_ours(b"a.ferry-part") && !is_ours(b".a"));
    }

    #[test]
    fn long_names_are_cut_to_what_file_systems_take() {
        let naming = Naming::of(&[b'x'; 255], FINGERPRINT);
        let made = naming.fresh(Kind::Made);
        assert_eq!(made.len(), 255);
        assert_eq!(aside_of(&made).len(), 255);
        assert_eq!(naming.kind(&made), Some(Kind::Made));
    }
}
