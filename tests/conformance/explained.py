"""Cases for which ferry does not do what they ask: as the standard allows (`ALLOWED`), or not (`EXPLAINED`)."""

from __future__ import annotations

from tests.conformance.cases import Allowed

_REFUSES, _ACCEPTS = "refuses it", "accepts it"
_PROTOCOL_ERROR, _COMPRESSION_ERROR = "refuses it: [1]", "refuses it: [9]"
_LONE_CONTINUATION = Allowed(_PROTOCOL_ERROR, "CONTINUATION without HEADERS before it is a PROTOCOL_ERROR (RFC 9113, 6.10).")
_IDLE = Allowed(_PROTOCOL_ERROR, "The frame is on a stream that is idle, which is a PROTOCOL_ERROR (RFC 9113, 5.1).")
_DUMMY = Allowed(_COMPRESSION_ERROR, "Its header block is a dummy text, not HPACK: a COMPRESSION_ERROR (RFC 9113, 4.3).")
_UPGRADE = Allowed(_REFUSES, "ferry asks for no upgrade, so a server must not answer 101 (RFC 9110, 7.8).")
_LF = Allowed(_ACCEPTS, "Lines that end with LF alone: a recipient may take them, and old servers send them (RFC 9112, 2.2).")
_NOT_HTTP = Allowed(_REFUSES, "The status line does not begin with HTTP/1 (RFC 9112, 2.3 and 4).")
_CODINGS = Allowed(
    _REFUSES, "ferry's requests have no TE field, so a server must not use a coding but `chunked` (RFC 9112, 6.1 and 7.4)."
)

_SLASHES = Allowed(
    _REFUSES, "An http URL has `http://` in front (RFC 9110, 4.2); what lacks the slashes is more likely a mistake."
)

_INVALID_LENGTH = Allowed(_REFUSES, "An invalid Content-Length is an error that a client must not recover from (RFC 9112, 6.3).")
_SAME_LENGTH = Allowed(_ACCEPTS, "The same decimal value twice, which a recipient may take for one (RFC 9110, 8.6).")

_IDENTITY = "Transfer codings do not include `identity` (RFC 9112, 7), so `chunked` alone says where the body ends."
_CHUNKED_COUNTS = Allowed(_REFUSES, "`chunked` overrides Content-Length (RFC 9112, 6.3), and the body is not in chunks.")
_MALFORMED_NAME = Allowed(
    _ACCEPTS, "A field whose name is malformed is dropped: a recipient may recover from an invalid construct (RFC 9110, 2.4)."
)
_LONG_HEAD = (
    "A client chooses how long a head may be (RFC 9110, 5.4): 300 KiB in ferry, also for one line; curl's line ends at 100 KiB."
)
_LOGIN_IN_LOCATION = Allowed(
    _ACCEPTS, "A login in a URL that a server gives hides where it leads (RFC 9110, 4.2.4): ferry goes there without the login."
)
_TOO_LONG = Allowed(
    _REFUSES,
    "No file is so long: a recipient must not let a number overflow (RFC 9110, 8.6), and ferry counts in 64 bits.",
)
_ABOUT_CHUNKS = Allowed(
    _REFUSES,
    "Lines of chunks that end with LF alone: only those of a head may (RFC 9112, 2.2 and 7.1).",
)
_OTHER_VERSION = Allowed(_REFUSES, "HTTP/1 has the versions 1.0 and 1.1, and one digit behind the dot (RFC 9112, 2.3).")
_BAD_HEAD = Allowed(_REFUSES, "A NUL, a CR or no colon in a head, which curl refuses too (RFC 9112, 2.2 and 5; RFC 9110, 5.5).")
_NEGATIVE = Allowed(_REFUSES, "An invalid Content-Length is an error, and curl refuses it too (RFC 9112, 6.3).")
_CUT_HEAD = Allowed(_REFUSES, "The connection ends within the head, so the answer is incomplete (RFC 9112, 8).")
_INTERIM = Allowed("reads 200", "A client must read any number of interim answers, whatever their status (RFC 9110, 15.2).")
_PLUS = Allowed("asks", "A blank in a Location becomes %20, in the query too (URL standard, 4.4); only forms write a plus.")
_UPLOAD_303 = Allowed(_REFUSES, "303 asks for a GET instead of an upload; a client may follow it, or not (RFC 9110, 15.4).")

