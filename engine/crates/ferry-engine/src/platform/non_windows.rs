//! Systems other than Windows. They tune the send buffer of every socket, do not repeat a refused SYN, and have timers of a millisecond.

use std::io;
use std::time::Instant;

use socket2::SockRef;

/// In an event loop: until the deadline, within the millisecond that tokio's timers have.
pub async fn until(deadline: Instant) {
    tokio::time::sleep_until(deadline.into()).await;
}

/// True where ferry has to ask for the ideal size of a send buffer.
pub const ASKS_FOR_SEND_BACKLOG: bool = false;

#[must_use]
pub fn ideal_send_backlog(_socket: &SockRef<'_>) -> Option<io::Result<u64>> {
    None
}

#[must_use]
pub fn no_syn_repeats(_socket: &SockRef<'_>) -> bool {
    false
}
