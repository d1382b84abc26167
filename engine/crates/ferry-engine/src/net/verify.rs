//! The verification of servers' certificates.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::{Arc, Mutex};

use aws_lc_rs::digest::{SHA256, digest};
use base64ct::{Base64, Encoding};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, OtherError, RootCertStore, SignatureScheme};

use super::x509::{KeyUsage, key_usage, lone_common_name};
use crate::error::Error;
use crate::sync::lock;

/// Certificates to trust.
pub struct Roots {
    store: RootCertStore,
    given: Given,
    /// The first of the system's files that could not be read.
    pub unread: Option<String>,
}

/// The source of the trusted certificates.
#[derive(Debug)]
enum Given {
    These(Vec<CertificateDer<'static>>),
    /// Read again when one is looked for.
    System,
}

impl Given {
    fn has(&self, certificate: &CertificateDer<'_>) -> bool {
        match self {
            Self::These(given) => given.contains(certificate),
            Self::System => rustls_native_certs::load_native_certs().certs.contains(certificate),
        }
    }
}

impl Roots {
    /// # Errors
    /// One of them cannot be trusted, and why.
    pub fn these(given: Vec<CertificateDer<'static>>) -> Result<Self, rustls::Error> {
        let mut store = RootCertStore::empty();
        given.iter().try_for_each(|each| store.add(each.clone()))?;
        Ok(Self {
            store,
            given: Given::These(given),
            unread: None,
        })
    }

    /// # Errors
    /// Class Usage.
    pub fn of_file(path: &Path) -> Result<Self, Error> {
        let unusable = |why: String| Error::usage(format!("--cacert {}: {why}", path.display()));
        let given: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
        let roots = Self::these(given.map_err(|error| unusable(error.to_string()))?);
        let roots = roots.map_err(|error| unusable(error.to_string()))?;
        if roots.store.is_empty() {
            return Err(unusable("no certificate in it (PEM is expected)".into()));
        }
        Ok(roots)
    }

    /// Some of the system's files may be unusable, and the others do: that matters once a server's certificate has an unknown issuer.
    ///
    /// # Errors
    /// Class Local when there are none.
    pub fn of_system() -> Result<Self, Error> {
        let mut store = RootCertStore::empty();
        let found = rustls_native_certs::load_native_certs();
        let unread = found.errors.first().map(|first| match found.errors.len() {
            1 => first.to_string(),
            count => format!("{first}, and {} more", count - 1),
        });
        store.add_parsable_certificates(found.certs);
        if store.is_empty() {
            let why = unread.map_or(String::new(), |error| format!(" that can be read ({error})"));
            return Err(Error::local(format!(
                "this system has no CA certificates{why}; give some with --cacert FILE"
            )));
        }
        Ok(Self {
            store,
            given: Given::System,
            unread,
        })
    }
}

/// SHA-256 of a public key (`SubjectPublicKeyInfo` in DER), written as curl's `--pinnedpubkey` has it: `sha256//` and base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyHash([u8; 32]);

impl KeyHash {
    fn of(certificate: &CertificateDer<'_>) -> Result<Self, rustls::Error> {
        let key = ParsedCertificate::try_from(certificate)?.subject_public_key_info();
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, &key).as_ref());
        Ok(Self(hash))
    }
}

impl FromStr for KeyHash {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut hash = [0; 32];
        let digits = text.strip_prefix("sha256//").unwrap_or_default();
        match Base64::decode(digits, &mut hash) {
            Ok(decoded) if decoded.len() == 32 => Ok(Self(hash)),
            _ => Err(
                "expected sha256// and 44 characters of base64 (curl's form; a file with the key is not taken)".into(),
            ),
        }
    }
}

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256//{}", Base64::encode_string(&self.0))
    }
}

/// The server has another key than those that it may have.
#[derive(Debug)]
pub struct OtherKey(KeyHash);

impl fmt::Display for OtherKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "its public key is {}, which --pinnedpubkey does not name", self.0)
    }
}

impl std::error::Error for OtherKey {}

#[derive(Debug)]
enum Trust {
    /// `--insecure`: any certificate, but the handshake must be signed with its key.
    Any,
    Roots {
        path: Arc<WebPkiServerVerifier>,
        given: Given,
    },
}

