"""sshd's keys and configuration for clients that are older than ed25519."""

from __future__ import annotations

import random
from pathlib import Path, PurePosixPath

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from lab.hosts.agent.places import CACHE_DIR
from lab.servers.sshd import SshdOptions, _is_prime, _parts, make_key, make_old_key, render_config


def test_an_old_key_is_rsa_in_the_format_of_2011_and_follows_its_random_bytes() -> None:
    key, again, other = (make_old_key(random.Random(seed).randbytes) for seed in (1, 1, 2))
    assert key == again
    assert key.public != other.public
    assert key.public.startswith("ssh-rsa ")
    assert key.private.startswith(b"-----BEGIN RSA PRIVATE KEY-----\n")
    loaded = load_pem_private_key(key.private, None)
    assert isinstance(loaded, RSAPrivateKey)
    assert loaded.key_size == 2048
    assert make_key().public.startswith("ssh-ed25519 ")


def test_pseudoprimes_are_refused() -> None:
    draw = random.Random(1).randbytes
    mersenne = 2**127 - 1
    # The product of three primes 6k+1, 12k+1, 18k+1 passes Fermat's test for every base that is prime to it.
    k = next(k for k in range(10**30, 10**31) if all(pow(2, m * k, m * k + 1) == 1 for m in (6, 12, 18)))
    carmichael = (6 * k + 1) * (12 * k + 1) * (18 * k + 1)
    assert pow(2, carmichael - 1, carmichael) == 1
    assert _is_prime(mersenne, draw)
    assert not _is_prime(carmichael, draw)
    assert not _is_prime(mersenne * (2**89 - 1), draw)


def test_only_old_clients_get_sha_1() -> None:
    folder = PurePosixPath("/x")
    plain, old = (render_config(folder, port=22, bind="127.0.0.1", options=SshdOptions(old_clients=on)) for on in (False, True))
    added = set(old.splitlines()) - set(plain.splitlines())
    assert {line for line in added if not line.startswith("#")} == {
        "HostKeyAlgorithms +ssh-rsa",
        "PubkeyAcceptedAlgorithms +ssh-rsa",
        "KexAlgorithms +diffie-hellman-group14-sha1",
    }
    assert "sha1" not in plain


def test_an_extracted_sshd_finds_its_other_programs(tmp_path: Path) -> None:
    session = tmp_path / "usr/lib/openssh/sshd-session"
    session.parent.mkdir(parents=True)
    session.touch()
    assert _parts(str(tmp_path / "shown" / "sshd")) == f"SshdSessionPath {session}\n"
    assert not _parts("/usr/sbin/sshd")


def test_so_does_one_of_the_cache_inside_a_machine_in_virtual_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Debian 13 without openssh-server: its connections ended with "sshd-session does not exist"."""
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path))
    for name in ("sshd-session", "sshd-auth"):
        path = tmp_path / "extracted-1/usr/lib/openssh" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    parts = f"{CACHE_DIR}/extracted-1/usr/lib/openssh"
    expected = f"SshdSessionPath {parts}/sshd-session\nSshdAuthPath {parts}/sshd-auth\n"
    assert _parts(f"{CACHE_DIR}/extracted-1/bin/sshd") == expected
    assert not _parts(f"{CACHE_DIR}/extracted-2/bin/sshd")
