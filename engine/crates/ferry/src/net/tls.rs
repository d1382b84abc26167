//! TLS as ferry wants it: verified unless told otherwise, TLS 1.2 and 1.3, AES-GCM before `ChaCha20`, `h2` and `http/1.1` by ALPN.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use url::{Host, Url};

use crate::report::Problem;

/// Which protocols to offer, the preferred first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    H2OrHttp11,
    H2,
    Http11,
}

impl Offer {
    fn alpn(self) -> Vec<Vec<u8>> {
        match self {
            Self::H2OrHttp11 => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            Self::H2 => vec![b"h2".to_vec()],
            Self::Http11 => vec![b"http/1.1".to_vec()],
        }
    }
}

/// The roots are the file's, or else the system's. Without verification no root is read.
pub fn client_config(cacert: Option<&Path>, insecure: bool, offer: Offer) -> Result<Arc<ClientConfig>, Problem> {
    let provider = Arc::new(provider());
    let algorithms = provider.signature_verification_algorithms;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Problem::local(format!("TLS cannot be set up: {error}")))?;
    let mut config = if insecure {
        let verifier = Arc::new(AnyCertificate(algorithms));
        builder
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth()
    } else {
        builder.with_root_certificates(roots(cacert)?).with_no_client_auth()
    };
    config.alpn_protocols = offer.alpn();
    Ok(Arc::new(config))
}

/// AES-128-GCM first: with hardware AES it costs the least of what TLS 1.3 has.
fn provider() -> CryptoProvider {
    use aws_lc_rs::cipher_suite as suite;
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
        ..aws_lc_rs::default_provider()
    }
}

fn roots(cacert: Option<&Path>) -> Result<RootCertStore, Problem> {
    let mut store = RootCertStore::empty();
    let Some(path) = cacert else {
        let found = rustls_native_certs::load_native_certs();
        store.add_parsable_certificates(found.certs);
        if store.is_empty() {
            return Err(Problem::local(
                "this system has no CA certificates; give some with --cacert FILE",
            ));
        }
        return Ok(store);
    };
    let unusable = |why: String| Problem::usage(format!("--cacert {}: {why}", path.display()));
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
pub fn server_name(url: &Url) -> Result<ServerName<'static>, Problem> {
    match url.host() {
        Some(Host::Domain(name)) => ServerName::try_from(name.to_owned())
            .map_err(|_| Problem::usage(format!("{name} is no name a certificate can be for"))),
        Some(Host::Ipv4(address)) => Ok(ServerName::from(std::net::IpAddr::V4(address))),
        Some(Host::Ipv6(address)) => Ok(ServerName::from(std::net::IpAddr::V6(address))),
        None => Err(Problem::usage(format!("{url} has no host"))),
    }
}

/// A failed handshake in words, with its class: what a server is will not change by asking again.
pub fn problem(place: &str, error: &rustls::Error) -> Problem {
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
            "its certificate is signed by nobody this system trusts; give the CA with --cacert FILE".to_owned()
        }
        rustls::Error::InvalidCertificate(Bad::BadSignature) => {
            "its certificate is signed with another key than the trusted CA of that name has; give the right one with --cacert FILE"
                .to_owned()
        }
        rustls::Error::NoApplicationProtocol => "it does not speak the HTTP version asked for".to_owned(),
        rustls::Error::AlertReceived(rustls::AlertDescription::NoApplicationProtocol) => {
            "it does not speak the HTTP version asked for".to_owned()
        }
        other => other.to_string(),
    };
    Problem::permanent(format!("TLS with {place}: {why}"))
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
