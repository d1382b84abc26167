//! Verification of the server's identity.

use std::path::PathBuf;
use std::time::SystemTime;

use russh::keys::{Algorithm, Certificate, EcdsaCurve, HashAlg, PublicKey, PublicKeyOrCertificate};

use super::certificates;
use super::known_hosts::{self, Line, Verdict};
use super::{HostPort, Pin, SshOptions};
use crate::error::Error;

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
    place: HostPort,
    /// Host and port in the files, and in certificates.
    known_as: (String, u16),
    pins: Vec<Pin>,
    insecure: bool,
    files: Vec<PathBuf>,
    lines: Vec<Line>,
}

impl Trust {
    pub(super) fn load(place: &HostPort, options: &SshOptions) -> Result<Self, Error> {
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
                        return Err(
                            Error::local(format!("{} cannot be read: {error}", path.display())).with_source(error)
                        );
                    }
                }
            }
        }
        Ok(Self {
            place: place.clone(),
            // An alias is for one server at any port, as in OpenSSH.
            known_as: match &options.host_key_alias {
                Some(alias) => (alias.clone(), 22),
                None => (place.host.clone(), place.port),
            },
            pins: options.pins.clone(),
            insecure: options.insecure,
            files: options.known_hosts.clone(),
            lines,
        })
    }

    /// The host key algorithms to ask for, with the types known for the server first: it may have keys of several types, and only
    /// the known one can be verified.
    pub(super) fn algorithms(&self) -> Vec<Algorithm> {
        let known = known_hosts::known_types(&self.lines, &self.known_as.0, self.known_as.1);
        let is_known = |algorithm: &Algorithm| known.contains(&type_of(algorithm).as_str());
        let (mut first, rest): (Vec<_>, Vec<_>) = ALGORITHMS.into_iter().partition(is_known);
        first.extend(rest);
        first
    }

    /// The types of certificate to ask for: none if any key will do, a key is pinned, or no authority is noted for the host.
    pub(super) fn certificate_algorithms(&self) -> Vec<Algorithm> {
        let mut authorities = known_hosts::authorities(&self.lines, &self.known_as.0, self.known_as.1);
        if self.insecure || !self.pins.is_empty() || authorities.next().is_none() {
            return Vec::new();
        }
        ALGORITHMS.to_vec()
    }

    /// Verifies the key or certificate that the server has shown, and returns the key's name for the report.
    pub(super) fn check(&self, shown: &PublicKeyOrCertificate) -> Result<String, Error> {
        match shown.certificate() {
            Some(certificate) => self.check_certificate(certificate, SystemTime::now()),
            None => self.check_key(&shown.public_key()),
        }
    }

    fn check_certificate(&self, certificate: &Certificate, now: SystemTime) -> Result<String, Error> {
        let key = PublicKey::new(certificate.public_key().clone(), "");
        let Err(why) = self.against(certificate, now)? else {
            let authority = fingerprint(&PublicKey::new(certificate.signature_key().clone(), ""));
            let (kind, pin) = (type_of(&key.algorithm()), fingerprint(&key));
            return Ok(format!("{kind} {pin}, certified by {authority}"));
        };
        // Like OpenSSH: a key that is known needs no certificate.
        self.check_key(&key).map_err(|error| {
            let rest = error
                .message
                .strip_prefix(&format!("{}: ", self.place))
                .unwrap_or_default()
                .to_owned();
            Error::permanent(format!("{}: its certificate {why}; without it, {rest}", self.place))
        })
    }

    /// The reason why a certificate does not count, if any. Fails if its authority or its key is revoked.
    fn against(&self, certificate: &Certificate, now: SystemTime) -> Result<Result<(), String>, Error> {
        let key = PublicKey::new(certificate.public_key().clone(), "");
        let authority = PublicKey::new(certificate.signature_key().clone(), "");
        let (Ok(own), Ok(encoded)) = (key.to_bytes(), authority.to_bytes()) else {
            return Ok(Err("has a key that cannot be read".into()));
        };
        let (host, port) = (&self.known_as.0, self.known_as.1);
        for (what, bytes) in [("authority", &encoded), ("key", &own)] {
            if let Some(line) = known_hosts::revoked(&self.lines, host, port, bytes) {
                return Err(Error::permanent(format!(
                    "{}: the {what} {} of its certificate is revoked by {}; do not connect before its owner gave it another",
                    self.place,
                    Pin::of(bytes),
                    self.at(line)
                )));
            }
        }
        if !known_hosts::authorities(&self.lines, host, port).any(|line| line.has(&encoded)) {
            return Ok(Err(format!(
                "is signed by {} {}, which no @cert-authority line has for it",
                type_of(&authority.algorithm()),
                fingerprint(&authority)
            )));
        }
        let name = known_hosts::bare(host);
        Ok(certificates::against_host(certificate, &name, now).map_or(Ok(()), Err))
    }

    fn check_key(&self, key: &PublicKey) -> Result<String, Error> {
        let kind = type_of(&key.algorithm());
        let refused = |why: String| Err(Error::permanent(format!("{}: {why}", self.place)));
        let Ok(encoded) = key.to_bytes() else {
            return refused(format!("its {kind} host key cannot be read"));
        };
        let pin = Pin::of(&encoded);
        let shown = format!("{kind} {pin}");
        if self.insecure {
            return Ok(shown);
        }
        let verdict = known_hosts::verdict(&self.lines, &self.known_as.0, self.known_as.1, &encoded);
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
        format!(
            "its host key {shown} is unknown; when that is the server's fingerprint, give --pin {pin} or add to {file} this line: {}",
            line.trim()
        )
    }

    fn name(&self) -> String {
        known_hosts::name(&self.known_as.0, self.known_as.1)
    }

    fn at(&self, line: &Line) -> String {
        let file = self.files.get(line.file).map(|path| path.display().to_string());
        format!("{}:{}", file.unwrap_or_default(), line.number)
    }
}

fn fingerprint(key: &PublicKey) -> String {
    key.fingerprint(HashAlg::Sha256).to_string()
}

/// The type's name in `known_hosts`: an RSA key is the same key whatever hash it signs with.
fn type_of(algorithm: &Algorithm) -> String {
    match algorithm {
        Algorithm::Rsa { .. } => "ssh-rsa".into(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Class;

    const SHOWN: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";
    const OTHER: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA6rWI3G1sz07DnfFlrouTcysQlj2P+jpNSOEWD9OJ3X";
    const ECDSA: &str = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBHwf2HMM5TRXvo2SQJjsNkiDD5KqiiNjrGVv3UUh+mMT5RHxiRtOnlqvjhQtBq0VpmpCV/PwUdhOig4vkbqAcEc=";

    fn trust(text: &str, pins: &[&str]) -> Trust {
        let place = HostPort {
            user: "me".into(),
            host: "h.example".into(),
            port: 2222,
            is_jump: false,
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

    fn check(text: &str, pins: &[&str]) -> Result<String, Error> {
        trust(text, pins).check(&SHOWN.parse::<PublicKey>().unwrap().into())
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
        refusal(&format!("@cert-authority * {SHOWN}"), &[]);
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
