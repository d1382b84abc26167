//! HTTP/1.1 framing for a client, as functions and a state machine over bytes: no sockets, no clock, no copies of bodies.
//!
//! [`encode_request`] and [`encode_chunk`] write requests; [`ResponseReader`] reads one response. Header values that ferry
//! acts on are parsed in [`values`]. The rules are those of RFC 9112, in their strict reading where the lenient one would
//! let two recipients disagree about where a message ends, and in the lenient one elsewhere.

#![forbid(unsafe_code)]
// Every byte that arrives is the server's choice: nothing may index, slice or unwrap by it. An exception names its reason.
#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

mod chunked;
mod error;
mod fields;
mod head;
mod request;
mod response;
pub mod values;

pub use error::{BadRequest, FrameError};
pub use head::{MAX_HEAD, MAX_HEADERS, ResponseBody, ResponseHead, Version};
pub use request::{BodyLength, RequestHead, encode_chunk, encode_last_chunk, encode_request};
pub use response::{Event, MAX_INFORMATIONAL, ResponseReader};
