//! Fields of certificates that rustls-webpki does not read: key usage (RFC 5280, section 4.2.1.3), subjectAltName's absence, common name.

/// The extension keyUsage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyUsage {
    /// Then there is no restriction.
    Absent,
    Unreadable,
    /// True if the key may sign certificates.
    Signs(bool),
}

impl KeyUsage {
    /// True if an authority with this key usage may sign certificates.
    pub fn may_sign(self) -> bool {
        matches!(self, Self::Absent | Self::Signs(true))
    }
}

const SEQUENCE: u8 = 0x30;
const OBJECT_IDENTIFIER: u8 = 6;
const BOOLEAN: u8 = 1;
const OCTET_STRING: u8 = 4;
const BIT_STRING: u8 = 3;
const SET: u8 = 0x31;
const UTF8_STRING: u8 = 12;
const PRINTABLE_STRING: u8 = 19;
const IA5_STRING: u8 = 22;
/// The tag of the field that holds a certificate's extensions.
const EXTENSIONS: u8 = 0xa3;
/// 2.5.29.15.
const KEY_USAGE: [u8; 3] = [0x55, 0x1d, 0x0f];
/// 2.5.29.17.
const SUBJECT_ALT_NAME: [u8; 3] = [0x55, 0x1d, 0x11];
/// 2.5.4.3.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
/// Bit 5, counted from the left.
const KEY_CERT_SIGN: u8 = 0x04;

/// Values one behind the other, in DER.
struct Values<'a>(&'a [u8]);

impl<'a> Iterator for Values<'a> {
    type Item = (u8, &'a [u8]);

    /// Tag and content of the next value. Ends where there is none, or none that can be read.
    fn next(&mut self) -> Option<Self::Item> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = if first < 0x80 {
            (usize::from(first), rest)
        } else {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            if digits.len() > 4 {
                return None;
            }
            let length = digits.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit));
            (length, rest)
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }
}

fn content(values: &[u8], tag: u8) -> Option<&[u8]> {
    Values(values).find(|value| value.0 == tag).map(|value| value.1)
}

/// The signed part of a certificate in DER.
fn fields(certificate: &[u8]) -> Option<&[u8]> {
    content(content(certificate, SEQUENCE)?, SEQUENCE)
}

/// The value of the extension with this identifier, where the certificate has it. What cannot be read as a certificate has none: the verifier
/// refuses it anyway.
fn extension(certificate: &[u8], identifier: [u8; 3]) -> Option<&[u8]> {
    let extensions = content(content(fields(certificate)?, EXTENSIONS)?, SEQUENCE)?;
    Values(extensions).find_map(|(_, extension)| {
        let mut parts = Values(extension).filter(|part| part.0 != BOOLEAN);
        let (tag, name) = parts.next()?;
        let (kind, value) = parts.next()?;
        (tag == OBJECT_IDENTIFIER && name == identifier && kind == OCTET_STRING).then_some(value)
    })
}

/// The key usage of a certificate in DER.
pub fn key_usage(certificate: &[u8]) -> KeyUsage {
    let Some(value) = extension(certificate, KEY_USAGE) else {
        return KeyUsage::Absent;
    };
    // In front of the bits: how many of the last byte's are not used.
    match Values(value).next() {
        Some((BIT_STRING, [0..=7, bits, ..])) => KeyUsage::Signs(bits & KEY_CERT_SIGN != 0),
        _ => KeyUsage::Unreadable,
    }
}

/// The common name of a certificate that has no subjectAltName, which would count alone.
pub fn lone_common_name(certificate: &[u8]) -> Option<&str> {
    if extension(certificate, SUBJECT_ALT_NAME).is_some() {
        return None;
    }
    // Algorithm, issuer, validity, subject, key: behind version and serial number all fields are sequences.
    let (_, subject) = Values(fields(certificate)?)
        .filter(|field| field.0 == SEQUENCE)
        .nth(3)?;
    let attributes = Values(subject).filter_map(|(tag, set)| (tag == SET).then(|| content(set, SEQUENCE))?);
    let mut names = attributes.filter_map(|attribute| {
        let mut parts = Values(attribute);
        parts.next().filter(|part| *part == (OBJECT_IDENTIFIER, &COMMON_NAME))?;
        let (tag, text) = parts.next()?;
        [UTF8_STRING, PRINTABLE_STRING, IA5_STRING]
            .contains(&tag)
            .then_some(text)
    });
    std::str::from_utf8(names.next()?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(tag: u8, content: &[&[u8]]) -> Vec<u8> {
        let content = content.concat();
        let length = u16::try_from(content.len()).unwrap().to_be_bytes();
        [&[tag, 0x82], &length[..], &content].concat()
    }

    fn certificate(usage: &[u8]) -> Vec<u8> {
        let other = value(
            SEQUENCE,
            &[
                &value(OBJECT_IDENTIFIER, &[&[0x55, 0x1d, 0x13]]),
                &value(OCTET_STRING, &[]),
            ],
        );
        let usage = value(
            SEQUENCE,
            &[
                &value(OBJECT_IDENTIFIER, &[&KEY_USAGE]),
                &value(BOOLEAN, &[&[0xff]]),
                &value(OCTET_STRING, &[usage]),
            ],
        );
        let extensions = value(EXTENSIONS, &[&value(SEQUENCE, &[&other, &usage])]);
        let fields = value(SEQUENCE, &[&value(2, &[&[1]]), &extensions]);
        value(SEQUENCE, &[&fields, &value(BIT_STRING, &[&[0, 1]])])
    }

    #[test]
    fn only_a_key_for_certificates_signs_them() {
        for (usage, found) in [
            // keyCertSign and cRLSign; cRLSign; digitalSignature; none.
            (&[3, 2, 1, 0x06][..], KeyUsage::Signs(true)),
            (&[3, 2, 1, 0x02], KeyUsage::Signs(false)),
            (&[3, 2, 7, 0x80], KeyUsage::Signs(false)),
            (&[3, 1, 0], KeyUsage::Unreadable),
            (&[4, 2, 1, 0x06], KeyUsage::Unreadable),
            (&[3, 9, 1, 0x06], KeyUsage::Unreadable),
            (&[], KeyUsage::Unreadable),
        ] {
            assert_eq!(key_usage(&certificate(usage)), found, "{usage:x?}");
        }
        assert!(KeyUsage::Absent.may_sign() && KeyUsage::Signs(true).may_sign());
        assert!(!KeyUsage::Unreadable.may_sign() && !KeyUsage::Signs(false).may_sign());
    }

    #[test]
    fn a_common_name_counts_where_there_is_no_other() {
        let named = |alternative: &[&str]| {
            let alternative: Vec<_> = alternative.iter().map(|&name| name.to_owned()).collect();
            let mut parameters = rcgen::CertificateParams::new(alternative).unwrap();
            parameters
                .distinguished_name
                .push(rcgen::DnType::OrganizationName, "roughwater");
            parameters.distinguished_name.push(rcgen::DnType::CommonName, "server");
            let key = rcgen::KeyPair::generate().unwrap();
            parameters.self_signed(&key).unwrap().der().to_vec()
        };
        assert_eq!(lone_common_name(&named(&[])), Some("server"));
        assert_eq!(lone_common_name(&named(&["other"])), None);
    }

    proptest! {
        #[test]
        fn no_bytes_are_a_panic(bytes in any::<Vec<u8>>(), cut in 0..90_usize) {
            let whole = certificate(&[3, 2, 1, 0x06]);
            for certificate in [&bytes[..], &whole[..cut.min(whole.len())]] {
                key_usage(certificate);
                lone_common_name(certificate);
            }
        }
    }
}
