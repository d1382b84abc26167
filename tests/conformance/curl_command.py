"""curl's command lines as ferry's: what the options of a test mean to ferry, or the rule by which the test is excluded."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import unquote

from tests.conformance.curl_file import TestFile

ANOTHER = "Another server or protocol (FTP, mail, MQTT, WebSocket, ...), a debug build of curl, or nothing that is transferred."
PROGRAM = "A program of the test's own calls libcurl."
LOGIN = "A login that ferry has not: Digest, NTLM, Negotiate, several to choose from, TLS-SRP."
CODINGS = "Codings that ferry does not ask for: deflate, brotli, transfer codings but chunked."
RESUME = "`-C`: ferry continues only what it began itself, with a validator."
CONDITION = "A condition on time or ETag: ferry has none."
HEAD = "A request for a head alone: ferry fetches files."
COMMAND = "The command line is read from a file, made of variables, or has options of its own for each URL."
ELSEWHERE = "Connections to elsewhere: `--connect-to`, Unix sockets, DNS over HTTPS, an interface, alternative services, HSTS."
TLS = "TLS options that ferry has not: pinned keys, engines, versions, certificates made with curl's own authority."
OLD = "HTTP/0.9, `--raw`, `--ignore-content-length`, HTTP/2 without TLS."
LOCAL = "Local files by rules of curl's: names from the server, kept or removed files, folders that are made."
SEVERAL = "Several URLs, of which one is an error, or whose bodies the test does not tell apart."
GLOB = "URLs by `{}` and `[]`."
UNJUDGED = "The test does not say what is written, and no plain reply either."
EXPECT = "The test wants `Expect: 100-continue`, which ferry never sends."
NO_ANSWER = "Not an answer over HTTP/1: empty, of another protocol, or a body without a head."
UPGRADE = "A 101 to a request for an upgrade, which ferry never makes."
IPV6 = "The server listens on IPv6, which not every machine has."
FORMS = "A form of `-x`, `--resolve`, `-r` or `-T` that ferry has not: SOCKS4, several ranges, a pattern, a directory."


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _excluded(*kinds: tuple[str, str]) -> dict[str, str]:
    return {option: rule for rule, options in kinds for option in options.split()}


_EXCLUDED = _excluded(
    (LOGIN, "--digest --ntlm --anyauth --negotiate --proxy-digest --proxy-ntlm --proxy-anyauth --proxy-negotiate --tlsuser"),
    (LOGIN, "--tlspassword --tlsauthtype --krb --delegation --login-options --sasl-ir"),
    (CODINGS, "--tr-encoding"),
    (RESUME, "-C --continue-at"),
    (CONDITION, "-z --time-cond --etag-compare --etag-save"),
    (HEAD, "-I --head"),
    (COMMAND, "-K --config --variable --next --expand-url --expand-data --expand-output"),
    (ELSEWHERE, "--connect-to --unix-socket --abstract-unix-socket --doh-url --interface --alt-svc --hsts --preproxy"),
    (ELSEWHERE, "--ipfs-gateway --dns-servers --local-port"),
    (TLS, "--pinnedpubkey --engine --tls-max --ech --cert -E --ciphers --crlfile --proxy-tlsv1 --proxy-insecure"),
    (TLS, "--tlsv1 --tlsv1.2 --tlsv1.3 --ssl-reqd"),
    (OLD, "--http0.9 --raw --ignore-content-length --http2 --http2-prior-knowledge --http3"),
    (LOCAL, "-J --remote-header-name --remove-on-error --no-clobber --clobber --create-dirs --skip-existing"),
    (LOCAL, "--no-remote-name -a -OJ -JO -Ji -OJR --remote-name-all"),
    (FORMS, "--socks4 --socks4a"),
    (ANOTHER, "--proto-redir --proto --proto-default --manual -M -V -h --help --version -Q --quote --mail-from --mail-rcpt"),
    (ANOTHER, "-l -P -t -B --use-ascii"),
)
_VALUED = _words(
    "-A --user-agent -b --cookie -c --cookie-jar -d --data --data-ascii --data-binary --data-raw --data-urlencode --json -e "
    "--referer -F --form --form-string -X --request -D --dump-header -w --write-out --libcurl --stderr --trace --trace-ascii "
    "-o --output --output-dir --aws-sigv4 --request-target --url-query --proxy-header --retry-delay --retry-max-time "
    "--keepalive-time --haproxy-clientip --expect100-timeout --parallel-max"
)
"""Options with a value that change only the request, or where curl writes: the reply is judged all the same."""
_PLAIN = _words(
    "-0 --http1.0 -4 --ipv4 -G --get -g --globoff -i --include --show-headers --no-include -n -N --no-buffer -O --remote-name "
    "-p --proxytunnel -R --remote-time -s --silent -sS -S --show-error -v --verbose --basic --haproxy-protocol --path-as-is "
    "--post301 --post302 --post303 --xattr --location-trusted --form-escape --no-progress-meter --no-keepalive "
    "--suppress-connect-headers --styled-output --no-sessionid -j --junk-session-cookies --fail-with-body -f --fail "
    "--fail-early --proxy-basic --no-basic --tcp-nodelay --no-npn --no-alpn --retry-all-errors --retry-connrefused -# "
    "--progress-bar --no-http0.9 --no-fail --parallel -Z --disable -q --disallow-username-in-url"
)
_OTHER_REQUEST = _words(
    "-A --user-agent -b --cookie -d --data --data-ascii --data-binary --data-raw --data-urlencode --json -e --referer -F "
    "--form --form-string -X --request --aws-sigv4 --request-target --url-query -G --get -p --proxytunnel --haproxy-protocol "
    "--haproxy-clientip --path-as-is --location-trusted -0 --http1.0 --proxy-header --no-basic -c --cookie-jar"
)
"""With these, curl's request differs from any of ferry's, and is not compared."""
_PROXY_LOGIN, _PASSWORD, _TOKEN = "CONFORMANCE_PROXY", "CONFORMANCE_PASSWORD", "CONFORMANCE_TOKEN"


class ExcludedError(Exception):
    """The rule by which a test is excluded."""

    @property
    def rule(self) -> str:
        return str(self.args[0])


@dataclass
class Translated:
    """ferry's part of a test: one run for each URL."""

    urls: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    upload: str | None = None
    follows: bool = False
    comparable: bool = True
    """The request is one that ferry could make."""
    output: str = ""
    """`-o`."""
    retries: str = "0"
    redirects: str = "10"
    user: str | None = None
    proxy: str | None = None
    proxy_user: str | None = None

    def commands(self) -> Iterator[tuple[str, ...]]:
        """Arguments, without those that say where the answer goes."""
        login = []
        name, _, password = (self.user or "").partition(":")
        if password:
            self.environment[_PASSWORD] = password
            login = ["--password-env", _PASSWORD]
        words = [*self.words, *login, "--retry", self.retries, "--max-redirects", self.redirects if self.follows else "0"]
        if self.proxy is not None:
            words += self._proxy()
        for url in self.urls:
            where = _with_user(url, name, bool(password)) if self.user is not None else url
            yield ("put", self.upload, where, *words) if self.upload else ("get", where, *words)

    def _proxy(self) -> list[str]:
        """`-x`: a password in it goes by the environment."""
        assert self.proxy is not None
        scheme, mark, rest = self.proxy.rpartition("://")
        credentials, at, place = rest.rpartition("@")
        user = self.proxy_user if self.proxy_user is not None else unquote(credentials, "latin-1") if at else None
        if user is None:
            return ["--proxy", f"{scheme}{mark}{place}"]
        name, _, password = user.partition(":")
        words = ["--proxy", f"{scheme or 'http'}://{_quoted(name)}@{place}"]
        if password:
            self.environment[_PROXY_LOGIN] = password
            words += ["--proxy-password-env", _PROXY_LOGIN]
        return words


