//! Failed handshakes in words for people.

use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, Error as TlsError, OtherError};

use crate::error::Error;

/// A failed handshake in words, with its class: what a server is will not change by asking again. `unread` is what [`super::tls::Tls`] has of that
/// name.
pub fn problem(place: &str, error: &TlsError, unread: Option<&str>) -> Error {
    let why = match error {
        TlsError::InvalidCertificate(bad) => certificate(bad, unread),
        TlsError::AlertReceived(AlertDescription::CertificateRequired) => {
            "it wants a client certificate; give one with --cert FILE and --key FILE".to_owned()
        }
        refusal if refuses_client(refusal) => format!("it refuses the client certificate ({refusal})"),
        TlsError::NoApplicationProtocol | TlsError::AlertReceived(AlertDescription::NoApplicationProtocol) => {
            "it does not speak the HTTP version asked for".to_owned()
        }
        other => other.to_string(),
    };
    Error::permanent(format!("TLS with {place}: {why}")).with_source(error.clone())
}

/// The fault of a server's certificate, and the remedy, if there is one.
fn certificate(bad: &CertificateError, unread: Option<&str>) -> String {
    use CertificateError as Bad;
    let why = match bad {
        Bad::Expired | Bad::ExpiredContext { .. } => {
            "its certificate has expired; renew it (--insecure would not verify it at all)"
        }
        Bad::NotValidYet | Bad::NotValidYetContext { .. } => {
            "its certificate is not valid yet; look at this machine's clock"
        }
        Bad::NotValidForNameContext { expected, presented } => return name(expected, presented),
        Bad::NotValidForName => "its certificate is for another name",
        Bad::UnknownIssuer => {
            let unread = unread.map_or(String::new(), |error| {
                format!(" (some of the system's certificates cannot be read: {error})")
            });
            return format!(
                "its certificate is signed by nobody this system trusts{unread}; give the CA with --cacert FILE"
            );
        }
        Bad::BadSignature => {
            "its certificate is signed with another key than the trusted CA of that name has; give the right one with --cacert FILE"
        }
        Bad::BadEncoding => "its certificate cannot be read: it is not as X.509 has it",
        Bad::Revoked => "its certificate was revoked",
        Bad::UnhandledCriticalExtension => UNKNOWN_EXTENSION,
        Bad::InvalidPurpose | Bad::InvalidPurposeContext { .. } => {
            "its certificate is for another purpose than that of a server (extendedKeyUsage)"
        }
        Bad::UnsupportedSignatureAlgorithmContext { .. }
        | Bad::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "its certificate is signed by an algorithm that is too weak or unknown, such as SHA-1"
        }
        Bad::Other(OtherError(other)) => match other.downcast_ref() {
            Some(path) => self::path(path),
            None => return other.to_string(),
        },
        other => return format!("its certificate is refused: {other}"),
    };
    why.to_owned()
}

const UNKNOWN_EXTENSION: &str = "its certificate has a critical extension that ferry does not know";

fn name(expected: &ServerName<'_>, presented: &[String]) -> String {
    let expected = expected.to_str();
    if presented.is_empty() {
        return format!(
            "its certificate names no host in subjectAltName, so it is not for {expected}; a common name counts only for a certificate that \
             --cacert gives itself"
        );
    }
    // rustls prints names as DnsName("host") and IpAddress(127.0.0.1).
    let bare = |name: &String| {
        let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
        inner.unwrap_or(name).trim_matches('"').to_owned()
    };
    let presented: Vec<_> = presented.iter().map(bare).collect();
    format!(
        "its certificate is for another name: for {}, not for {expected}",
        presented.join(", ")
    )
}

