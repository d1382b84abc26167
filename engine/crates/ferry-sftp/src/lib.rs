//! SFTP version 3 (draft-ietf-secsh-filexfer-02) for a client, without I/O and without a clock.
//!
//! A [`Channel`] writes requests into a buffer of the caller and reads replies out of slices of the caller's input: file
//! data is never copied, and a READ or WRITE allocates nothing. [`Reads`] and [`Writes`] keep the books of one file:
//! its bytes to be requested, in flight and arrived. Channels and books are independent of each other, so that one
//! file may travel over many channels and one channel may carry many files.

#![forbid(unsafe_code)]
// Every byte that arrives is the server's choice: nothing may index, slice or unwrap by it. An exception names its reason.
#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

mod attrs;
mod channel;
mod error;
mod extensions;
mod ranges;
mod reads;
mod reply;
mod request;
mod slab;
mod wire;
mod writes;

pub use attrs::{Attrs, FileKind};
pub use channel::{Channel, Event, MAX_DATA_PACKET, MAX_PACKET};
pub use error::{FeedError, ProtocolError, RangeError};
pub use extensions::{Extensions, Limits};
pub use ranges::RangeSet;
pub use reads::Reads;
pub use reply::{Handle, Name, Reply, Status, StatusCode};
pub use request::{OpenFlags, Request};
pub use slab::MAX_IN_FLIGHT;
pub use writes::Writes;
