"""Real nginx, sshd and iperf3 on the loopback, spoken to with a real curl."""

from __future__ import annotations

import hashlib
import json
import socket
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.model.errors import LabFault, UsageProblem
from lab.servers import iperf3, nginx, ready_script
from lab.servers.bundle import Places, Servers
from lab.servers.certificates import make_certificates
from lab.servers.nginx import render_config
from lab.servers.process import wait_ready
from lab.servers.sshd import SshdOptions, of_host
from lab.servers.sshd import render_config as render_sshd_config
from tests.support.local_host import LocalHost, LocalNetwork

SIZE = 300_000
VERSIONS = {"http": ["--http1.1"], "https": ["--http1.1"], "h2": ["--http2"]}


def curl(servers: Servers, version: str, path: str, *more: str) -> tuple[bytes, dict[str, str]]:
    """The body, and the last response's header fields by lower-case name (`:status` too)."""
    ends = servers.endpoints
    scheme, port = ("http", ends.http_port) if version == "http" else ("https", ends.https_port)
    url = f"{scheme}://127.0.0.1:{port}{path}"
    argv = ["curl", "-q", "-sS", "--cacert", ends.ca_path, *VERSIONS[version], "-D", "/dev/stderr", *more, url]
    done = subprocess.run(argv, capture_output=True, check=True, timeout=30)
    last = done.stderr.decode().strip().split("\r\n\r\n")[-1].splitlines()
    fields = dict(line.lower().split(": ", 1) for line in last[1:] if ": " in line)
    return done.stdout, {":status": last[0].split()[1], **fields}


@pytest.fixture
def content(servers: Servers, network: LocalNetwork) -> bytes:
    return Path(servers.payload(network.server, SIZE).path).read_bytes()


@pytest.mark.parametrize("version", VERSIONS)
def test_file_has_its_size_announced(servers: Servers, content: bytes, version: str) -> None:
    body, fields = curl(servers, version, f"/files/{SIZE}B")
    assert body == content
    assert fields["content-length"] == str(SIZE)


@pytest.mark.parametrize("version", VERSIONS)
def test_chunked_file_has_the_same_bytes_and_no_size(servers: Servers, content: bytes, version: str) -> None:
    body, fields = curl(servers, version, f"/chunked/{SIZE}B")
    assert body == content
    assert "content-length" not in fields
    assert fields.get("transfer-encoding", "") == ("" if version == "h2" else "chunked")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("limit", [[], ["--limit-rate", "1M"]], ids=["unlimited", "throttled"])
def test_sink_reads_everything_and_keeps_the_count(
    servers: Servers, content: bytes, tmp_path: Path, version: str, limit: list[str]
) -> None:
    source = tmp_path / "source"
    source.write_bytes(content)
    name = f"{version}-{len(limit)}"
    body, fields = curl(servers, version, f"/sink/{name}", "-T", str(source), *limit)
    assert fields[":status"] == "200"
    assert int(body.split()[-1]) == SIZE
    assert f"/sink/{name} {SIZE}\n" in Path(servers.nginx.sink_counts).read_text()


@pytest.mark.parametrize("version", VERSIONS)
def test_sink_reads_uploads_of_unknown_size(servers: Servers, tmp_path: Path, version: str) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x" * 70_001)
    body, _ = curl(servers, version, "/sink/unknown", "-T", str(source), "-H", "Transfer-Encoding: chunked")
    assert int(body.split()[-1]) == 70_001


@pytest.mark.parametrize("version", VERSIONS)
def test_upload_is_stored_in_folders_made_for_it(servers: Servers, content: bytes, tmp_path: Path, version: str) -> None:
    source = tmp_path / "source"
    source.write_bytes(content)
    _, fields = curl(servers, version, f"/upload/{version}/deep/file", "-T", str(source))
    assert fields[":status"] == "201"
    assert Path(servers.nginx.host.workdir, "upload", version, "deep", "file").read_bytes() == content


def test_client_without_the_authority_is_refused(servers: Servers) -> None:
    url = f"https://127.0.0.1:{servers.endpoints.https_port}/ready"
    assert subprocess.run(["curl", "-q", "-sS", url], capture_output=True, check=False).returncode == 60


def test_key_and_known_hosts_are_private_and_hold_no_password(servers: Servers) -> None:
    for path in (servers.endpoints.ssh_key_path, servers.endpoints.known_hosts_path):
        assert Path(path).stat().st_mode & 0o777 == 0o600
    assert "PRIVATE" not in repr(servers.sshd.user_key)


