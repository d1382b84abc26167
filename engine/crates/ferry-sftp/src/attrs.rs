//! File attributes (section 5).

use crate::error::ProtocolError;
use crate::wire::{Fields, put_u32, put_u64};

const SIZE: u32 = 1;
const OWNER: u32 = 2;
const PERMISSIONS: u32 = 4;
const TIMES: u32 = 8;
const EXTENDED: u32 = 0x8000_0000;

/// The attributes of a file, received or to be set (section 5). A `None` field was left out by the server, or is not sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attrs {
    /// The size in bytes.
    pub size: Option<u64>,
    /// User and group id, as numbers of the server.
    pub owner: Option<(u32, u32)>,
    /// `st_mode` of POSIX: the type's bits and the permissions.
    pub permissions: Option<u32>,
    /// Last access and last modification, in seconds since 1970 (UTC).
    pub times: Option<(u32, u32)>,
}

/// The type in the high bits of [`Attrs::permissions`].
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A device, a socket, a FIFO.
    Other,
    /// The server did not say.
    Unknown,
}

impl Attrs {
    /// The file type in the permissions. The draft leaves the type's bits to POSIX (section 5).
    #[must_use]
    pub fn kind(&self) -> FileKind {
        match self.permissions.map(|mode| mode & 0o170_000) {
            None | Some(0) => FileKind::Unknown,
            Some(0o100_000) => FileKind::Regular,
            Some(0o040_000) => FileKind::Directory,
            Some(0o120_000) => FileKind::Symlink,
            Some(_) => FileKind::Other,
        }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let flag = |set: bool, bit: u32| if set { bit } else { 0 };
        put_u32(
            out,
            flag(self.size.is_some(), SIZE)
                | flag(self.owner.is_some(), OWNER)
                | flag(self.permissions.is_some(), PERMISSIONS)
                | flag(self.times.is_some(), TIMES),
        );
        if let Some(size) = self.size {
            put_u64(out, size);
        }
        if let Some((user, group)) = self.owner {
            put_u32(out, user);
            put_u32(out, group);
        }
        if let Some(permissions) = self.permissions {
            put_u32(out, permissions);
        }
        if let Some((access, modification)) = self.times {
            put_u32(out, access);
            put_u32(out, modification);
        }
    }

    /// Unknown flags are taken to have no field, as OpenSSH does; extended attributes are skipped.
    pub(crate) fn parse(fields: &mut Fields<'_>) -> Result<Self, ProtocolError> {
        let flags = fields.u32()?;
        let mut attrs = Self::default();
        if flags & SIZE != 0 {
            attrs.size = Some(fields.u64()?);
        }
        if flags & OWNER != 0 {
            attrs.owner = Some((fields.u32()?, fields.u32()?));
        }
        if flags & PERMISSIONS != 0 {
            attrs.permissions = Some(fields.u32()?);
        }
        if flags & TIMES != 0 {
            attrs.times = Some((fields.u32()?, fields.u32()?));
        }
        if flags & EXTENDED != 0 {
            // The count bounds nothing: the packet's end does, since each pair takes at least eight bytes.
            for _ in 0..fields.u32()? {
                fields.string()?;
                fields.string()?;
            }
        }
        Ok(attrs)
    }
}
