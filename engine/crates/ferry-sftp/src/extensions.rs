//! Extensions announced by VERSION (section 4), and the reply of `limits@openssh.com` (OpenSSH's PROTOCOL, 4.8).

use crate::error::ProtocolError;
use crate::wire::Fields;

pub(crate) const POSIX_RENAME: &str = "posix-rename@openssh.com";
pub(crate) const FSYNC: &str = "fsync@openssh.com";
pub(crate) const LIMITS: &str = "limits@openssh.com";

/// The extensions that the server announced with VERSION, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extensions(Vec<(Vec<u8>, Vec<u8>)>);

impl Extensions {
    pub(crate) fn parse(fields: &mut Fields<'_>) -> Result<Self, ProtocolError> {
        let mut pairs = Vec::new();
        while !fields.is_empty() {
            pairs.push((fields.string()?.to_vec(), fields.string()?.to_vec()));
        }
        Ok(Self(pairs))
    }

    /// Returns true if `name` is announced, with any data.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.iter().any(|(known, _)| known == name.as_bytes())
    }

    /// Returns true if [`Request::PosixRename`](crate::Request::PosixRename) may be sent.
    #[must_use]
    pub fn posix_rename(&self) -> bool {
        self.is_version_1(POSIX_RENAME)
    }

    /// Returns true if [`Request::Fsync`](crate::Request::Fsync) may be sent.
    #[must_use]
    pub fn fsync(&self) -> bool {
        self.is_version_1(FSYNC)
    }

    /// Returns true if the server supports [`Request::Limits`](crate::Request::Limits).
    #[must_use]
    pub fn limits(&self) -> bool {
        self.is_version_1(LIMITS)
    }

    /// Names and data.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.iter().map(|(name, data)| (&name[..], &data[..]))
    }

    /// OpenSSH's data is the version of the extension, and a client should look at it (PROTOCOL, section 4).
    fn is_version_1(&self, name: &str) -> bool {
        self.iter().any(|pair| pair == (name.as_bytes(), b"1"))
    }
}

/// The reply of `limits@openssh.com`; 0 stands for a limit that the server does not give.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a complete packet, its length field not counted.
    pub packet: u64,
    /// Bytes that one READ may ask for.
    pub read: u64,
    /// Bytes that one WRITE may carry.
    pub write: u64,
    /// Handles that may be open at once.
    pub handles: u64,
}

impl Limits {
    /// Reads [`Reply::Extended`](crate::Reply::Extended). Fields behind the fourth belong to later versions and are ignored.
    ///
    /// # Errors
    /// [`ProtocolError::Truncated`] if the bytes end before the fourth number does.
    pub fn parse(bytes: &[u8]) -> Result<Self, ProtocolError> {
        let mut fields = Fields(bytes);
        Ok(Self {
            packet: fields.u64()?,
            read: fields.u64()?,
            write: fields.u64()?,
            handles: fields.u64()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{put_string, put_u64};

    #[test]
    fn only_the_known_version_of_an_extension_counts() {
        let mut out = Vec::new();
        for (name, data) in [(POSIX_RENAME, "1"), (FSYNC, "2"), ("a@b", "")] {
            put_string(&mut out, name.as_bytes());
            put_string(&mut out, data.as_bytes());
        }
        let known = Extensions::parse(&mut Fields(&out)).unwrap();
        assert!(known.posix_rename() && !known.fsync() && !known.limits());
        assert!(known.has(FSYNC) && known.has("a@b") && !known.has("a"));
        assert_eq!(known.iter().count(), 3);
        out.truncate(out.len() - 4);
        assert_eq!(Extensions::parse(&mut Fields(&out)), Err(ProtocolError::Truncated));
    }

    #[test]
    fn limits_are_four_numbers_and_maybe_more() {
        let mut out = Vec::new();
        for number in 1..=5 {
            put_u64(&mut out, number);
        }
        let limits = Limits {
            packet: 1,
            read: 2,
            write: 3,
            handles: 4,
        };
        assert_eq!(Limits::parse(&out), Ok(limits));
        assert_eq!(Limits::parse(&out[..32]), Ok(limits));
        assert_eq!(Limits::parse(&out[..31]), Err(ProtocolError::Truncated));
    }
}
