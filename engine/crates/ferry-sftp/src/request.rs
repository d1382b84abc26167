//! Requests (section 6) and the three extensions of OpenSSH that ferry uses (OpenSSH's PROTOCOL, section 4).

use std::ops::BitOr;

use crate::attrs::Attrs;
use crate::extensions::{FSYNC, LIMITS, POSIX_RENAME};
use crate::reply::Handle;
use crate::slab::Expect;
use crate::wire::{begin_packet, end_packet, kind, put_string, put_u32, put_u64};

/// The flags of OPEN (section 6.3).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenFlags(
    /// The bits, as they are sent.
    pub u32,
);

impl OpenFlags {
    /// For reading.
    pub const READ: Self = Self(0x01);
    /// For writing.
    pub const WRITE: Self = Self(0x02);
    /// Writes go to the end, whatever their offset; a server may still interpret the offset in its own way.
    pub const APPEND: Self = Self(0x04);
    /// Makes the file if it does not exist.
    pub const CREATE: Self = Self(0x08);
    /// Truncates the file to 0 bytes if it exists; needs `CREATE`.
    pub const TRUNCATE: Self = Self(0x10);
    /// Fails if the file exists; needs `CREATE`.
    pub const EXCLUSIVE: Self = Self(0x20);
}

impl BitOr for OpenFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A request. Paths are bytes, as the server has them; none may be 4 GiB long. WRITE is
/// [`Channel::write_header`](crate::Channel::write_header).
#[derive(Copy, Clone, Debug)]
#[allow(missing_docs, reason = "the fields are those of the draft, and the same everywhere")]
pub enum Request<'a> {
    /// Opens a file: [`Reply::Handle`](crate::Reply::Handle) (6.3).
    Open {
        path: &'a [u8],
        flags: OpenFlags,
        attrs: &'a Attrs,
    },
    /// Gives a handle back: a status (6.3).
    Close { handle: &'a Handle },
    /// Asks for `length` bytes: data, or a status, which is [`Eof`](crate::StatusCode::Eof) at the end (6.4).
    /// A server may answer with less.
    Read {
        handle: &'a Handle,
        offset: u64,
        length: u32,
    },
    /// The attributes of the file that a path leads to, through links (6.8).
    Stat { path: &'a [u8] },
    /// The attributes of the file at a path: of the link itself, if it is a link (6.8).
    Lstat { path: &'a [u8] },
    /// The attributes of an open file (6.8).
    Fstat { handle: &'a Handle },
    /// Sets attributes: a status (6.9).
    Setstat { path: &'a [u8], attrs: &'a Attrs },
    /// Sets attributes of an open file; a size truncates it: a status (6.9).
    Fsetstat { handle: &'a Handle, attrs: &'a Attrs },
    /// Opens a directory: a handle (6.7).
    Opendir { path: &'a [u8] },
    /// The next names of a directory, or the status `Eof` (6.7). OpenSSH's client takes a list of no names for the end, too.
    Readdir { handle: &'a Handle },
    /// Removes a file: a status (6.5).
    Remove { path: &'a [u8] },
    /// Makes a directory: a status (6.6).
    Mkdir { path: &'a [u8], attrs: &'a Attrs },
    /// Removes an empty directory: a status (6.6).
    Rmdir { path: &'a [u8] },
    /// Renames; fails if `to` exists: a status (6.5).
    Rename { from: &'a [u8], to: &'a [u8] },
    /// The absolute form of a path: a list of one name (6.11).
    Realpath { path: &'a [u8] },
    /// `posix-rename@openssh.com`: renames, and replaces an existing file: a status.
    PosixRename { from: &'a [u8], to: &'a [u8] },
    /// `fsync@openssh.com`: a status.
    Fsync { handle: &'a Handle },
    /// `limits@openssh.com`: [`Reply::Extended`](crate::Reply::Extended), for [`Limits::parse`](crate::Limits::parse).
    Limits,
}

impl Request<'_> {
    /// The packet's type and the expected reply.
    pub(crate) fn expect(&self) -> (u8, Expect) {
        let status = |packet, request| (packet, Expect::new(request, kind::STATUS));
        match *self {
            Self::Open { .. } => (kind::OPEN, Expect::new("OPEN", kind::HANDLE)),
            Self::Close { .. } => status(kind::CLOSE, "CLOSE"),
            Self::Read { length, .. } => (kind::READ, Expect::data(length)),
            Self::Stat { .. } => (kind::STAT, Expect::new("STAT", kind::ATTRS)),
            Self::Lstat { .. } => (kind::LSTAT, Expect::new("LSTAT", kind::ATTRS)),
            Self::Fstat { .. } => (kind::FSTAT, Expect::new("FSTAT", kind::ATTRS)),
            Self::Setstat { .. } => status(kind::SETSTAT, "SETSTAT"),
            Self::Fsetstat { .. } => status(kind::FSETSTAT, "FSETSTAT"),
            Self::Opendir { .. } => (kind::OPENDIR, Expect::new("OPENDIR", kind::HANDLE)),
            Self::Readdir { .. } => (kind::READDIR, Expect::new("READDIR", kind::NAME)),
            Self::Remove { .. } => status(kind::REMOVE, "REMOVE"),
            Self::Mkdir { .. } => status(kind::MKDIR, "MKDIR"),
            Self::Rmdir { .. } => status(kind::RMDIR, "RMDIR"),
            Self::Rename { .. } => status(kind::RENAME, "RENAME"),
            Self::Realpath { .. } => (kind::REALPATH, Expect::new("REALPATH", kind::NAME)),
            Self::PosixRename { .. } => status(kind::EXTENDED, "posix-rename"),
            Self::Fsync { .. } => status(kind::EXTENDED, "fsync"),
            Self::Limits => (kind::EXTENDED, Expect::new("limits", kind::EXTENDED_REPLY)),
        }
    }

    /// Appends the packet.
    pub(crate) fn put(&self, packet: u8, id: u32, out: &mut Vec<u8>) {
        let begin = begin_packet(out, packet);
        put_u32(out, id);
        match *self {
            Self::Open { path, flags, attrs } => {
                put_string(out, path);
                put_u32(out, flags.0);
                attrs.put(out);
            }
            Self::Read { handle, offset, length } => {
                put_string(out, handle.as_bytes());
                put_u64(out, offset);
                put_u32(out, length);
            }
            Self::Close { handle } | Self::Fstat { handle } | Self::Readdir { handle } => {
                put_string(out, handle.as_bytes());
            }
            Self::Stat { path }
            | Self::Lstat { path }
            | Self::Opendir { path }
            | Self::Remove { path }
            | Self::Rmdir { path }
            | Self::Realpath { path } => put_string(out, path),
            Self::Setstat { path, attrs } | Self::Mkdir { path, attrs } => {
                put_string(out, path);
                attrs.put(out);
            }
            Self::Fsetstat { handle, attrs } => {
                put_string(out, handle.as_bytes());
                attrs.put(out);
            }
            Self::Rename { from, to } => {
                put_string(out, from);
                put_string(out, to);
            }
            Self::PosixRename { from, to } => {
                put_string(out, POSIX_RENAME.as_bytes());
                put_string(out, from);
                put_string(out, to);
            }
            Self::Fsync { handle } => {
                put_string(out, FSYNC.as_bytes());
                put_string(out, handle.as_bytes());
            }
            Self::Limits => put_string(out, LIMITS.as_bytes()),
        }
        end_packet(out, begin, 0);
    }
}

/// Appends a WRITE without its data, which is `length` bytes (section 6.4).
#[inline]
pub(crate) fn put_write(id: u32, handle: &Handle, offset: u64, length: u32, out: &mut Vec<u8>) {
    let begin = begin_packet(out, kind::WRITE);
    put_u32(out, id);
    put_string(out, handle.as_bytes());
    put_u64(out, offset);
    put_u32(out, length);
    end_packet(out, begin, length);
}
