//! Errors by class: what may be tried again, what may not, and what the process exits with.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::Failure;

/// What a failure means for the next step. One class, one exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// The command line is wrong.
    Usage,
    /// May work when tried again: connection lost, time-out, 408, 429, 500, 502, 503, 504.
    Transient,
    /// Will not work when tried again: 404, a certificate that does not verify, a redirect loop.
    Permanent,
    /// What arrived is not what was announced: length, range, checksum, a broken protocol.
    Integrity,
    /// This machine: disk full, no permission, a file that exists.
    Local,
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
        }
    }
}

/// Names and words of a server are in messages: they could forge lines of a log or steer a terminal.
fn one_line(message: String) -> String {
    if !message.contains(char::is_control) {
        return message;
    }
    let mut shown = String::with_capacity(message.len() + 16);
    for found in message.chars() {
        if found.is_control() {
            shown.extend(found.escape_default());
        } else {
            shown.push(found);
        }
    }
    shown
}

/// A failure with its class. The message is one line: what, where, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub class: Class,
    pub message: String,
    /// The server's own wish (Retry-After).
    pub retry_after: Option<Duration>,
    /// The answer it came with.
    pub status: Option<u16>,
    /// The server never looked at the request (RFC 9113, section 6.8): it may be repeated at once, whatever it was.
    pub untouched: bool,
    /// No address has taken a connection: all refused it at once, or none answered in the time that the user gives it (TCP has repeated its SYN
    /// meanwhile). Waiting some seconds changes that only for a server that is just starting.
    pub unreached: bool,
}

impl Problem {
    #[must_use]
    pub fn new(class: Class, message: impl Into<String>) -> Self {
        Self {
            class,
            message: one_line(message.into()),
            retry_after: None,
            status: None,
            untouched: false,
            unreached: false,
        }
    }

    #[must_use]
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Class::Usage, message)
    }

    #[must_use]
    pub fn transient(message: impl Into<String>) -> Self {
        Self::new(Class::Transient, message)
    }

    #[must_use]
    pub fn permanent(message: impl Into<String>) -> Self {
        Self::new(Class::Permanent, message)
    }

    #[must_use]
    pub fn integrity(message: impl Into<String>) -> Self {
        Self::new(Class::Integrity, message)
    }

    #[must_use]
    pub fn local(message: impl Into<String>) -> Self {
        Self::new(Class::Local, message)
    }

    /// For the report.
    #[must_use]
    pub fn failure(&self) -> Failure {
        Failure {
            class: self.class,
            message: self.message.clone(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

#[cfg(test)]
mod tests {
    use super::Problem;

    #[test]
    fn a_message_is_one_line_whatever_a_server_says() {
        let problem = Problem::permanent("cannot list a\u{1b}]0;x\u{7}\nb \u{85}ü");
        assert_eq!(problem.message, r"cannot list a\u{1b}]0;x\u{7}\nb \u{85}ü");
    }
}