_CONSTRAINED = Allowed(
    _REFUSES,
    "A constraint on names of a kind that is not processed: a client must process it or refuse (RFC 5280, 4.2.1.10). "
    "ferry processes those on DNS names and addresses.",
)
_OWN_AUTHORITY = Allowed(
    _REFUSES, "The server's own certificate is one of an authority: a client may ask for more than RFC 5280 does (6.2)."
)
_OTHER_NAME = Allowed(
    _ACCEPTS, "Another name in the certificate than the one asked for is not valid; no rule makes a client look."
)
_AUTHORITYS_DUTY = Allowed(_ACCEPTS, "A duty of authorities, not a step of path validation (RFC 5280, 6.1).")
_ANCHOR = Allowed(_ACCEPTS, "A trust anchor is a name and a key; its other fields are not processed (RFC 5280, 6.1.1).")
_STATUS = Allowed(_REFUSES, "A status is three digits, from 100 on (RFC 9112, 4; RFC 9110, 15).")
_NIST_CURVE = Allowed("offers it", "ssh-audit distrusts NIST's curves; clients should have them (RFC 9142, 4; RFC 5656, 10.1).")

ALLOWED: dict[str, dict[str, Allowed]] = {
    "http2-frame-test-case": {
        "continuation/header": _LONE_CONTINUATION,
        "continuation/normal": _LONE_CONTINUATION,
        "data/normal": _IDLE,
        "headers/normal": _DUMMY,
        "headers/priority": _DUMMY,
        "push_promise/normal": Allowed(_PROTOCOL_ERROR, "ferry's SETTINGS forbid pushes: a PROTOCOL_ERROR (RFC 9113, 6.6)."),
        "window_update/normal": _IDLE,
    },
    "llhttp": {
        "response/connection.md:293 HTTP 101 response with Upgrade and Content-Length header": _UPGRADE,
        "response/connection.md:331 HTTP 101 response with Upgrade and Transfer-Encoding header": _UPGRADE,
        "response/invalid.md:224 Only LFs present and no body": _LF,
        "response/invalid.md:264 Only LFs present": _LF,
        "response/sample.md:40 RTSP response": _NOT_HTTP,
        "response/sample.md:60 ICE response": _NOT_HTTP,
        "response/sample.md:330 No carriage ret": _LF,
        "response/sample.md:574 Spaces in header name": _MALFORMED_NAME,
        "response/sample.md:645 HTTP version 0.9": _NOT_HTTP,
        "response/transfer-encoding.md:4 Trailing space on chunked body": Allowed(
            _ACCEPTS,
            "Blanks behind a chunk size, which servers send that pad it: a recipient may recover from an invalid construct "
            "(RFC 9110, 2.4).",
        ),
        "response/transfer-encoding.md:43 `chunked` before other transfer-encoding": _CODINGS,
        "response/transfer-encoding.md:74 multiple transfer-encoding where chunked is not the last one": Allowed(
            "status 200", _IDENTITY
        ),
        "response/transfer-encoding.md:110 `chunkedchunked` transfer-encoding does not enable chunked enconding": _CODINGS,
        "response/transfer-encoding.md:248 No extension after semicolon": Allowed(
            _ACCEPTS,
            "A chunk size with a semicolon and nothing behind it: a recipient ignores extensions (RFC 9112, 7.1.1), and may "
            "recover from an invalid construct (RFC 9110, 2.4).",
        ),
    },
    "wpt-content-length": {
        "'aaaah' and 'aaaah'": _INVALID_LENGTH,
        "'aaaah, aaaah'": _INVALID_LENGTH,
        "'aaaah'": _INVALID_LENGTH,
        "'42s'": _INVALID_LENGTH,
        "'30s'": _INVALID_LENGTH,
        "'-1'": _INVALID_LENGTH,
        "'0x20'": _INVALID_LENGTH,
        "'030' and '30'": _SAME_LENGTH,
        "'030, 30'": _SAME_LENGTH,
    },
    "wpt-h1-parsing": {
        **dict.fromkeys(
            (f"'HTTP/1.1 {text}\\nheader-parsing: is sad\\n\\n'" for text in ("0 OK", "1 OK", "99 NOT OK", "099 HELLO")), _STATUS
        )
    },
    "ssh-audit": dict.fromkeys(
        (f"{name}-nistp{bits}" for name in ("kex ecdh-sha2", "key ecdsa-sha2") for bits in (256, 384, 521)), _NIST_CURVE
    ),
    "badssl": {
        "revoked": Allowed(_ACCEPTS, "badssl leaves it open. ferry asks no authority whether a certificate was revoked."),
        "no-sct": Allowed(_ACCEPTS, "badssl leaves it open. Certificate Transparency is a browser's policy, not of RFC 5280."),
        "10000-sans": Allowed(
            _REFUSES, "badssl leaves it open. A handshake message is at most 64 KiB for rustls; OpenSSL has a limit too."
        ),
        "incomplete-chain": Allowed(
            _REFUSES, "badssl leaves it open. A server must send the complete chain (RFC 8446, 4.4.2), and ferry fetches none."
        ),
    },
    "curl-data": {
        "test3 HTTP POST with auth and contents but with content-length set to 0": Allowed(
            _REFUSES,
            "Bytes behind the announced length: a client may drop them, or take the Content-Length for wrong (RFC 9112, 6.3).",
        ),
        "test40 HTTP redirect with whitespace after ? (and conversion)": _PLUS,
        "test54 HTTP with blank Location:": Allowed(
            "asks", "An empty Location is a reference to the same document (RFC 3986, 4.4)."
        ),
        "test368 Append dash if -r range specified without one": Allowed(
            _REFUSES, "A server may ignore Range (RFC 9110, 14.2); then its answer is not what was asked for."
        ),
        "test395 HTTP and out-of-range Content-Length": _TOO_LONG,
        "test663 HTTP redirect with dotdots and whitespaces in absolute Location: URL": _PLUS,
        "test685 netrc with no login - provided user": Allowed(
            "asks", "The request that the test asks for stands outside its section; ferry's is that one."
        ),
        "test1138 HTTP redirect with UTF-8 characters": Allowed(
            "asks", "Hexadecimal digits should be upper case (RFC 3986, 2.1)."
        ),
        "test1142 HTTP redirect to http://// (four slashes!)": Allowed(
            "writes", "Further slashes before a host are skipped (URL standard, 4.4, special authority ignore slashes state)."
        ),
        "test1143 HTTP URL with http:/ (one slash!)": _SLASHES,
        "test1318 HTTP with --resolve and same host name using different cases": Allowed(
            "asks", "Hosts have no case, and a URL that is made uniform has them in lower case (RFC 3986, 3.2.2 and 6.2.2.1)."
        ),
        "test1154 HTTP GET with 100K (too long) response header": Allowed("writes", _LONG_HEAD),
        "test1417 HTTP GET with chunked encoding and chunked trailer without CRs": _ABOUT_CHUNKS,
        "test1482 HTTP GET with double chunked in TE header": _CODINGS,
        "test1483 HTTP GET with double chunked in TE header": _CODINGS,
        "test1524 HTTP PUT with 303 redirect": _UPLOAD_303,
    },
    "x509-limbo": {
        "rfc5280::serial::negative": Allowed(
            _ACCEPTS, "The server shows a certificate that is trusted itself: no path has to be validated (RFC 5280, 6.1)."
        ),
        **dict.fromkeys(
            (
                "rfc5280::aki::critical-aki",
                "rfc5280::aki::leaf-missing-aki",
                "rfc5280::aki::intermediate-missing-aki",
                "rfc5280::aki::cross-signed-root-missing-aki",
                "rfc5280::nc::permitted-dns-match-noncritical",
                "rfc5280::nc::invalid-dnsname-leading-period",
                "rfc5280::nc::not-allowed-in-ee-noncritical",
                "rfc5280::nc::not-allowed-in-ee-critical",
                "rfc5280::pc::ica-noncritical-pc",
                "rfc5280::san::noncritical-with-empty-subject",
                "rfc5280::san::underscore-dns",
                "rfc5280::serial::too-long",
                "rfc5280::serial::zero",
                "rfc5280::ski::critical-ski",
                "rfc5280::ski::intermediate-missing-ski",
                "rfc5280::ca-empty-subject",
                "rfc5280::leaf-ku-keycertsign",
                "webpki::nc::intermediate-permitted-excluded-subtrees-both-null",
                "webpki::nc::intermediate-permitted-excluded-subtrees-both-empty-sequences",
                "webpki::malformed-aia",
            ),
            _AUTHORITYS_DUTY,
        ),
        **dict.fromkeys(
            (
                "rfc5280::ski::root-missing-ski",
                "rfc5280::validity::expired-root",
                "rfc5280::unknown-critical-extension-root",
                "rfc5280::root-missing-basic-constraints",
                "rfc5280::root-non-critical-basic-constraints",
                "rfc5280::root-inconsistent-ca-extensions",
                "webpki::aki::root-with-aki-missing-keyidentifier",
                "webpki::aki::root-with-aki-authoritycertissuer",
                "webpki::aki::root-with-aki-authoritycertserialnumber",
                "webpki::aki::root-with-aki-all-fields",
                "webpki::aki::root-with-aki-ski-mismatch",
                "webpki::eku::root-has-eku",
                "webpki::forbidden-rsa-not-divisible-by-8-in-root",
            ),
            _ANCHOR,
        ),
        **dict.fromkeys(
            (
                "webpki::cn::ipv4-hex-mismatch",
                "webpki::cn::ipv4-leading-zeros-mismatch",
                "webpki::cn::ipv6-uppercase-mismatch",
                "webpki::cn::ipv6-uncompressed-mismatch",
                "webpki::cn::ipv6-non-rfc5952-mismatch",
                "webpki::cn::punycode-not-in-san",
                "webpki::cn::utf8-vs-punycode-mismatch",
                "webpki::cn::not-in-san",
                "webpki::cn::case-mismatch",
            ),
            Allowed(_ACCEPTS, "A common name that is not among the other names: a client must not look at it (RFC 9525, 2)."),
        ),
        **dict.fromkeys(
            (
                "webpki::eku::ee-anyeku",
                "webpki::eku::ee-critical-eku",
                "webpki::eku::ee-without-eku",
                "webpki::san::public-suffix-multi-label-wildcard-san",
                "webpki::san::public-suffix-private-namespace-wildcard-san",
                "webpki::san::san-critical-with-nonempty-subject",
                "webpki::forbidden-rsa-key-not-divisible-by-8-in-leaf",
            ),
            Allowed(_ACCEPTS, "A rule of the CA/Browser Forum for authorities; RFC 5280 has no such step for a client (6.1)."),
        ),
        **dict.fromkeys(
            ("webpki::forbidden-p192-leaf", "webpki::forbidden-dsa-leaf", "webpki::forbidden-weak-rsa-in-leaf"),
            Allowed(
                _ACCEPTS,
                "The server's own key signs the handshake, not the path (RFC 8446, 4.4.3): TLS refuses the key there.",
            ),
        ),
        "pathlen::validation-ignores-pathlen-in-leaf": _OWN_AUTHORITY,
        "rfc5280::ca-as-leaf": _OWN_AUTHORITY,
        "rfc5280::nc::permitted-dn-match": _CONSTRAINED,
    },
    "curl-sftp": {
        "test615 SFTP put remote failure": Allowed(
            "changes a file",
            "ferry puts a complete new file in the place of the old one, as rsync does: the folder's permissions decide, "
            "not the old file's (POSIX, rename).",
        ),
    },
    "curl-replies": {
        **dict.fromkeys(("test129 data", "test1433 data"), _OTHER_VERSION),
        **dict.fromkeys(("test178 data", "test415 data"), _NEGATIVE),
        **dict.fromkeys(("test262 data", "test398 data"), _BAD_HEAD),
        "test334 data": Allowed(_ACCEPTS, "204 has no body, whatever its fields say (RFC 9112, 6.3)."),
        **dict.fromkeys(("test341 data", "test1417 data"), _ABOUT_CHUNKS),
        "test394 data": _TOO_LONG,
        **dict.fromkeys(("test1033 data", "test1115 data"), _INTERIM),
        **dict.fromkeys(
            (
                f"test{number} data"
                for number in (319, 387, 418, 1122, 1123, 1124, 1125, 1170, 1171, 1277, 1482, 1483, 1496, 1546)
            ),
            _CODINGS,
        ),
        **dict.fromkeys(("test1154 data", "test1556 data"), Allowed(_ACCEPTS, _LONG_HEAD)),
        "test1493 data": Allowed("reads 200", _IDENTITY),
        "test1495 data": _CHUNKED_COUNTS,
        **dict.fromkeys((f"test{number} data" for number in (1513, 1539, 1555, 1591, 1598)), _CUT_HEAD),
    },
    "pkits": {
        "4.3.6 Valid Name Chaining UIDs Test6": Allowed(
            _REFUSES, "Unique identifiers: no authority may use them, and a client only should read them (RFC 5280, 4.1.2.8)."
        ),
        "4.6.8 Valid pathLenConstraint Test8": _OWN_AUTHORITY,
        "4.6.14 Valid pathLenConstraint Test14": _OWN_AUTHORITY,
        **dict.fromkeys(
            (f"4.13.{number} Valid DN nameConstraints Test{number}" for number in (1, 4, 5, 6, 11, 14, 18)), _CONSTRAINED
        ),
        **dict.fromkeys((f"4.13.{number} Valid RFC822 nameConstraints Test{number}" for number in (21, 23, 25)), _CONSTRAINED),
        "4.13.27 Valid DN and RFC822 nameConstraints Test27": _CONSTRAINED,
        **dict.fromkeys((f"4.13.{number} Valid URI nameConstraints Test{number}" for number in (34, 36)), _CONSTRAINED),
        "4.14.13 Valid onlyContainsCACerts CRL Test13": _OWN_AUTHORITY,
    },
    "bsi": {
        "common_06": Allowed(_ACCEPTS, "A negative serial number: a client should handle it gracefully (RFC 5280, 4.1.2.2)."),
        "common_12": Allowed(_ACCEPTS, "A name that is too long: the case says that a client may handle it."),
        "common_13": Allowed(
            _REFUSES, "Critical policies: a client that does not process an extension must refuse it (RFC 5280, 4.2)."
        ),
        **dict.fromkeys(("ext_15", "ext_16", "ext_17"), _AUTHORITYS_DUTY),
    },
    "go-names": {
        **dict.fromkeys(
            (
                "#40 exact email constraints work",
                "#42 email canonicalisation works.",
                "#43 limiting email addresses to a host works.",
                "#44 a leading dot matches hosts one level deep",
                "#46 a leading dot also matches two (or more) levels deep.",
                "#48 the domain part of an email is not case-sensitive",
                "#50 URI constraints only cover the host part of the URI",
                "#57 URI constraints can allow subdomains",
                "#71 an empty email constraint should allow anything",
                "#73 an empty URI constraint should allow anything",
            ),
            _CONSTRAINED,
        ),
        "#62 The \u201cany\u201d EKU also means that any usage is ok.": Allowed(
            _REFUSES, "A client that wants a purpose may refuse anyExtendedKeyUsage (RFC 5280, 4.2.1.12)."
        ),
        "#66 EKUs in roots are not ignored.": _ANCHOR,
        "#78 an invalid DNS SAN will be detected if any name constraint checking is triggered.": _OTHER_NAME,
        "#79 an invalid email SAN will be detected if any name constraint checking is triggered.": _OTHER_NAME,
    },
    "wpt-url": {
        **dict.fromkeys(
            (
                '"http://user:pass@foo:21/bar;par?b#c" against http://example.org/foo/bar',
                '"http://a:b@c:29/d" against http://example.org/foo/bar',
                '"http://&a:foo(b]c@d:2/" against http://example.org/foo/bar',
                '"http://::@c@d:2" against http://example.org/foo/bar',
                '"http://foo.com:b@d/" against http://example.org/foo/bar',
                '"http://foo:\\ud83d\\udca9@example.com/bar" against http://other.com/',
                '"https://@test@test@example:800/" against http://doesnotmatter/',
                '"https://@@@example" against http://doesnotmatter/',
                '"http://`{}:`{}@h/`{}?`{}" against http://doesnotmatter/',
                '"/some/path" against http://user@example.org/smth',
                '"" against http://user:pass@example.org:21/smth',
                '"/some/path" against http://user:pass@example.org:21/smth',
                '"https://user:pass[\\u007f@foo/bar" against http://example.org',
            ),
            _LOGIN_IN_LOCATION,
        ),
        '"http:\\\\\\\\www.google.com\\\\foo"': _SLASHES,
        '"http:/example.com/"': _SLASHES,
        '"https:/example.com/"': _SLASHES,
        '"http:example.com/"': _SLASHES,
        '"https:example.com/"': _SLASHES,
        '"http:@www.example.com"': _SLASHES,
        '"http:/@www.example.com"': _SLASHES,
        '"http:a:b@www.example.com"': _SLASHES,
        '"http:/a:b@www.example.com"': _SLASHES,
        '"http::b@www.example.com"': _SLASHES,
        '"http:/:b@www.example.com"': _SLASHES,
        '"http:a:@www.example.com"': _SLASHES,
        '"http:/a:@www.example.com"': _SLASHES,
        '"h\\tt\\nt\\rp://h\\to\\ns\\rt:9\\t0\\n0\\r0/p\\ta\\nt\\rh?q\\tu\\ne\\rry#f\\tr\\na\\rg"': Allowed(
            _REFUSES, "No URL has blanks and line ends (RFC 3986, appendix C leaves it to the reader to remove them)."
        ),
    },
}
"""By source and case."""

