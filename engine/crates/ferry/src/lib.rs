//! ferry: a file-transfer client that keeps its limits. The rooms and their arrows are in `docs/decisions/0003-ferry-over-http.md`.

#![allow(missing_docs)]

pub mod cli;
mod clock;
pub mod files;
pub mod job;
pub mod net;
pub mod platform;
pub mod report;
pub mod transfer;
pub mod units;
