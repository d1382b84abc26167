"""Twenty cells with clients in five languages, dead addresses and time-outs, as files of a folder that a lab is run in."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

from lab.hosts.wiring import SERVER_NET

# Nothing answers ARP for it: the router says so after three seconds, later than most of the clients' own limits.
DEAD = f"{SERVER_NET}.77"

CUT = """\
name: cut-20
description: A line that ends for good while a transfer runs.
link:
  rate: 20 Mbit/s
  rtt: 20 ms
schedule:
  steps:
    - at: 300 ms
      outage: 60 min
"""


class Program(NamedTuple):
    """A described client: its language, its YAML without name and program, and whether each place has a copy of its file."""

    language: str
    program: str
    text: str
    copied: bool = False


_PYTHON = """\
files:
  fetch.py: |
    import shutil, sys, urllib.request
    with urllib.request.urlopen(sys.argv[1], timeout=2) as answer, open(sys.argv[2], "wb") as out:
        shutil.copyfileobj(answer, out)
"""
_JAVA = """\
files:
  Get.java: |
    import java.net.URI;
    import java.net.http.HttpClient;
    import java.net.http.HttpRequest;
    import java.net.http.HttpResponse.BodyHandlers;
    import java.nio.file.Path;
    import java.time.Duration;
    import java.util.concurrent.TimeUnit;

    public class Get {{
        public static void main(String[] words) {{
            var version = HttpClient.Version.HTTP_1_1;
            var client = HttpClient.newBuilder().version(version).connectTimeout(Duration.ofSeconds(2)).build();
            var asked = HttpRequest.newBuilder(URI.create(words[0])).build();
            try {{
                var body = client.sendAsync(asked, BodyHandlers.ofFile(Path.of(words[1])));
                System.exit(body.get(4, TimeUnit.SECONDS).statusCode() == 200 ? 0 : 22);
            }} catch (Exception failure) {{
                System.err.println(failure);
                System.exit(28);
            }}
        }}
    }}
"""
_GO = "--config= --retries 1 --low-level-retries 1 --contimeout 5s --timeout 2s"
_DEAD_URL = f"http://{DEAD}/x"

PROGRAMS = {
    "ferry-dead": Program(
        "Rust", "ferry", f"get: '{{program}} get -q --retry 1 --timeout-connect 2s -o {{output}} {_DEAD_URL}'\n", copied=True
    ),
    "ferry-cut": Program("Rust", "ferry", "get: '{program} get -q --retry 0 --stall 2s -o {output} {url}'\n", copied=True),
    "curl-dead": Program("C", "curl", f"get: 'curl -q -sS --connect-timeout 2 -o {{output}} {_DEAD_URL}'\n"),
    "curl-cut": Program("C", "curl", "get: 'curl -q -sS --max-time 3 -o {output} {url}'\n"),
    "wget-cut": Program("C", "wget", "get: 'wget --no-config --no-hsts -nv --tries=2 --read-timeout=2 -O {output} {url}'\n"),
    "python": Program("Python", "/usr/bin/python3", "get: '{program} {workdir}/fetch.py {url} {output}'\n" + _PYTHON),
    "python-dead": Program("Python", "/usr/bin/python3", f"get: '{{program}} {{workdir}}/fetch.py {_DEAD_URL} x'\n{_PYTHON}"),
    "java": Program("Java", "/usr/bin/java", "get: '{program} {workdir}/Get.java {url} {output}'\n" + _JAVA),
    "java-dead": Program("Java", "/usr/bin/java", f"get: '{{program}} {{workdir}}/Get.java {_DEAD_URL} x'\n{_JAVA}"),
    "go": Program("Go", "rclone", f"get: '{{program}} copyurl {_GO} {{url}} {{output}}'\n", copied=True),
    "go-dead": Program("Go", "rclone", f"get: '{{program}} copyurl {_GO} {_DEAD_URL} x'\n", copied=True),
}


class TwentyCell(NamedTuple):
    """A cell, the language of its client, and what becomes of its transfer."""

    id: str
    language: str
    fate: str


def _of(program: str, topology: str, transfer: str, fate: str = "arrives") -> TwentyCell:
    return TwentyCell(f"{program}--{topology}--{transfer}", PROGRAMS[program].language, fate)


CELLS = (
    TwentyCell("ferry--lossy-wifi--https1-get-128KiB-at-300kBps", "Rust", "arrives"),
    TwentyCell("ferry--lossy-wifi--h2-get-1MiB", "Rust", "arrives"),
    TwentyCell("ferry--dsl-20--sftp-put-128KiB-at-1600kBps", "Rust", "arrives"),
    _of("ferry-dead", "dsl-20", "http1-get-128KiB", "dead address"),
    _of("ferry-cut", "cut-20", "http1-get-2MiB", "cut, time-out"),
    TwentyCell("curl--lossy-wifi--h2-get-128KiB-at-300kBps", "C", "arrives"),
    TwentyCell("curl--dsl-20--sftp-put-128KiB-at-1600kBps", "C", "arrives"),
    TwentyCell("curl--lossy-wifi--https1-put-256KiB", "C", "arrives"),
    _of("curl-dead", "dsl-20", "http1-get-128KiB", "dead address"),
    _of("curl-cut", "cut-20", "http1-get-2MiB", "cut, time-out"),
    TwentyCell("openssh--lossy-wifi--sftp-get-256KiB", "C", "arrives"),
    _of("wget-cut", "cut-20", "http1-get-2MiB", "cut, time-out"),
    _of("python", "lossy-wifi", "http1-get-256KiB"),
    _of("python-dead", "dsl-20", "http1-get-128KiB", "dead address"),
    _of("python", "cut-20", "http1-get-2MiB", "cut, time-out"),
    _of("java", "lossy-wifi", "http1-get-256KiB"),
    _of("java-dead", "dsl-20", "http1-get-128KiB", "dead address"),
    _of("go", "lossy-wifi", "http1-get-256KiB"),
    _of("go-dead", "dsl-20", "http1-get-128KiB", "dead address"),
    _of("go", "cut-20", "http1-get-2MiB", "cut, time-out"),
)


def write(folder: Path, copies: dict[str, Path] | None) -> Path:
    """The clients and the topology below `folder`, which is made: `./clients`, `./topologies`.

    `copies` are the programs whose files lie next to their clients; None where all are found on the PATH of a userland.
    """
    clients, topologies = folder / "clients", folder / "topologies"
    for each in (clients, topologies):
        each.mkdir(parents=True)
    (topologies / "cut-20.yaml").write_text(CUT)
    for name, described in PROGRAMS.items():
        copied = copies is not None and described.copied
        program = f"./{described.program}" if copied else described.program
        version = "version: []\n" if described.language == "Java" else ""
        (clients / f"{name}.yaml").write_text(f"name: {name}\nprogram: {program}\nprotocols: [http1]\n{version}{described.text}")
    for name, path in (copies or {}).items():
        shutil.copy(path, clients / name)
        (clients / name).chmod(0o755)
    return folder
