"""Payload rate of the machinery of virtual time: real and CPU seconds that a transfer inside the guest takes.

python -m benchmarks.virtual_machine [N] [--kernel [NAME=]PATH]... [--workload NAME]... [--cpu 0] [--megabytes 60]

Boots every kernel N times, in turn (A B A B ...), so that what else runs on the machine meets them all. Without --kernel it
is the shipped one. CPU seconds are the robust figure on a busy machine; ratios are those of medians, to the first kernel named.
The guest's own clock and a digest of what curl says are printed, too: they must not differ from boot to boot.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.common import keep
from lab.assets import extracted, kernel
from lab.model.errors import LabFault
from lab.model.paths import project_root

START_NS = 1_700_000_000_000_000_000

# Client - router - server inside; the machine's own programs, seen through hostfs.
INIT = r"""#!/bin/bash
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t tmpfs tmpfs /run; mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /dev/pts /dev/shm /run/netns /run/w/files; mount -t devpts devpts /dev/pts; mount -t tmpfs shm /dev/shm
exec 3<>/dev/hostchan
mark() { read -r up _ < /proc/uptime; printf '%s up=%s %s\n' "$1" "$up" "$2" >&3; read -r -u 3 -N 3 _; }
mark boot
ip link set lo up
for n in client router server; do ip netns add $n; ip -n $n link set lo up; done
ip link add c0 netns client type veth peer name rc netns router
ip link add s0 netns server type veth peer name rs netns router
ip -n client addr add 10.7.1.2/24 dev c0; ip -n client link set c0 up
ip -n server addr add 10.7.2.2/24 dev s0; ip -n server link set s0 up
ip -n router addr add 10.7.1.1/24 dev rc; ip -n router link set rc up
ip -n router addr add 10.7.2.1/24 dev rs; ip -n router link set rs up
ip netns exec router sysctl -qw net.ipv4.ip_forward=1
ip -n client route add default via 10.7.1.1; ip -n server route add default via 10.7.2.1
for n in client server; do
  ip netns exec $n sysctl -qw net.ipv4.tcp_rmem="4096 131072 67108864" net.ipv4.tcp_wmem="4096 16384 67108864"
done
for x in "client c0" "server s0" "router rc" "router rs"; do
  set -- $x; ip netns exec $1 ethtool -K $2 tso off gso off gro off >/dev/null 2>&1
