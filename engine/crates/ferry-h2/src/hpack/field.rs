//! The syntax of fields (RFC 9113, 8.2).

/// Returns true for a lower-case token (RFC 9110, 5.6.2) that is not empty.
pub fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|&byte| NAME[usize::from(byte)])
}

static NAME: [bool; 256] = {
    let mut table = [false; 256];
    let allowed = b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz";
    let mut at = 0;
    while at < allowed.len() {
        table[allowed[at] as usize] = true;
        at += 1;
    }
    table
};

/// Returns true for fields that belong to HTTP/1.1 connections and make an HTTP/2 message malformed (RFC 9113, 8.2.2).
pub fn is_connection_specific(name: &[u8]) -> bool {
    matches!(
        name,
        b"connection" | b"proxy-connection" | b"keep-alive" | b"transfer-encoding" | b"upgrade"
    )
}

/// Returns true for values that this side may send: no control characters, no white space at the ends.
pub fn may_be_sent(value: &[u8]) -> bool {
    let blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    !blank(value.first())
        && !blank(value.last())
        && value
            .iter()
            .all(|&byte| (byte >= 0x20 && byte != 0x7f) || byte == b'\t')
}

/// Returns true for values that this side may receive: without NUL, CR and LF, with which a value could break out of its
/// line. White space at the ends, which the RFC forbids too, is left to the reader: servers do send it.
pub fn may_be_received(value: &[u8]) -> bool {
    // Without an early exit this becomes vector instructions.
    value.iter().filter(|byte| matches!(byte, 0 | b'\r' | b'\n')).count() == 0
}
