//! Whether the server is the one it should be.

use std::path::PathBuf;

use russh::keys::{Algorithm, EcdsaCurve, HashAlg, PublicKey};

use super::known_hosts::{self, Line, Verdict};
use super::{Pin, Place, SshOptions};
use crate::report::Problem;

/// No SHA-1, no DSA.
const ALGORITHMS: [Algorithm; 6] = [
    Algorithm::Ed25519,
    Algorithm::Ecdsa {
        curve: EcdsaCurve::NistP256,
    },
    Algorithm::Ecdsa {
        curve: EcdsaCurve::NistP384,
    },
    Algorithm::Ecdsa {
        curve: EcdsaCurve::NistP521,
    },
    Algorithm::Rsa {
        hash: Some(HashAlg::Sha512),
    },
    Algorithm::Rsa {
        hash: Some(HashAlg::Sha256),
    },
];

pub(super) struct Trust {
    place: Place,
    pins: Vec<Pin>,
    insecure: bool,
    files: Vec<PathBuf>,
    lines: Vec<Line>,
}

impl Trust {
    pub(super) fn load(place: &Place, options: &SshOptions) -> Result<Self, Problem> {
        let mut lines = Vec::new();
        if !options.insecure {
            for (file, path) in options.known_hosts.iter().enumerate() {
                match std::fs::read(path) {
                    Ok(text) => lines.extend(known_hosts::parse(&text).into_iter().map(|mut line| {
                        line.file = file;
                        line
                    })),
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                    Err(error) => {
                        return Err(Problem::local(format!("{} cannot be read: {error}", path.display())));
                    }
                }
            }
        }
        Ok(Self {
            place: place.clone(),
            pins: options.pins.clone(),
            insecure: options.insecure,
            files: options.known_hosts.clone(),
            lines,
        })
    }

    /// What to ask the server for, the types it is known by first: it may have keys of several, and only that one can be verified.
    pub(super) fn algorithms(&self) -> Vec<Algorithm> {
        let known = known_hosts::known_types(&self.lines, &self.place.host, self.place.port);
        let is_known = |algorithm: &Algorithm| known.contains(&type_of(algorithm).as_str());
        let (mut first, rest): (Vec<_>, Vec<_>) = ALGORITHMS.into_iter().partition(is_known);
        first.extend(rest);
        first
    }

    /// The key's name for the report is returned.
    pub(super) fn check(&self, key: &PublicKey) -> Result<String, Problem> {
        let kind = type_of(&key.algorithm());
        let refused = |why: String| Err(Problem::permanent(format!("{}: {why}", self.place)));
        let Ok(encoded) = key.to_bytes() else {
            return refused(format!("its {kind} host key cannot be read"));
        };
        let pin = Pin::of(&encoded);
        let shown = format!("{kind} {pin}");
        if self.insecure {
            return Ok(shown);
        }
        let verdict = known_hosts::verdict(&self.lines, &self.place.host, self.place.port, &encoded);
        if let Verdict::Revoked(line) = verdict {
            let at = self.at(line);
            return refused(format!(
                "its host key {shown} is revoked by {at}; do not connect before its owner gave it another"
            ));
        }
        if !self.pins.is_empty() {
            if self.pins.contains(&pin) {
                return Ok(shown);
            }
            let pins: Vec<_> = self.pins.iter().map(ToString::to_string).collect();
            return refused(format!(
                "its host key {shown} is not the pinned {}; if it has several keys, pin this one",
                pins.join(", ")
            ));
        }
        match verdict {
            Verdict::Known => Ok(shown),
            Verdict::Changed(others) => refused(self.changed(&shown, &others)),
            Verdict::Unknown | Verdict::Revoked(_) => refused(self.unknown(&shown, pin, key)),
        }
    }

    fn changed(&self, shown: &str, others: &[&Line]) -> String {
        let noted: Vec<_> = others
            .iter()
            .map(|line| format!("{} {} ({})", line.key_type(), line.fingerprint(), self.at(line)))
            .collect();
        format!(
            "its host key is {shown}, but known is {}; either the server was given another key, then remove what is old: ssh-keygen -R '{}', \
             or somebody else answers in its place",
            noted.join(", "),
            self.name()
        )
    }

    fn unknown(&self, shown: &str, pin: Pin, key: &PublicKey) -> String {
        let mut plain = key.clone();
        plain.set_comment("");
        let line = format!("{} {}", self.name(), plain.to_openssh().unwrap_or_default());
        let file = self
            .files
            .first()
            .map_or("a known_hosts file".into(), |path| path.display().to_string());
        let authority = if known_hosts::has_authority(&self.lines, &self.place.host, self.place.port) {
            " (there is an @cert-authority line for it, but ferry takes no certificates)"
        } else {
            ""
        };
        format!(
            "its host key {shown} is unknown{authority}; when that is the server's fingerprint, give --pin {pin} or add to {file} this line: {}",
            line.trim()
        )
    }