/// rustls's verifier, except that it ignores the certificates of authorities that may not sign any, and believes a server that
/// shows a trusted certificate itself. It does not check for revocation.
#[derive(Debug)]
pub struct Verifier {
    trust: Trust,
    /// One of these keys, where there are any.
    keys: Vec<KeyHash>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    /// The verifier for these roots and keys; without roots, it believes any certificate.
    ///
    /// # Errors
    /// There is no root among them.
    pub fn new(roots: Option<Roots>, keys: Vec<KeyHash>, provider: CryptoProvider) -> Result<Self, Error> {
        let algorithms = provider.signature_verification_algorithms;
        let trust = match roots {
            None => Trust::Any,
            Some(Roots { store, given, .. }) => {
                let path = WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::new(provider)).build();
                let path = path.map_err(|error| {
                    Error::local(format!("certificates cannot be verified: {error}")).with_source(error)
                })?;
                Trust::Roots { path, given }
            }
        };
        Ok(Self {
            trust,
            keys,
            algorithms,
        })
    }
}

/// True if a certificate fails only because it has no path to a root, or no matching name that the verifier reads. It is still
/// valid then: the verifier looks at dates first.
fn has_no_path(error: &rustls::Error) -> bool {
    use CertificateError as Bad;
    let rustls::Error::InvalidCertificate(bad) = error else {
        return false;
    };
    match bad {
        Bad::UnknownIssuer | Bad::BadSignature | Bad::NotValidForName | Bad::NotValidForNameContext { .. } => true,
        Bad::Other(OtherError(other)) => {
            matches!(other.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
        }
        _ => false,
    }
}

/// A certificate that is trusted itself must still be one for the server's name. Where it says no other, its common name counts, as for curl: the
/// certificate was chosen by the user, and not by an authority.
fn is_named(certificate: &CertificateDer<'_>, name: &ServerName<'_>) -> Result<ServerCertVerified, rustls::Error> {
    let by_common_name = || lone_common_name(certificate).is_some_and(|own| own.eq_ignore_ascii_case(&name.to_str()));
    match verify_server_name(&ParsedCertificate::try_from(certificate)?, name) {
        Err(error) if !by_common_name() => Err(error),
        _ => Ok(ServerCertVerified::assertion()),
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = match &self.trust {
            Trust::Any => ServerCertVerified::assertion(),
            Trust::Roots { .. } if key_usage(end_entity) == KeyUsage::Unreadable => {
                return Err(CertificateError::BadEncoding.into());
            }
            Trust::Roots { path, given } => {
                let signers = intermediates.iter().filter(|each| key_usage(each).may_sign());
                let signers: Vec<_> = signers.map(|each| CertificateDer::from(each.as_ref())).collect();
                let verified = path.verify_server_cert(end_entity, &signers, server_name, ocsp_response, now);
                verified.or_else(|error| match error {
                    error if has_no_path(&error) && given.has(end_entity) => is_named(end_entity, server_name),
                    error => Err(error),
                })?
            }
        };
        if self.keys.is_empty() {
            return Ok(verified);
        }
        let key = KeyHash::of(end_entity)?;
        if self.keys.contains(&key) {
            Ok(verified)
        } else {
            Err(CertificateError::Other(OtherError(Arc::new(OtherKey(key)))).into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// A verifier that remembers its last refusal.
#[derive(Debug)]
pub struct Refusal {
    verifier: Arc<Verifier>,
    error: Mutex<Option<rustls::Error>>,
}

impl Refusal {
    pub fn new(verifier: Arc<Verifier>) -> Self {
        Self {
            verifier,
            error: Mutex::default(),
        }
    }

    #[must_use]
    pub fn error(&self) -> Option<rustls::Error> {
        lock(&self.error).clone()
    }

    fn kept<T>(&self, result: Result<T, rustls::Error>) -> Result<T, rustls::Error> {
        result.inspect_err(|error| *lock(&self.error) = Some(error.clone()))
    }
}

impl ServerCertVerifier for Refusal {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verifier = &self.verifier;
        self.kept(verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.kept(self.verifier.verify_tls12_signature(message, cert, dss))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.kept(self.verifier.verify_tls13_signature(message, cert, dss))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}
