//! ferry: a file-transfer client that keeps its limits. The rooms and their arrows are in `docs/decisions/0003-ferry-over-http.md`.

#![allow(missing_docs)]

pub mod cli;
pub mod files;
pub mod platform;
pub mod report;
pub mod units;
