//! When may how many body bytes move? A rate limit as pure arithmetic: no clock, no sleep, no I/O.
//!
//! [`Pacer`] limits one stream, [`Shared`] divides one limit among several, [`Background`] finds the rate that leaves a queue to others. Time is a parameter ([`Nanos`]), so the
//! caller chooses the clock and the way to wait, and a test needs neither.
//!
//! ```
//! use ferry_pacing::{Nanos, Options, Pacer, Rate};
//!
//! let rate = Rate::new(1_000_000).expect("not zero");
//! let mut pacer = Pacer::new(rate, Options::default());
//! pacer.expect_total(300_000);
//! let mut now = Nanos(0); // a real caller reads its clock here
//! while pacer.taken() < 300_000 {
//!     match pacer.allowance(now) {
//!         0 => now = pacer.next_at(), // a real caller sleeps here
//!         bytes => pacer.take(now, bytes), // a real caller reads or writes at most `bytes` first
//!     }
//! }
//! assert_eq!(now.max(pacer.due()), Nanos(300_000_000)); // 300 kB at 1 MB/s: 0.3 s, to the nanosecond
//! ```

#![forbid(unsafe_code)]
mod background;
mod pacer;
mod rate;
mod shared;
mod time;

pub use background::Background;
pub use pacer::{Options, Pacer};
pub use rate::Rate;
pub use shared::{Member, Shared};
pub use time::Nanos;
