//! An HTTP/2 client connection (RFC 9113, HPACK RFC 7541) as a state machine that does no I/O and knows no clock.
//!
//! Bytes from the peer go into [`Connection::receive`], which calls a [`Handler`] and hands payloads on as slices of
//! the caller's input: nothing is copied, and in the steady state nothing is allocated. Bytes for the peer appear in
//! [`Connection::output`]. A request's fields are encoded once ([`HeaderBlock`]) and sent any number of times.
//!
//! Windows are the caller's if it wants them: a stream is topped up automatically unless [`Connection::set_manual`]
//! says that only [`Connection::grant`] may.

#![forbid(unsafe_code)]
// Every byte that arrives is the server's choice: nothing may index, slice or unwrap by it. An exception names its reason.
#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

mod config;
mod connection;
mod error;
mod flow;
mod frame;
mod handler;
pub mod hpack;

pub use config::Config;
pub use connection::Connection;
pub use error::{ConnectionError, OpenError, error_code};
pub use frame::HEADER_LENGTH as FRAME_HEADER;
pub use handler::{Handler, Interest};
pub use hpack::{BadHeader, HeaderBlock};

/// The number of a stream (RFC 9113, 5.1.1). A client's are odd and rise.
#[derive(Copy, Clone, Eq, PartialEq, Ord, PartialOrd, Hash, Debug)]
pub struct StreamId(pub u32);
