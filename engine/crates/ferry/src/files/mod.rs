//! Whole files in, whole files out: a name appears in its directory only when everything behind it is complete and on disk.

mod digest;
mod fault;
mod journal;
mod partial;
mod sink;
mod source;
mod target;
mod writer;

pub use digest::{Algorithm, Digest, Expected};
pub use journal::{Resumable, ResumeKey};
pub use partial::PartialFile;
pub use sink::Sink;
pub use source::Source;
pub use target::{check_target, existing};
