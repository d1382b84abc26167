//! ferry: a file-transfer client that keeps its limits. The rooms and their arrows are in `docs/decisions/0003-ferry-over-http.md`.

// A program's own library: nobody else calls it, and every error is a `report::Problem`.
#![allow(missing_docs, clippy::missing_errors_doc, clippy::must_use_candidate)]

pub mod cli;
mod clock;
pub mod files;
pub mod job;
pub mod net;
pub mod platform;
pub mod report;
pub mod sftp;
pub mod ssh;
pub mod transfer;
pub mod units;
