//! TLS as ferry wants it: verified unless told otherwise, TLS 1.2 and 1.3, AES-GCM before `ChaCha20`, `h2` and `http/1.1` by ALPN.

use std::path::Path;
use std::sync::{Arc, Mutex};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use url::{Host, Url};

use super::key_usage::{KeyUsage, key_usage};
use crate::error::Error;
use crate::sync::lock;

/// Which protocols to offer, the preferred first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlpnPolicy {
    H2OrHttp11,
    H2,
    Http11,
}

impl AlpnPolicy {
    fn names(self) -> Vec<Vec<u8>> {
        match self {
            Self::H2OrHttp11 => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            Self::H2 => vec![b"h2".to_vec()],
            Self::Http11 => vec![b"http/1.1".to_vec()],
        }
    }
}

/// How TLS is spoken.
#[derive(Debug, Clone)]
pub struct Tls {
    pub config: Arc<ClientConfig>,
    verifier: Arc<dyn ServerCertVerifier>,
    /// What of the system's certificates could not be read.
    pub unread: Option<String>,
}

impl Tls {
    /// For one QUIC connection to an HTTP/3 server, and where it will say why it has refused the server's certificate: QUIC itself keeps only
    /// the words.
    #[must_use]
    pub fn for_quic(&self) -> (ClientConfig, Arc<Refusal>) {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = vec![b"h3".to_vec()];
        // A ticket of TLS over TCP is for no QUIC connection.
        config.resumption = Resumption::disabled();
        let refusal = Arc::new(Refusal {
            verifier: Arc::clone(&self.verifier),
            error: Mutex::default(),
        });
        let verifier = Arc::clone(&refusal);
        config.dangerous().set_certificate_verifier(verifier);
        (config, refusal)
    }
}

/// A verifier that remembers its last refusal.
#[derive(Debug)]
pub struct Refusal {
    verifier: Arc<dyn ServerCertVerifier>,
    error: Mutex<Option<rustls::Error>>,
}

impl Refusal {
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

/// What this client shows a server that asks for a certificate.
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

/// From PEM: the certificate, those that sign it behind it, and its key, not encrypted.
///
/// # Errors
/// What is wrong with one of them.
pub fn identity(chain: &[u8], key: &[u8]) -> Result<Identity, String> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
    let chain = certificates.map_err(|error| format!("the certificate cannot be read: {error}"))?;
    if chain.is_empty() {
        return Err("no certificate in it (PEM is expected)".into());
    }
    if key.windows(9).any(|word| word == b"ENCRYPTED") {
        return Err(
            "the key is encrypted, which ferry cannot read; openssl pkey -in FILE writes it without a passphrase"
                .into(),
        );
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("the key cannot be read: {error}"))?;
    Ok(Identity { chain, key })
}

/// The roots are the file's, or else the system's. Without verification no root is read. With `key_log`, the secrets of every connection
/// go to the file that the environment variable `SSLKEYLOGFILE` names, for tools such as Wireshark.
pub fn client_config(
    cacert: Option<&Path>,
    insecure: bool,
    alpn: AlpnPolicy,
    key_log: bool,
    identity: Option<Identity>,
) -> Result<Tls, Error> {
    let provider = Arc::new(provider());
    let algorithms = provider.signature_verification_algorithms;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::local(format!("TLS cannot be set up: {error}")).with_source(error))?;
    let mut unread = None;
    let verifier: Arc<dyn ServerCertVerifier> = if insecure {
        Arc::new(AnyCertificate(algorithms))
    } else {
        let roots;
        (roots, unread) = match cacert {
            Some(file) => (file_roots(file)?, None),
            None => system_roots()?,
        };
        verifier(roots)?
    };
    let builder = builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::clone(&verifier));
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(Identity { chain, key }) => builder
            .with_client_auth_cert(chain, key)
            .map_err(|error| Error::usage(format!("--cert and --key: {error}")).with_source(error))?,
    };
    config.alpn_protocols = alpn.names();
    if key_log {
        config.key_log = Arc::new(rustls::KeyLogFile::new());
        tracing::warn!("TLS secrets are written to the file that SSLKEYLOGFILE names");
    }
    Ok(Tls {
        config: Arc::new(config),
        verifier,
        unread,
    })
}

/// Trusts paths of certificates that end in one of these roots. Asks nobody whether a certificate was revoked.
///
/// # Errors
/// There is no root.
pub fn verifier(roots: RootCertStore) -> Result<Arc<Verifier>, Error> {
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::new(provider())).build();
    let verifier = verifier
        .map_err(|error| Error::local(format!("certificates cannot be verified: {error}")).with_source(error))?;
    Ok(Arc::new(Verifier(verifier)))
}

