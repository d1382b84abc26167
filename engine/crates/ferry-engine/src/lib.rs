//! ferry's engine: transfers over HTTP/1.1, HTTP/2, HTTP/3 and SFTP that keep their limits.
//!
//! [`download`] and [`upload`] block until everything is done or has failed for good: they connect, retry, resume, follow redirects, verify
//! checksums and put files in place. They return a [`Report`](report::Report) and print nothing. An [`Observer`](observer::Observer) follows
//! the progress; [`Stop`](stop::Stop) ends a run early.
//!
//! ```no_run
//! use ferry_engine::download;
//! use ferry_engine::observer::Silent;
//! use ferry_engine::options::{GetOptions, Target};
//! use ferry_engine::remote::parse_remote;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let source = parse_remote("https://example.com/file.iso")?;
//! let mut options = GetOptions::new(source, Target::File("file.iso".into()));
//! options.transfer.limit = Some("2MB/s".parse()?);
//! let report = download(&options, &Silent);
//! if let Some(failure) = report.first_failure() {
//!     eprintln!("{failure}");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Errors have a [`Class`](error::Class), which says whether to try again, and a [`source`](std::error::Error::source). Events of level INFO
//! (retries, redirects), DEBUG (connections, requests) and TRACE (header fields) go to the `tracing` crate's subscriber, if the program has
//! one; none has a secret in it.
//!
//! Modules that this page does not list are for ferry's own crates and change without notice. Which module may use which is in
//! `docs/decisions/0019-an-engine-as-a-library.md`.

#![allow(clippy::missing_errors_doc, clippy::must_use_candidate)]

#[doc(hidden)]
pub mod clock;
pub mod error;
#[doc(hidden)]
pub mod files;
pub mod filter;
#[doc(hidden)]
pub mod job;
mod log;
#[doc(hidden)]
pub mod net;
pub mod observer;
pub mod options;
mod pages;
#[doc(hidden)]
pub mod platform;
pub mod remote;
pub mod report;
#[doc(hidden)]
pub mod sftp;
#[doc(hidden)]
pub mod sftp_url;
#[doc(hidden)]
pub mod ssh;
pub mod stop;
mod sync;
#[doc(hidden)]
pub mod transfer;
pub mod units;

pub use job::{download, upload};
#[doc(hidden)]
pub use log::{harmless, is_harmless, shown as shown_url};
