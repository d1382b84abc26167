//! SSH certificates (OpenSSH's PROTOCOL.certkeys): the check of a host's certificate, and the objections to a user's.

use std::time::{Duration, SystemTime};

use russh::keys::Certificate;
use russh::keys::ssh_key::certificate::CertType;
use russh::keys::{Algorithm, HashAlg};

use super::known_hosts::matches;

/// Returns true if a certificate may be signed with this algorithm: SHA-1 can be forged, DSA no longer counts.
fn is_sound(algorithm: &Algorithm) -> bool {
    matches!(
        algorithm,
        Algorithm::Ed25519
            | Algorithm::Ecdsa { .. }
            | Algorithm::SkEd25519
            | Algorithm::SkEcdsaSha2NistP256
            | Algorithm::Rsa {
                hash: Some(HashAlg::Sha256 | HashAlg::Sha512)
            }
    )
}

/// The reason why a certificate does not hold for the host of this name, if any. Trust in its authority is another question.
pub(super) fn against_host(certificate: &Certificate, name: &str, now: SystemTime) -> Option<String> {
    if certificate.cert_type() != CertType::Host {
        return Some("is a user's, not a host's".into());
    }
    let principals = certificate.valid_principals();
    if principals.is_empty() {
        // OpenSSH takes no such certificate for a host: it would be good for all hosts.
        return Some("names no host".into());
    }
    if !principals.iter().any(|principal| matches(principal, name)) {
        return Some(format!("is for {}, not for {name}", clean(principals)));
    }
    if let Some(why) = untimely(certificate, now) {
        return Some(why);
    }
    // PROTOCOL.certkeys defines no critical options for hosts, and an unknown one must be refused.
    let options = certificate.critical_options();
    if !options.is_empty() {
        let names: Vec<_> = options.keys().cloned().collect();
        return Some(format!(
            "has critical options that ferry does not know: {}",
            clean(&names)
        ));
    }
    let signed = certificate.signature().algorithm();
    if !is_sound(&signed) {
        return Some(format!("is signed with {signed}, which is not safe"));
    }
    if certificate.verify_signature().is_err() {
        return Some("has a signature that is not its authority's".into());
    }
    None
}

/// The reason why a server will probably refuse a user's certificate, if any. The certificate is offered all the same: the server
/// has the last word, and the right time.
pub(super) fn against_user(certificate: &Certificate, now: SystemTime) -> Option<String> {
    if certificate.cert_type() != CertType::User {
        return Some("is a host's, not a user's".into());
    }
    untimely(certificate, now)
}

fn untimely(certificate: &Certificate, now: SystemTime) -> Option<String> {
    let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    if now < certificate.valid_after() {
        return Some(format!("is not valid before {}", date(certificate.valid_after())));
    }
    (now >= certificate.valid_before()).then(|| format!("expired on {}", date(certificate.valid_before())))
}

fn date(seconds: u64) -> String {
    // Beyond the year 9999 httpdate panics.
    if seconds > 253_402_300_799 {
        return "a day after the year 9999".into();
    }
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

fn clean(names: &[String]) -> String {
    super::errors::clean(&names.join(", "))
}