/// AES-128-GCM first: with hardware AES it costs the least of what TLS 1.3 has. The hybrid key exchange first, its share beside that of X25519:
/// what is recorded today may be read by a quantum computer later.
fn provider() -> CryptoProvider {
    use aws_lc_rs::{cipher_suite as suite, kx_group as group};
    CryptoProvider {
        cipher_suites: vec![
            suite::TLS13_AES_128_GCM_SHA256,
            suite::TLS13_AES_256_GCM_SHA384,
            suite::TLS13_CHACHA20_POLY1305_SHA256,
            suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
            suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
            suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
            suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
            suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
            suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        ],
        kx_groups: vec![group::X25519MLKEM768, group::X25519, group::SECP256R1, group::SECP384R1],
        ..aws_lc_rs::default_provider()
    }
}

/// Some of the files may be unusable, and the others do: that matters once a server's certificate has an unknown issuer.
fn system_roots() -> Result<(RootCertStore, Option<String>), Error> {
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
    Ok((store, unread))
}

fn file_roots(path: &Path) -> Result<RootCertStore, Error> {
    let mut store = RootCertStore::empty();
    let unusable = |why: String| Error::usage(format!("--cacert {}: {why}", path.display()));
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| unusable(error.to_string()))? {
        let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
        store.add(certificate).map_err(|error| unusable(error.to_string()))?;
    }
    if store.is_empty() {
        return Err(unusable("no certificate in it (PEM is expected)".into()));
    }
    Ok(store)
}

/// What the certificate must be for: the URL's host, whatever address it was dialled by.
pub fn server_name(url: &Url) -> Result<ServerName<'static>, Error> {
    match url.host() {
        Some(Host::Domain(name)) => ServerName::try_from(name.to_owned())
            .map_err(|_| Error::usage(format!("{name} is no name a certificate can be for"))),
        Some(Host::Ipv4(address)) => Ok(ServerName::from(std::net::IpAddr::V4(address))),
        Some(Host::Ipv6(address)) => Ok(ServerName::from(std::net::IpAddr::V6(address))),
        None => Err(Error::usage(format!("{} has no host", crate::log::shown(url)))),
    }
}

/// A failed handshake in words, with its class: what a server is will not change by asking again. `unread` is what [`Tls`] has of that name.
pub fn problem(place: &str, error: &rustls::Error, unread: Option<&str>) -> Error {
    use rustls::CertificateError as Bad;
    let why = match error {
        rustls::Error::InvalidCertificate(Bad::Expired | Bad::ExpiredContext { .. }) => {
            "its certificate has expired; renew it (--insecure would not verify it at all)".to_owned()
        }
        rustls::Error::InvalidCertificate(Bad::NotValidYet | Bad::NotValidYetContext { .. }) => {
            "its certificate is not valid yet; look at this machine's clock".to_owned()
        }
        rustls::Error::InvalidCertificate(Bad::NotValidForName | Bad::NotValidForNameContext { .. }) => {
            format!("its certificate is for another name ({error})")
        }
        rustls::Error::InvalidCertificate(Bad::UnknownIssuer) => {
            let unread = unread.map_or(String::new(), |error| {
                format!(" (some of the system's certificates cannot be read: {error})")
            });
            format!("its certificate is signed by nobody this system trusts{unread}; give the CA with --cacert FILE")
        }
        rustls::Error::InvalidCertificate(Bad::BadSignature) => {
            "its certificate is signed with another key than the trusted CA of that name has; give the right one with --cacert FILE"
                .to_owned()
        }
        rustls::Error::AlertReceived(rustls::AlertDescription::CertificateRequired) => {
            "it wants a client certificate; give one with --cert FILE and --key FILE".to_owned()
        }
        refusal if refuses_client(refusal) => format!("it refuses the client certificate ({refusal})"),
        rustls::Error::NoApplicationProtocol => "it does not speak the HTTP version asked for".to_owned(),
        rustls::Error::AlertReceived(rustls::AlertDescription::NoApplicationProtocol) => {
            "it does not speak the HTTP version asked for".to_owned()
        }
        other => other.to_string(),
    };
    Error::permanent(format!("TLS with {place}: {why}")).with_source(error.clone())
}

/// Whether the server has said that the client's certificate, or the lack of one, is why it ends the connection: another attempt will not help.
#[must_use]
pub fn refuses_client(error: &rustls::Error) -> bool {
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

/// rustls's verifier, for which the certificates of authorities that may not sign any are not there.
#[derive(Debug)]
pub struct Verifier(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if key_usage(end_entity) == KeyUsage::Unreadable {
            return Err(rustls::CertificateError::BadEncoding.into());
        }
        let signers = intermediates.iter().filter(|each| key_usage(each).may_sign());
        let signers: Vec<_> = signers.map(|each| CertificateDer::from(each.as_ref())).collect();
        self.0
            .verify_server_cert(end_entity, &signers, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// `--insecure`: takes any certificate, but still wants the handshake to be signed with its key.
#[derive(Debug)]
struct AnyCertificate(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