    fn name(&self) -> String {
        known_hosts::name(&self.place.host, self.place.port)
    }

    fn at(&self, line: &Line) -> String {
        let file = self.files.get(line.file).map(|path| path.display().to_string());
        format!("{}:{}", file.unwrap_or_default(), line.number)
    }
}

/// As `known_hosts` names it: an RSA key is the same key whatever hash it signs with.
fn type_of(algorithm: &Algorithm) -> String {
    match algorithm {
        Algorithm::Rsa { .. } => "ssh-rsa".into(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Class;

    const SHOWN: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";
    const OTHER: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA6rWI3G1sz07DnfFlrouTcysQlj2P+jpNSOEWD9OJ3X";
    const ECDSA: &str = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBHwf2HMM5TRXvo2SQJjsNkiDD5KqiiNjrGVv3UUh+mMT5RHxiRtOnlqvjhQtBq0VpmpCV/PwUdhOig4vkbqAcEc=";

    fn trust(text: &str, pins: &[&str]) -> Trust {
        let place = Place {
            user: "me".into(),
            host: "h.example".into(),
            port: 2222,
        };
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let options = SshOptions {
            known_hosts: vec!["/nowhere/known_hosts".into(), file.path().into()],
            pins: pins.iter().map(|pin| pin.parse().unwrap()).collect(),
            ..SshOptions::default()
        };
        Trust::load(&place, &options).unwrap()
    }

    fn check(text: &str, pins: &[&str]) -> Result<String, Problem> {
        trust(text, pins).check(&SHOWN.parse().unwrap())
    }

    fn refusal(text: &str, pins: &[&str]) -> String {
        let problem = check(text, pins).unwrap_err();
        assert_eq!(problem.class, Class::Permanent);
        assert!(!problem.message.contains('\n'));
        assert!(problem.message.starts_with("sftp://h.example:2222: "), "{problem}");
        problem.message
    }

    #[test]
    fn a_known_key_is_taken_and_an_unknown_one_says_how_it_could_be() {
        let shown = check(&format!("[h.example]:2222 {SHOWN}"), &[]).unwrap();
        assert!(shown.starts_with("ssh-ed25519 SHA256:"), "{shown}");
        let message = refusal("", &[]);
        let pin = shown.split_once(' ').unwrap().1;
        assert!(message.contains(&format!("--pin {pin}")), "{message}");
        assert!(
            message.ends_with(&format!("this line: [h.example]:2222 {SHOWN}")),
            "{message}"
        );
        assert!(refusal(&format!("@cert-authority * {OTHER}"), &[]).contains("takes no certificates"));
    }

    #[test]
    fn a_changed_key_is_refused_with_both_fingerprints_and_the_line() {
        let message = refusal(&format!("\n[h.example]:2222 {OTHER}"), &[]);
        assert_eq!(message.matches("SHA256:").count(), 2, "{message}");
        assert!(message.contains(":2)"), "{message}");
        assert!(message.contains("ssh-keygen -R '[h.example]:2222'"), "{message}");
        refusal(&format!("[h.example]:2222 {ECDSA}"), &[]);
    }

    #[test]
    fn a_pin_replaces_the_files_but_not_what_they_revoke() {
        let pin = check(&format!("[h.example]:2222 {SHOWN}"), &[]).unwrap();
        let pin = pin.split_once(' ').unwrap().1;
        check(&format!("[h.example]:2222 {OTHER}"), &[pin]).unwrap();
        assert!(refusal(&format!("@revoked * {SHOWN}"), &[pin]).contains("revoked"));
        let other = Pin::of(b"other").to_string();
        assert!(refusal(&format!("[h.example]:2222 {SHOWN}"), &[&other]).contains(&other));
        check("", &[&other, pin]).unwrap();
    }

    #[test]
    fn the_type_that_is_known_is_asked_for_first() {
        let order = trust(&format!("[h.example]:2222 {ECDSA}"), &[]).algorithms();
        assert_eq!(type_of(&order[0]), "ecdsa-sha2-nistp256");
        assert_eq!(order.len(), ALGORITHMS.len());
        assert_eq!(trust("", &[]).algorithms(), ALGORITHMS);
        let rsa = trust("[h.example]:2222 ssh-rsa AAAAB3NzaC1yc2EAAAADAQAB", &[]).algorithms();
        assert!(matches!(rsa[..2], [Algorithm::Rsa { .. }, Algorithm::Rsa { .. }]));
    }
}
