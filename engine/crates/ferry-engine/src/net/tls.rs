//! TLS as ferry wants it: verified unless told otherwise, TLS 1.2 and 1.3, AES-GCM before `ChaCha20`, `h2` and `http/1.1` by ALPN.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use url::{Host, Url};

pub use super::tls_words::{problem, refuses_client};
use super::verify::{KeyHash, Refusal, Roots, Verifier};
use crate::error::Error;

/// The protocols to offer by ALPN, the preferred first.
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

/// The configuration of TLS.
#[derive(Debug, Clone)]
pub struct Tls {
    pub config: Arc<ClientConfig>,
    verifier: Arc<Verifier>,
    /// The first error in reading the system's certificates, and the number of further ones.
    pub unread: Option<String>,
}

impl Tls {
    /// The configuration for one QUIC connection to an HTTP/3 server, and the verifier that remembers the error for a refused
    /// certificate: QUIC itself keeps only the words.
    #[must_use]
    pub fn for_quic(&self) -> (ClientConfig, Arc<Refusal>) {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = vec![b"h3".to_vec()];
        // A ticket of TLS over TCP is for no QUIC connection.
        config.resumption = Resumption::disabled();
        let refusal = Arc::new(Refusal::new(Arc::clone(&self.verifier)));
        let verifier = Arc::clone(&refusal);
        config.dangerous().set_certificate_verifier(verifier);
        (config, refusal)
    }
}

/// The certificate and the key that this client shows to a server that asks for them.
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

/// Without roots no certificate is verified; with `keys`, the server must have one of them in either case. With `key_log`, the secrets of every
/// connection go to the file that the environment variable `SSLKEYLOGFILE` names, for tools such as Wireshark.
pub fn client_config(
    roots: Option<Roots>,
    keys: Vec<KeyHash>,
    alpn: AlpnPolicy,
    key_log: bool,
    identity: Option<Identity>,
) -> Result<Tls, Error> {
    let builder = ClientConfig::builder_with_provider(Arc::new(provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::local(format!("TLS cannot be set up: {error}")).with_source(error))?;
    let unread = roots.as_ref().and_then(|roots| roots.unread.clone());
    let verifier = Arc::new(verifier(roots, keys)?);
    let custom = Arc::clone(&verifier);
    let builder = builder.dangerous().with_custom_certificate_verifier(custom);
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

/// The verifier for these roots and keys; without roots, it believes any certificate.
///
/// # Errors
/// There is no root among them.
pub fn verifier(roots: Option<Roots>, keys: Vec<KeyHash>) -> Result<Verifier, Error> {
    Verifier::new(roots, keys, provider())
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

/// The name that the server's certificate must be for: the URL's host, whatever address was dialled.
pub fn server_name(url: &Url) -> Result<ServerName<'static>, Error> {
    match url.host() {
        Some(Host::Domain(name)) => ServerName::try_from(name.to_owned())
            .map_err(|_| Error::usage(format!("{name} is no name a certificate can be for"))),
        Some(Host::Ipv4(address)) => Ok(ServerName::from(std::net::IpAddr::V4(address))),
        Some(Host::Ipv6(address)) => Ok(ServerName::from(std::net::IpAddr::V6(address))),
        None => Err(Error::usage(format!("{} has no host", crate::log::shown(url)))),
    }
}
