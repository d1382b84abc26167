//! Whole files in, whole files out: a name appears in its directory only when everything behind it is complete and on disk.

mod digest;
mod fault;
mod flight;
mod group;
mod journal;
mod missing;
pub mod mode;
mod names;
mod part;
mod partial;
mod secret;
mod sink;
mod source;
mod target;
mod whole;
mod writer;

pub use digest::{Algorithm, Digest};
pub use group::Group;
pub use journal::{Resumable, ResumeKey, Stated, Validators};
pub use missing::Missing;
pub use names::{has_control, is_longest, is_unfinished, safe_component, upload_targets};
pub use part::{Part, Parts};
pub use partial::PartialFile;
pub use secret::{read_secret, read_secret_line};
pub use sink::Sink;
pub use source::Source;
pub use target::{check_target, existing};
pub use whole::WholeFile;
