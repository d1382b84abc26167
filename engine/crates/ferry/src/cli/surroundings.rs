//! Environment and home directory of the process.

use std::ffi::OsString;
use std::path::PathBuf;

/// The process's surroundings, which tests replace.
pub struct Surroundings<'a> {
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
    pub home: Option<PathBuf>,
}

impl Surroundings<'_> {
    pub fn own() -> Self {
        Self {
            variable: &|name| std::env::var_os(name),
            home: std::env::home_dir(),
        }
    }

    pub fn text(&self, name: &str) -> Option<OsString> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }

    /// The value of [`Self::text`] if it is Unicode.
    pub fn unicode(&self, name: &str) -> Option<String> {
        self.text(name)?.into_string().ok()
    }
}
