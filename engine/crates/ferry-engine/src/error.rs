//! Errors: a class that says what a caller can do next, a line for people, and the error below.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use crate::log::harmless;

/// The class of a failure, which decides the next step. Each class has its own exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// The command line is wrong.
    Usage,
    /// May work when tried again: connection lost, time-out, 408, 429, 500, 502, 503, 504.
    Transient,
    /// Will not work when tried again: 404, a certificate that does not verify, a redirect loop.
    Permanent,
    /// The data differs from what was announced (length, range, checksum), or the protocol was broken.
    Integrity,
    /// This machine: disk full, no permission, a file that exists.
    Local,
    /// Ended from outside before it was done: Ctrl-C, SIGTERM.
    Interrupted,
}

impl Class {
    /// The process's exit code.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Usage => 2,
            Self::Transient => 10,
            Self::Permanent => 11,
            Self::Integrity => 12,
            Self::Local => 13,
            // The exit code that shells report for a program ended by SIGINT.
            Self::Interrupted => 130,
        }
    }
}

/// A failure, as the report has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Failure {
    /// The class, which decides the next step.
    pub class: Class,
    /// One line: what, where, and what to do.
    pub message: String,
    /// The underlying error, if any, for [`std::error::Error::source`].
    #[serde(skip)]
    pub(crate) source: Source,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.get()
    }
}

/// The error below an [`Error`]. Errors that differ only here are equal: the message says the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Source(Option<Arc<dyn std::error::Error + Send + Sync>>);

impl Source {
    fn get(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let source = self.0.as_deref()?;
        Some(source)
    }
}

impl PartialEq for Source {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Source {}

/// A failure with its class. The message is one line: what, where, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The class, which decides the next step.
    pub class: Class,
    /// One line: what, where, and what to do.
    pub message: String,
    /// The server's own wish (Retry-After).
    pub retry_after: Option<Duration>,
    /// The answer it came with.
    pub status: Option<u16>,
    /// The server never looked at the request (RFC 9113, section 6.8): it may be repeated at once, whatever it was.
    pub not_processed: bool,
    /// No address has taken a connection: all refused it at once, or none answered in the time that the user gives it (TCP has repeated its SYN
    /// meanwhile). Waiting some seconds changes that only for a server that is just starting.
    pub unreached: bool,
    /// The underlying error, if any, for [`std::error::Error::source`].
    pub(crate) source: Source,
}

impl Error {
    /// The message is one line: what could steer a terminal or reorder the line is escaped, because names and words of a server are in messages.
    #[must_use]
    pub fn new(class: Class, message: impl Into<String>) -> Self {
        Self {
            class,
            message: harmless(&message.into()).into_owned(),
            retry_after: None,
            status: None,
            not_processed: false,
            unreached: false,
            source: Source::default(),
        }
    }

    /// The request is wrong.
    #[must_use]
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Class::Usage, message)
    }

    /// May work when tried again.
    #[must_use]
    pub fn transient(message: impl Into<String>) -> Self {
        Self::new(Class::Transient, message)
    }

    /// Will not work when tried again.
    #[must_use]
    pub fn permanent(message: impl Into<String>) -> Self {
        Self::new(Class::Permanent, message)
    }

    /// The data differs from what was announced.
    #[must_use]
    pub fn integrity(message: impl Into<String>) -> Self {
        Self::new(Class::Integrity, message)
    }

    /// A failure of this computer.
    #[must_use]
    pub fn local(message: impl Into<String>) -> Self {
        Self::new(Class::Local, message)
    }

    /// Keeps the error that caused this one, for callers who look below with [`std::error::Error::source`] and downcast. The message has its
    /// words already.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Source(Some(Arc::from(source.into())));
        self
    }

    /// Like [`Self::with_source`], but keeps a copy of an I/O error that the caller still needs. The copy has the same number,
    /// or, without one, the same kind and text.
    pub(crate) fn with_io(self, error: &std::io::Error) -> Self {
        self.with_source(match error.raw_os_error() {
            Some(number) => std::io::Error::from_raw_os_error(number),
            None => std::io::Error::new(error.kind(), error.to_string()),
        })
    }

    /// The failure as the report has it.
    #[must_use]
    pub fn failure(&self) -> Failure {
        Failure {
            class: self.class,
            message: self.message.clone(),
            source: self.source.clone(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.get()
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::io;

    use super::Error;

    #[test]
    fn the_error_below_is_kept_through_the_report() {
        let below = io::Error::from(io::ErrorKind::StorageFull);
        let error = Error::local(format!("cannot write x: {below}")).with_source(below);
        for source in [error.source(), error.failure().source()] {
            let found: &io::Error = source.unwrap().downcast_ref().unwrap();
            assert_eq!(found.kind(), io::ErrorKind::StorageFull);
        }
        assert!(Error::local("full").source().is_none());
    }

    #[test]
    fn a_message_is_one_line_whatever_a_server_says() {
        let problem = Error::permanent("cannot list a\u{1b}]0;x\u{7}\nb \u{85}ü\u{202e}");
        assert_eq!(problem.message, r"cannot list a\u{1b}]0;x\u{7}\nb \u{85}ü\u{202e}");
    }
}