_NEWER = "Unicode has assigned the code point since version 16, which the file is of; ferry's tables are newer."
_NESTED = "The decoded label begins with `xn--` again, which the crate `idna` allows where hyphens are not checked."

_NETRC = "ferry looks up a login for the URL that was given, not for where a redirect leads."
_BYTE_BY_BYTE = (
    "Names of authorities are compared byte by byte, as public ones must write them; RFC 5280 (7.1) ignores case and blanks."
)
_SELF_ISSUED = (
    "Certificates that an authority issued to itself are treated as any other; RFC 5280 (6.1.4) makes exceptions for them."
)

EXPLAINED: dict[str, dict[str, str]] = {
    "pkits": {
        "4.2.3 Valid pre2000 UTC notBefore Date Test3": "rustls-webpki does not read times before 1970.",
        "4.3.3 Valid Name Chaining Whitespace Test3": _BYTE_BY_BYTE,
        "4.3.4 Valid Name Chaining Whitespace Test4": _BYTE_BY_BYTE,
        "4.3.5 Valid Name Chaining Capitalization Test5": _BYTE_BY_BYTE,
        "4.3.10 Valid Rollover from PrintableString to UTF8String Test10": _BYTE_BY_BYTE,
        "4.3.11 Valid UTF8String Case Insensitive Match Test11": _BYTE_BY_BYTE,
        "4.6.15 Valid Self-Issued pathLenConstraint Test15": _SELF_ISSUED,
        "4.6.17 Valid Self-Issued pathLenConstraint Test17": _SELF_ISSUED,
        "4.13.19 Valid Self-Issued DN nameConstraints Test19": _SELF_ISSUED,
    },
    "x509-limbo": {
        "pathlen::self-issued-certs-pathlen": _SELF_ISSUED,
        "rfc5280::nc::permitted-self-issued": _SELF_ISSUED,
    },
    "curl-data": {
        "test257 HTTP Location: following with --netrc-optional": _NETRC,
        "test479 .netrc with redirect and default without password": _NETRC,
    },
    "unicode-idna": {
        '197 "xn--xn--a--gua.pt"': _NESTED,
        '300 "xn--xn---epa"': _NESTED,
        '3268 "xn--5cb172r175fug38a.xn--mlj"': _NEWER,
        r'4101 "\ud88a\udd3120.\u97f3.\ua8661."': _NEWER,
        '4102 "xn--20-9802c.xn--0w5a.xn--1-eg4e."': _NEWER,
        '4287 "xn--9-i0j5967eg3qz.ss"': _NEWER,
        r'5740 "\ud8ba\udcac\u3002\u0729\u3002\ucbd95"': _NEWER,
        r'5741 "\ud8ba\udcac\u3002\u0729\u3002\u110d\u1173\u11ac5"': _NEWER,
        '5742 "xn--t92s.xn--znb.xn--5-y88f"': _NEWER,
    },
}
"""Why ferry does not pass a case, by source and case."""