def test_sshd_accepts_the_runs_key_only(servers: Servers, tmp_path: Path) -> None:
    ends = servers.endpoints
    other = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other)], check=True)
    for key, code in ((ends.ssh_key_path, 0), (str(other), 255)):
        options = ["-o", f"UserKnownHostsFile={ends.known_hosts_path}", "-o", "StrictHostKeyChecking=yes", "-o", "BatchMode=yes"]
        argv = ["sftp", "-F", "none", "-i", key, "-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none", *options]
        argv += ["-P", str(ends.ssh_port), "-b", "-", f"{ends.ssh_user}@127.0.0.1"]
        batch = f"get {ends.server_workdir}/files/{SIZE}B {tmp_path}/got\n".encode()
        done = subprocess.run(argv, input=batch, capture_output=True, check=False)
        assert done.returncode == code, done.stderr
    content = (tmp_path / "got").read_bytes()
    assert hashlib.sha256(content).hexdigest() == servers.payload(servers.network.server, SIZE).sha256


def iperf3_report(port: int) -> dict[str, Any]:
    """Between two tests the server says for a moment that it is busy; that is not a failure."""
    report: dict[str, Any] = {}
    for _ in range(100):
        argv = ["iperf3", "-c", "127.0.0.1", "-p", str(port), "-n", "64K", "-J"]
        report = json.loads(subprocess.run(argv, capture_output=True, timeout=20, check=False).stdout)
        if "busy" not in report.get("error", ""):
            break
        time.sleep(0.02)
    return report


def test_iperf3_serves_one_test_after_another(servers: Servers, places: Places) -> None:
    for _ in range(2):
        report = iperf3_report(places.iperf3_port)
        assert report["end"]["sum_sent"]["bytes"] >= 64 * 1024, report.get("error")


def test_sshds_options_are_in_its_configuration_and_no_others() -> None:
    folder = Path("/run/lab/server/sshd")
    usual = render_sshd_config(folder, port=22, bind="0.0.0.0")
    assert "MaxSessions 100\nSubsystem" in usual
    text = render_sshd_config(folder, port=22, bind="0.0.0.0", options=SshdOptions(max_sessions=1, ciphers="aes256-ctr"))
    assert text == usual.replace("MaxSessions 100\n", "MaxSessions 1\nCiphers aes256-ctr\n")


@pytest.mark.parametrize("bad", [{"max_sessions": -1}, {"ciphers": "a\nPermitRootLogin yes"}, {"ciphers": "a b"}])
def test_sshds_options_are_checked(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"sessions|not a list"):
        SshdOptions(**bad)


def test_error_log_names_each_server(servers: Servers) -> None:
    assert "== sshd" in servers.error_log()


def test_environment_points_at_files_that_are_there(servers: Servers) -> None:
    assert Path(servers.environment["CURL_CA_BUNDLE"]).read_bytes() == servers.ca_pem


def test_a_config_error_is_reported_in_nginx_words(tmp_path: Path) -> None:
    host = LocalHost("server", tmp_path)
    with pytest.raises(LabFault, match="unknown directive"):
        nginx.start(host, make_certificates([]), config="daemon off; nonsense on; events {}")
    host.close()


def test_server_that_never_answers_is_a_fault_within_its_deadline(tmp_path: Path) -> None:
    host = LocalHost("server", tmp_path)
    server = iperf3.launch(host, iperf3="/bin/cat", port=1)
    server.checks = ("listen,,1",)
    server.processes = (host.start(["sleep", "30"]),)
    with pytest.raises(LabFault, match=r"not ready after 0\.1 s: listen,,1"):
        wait_ready([server], deadline_s=0.1)
    host.close()


def test_config_needs_nothing_outside_the_workdir() -> None:
    text = render_config(Path("/run/lab/server"), workers=3)
    paths = [word.rstrip(";") for word in text.split() if word.startswith("/") and word.endswith(";")]
    assert all(path.startswith("/run/lab/server/") or path == "/nothing" for path in paths)
    assert "worker_processes 3;" in text
    assert "\nuser " not in text


def test_quic_is_configured_only_where_it_is_wanted() -> None:
    plain, http3 = (render_config(Path("/w"), bind_6="::1", http3=wanted) for wanted in (False, True))
    assert "quic" not in plain
    assert http3.count("listen 0.0.0.0:443 quic reuseport;") == http3.count("listen [::1]:443 quic reuseport;") == 1
    assert "http3 on;" in http3
    assert http3.count("{") == http3.count("}")


def test_a_server_of_datagrams_is_ready_once_its_port_is_bound() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        assert ready_script.listening(port, "udp")
        assert not ready_script.listening(port)
    assert not ready_script.listening(port, "udp")


@pytest.mark.parametrize(("inside", "expected"), [("/usr/sbin/sshd", "userland"), ("", "machine")])
def test_sshd_is_the_userlands_where_it_has_one(inside: str, expected: str) -> None:
    def find(name: str) -> str:
        if not inside:
            raise UsageProblem(f"there is no {name} on host server")
        return inside

    machine: Any = SimpleNamespace(name="machine", program=lambda _: "/opt/sshd")
    machine.under_test = SimpleNamespace(name="userland", program=find)
    host, program = of_host(machine)
    assert (host.name, program) == (expected, inside or "/opt/sshd")