def _quoted(text: str) -> str:
    return "".join(each if each.isalnum() else f"%{byte:02X}" for each in text for byte in each.encode("latin-1"))


def _with_user(url: str, user: str, password_follows: bool) -> str:
    scheme, _, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    return f"{scheme}://{_quoted(user)}{'' if password_follows else ':'}@{place.rpartition('@')[2]}{slash}{path}"


def translate(test: TestFile) -> Translated:
    """Raises ExcludedError."""
    made, words = Translated(), iter(shlex.split(test.text("client", "command").strip()))
    for word in words:
        if word.startswith("-") and word != "-":
            _option(made, *_split(word), words)
        else:
            made.urls.append(word)
    if not made.urls:
        raise ExcludedError(ANOTHER)
    made.urls = [_url(url, "-g" in made.words) for url in made.urls]
    made.words = [word for word in made.words if word != "-g"]
    for name in ("http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY", "NETRC"):
        for line in test.text("client", "setenv").splitlines():
            if line.startswith(f"{name}="):
                made.environment[name] = line.partition("=")[2]
    return made


def _split(word: str) -> tuple[str, str | None]:
    """An option, and the value that is written together with it."""
    if word.startswith("--") or len(word) == 2 or word in _PLAIN or word in _EXCLUDED:
        return word, None
    return word[:2], word[2:]


