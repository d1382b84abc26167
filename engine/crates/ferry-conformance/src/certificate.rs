//! Paths of certificates, through the verifier of ferry's TLS.

use std::time::Duration;

use ferry_engine::net::tls;
use ferry_engine::net::verify::Roots;
use rustls::CertificateError;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::bytes;

/// A server's certificates, its own first, and the roots that the client trusts.
#[derive(Deserialize)]
pub struct Path {
    chain: Vec<String>,
    roots: Vec<String>,
    name: String,
    /// The time of the check, in seconds since 1970.
    time: u64,
}

fn certificates(hex: &[String]) -> Result<Vec<CertificateDer<'static>>, String> {
    hex.iter().map(|each| bytes(each).map(CertificateDer::from)).collect()
}

/// Verifies the path: `error` has the reason for distrust, and `named` is true for a trusted path of that name.
pub fn verify(path: &Path) -> Result<Value, String> {
    let chain = certificates(&path.chain)?;
    let (own, others) = chain.split_first().ok_or("a path without certificates")?;
    let roots = match Roots::these(certificates(&path.roots)?) {
        Ok(roots) => roots,
        Err(error) => return Ok(json!({ "error": format!("a root: {error}"), "named": false })),
    };
    let verifier = tls::verifier(Some(roots), Vec::new()).map_err(|error| error.to_string())?;
    let name = ServerName::try_from(path.name.clone()).map_err(|error| error.to_string())?;
    let time = UnixTime::since_unix_epoch(Duration::from_secs(path.time));
    let result = verifier.verify_server_cert(own, others, &name, &[], time);
    // The verifier checks the name once the path is trusted.
    Ok(match result {
        Ok(_) => json!({ "error": null, "named": true }),
        Err(rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => json!({ "error": null, "named": false }),
        Err(error) => json!({ "error": error.to_string(), "named": false }),
    })
}