/// The fault of the path from a server's certificate to a trusted one.
fn path(error: &webpki::Error) -> &'static str {
    use webpki::Error as Bad;
    match error {
        Bad::CaUsedAsEndEntity => {
            "its certificate is that of a CA, or signed by itself, and not a server's; if you trust it, give it itself with --cacert FILE"
        }
        Bad::EndEntityUsedAsCa => "its certificate is signed with one that is no CA's",
        Bad::NameConstraintViolation => "its certificate is signed by a CA that may sign none for this name",
        Bad::PathLenConstraintViolated => "its certificate is signed by a CA below which there may be no other",
        Bad::MaximumPathBuildCallsExceeded
        | Bad::MaximumPathDepthExceeded
        | Bad::MaximumSignatureChecksExceeded
        | Bad::MaximumNameConstraintComparisonsExceeded => {
            "the way from its certificate to a trusted one is too long, or leads in circles"
        }
        Bad::UnsupportedCertVersion => {
            "its certificate is of X.509 version 1 or 2, which has no place for the server's name; make one of version 3"
        }
        Bad::UnsupportedCriticalExtension => UNKNOWN_EXTENSION,
        Bad::SignatureAlgorithmMismatch => "its certificate names two algorithms of its signature",
        Bad::EmptyEkuExtension => "its certificate is for no purpose at all (extendedKeyUsage)",
        _ => "its certificate, or one that signs it, has a field that is not as X.509 has it",
    }
}

/// True if the server ends the connection because of the client's certificate, or for want of one: another attempt will not help.
#[must_use]
pub fn refuses_client(error: &TlsError) -> bool {
    use rustls::AlertDescription as Alert;
    matches!(
        error,
        rustls::Error::AlertReceived(
            Alert::CertificateRequired
                | Alert::BadCertificate
                | Alert::UnsupportedCertificate
                | Alert::CertificateRevoked
                | Alert::CertificateExpired
                | Alert::CertificateUnknown
                | Alert::UnknownCA
                | Alert::AccessDenied
        )
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn every_refusal_is_a_sentence() {
        use webpki::Error as Path;
        let host = ServerName::try_from("host").unwrap();
        let other = |error: Path| CertificateError::Other(OtherError(Arc::new(error)));
        let named = |presented: &[&str]| CertificateError::NotValidForNameContext {
            expected: host.to_owned(),
            presented: presented.iter().map(|&name| name.to_owned()).collect(),
        };
        let algorithm = CertificateError::UnsupportedSignatureAlgorithmContext {
            signature_algorithm_id: vec![1],
            supported_algorithms: Vec::new(),
        };
        for (bad, telling) in [
            (CertificateError::Expired, "expired"),
            (CertificateError::NotValidYet, "clock"),
            (CertificateError::NotValidForName, "another name"),
            (named(&[]), "names no host"),
            (
                named(&["DnsName(\"a\")", "IpAddress(127.0.0.1)"]),
                "for a, 127.0.0.1, not for host",
            ),
            (CertificateError::UnknownIssuer, "--cacert"),
            (CertificateError::BadSignature, "another key"),
            (CertificateError::BadEncoding, "cannot be read"),
            (CertificateError::Revoked, "revoked"),
            (CertificateError::UnhandledCriticalExtension, "extension"),
            (CertificateError::InvalidPurpose, "purpose"),
            (algorithm, "SHA-1"),
            (CertificateError::ApplicationVerificationFailure, "refused"),
            (other(Path::CaUsedAsEndEntity), "signed by itself"),
            (other(Path::EndEntityUsedAsCa), "no CA"),
            (other(Path::NameConstraintViolation), "this name"),
            (other(Path::PathLenConstraintViolated), "below"),
            (other(Path::MaximumPathDepthExceeded), "too long"),
            (other(Path::UnsupportedCertVersion), "version 3"),
            (other(Path::UnsupportedCriticalExtension), "extension"),
            (other(Path::SignatureAlgorithmMismatch), "two algorithms"),
            (other(Path::EmptyEkuExtension), "purpose"),
            (other(Path::InvalidSerialNumber), "X.509"),
        ] {
            let problem = problem("h:1", &TlsError::InvalidCertificate(bad), None);
            let said = problem.message.strip_prefix("TLS with h:1: ").unwrap();
            assert!(said.contains(telling), "{said}");
            assert!(
                said.starts_with("its certificate") || said.starts_with("the way from its certificate "),
                "{said}"
            );
            assert!(!said.contains("Error") && !said.contains("::"), "{said}");
        }
    }
}