def _option(made: Translated, name: str, joined: str | None, words: Iterator[str]) -> None:
    def value() -> str:
        return joined if joined is not None else next(words)

    if name in _EXCLUDED:
        raise ExcludedError(_EXCLUDED[name])
    made.comparable &= name not in _OTHER_REQUEST
    if name in _VALUED:
        given = value()
        made.output = given if name in {"-o", "--output"} else made.output
        return
    if name in _PLAIN:
        made.words += ["-g"] if name in {"-g", "--globoff"} else []
        made.follows |= name == "--location-trusted"
        if joined:
            raise ExcludedError(COMMAND)
        return
    match name:
        case "-L" | "--location":
            made.follows = True
        case "--max-redirs":
            made.redirects = value()
        case "-r" | "--range":
            made.words += ["--range", _range(value())]
        case "-H" | "--header":
            _header(made, value())
        case "-u" | "--user":
            made.user = value()
        case "-U" | "--proxy-user":
            made.proxy_user = value()
        case "-x" | "--proxy" | "--proxy1.0":
            made.proxy = _proxy(value())
        case "--socks5":
            made.proxy = _proxy(f"socks5://{value()}")
        case "--socks5-hostname":
            made.proxy = _proxy(f"socks5h://{value()}")
        case "--noproxy":
            made.words += ["--noproxy", value()]
        case "--oauth2-bearer":
            made.environment[_TOKEN] = value()
            made.words += ["--token-env", _TOKEN]
        case "--netrc-file":
            made.words += ["--netrc-file", value()]
        case "--netrc" | "--netrc-optional":
            pass
        case "-k" | "--insecure":
            made.words += ["--insecure"]
        case "--cacert":
            made.words += ["--cacert", value()]
        case "--http1.1" | "--compressed":
            made.words += [name]
        case "--resolve":
            made.words += ["--resolve", _resolve(value())]
        case "-T" | "--upload-file":
            made.upload = _upload(value())
        case "-m" | "--max-time":
            made.words += ["--timeout-total", f"{value()}s"]
        case "--connect-timeout":
            made.words += ["--timeout-connect", f"{value()}s"]
        case "--max-filesize":
            made.words += ["--max-filesize", value()]
        case "--limit-rate":
            made.words += ["--limit-rate", value()]
        case "--retry":
            made.retries = value()
        case "--url":
            made.urls.append(_typed(value()))
        case _:
            raise ExcludedError(f"An option that ferry has not, and that is not among the kinds above: {name}.")


def _url(url: str, literal: bool) -> str:
    if re.match(r"(?i)(?!https?://)[a-z0-9]+://", url):
        raise ExcludedError(ANOTHER)
    if not literal and re.search(r"[{}\[\]]", url):
        raise ExcludedError(GLOB)
    return url if re.match(r"(?i)https?:/", url) else f"http://{url}"


def _typed(url: str) -> str:
    if url.startswith(("@", "-")):
        raise ExcludedError(COMMAND)
    return url


def _range(text: str) -> str:
    if "," in text:
        raise ExcludedError(FORMS)
    return text if "-" in text else f"{text}-"


def _header(made: Translated, text: str) -> None:
    """Fields that ferry manages itself, and those that curl leaves out, are not ferry's to send."""
    name, colon, given = text.partition(":")
    managed = {"host", "content-length", "transfer-encoding", "connection", "te", "expect", "range", "upgrade", "testno"}
    managed |= {"proxy-connection", "proxy-authorization", "keep-alive", "trailer"}
    if not colon or not given.strip() or name.lower() in managed or text.startswith("@"):
        made.comparable = made.comparable and name.lower() == "testno"
        return
    made.words += ["--header", f"{name}: {given.strip()}"]


def _proxy(text: str) -> str:
    scheme, mark, rest = text.rpartition("://")
    if (mark and scheme.lower() not in {"http", "socks5", "socks5h"}) or rest.startswith("/") or "localhost/" in rest:
        raise ExcludedError(FORMS)
    # curl takes what is behind the port for nothing.
    return f"{scheme}{mark}{rest.partition('/')[0]}"


def _resolve(text: str) -> str:
    if not re.fullmatch(r"[^:*+-][^:*]*:\d+:[0-9.]+", text):
        raise ExcludedError(FORMS)
    return text


def _upload(text: str) -> str:
    if re.search(r"[{}\[\]]", text) or text == "." or "," in text:
        raise ExcludedError(FORMS)
    return text
