//! russh's errors in one line of text, with their class.

use std::io;

use russh::Disconnect;
use russh::client::RemoteDisconnectInfo;

use super::HostPort;
use crate::error::Error;
use crate::log::is_harmless;

/// A failure of russh's handler: russh's own error, or a verdict of ferry's.
#[derive(Debug)]
pub(super) enum Failure {
    Russh(russh::Error),
    Ours(Error),
}

impl From<russh::Error> for Failure {
    fn from(error: russh::Error) -> Self {
        Self::Russh(error)
    }
}

impl Failure {
    pub(super) fn problem(self, place: &HostPort) -> Error {
        match self {
            Self::Russh(error) => of_error(place, &error).with_source(error),
            Self::Ours(problem) => problem,
        }
    }
}

pub(super) fn lost(place: &HostPort) -> Error {
    Error::transient(format!("{place}: the connection was lost"))
}

/// The error for a failed handshake. A server that has too many connections (`MaxStartups`) ends one before its handshake.
pub(super) fn of_handshake(place: &HostPort, failure: Failure) -> Error {
    match failure {
        Failure::Russh(russh::Error::Disconnect | russh::Error::HUP) => closed_early(place),
        // A reset comes from a server that closed without having read our banner.
        Failure::Russh(russh::Error::IO(error))
            if matches!(
                error.kind(),
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
            ) =>
        {
            closed_early(place)
        }
        other => other.problem(place),
    }
}

fn closed_early(place: &HostPort) -> Error {
    Error::transient(format!(
        "{place}: the server closed the connection before the SSH handshake was done; it may have too many of them"
    ))
}

fn of_error(place: &HostPort, error: &russh::Error) -> Error {
    match error {
        russh::Error::IO(error) if error.kind() == io::ErrorKind::UnexpectedEof => lost(place),
        russh::Error::IO(error) => Error::transient(format!("{place}: the connection was lost: {error}")),
        russh::Error::Disconnect
        | russh::Error::HUP
        | russh::Error::SendError
        | russh::Error::RecvError
        | russh::Error::Join(_) => lost(place),
        russh::Error::ConnectionTimeout
        | russh::Error::KeepaliveTimeout
        | russh::Error::InactivityTimeout
        | russh::Error::Elapsed(_) => Error::transient(format!("{place}: the server no longer answers")),
        russh::Error::NoCommonAlgo { kind, theirs, .. } => Error::permanent(format!(
            "{place}: no {kind:?} algorithm in common; the server has {}",
            clean(&theirs.join(", "))
        )),
        russh::Error::Version => Error::permanent(format!("{place}: what answers there does not speak SSH 2")),
        russh::Error::WrongServerSig => Error::permanent(format!(
            "{place}: the server could not prove that it has the host key it shows"
        )),
        russh::Error::NoAuthMethod | russh::Error::UnsupportedAuthMethod => {
            Error::permanent(format!("{place}: it offers nothing else that ferry knows"))
        }
        russh::Error::PacketAuth | russh::Error::DecryptionError => {
            Error::integrity(format!("{place}: what arrived was changed on the way: {error}"))
        }
        other => Error::integrity(format!(
            "{place}: the SSH protocol was broken: {}",
            clean(&other.to_string())
        )),
    }
}

/// The error for a server that gave a reason for its disconnect.
pub(super) fn of_disconnect(place: &HostPort, info: &RemoteDisconnectInfo) -> Error {
    let text = clean(&info.message);
    let message = format!("{place}: the server ended the connection: {text}");
    // OpenSSH gives most of its reasons the number of a protocol error: its words tell more.
    let words = text.to_ascii_lowercase();
    if words.contains("authentication failures") {
        return Error::permanent(message);
    }
    let may_pass = ["too many", "timeout", "timed out", "shutting down", "try again", "idle"];
    if may_pass.iter().any(|part| words.contains(part)) {
        return Error::transient(message);
    }
    match info.reason_code {
        Disconnect::TooManyConnections
        | Disconnect::ConnectionLost
        | Disconnect::ByApplication
        | Disconnect::ServiceNotAvailable => Error::transient(message),
        Disconnect::MACError | Disconnect::CompressionError => Error::integrity(message),
        _ => Error::permanent(message),
    }
}

/// Makes a server's text fit for one line of ferry's.
pub(super) fn clean(text: &str) -> String {
    let one_line: String = text
        .chars()
        .map(|letter| if is_harmless(letter) { letter } else { ' ' })
        .take(200)
        .collect();
    match one_line.trim() {
        "" => "it gave no reason".into(),
        words => words.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Class;

    fn place() -> HostPort {
        HostPort {
            user: "me".into(),
            host: "h".into(),
            port: 22,
            is_jump: false,
        }
    }

    #[test]
    fn what_a_server_says_when_it_goes_decides_whether_to_come_again() {
        use Disconnect as D;
        for (reason_code, text, class) in [
            (D::TooManyConnections, "", Class::Transient),
            (D::ProtocolError, "Too many connections for user", Class::Transient),
            (D::ProtocolError, "Too many authentication failures", Class::Permanent),
            (D::ByApplication, "disconnected by user", Class::Transient),
            (D::NoMoreAuthMethodsAvailable, "no", Class::Permanent),
            (D::HostNotAllowedToConnect, "not you\r\n\x1b[31m", Class::Permanent),
            (D::MACError, "Corrupted MAC on input", Class::Integrity),
        ] {
            let info = RemoteDisconnectInfo {
                reason_code,
                message: text.into(),
                lang_tag: String::new(),
            };
            let problem = of_disconnect(&place(), &info);
            assert_eq!(problem.class, class, "{problem}");
            assert!(!problem.message.chars().any(char::is_control), "{problem}");
        }
    }

    #[test]
    fn errors_have_the_class_of_what_happened() {
        let io = |kind: io::ErrorKind| russh::Error::IO(kind.into());
        for (error, class) in [
            (io(io::ErrorKind::ConnectionReset), Class::Transient),
            (io(io::ErrorKind::UnexpectedEof), Class::Transient),
            (russh::Error::Disconnect, Class::Transient),
            (russh::Error::Version, Class::Permanent),
            (russh::Error::WrongServerSig, Class::Permanent),
            (russh::Error::PacketAuth, Class::Integrity),
            (russh::Error::Inconsistent, Class::Integrity),
        ] {
            let problem = Failure::Russh(error).problem(&place());
            assert_eq!(problem.class, class, "{problem}");
            assert!(problem.message.starts_with("sftp://h:22: "), "{problem}");
        }
        let early = of_handshake(&place(), Failure::Russh(russh::Error::Disconnect));
        assert_eq!(early.class, Class::Transient);
        assert!(early.message.contains("too many"), "{early}");
    }
}
