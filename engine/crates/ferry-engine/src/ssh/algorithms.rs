//! The algorithms that are offered: ferry's own, less those that the user's lists leave out, in the order of the lists.

use std::borrow::Cow;

use russh::keys::Algorithm;
use russh::{Preferred, cipher, kex, mac};

use super::known_hosts::matches;
use super::trust::Trust;
use crate::error::Error;
use crate::options::AlgorithmLists;

const CIPHERS: [cipher::Name; 6] = [
    // This costs the least with hardware AES.
    cipher::AES_128_GCM,
    cipher::AES_256_GCM,
    cipher::CHACHA20_POLY1305,
    cipher::AES_128_CTR,
    cipher::AES_192_CTR,
    cipher::AES_256_CTR,
];
const EXCHANGES: [kex::Name; 8] = [
    // This comes first, as in OpenSSH 10: traffic recorded today may be read by a quantum computer later.
    kex::MLKEM768X25519_SHA256,
    kex::CURVE25519,
    kex::CURVE25519_PRE_RFC_8731,
    kex::ECDH_SHA2_NISTP256,
    kex::ECDH_SHA2_NISTP384,
    kex::ECDH_SHA2_NISTP521,
    kex::DH_G14_SHA256,
    kex::DH_G16_SHA512,
];
/// Extensions, which are no key exchanges but are offered among them.
const EXTENSIONS: [kex::Name; 2] = [
    // The first asks for the signatures that the server takes; the second is the answer to Terrapin.
    kex::EXTENSION_SUPPORT_AS_CLIENT,
    kex::EXTENSION_OPENSSH_STRICT_KEX_AS_CLIENT,
];
const MACS: [mac::Name; 4] = [
    mac::HMAC_SHA256_ETM,
    mac::HMAC_SHA512_ETM,
    mac::HMAC_SHA256,
    mac::HMAC_SHA512,
];

/// The offer to this server.
///
/// # Errors
/// Class Usage: a list leaves nothing of what ferry has.
pub(super) fn offered(lists: &AlgorithmLists, trust: &Trust) -> Result<Preferred, Error> {
    let host_keys = lists.host_keys.as_deref();
    let keys = kept(host_keys, trust.algorithms(), Algorithm::to_string);
    let certificates = kept(
        host_keys,
        trust.certificate_algorithms(),
        Algorithm::to_certificate_type,
    );
    if keys.is_empty() && certificates.is_empty() {
        return Err(nothing(
            "HostKeyAlgorithms",
            trust.algorithms().iter().map(Algorithm::to_string),
        ));
    }
    let mut exchanges = some("KexAlgorithms", lists.exchanges.as_deref(), &EXCHANGES)?;
    exchanges.extend(EXTENSIONS);
    Ok(Preferred {
        kex: Cow::Owned(exchanges),
        key: Cow::Owned(keys),
        host_key_certificates: Cow::Owned(certificates),
        cipher: Cow::Owned(some("Ciphers", lists.ciphers.as_deref(), &CIPHERS)?),
        mac: Cow::Owned(some("MACs", lists.macs.as_deref(), &MACS)?),
        ..Preferred::DEFAULT
    })
}

fn some<T: Copy + AsRef<str>>(keyword: &str, list: Option<&str>, ours: &[T]) -> Result<Vec<T>, Error> {
    let found = kept(list, ours.to_vec(), |name| name.as_ref().to_owned());
    if found.is_empty() {
        return Err(nothing(keyword, ours.iter().map(|name| name.as_ref().to_owned())));
    }
    Ok(found)
}

fn nothing(keyword: &str, ours: impl Iterator<Item = String>) -> Error {
    let ours: Vec<_> = ours.collect();
    Error::usage(format!(
        "ssh_config's {keyword} leaves nothing that ferry has ({}); add one, or use -F FILE or -F none",
        ours.join(", ")
    ))
}

/// Applies a list in the syntax of `ssh_config`(5): the names that may be used, in their order; behind `-`, patterns of names to
/// leave out; behind `^`, names to put first; behind `+`, additions to OpenSSH's usual names, which include all of ferry's.
fn kept<T>(list: Option<&str>, ours: Vec<T>, name: impl Fn(&T) -> String) -> Vec<T> {
    let Some(list) = list else { return ours };
    let (sign, names) = match list.strip_prefix(['+', '-', '^']) {
        Some(names) => (list.as_bytes().first().copied(), names),
        None => (None, list),
    };
    let names: Vec<&str> = names.split(',').collect();
    let place = |item: &T| names.iter().position(|each| *each == name(item));
    let mut found = ours;
    match sign {
        Some(b'+') => {}
        Some(b'-') => found.retain(|item| !names.iter().any(|pattern| matches(pattern, &name(item)))),
        Some(_) => found.sort_by_key(|item| place(item).unwrap_or(usize::MAX)),
        None => {
            found.retain(|item| place(item).is_some());
            found.sort_by_key(|item| place(item));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ciphers(list: &str) -> Vec<String> {
        let found = some("Ciphers", Some(list), &CIPHERS).unwrap_or_default();
        found.iter().map(|name| name.as_ref().to_owned()).collect()
    }

    #[test]
    fn a_list_leaves_out_and_orders() {
        let all: Vec<_> = CIPHERS.iter().map(AsRef::as_ref).collect();
        let gcm = ["aes128-gcm@openssh.com", "aes256-gcm@openssh.com"];
        assert_eq!(ciphers("aes256-ctr,3des-cbc,aes128-ctr"), ["aes256-ctr", "aes128-ctr"]);
        assert_eq!(ciphers("+3des-cbc"), all);
        assert_eq!(ciphers("-aes*-ctr,chacha20*"), gcm);
        assert_eq!(ciphers("-aes128-gcm@openssh.com"), all[1..]);
        let first = ciphers("^aes256-ctr,aes192-ctr");
        assert_eq!(first[..2], ["aes256-ctr", "aes192-ctr"]);
        assert_eq!(first.len(), all.len());
        for none in ["3des-cbc", "-*", "aes128-CTR"] {
            assert!(ciphers(none).is_empty(), "{none}");
        }
        let problem = some("Ciphers", Some("3des-cbc"), &CIPHERS).unwrap_err();
        assert_eq!(problem.class, crate::error::Class::Usage);
        assert!(problem.message.contains("ssh_config's Ciphers"), "{problem}");
    }

    #[test]
    fn a_certificate_is_a_type_of_its_own() {
        let types = || vec![Algorithm::Ed25519];
        let list = Some("ssh-ed25519-cert-v01@openssh.com");
        assert_eq!(kept(list, types(), Algorithm::to_string), []);
        assert_eq!(kept(list, types(), Algorithm::to_certificate_type), types());
    }
}
