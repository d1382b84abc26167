//! Requests' header blocks: the static table and literals without indexing, hence no state.

use std::fmt;

use super::table::STATIC;
use super::{field, integer};

/// A request's fields, encoded once and usable for any number of requests on any connection: nothing in it refers to
/// a dynamic table.
#[derive(Clone, Eq, PartialEq, Debug)]
pub struct HeaderBlock {
    bytes: Vec<u8>,
}

/// The fault of fields that cannot be sent (RFC 9113, 8.2 and 8.3).
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
pub enum BadHeader {
    /// A name that is empty, or has characters other than those of a lower-case token.
    Name,
    /// A value with a control character, or with white space at either end.
    Value,
    /// A pseudo-header that is unknown, repeated, empty, or behind a regular field.
    Pseudo,
    /// `:method` is missing, or `:scheme` or `:path` where the method needs them.
    Missing,
    /// `connection`, `transfer-encoding` and their like, or `te` with anything but `trailers`.
    ConnectionSpecific,
}

impl fmt::Display for BadHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Name => "a field's name is not a lower-case token",
            Self::Value => "a field's value has a control character or white space at its ends",
            Self::Pseudo => "a pseudo-header is unknown, repeated, empty or out of place",
            Self::Missing => "a pseudo-header is missing",
            Self::ConnectionSpecific => "a field of HTTP/1.1 connections is not allowed in HTTP/2",
        })
    }
}

impl std::error::Error for BadHeader {}

const PSEUDO: [&[u8]; 5] = [b":method", b":scheme", b":authority", b":path", b":protocol"];

impl HeaderBlock {
    /// Encodes a request's fields in their order.
    ///
    /// # Errors
    /// When a field must not be sent in HTTP/2, or a pseudo-header is missing or misplaced.
    pub fn new<'a>(fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Result<Self, BadHeader> {
        let mut bytes = Vec::with_capacity(256);
        let mut seen = [false; PSEUDO.len()];
        let (mut regular, mut connect) = (false, false);
        for (name, value) in fields {
            if name.first() == Some(&b':') {
                let mut places = PSEUDO.iter().zip(&mut seen);
                let (_, seen) = places.find(|(known, _)| **known == name).ok_or(BadHeader::Pseudo)?;
                if regular || std::mem::replace(seen, true) || value.is_empty() {
                    return Err(BadHeader::Pseudo);
                }
                connect |= name == b":method" && value == b"CONNECT";
            } else {
                regular = true;
                if !field::is_name(name) {
                    return Err(BadHeader::Name);
                }
                if field::is_connection_specific(name) || (name == b"te" && value != b"trailers") {
                    return Err(BadHeader::ConnectionSpecific);
                }
            }
            if !field::may_be_sent(value) {
                return Err(BadHeader::Value);
            }
            put_field(&mut bytes, name, value);
        }
        let [method, scheme, authority, path, protocol] = seen;
        // A plain CONNECT has neither scheme nor path (RFC 9113, 8.5); an extended one has both (RFC 8441).
        let complete = if connect && !protocol {
            authority && !scheme && !path
        } else {
            scheme && path
        };
        if !method || !complete {
            return Err(BadHeader::Missing);
        }
        Ok(Self { bytes })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

fn put_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    if let Some(at) = STATIC.iter().position(|entry| *entry == (name, value)) {
        integer::put(out, 0x80, 7, at + 1);
        return;
    }
    // Credentials are marked never to be indexed by anyone on the way (RFC 7541, 7.1.3).
    let secret = matches!(name, b"authorization" | b"proxy-authorization" | b"cookie");
    let first = if secret { 0x10 } else { 0 };
    let known = STATIC.iter().position(|(static_name, _)| *static_name == name);
    integer::put(out, first, 4, known.map_or(0, |at| at + 1));
    if known.is_none() {
        integer::put(out, 0, 7, name.len());
        out.extend_from_slice(name);
    }
    integer::put(out, 0, 7, value.len());
    out.extend_from_slice(value);
}
