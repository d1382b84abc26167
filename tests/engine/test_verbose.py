"""What `ferry -v` says on standard error, what it never says, and the key log of TLS."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lab.clients.ferry import find_ferry
from tests.engine.sftp_harness import SftpBench
from tests.engine.sftp_servers import SftpServer
from tests.support.hostile_http import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    HostileServer,
    Talk,
    block,
    frame,
    head,
    serve,
)

SECRETS = ("hunter2", "aHVudGVyMg", "s3cr3t-header", "s1gnature", "c00kie", "Basic ")
GOAWAY = 7


def said(*words: str, code: int = 0, env: dict[str, str] | None = None) -> str:
    """Standard error."""
    command = [str(find_ferry()), *words]
    done = subprocess.run(command, capture_output=True, timeout=30.0, check=False, env={**os.environ, **(env or {})}, text=True)
    assert done.returncode == code, done.stderr
    return done.stderr


def answer_h2(talk: Talk, _: HostileServer) -> None:
    talk.hello()
    stream = talk.asked()
    fields = block((":status", "200"), ("content-length", "2"), ("set-cookie", "id=c00kie"), ("server", "h\x1b[2J"))
    talk.send(frame(HEADERS, fields, flags=END_HEADERS, stream=stream) + frame(DATA, b"ok", flags=END_STREAM, stream=stream))
    talk.send(frame(GOAWAY, bytes(8) + b"bye \x1b[31m"))


@pytest.mark.parametrize(
    ("flag", "there", "missing"),
    [
        ("-v", ["connected", "TLS is set up", 'alpn=Some("h2")', "TLSv1", "request", "status=200"], ["field"]),
        ("-vv", ["connected", 'name=content-length value="2"', 'name=x-key value="(not shown)"', "set-cookie"], []),
    ],
)
def test_what_happens_is_said_and_secrets_are_not(flag: str, there: list[str], missing: list[str]) -> None:
    with serve(answer_h2, tls=True, alpn="h2") as server:
        url = server.url("/file?X-Amz-Signature=s1gnature").replace("https://", "https://me:hunter2@")
        words = ("get", url, "--discard", *server.trust(), "--header", "X-Key: s3cr3t-header", "--http2")
        told = said(*words, flag)
        quiet = said(*words)
    # The summary, the last line, repeats the URL as it was asked for, without user and password.
    log = told.splitlines()[:-1]
    for text in there:
        assert any(text in line for line in log), (text, told)
    for text in (*missing, *SECRETS):
        assert not any(text in line for line in log), (text, told)
    assert "\x1b" not in told
    assert len(quiet.splitlines()) == 1


def test_a_retry_and_a_redirect_are_said() -> None:
    def script(talk: Talk, server: HostileServer) -> None:
        asked = talk.request()
        if len(server.connections) == 1:
            talk.send(head("503 Busy", 0, "Connection: close"))
        elif "/file" in asked:
            talk.send(head("302 Found", 0, "Location: /there?token=s1gnature", "Connection: close"))
        else:
            talk.send(head("200 OK", 2, "Connection: close") + b"ok")

    with serve(script) as server:
        told = said("get", server.url(), "--discard", "-v", "--retry-max-wait", "50ms")
    to = f'to="http://127.0.0.1:{server.port}/there?..."'
    for text in ("failed, and is tried again", "class=Transient", "redirected", to):
        assert text in told, (text, told)
    assert "s1gnature" not in told


def test_the_key_log_has_the_secrets_that_the_server_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = tmp_path / "ferry.keys", tmp_path / "server.keys"
    # The server's library follows the same variable.
    monkeypatch.setenv("SSLKEYLOGFILE", str(theirs))
    with serve(answer_h2, tls=True, alpn="h2") as server:
        told = said("get", server.url(), "--discard", *server.trust(), "-v", env={"SSLKEYLOGFILE": str(ours)})
    assert "TLS secrets are written" in told

    def secrets(path: Path) -> set[str]:
        lines = path.read_text().splitlines()
        return {line for line in lines if line.startswith(("CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0"))}

    assert len(secrets(ours)) == 2
    assert secrets(ours) == secrets(theirs)


def test_sftp_says_who_the_server_is_and_what_it_allows(desk: SftpBench, openssh: SftpServer) -> None:
    target = openssh.url(desk.remote(openssh) / "file")
    code, _, error = desk.start("put", desk.source(1000), target, *desk.trust(openssh), "-v").ended()
    log = error.decode()
    assert code == 0, log
    for text in ("connected", 'server="OpenSSH_', "SSH is set up", "authenticated", "SFTP channel is open", "SFTP limits"):
        assert text in log, (text, log)