done
for i in rc rs; do tc -n router qdisc add dev $i root netem delay $DELAY rate $RATE limit $LIMIT; done
truncate -s ${MB}M /run/w/files/big; truncate -s 1M /run/w/files/small
cat > /run/w/nginx.conf <<'C'
user root; worker_processes 1; daemon on; pid /run/w/nginx.pid; error_log /run/w/err.log;
events { worker_connections 256; }
http { access_log off; sendfile on; client_max_body_size 0; client_body_temp_path /run/w/b; proxy_temp_path /run/w/p;
fastcgi_temp_path /run/w/f; uwsgi_temp_path /run/w/u; scgi_temp_path /run/w/s;
server { listen 80; root /run/w/files; location /up/ { dav_methods PUT; create_full_put_path on; } } }
C
mkdir /run/w/files/up
ip netns exec server "$SERVER" -p /run/w -c /run/w/nginx.conf; sleep 0.3
if [ -n "$CAPTURE" ]; then ip netns exec router tcpdump -i rc -s 96 -w /run/w/p.pcap -U 2>/dev/null & sleep 0.2; fi
say='%{http_code} %{size_download} %{size_upload} %{time_starttransfer} %{time_total} %{local_port}\n'
mark ready
case $WORKLOAD in
curl) out=$(ip netns exec client curl -s -o /dev/null -w "$say" http://10.7.2.2/big) ;;
limited) out=$(ip netns exec client curl -s -o /dev/null --limit-rate 4M -w "$say" http://10.7.2.2/big) ;;
put) out=$(ip netns exec client curl -s -o /dev/null -T /run/w/files/big -w "$say" http://10.7.2.2/up/big) ;;
ferry) out=$(ip netns exec client "$FERRY" get --discard http://10.7.2.2/big 2>&1) ;;
throttle) out=$(ip netns exec client "$FERRY" get --discard --limit-rate 1MB/s http://10.7.2.2/big --json 2>&1 | tr -d '\n') ;;
poll) out=$(/usr/bin/python3 -I -S -c 'import select, time
until, n = time.monotonic() + 5, 0
while time.monotonic() < until: n += 1; select.select([], [], [], 0)
print(n)') ;;
clock) out=$(/usr/bin/python3 -I -S -c 'import time
until, n = time.monotonic() + 5, 0
while time.monotonic() < until: n += 1
print(n)') ;;
exec) for i in {1..100}; do /bin/true; done; out= ;;
python) for i in {1..5}; do /usr/bin/python3 -I -S -c 'import json, socket, selectors'; done; out= ;;
syscalls) out=$(/usr/bin/python3 -I -S -c 'import os
for i in range(200000): os.getppid()') ;;
esac
mark done "$(echo "$out" | sha256sum | cut -c1-16) $out"
if [ -n "$CAPTURE" ]; then sleep 0.5; kill %1; sleep 0.5; mark capture "$(sha256sum /run/w/p.pcap)"; fi
mark end
exec 3>&-
echo o > /proc/sysrq-trigger; sleep 9
"""


@dataclass(frozen=True)
class Sample:
    """One boot. `virtual_s` is the guest's clock over the transfer."""

    boot_s: float
    setup_s: float
    real_s: float
    cpu_s: float
    virtual_s: float
    said: str
    capture: str = ""


@dataclass
class Kernel:
    name: str
    path: str
    samples: dict[str, list[Sample]] = field(default_factory=dict)


def cpu_seconds(root: int) -> float:
    """User and system time of a process, of the children it has waited for, and of those that live."""
    ticks = 0
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        try:
            words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(int(word) for word in words[11:15])
            waiting += [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        except OSError:
            continue  # it ended just now
    return ticks / os.sysconf("SC_CLK_TCK")


def boot(path: str, init: Path, workload: str, arguments: argparse.Namespace, seed: int) -> Sample:
    from_guest, guest_out = os.pipe()
    guest_in, to_guest = os.pipe()
    words = [
        *(["taskset", "-c", arguments.cpu] if arguments.cpu != "any" else []),
        *arguments.prefix.split(),
        path,
        *f"mem=1G root=/dev/root rootfstype=hostfs rootflags=/ ro init={init} quiet panic=-1 noreboot".split(),
        *["con=null", "ssl=null", "con0=fd:0,fd:2"],
        *f"seccomp=on time-travel=inf-cpu time-travel-start={START_NS} norandmaps random-seed={seed}".split(),
        *f"time-travel-charge={arguments.charge} hostchan={guest_in},{guest_out} WORKLOAD={workload}".split(),
        *f"MB={arguments.megabytes} DELAY={arguments.delay} RATE={arguments.rate} LIMIT={arguments.limit}".split(),
        f"SERVER={nginx()}",
        f"FERRY={project_root() / 'engine/target/release/ferry'}",
        *(["CAPTURE=1"] if arguments.capture else []),
        *arguments.append.split(),
    ]
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/nonexistent"}
    fds = {guest_in, guest_out}
    if path.startswith("/proc/self/fd/"):
        fds.add(int(path.rpartition("/")[2]))
    started = time.monotonic()
    words = ["timeout", "--kill-after=1", str(arguments.deadline), *words]
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, pass_fds=fds, env=environment)
    marks: dict[str, tuple[float, float, float, str]] = {}
    try:
        os.close(guest_in)
        os.close(guest_out)
        with os.fdopen(from_guest) as lines:
            for line in lines:
                name, up, *rest = line.split(maxsplit=2)
                if not up.startswith("up="):
                    continue  # a further line of what a program said
                now = time.monotonic() - started
                marks[name] = (now, cpu_seconds(process.pid), float(up.removeprefix("up=")), " ".join(rest).strip())
                os.write(to_guest, b"go\n")
        process.wait()
    finally:
        process.kill()
        process.wait()
        os.close(to_guest)
    if "end" not in marks:
        raise LabFault(f"{path} did not come to its end: {', '.join(marks) or 'not booted'}")
    ready, done = marks["ready"], marks["done"]
    return Sample(
        boot_s=marks["boot"][0],
        setup_s=ready[0] - marks["boot"][0],
        real_s=done[0] - ready[0],
        cpu_s=done[1] - ready[1],
        virtual_s=done[2] - ready[2],
        said=done[3],
        capture=marks.get("capture", (0.0, 0.0, 0.0, ""))[3][:16],
    )


def nginx() -> Path:
    found = extracted.find("nginx") or shutil.which("nginx")
    if found is None:
        raise LabFault("there is no nginx", remedy="make setup")
    return Path(found)


def table(kernels: Sequence[Kernel], workloads: Sequence[str], megabytes: int) -> str:
    lines = [
        "| workload | kernel | n | real s | CPU s | MB/s real | MB/s CPU | CPU to first | virtual s | digests |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for workload in workloads:
        first = statistics.median(sample.cpu_s for sample in kernels[0].samples[workload])
        for kernel_ in kernels:
            samples = kernel_.samples[workload]
            real = statistics.median(sample.real_s for sample in samples)
            cpu = statistics.median(sample.cpu_s for sample in samples)
            payload = megabytes * 1.048576 if workload in ("curl", "put", "ferry", "limited", "throttle") else 0.0
            virtual = ", ".join(sorted({f"{sample.virtual_s:.2f}" for sample in samples}))
            said = {hashlib.sha256((sample.said + sample.capture).encode()).hexdigest()[:8] for sample in samples}
            lines.append(
                f"| {workload} | {kernel_.name} | {len(samples)} | {real:.2f} | {cpu:.2f} | {payload / real:.1f} | "
                f"{payload / cpu if cpu else 0:.1f} | {cpu / first if first else 0:.2f} | {virtual} | {' '.join(sorted(said))} |"
            )
    for kernel_ in kernels:
        samples = [sample for group in kernel_.samples.values() for sample in group]
        boot_ms = 1e3 * statistics.median(sample.boot_s for sample in samples)
        setup_ms = 1e3 * statistics.median(sample.setup_s for sample in samples)
        lines.append(f"\n{kernel_.name}: boot {boot_ms:.0f} ms, set-up of the network {setup_ms:.0f} ms, {len(samples)} boots")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("n", type=int, nargs="?", default=5)
    parser.add_argument("--kernel", action="append", default=[], help="[NAME=]PATH; more than one are compared")
    parser.add_argument("--workload", action="append", default=[], help="a word of INIT's `case`: curl, put, ferry, ...")
    parser.add_argument("--cpu", default="0", help="the processor to pin to, or `any`")
    parser.add_argument("--prefix", default="", help="words before the kernel's: chrt -b 0, perf record ...")
    parser.add_argument("--append", default="", help="further arguments of the kernel")
    parser.add_argument("--megabytes", type=int, default=60)
    parser.add_argument("--rate", default="200mbit")
    parser.add_argument("--delay", default="5ms")
    parser.add_argument("--limit", type=int, default=1000)
    parser.add_argument("--charge", default="200")
    parser.add_argument("--deadline", type=int, default=60, help="real seconds that a guest gets")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--capture", action="store_true", help="a capture on the router, whose digest must not differ")
    arguments = parser.parse_args()
    named = arguments.kernel or [f"shipped=/proc/self/fd/{kernel.kernel_fd()}"]
    kernels = [Kernel(name or path, path) for name, _, path in (word.rpartition("=") for word in named)]
    workloads = arguments.workload or ["curl", "put", "ferry"]
    with tempfile.TemporaryDirectory(prefix="roughwater-vm-") as folder:
        init = Path(folder) / "init"
        init.write_text(INIT)
        init.chmod(0o755)
        Path(folder).chmod(0o755)
        for _ in range(arguments.n):
            for workload in workloads:
                for kernel_ in kernels:
                    sample = boot(kernel_.path, init, workload, arguments, arguments.seed)
                    kernel_.samples.setdefault(workload, []).append(sample)
                    print(
                        f"{workload} {kernel_.name}: {sample.real_s:.2f} s real, {sample.cpu_s:.2f} s CPU, {sample.said[:90]}",
                        flush=True,
                    )
    print(table(kernels, workloads, arguments.megabytes))
    kept = keep(
        "virtual-machine", {kernel_.name: {w: [vars(s) for s in g] for w, g in kernel_.samples.items()} for kernel_ in kernels}
    )
    print(f"raw samples in {kept}")


if __name__ == "__main__":
    main()
