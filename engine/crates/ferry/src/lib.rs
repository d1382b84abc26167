//! ferry, the program: flags, progress bars, manual page, and how a report is printed. Transfers are `ferry-engine`'s.

// The program's own modules: only `main.rs` calls them.
#![allow(missing_docs, clippy::missing_errors_doc, clippy::must_use_candidate)]

pub mod cli;
pub mod output;
mod report_file;
pub mod verbose;
pub mod watch;

use ferry_engine::{error, net, report, units};
