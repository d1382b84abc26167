"""nginx: HTTP/1.1, HTTP/1.1 over TLS, h2 and h3; downloads of known and unknown size, uploads kept and thrown away."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from lab.hosts.host import Host
from lab.hosts.scripts import script_command
from lab.servers.process import ServerProcess, program, wait_ready

if TYPE_CHECKING:
    from lab.servers.certificates import Certificates

HTTP_PORT = 80
HTTPS_PORT = 443
_HTTP3 = """
        http3 on;
        # What an h3 upload may send before it is read; the default of 64 KiB would be the limit of every longer line. nginx
        # grants anew when half of it is used, and 500 Mbit/s x 300 ms have 19 MB on their way.
        http3_stream_buffer_size 64m;
        http3_max_concurrent_streams 1000;
        add_header Alt-Svc 'h3=":443"; ma=86400' always;"""
_SINK = Path(__file__).with_name("sink_script.py")


@dataclass
class NginxServer(ServerProcess):
    http_port: int = HTTP_PORT
    https_port: int = HTTPS_PORT

    @property
    def sink_counts(self) -> PurePath:
        """On the server host: a line `URI BYTES` for every upload to /sink/."""
        return self.host.workdir / "nginx" / "sink.counts"


def render_config(
    workdir: PurePath,
    *,
    http_port: int = HTTP_PORT,
    https_port: int = HTTPS_PORT,
    bind: str = "0.0.0.0",  # noqa: S104 - the lab's own network namespace
    bind_6: str = "",
    workers: int = 1,
    worker_user: str = "",
    http3: bool = False,
) -> str:
    """nginx.conf for Debian 12's nginx 1.22 (`listen ... ssl http2`); nothing in it needs root or a path outside `workdir`.

    With `bind_6` it listens there as well. `worker_user` is for a master that is root (a container): its workers would otherwise
    be `nobody` and could not write there. `http3` needs nginx 1.25: it then listens for QUIC on the same port.
    """
    own = workdir / "nginx"
    user = f"user {worker_user};\n" if worker_user else ""
    addresses = (bind, *([f"[{bind_6}]"] if bind_6 else []))
    listen = "\n".join(
        f"        listen {address}:{http_port} backlog=512;\n        listen {address}:{https_port} ssl http2 backlog=512;"
        for address in addresses
    )
    if http3:
        listen += "".join(f"\n        listen {address}:{https_port} quic reuseport;" for address in addresses) + _HTTP3
    temporary = "\n".join(f"    {kind}_temp_path {own}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    return f"""\
{user}daemon off;
pid {own}/nginx.pid;
error_log {own}/error.log warn;
worker_processes {workers};
# A transfer may ask for a thousand files at once, each by a connection of its own.
worker_rlimit_nofile 8192;
events {{ worker_connections 4096; }}
http {{
    access_log off;
{temporary}
    default_type application/octet-stream;
    sendfile on;
    tcp_nodelay on;
    keepalive_timeout 75s;
    client_max_body_size 0;
    # A slow link must fail by the client's patience, not by the server's.
    send_timeout 600s;
    client_body_timeout 600s;
    proxy_read_timeout 600s;
    proxy_send_timeout 600s;
    client_body_buffer_size 1m;
    # What an h2 upload may send before the request is looked at; the default is 64 KiB.
    http2_body_preread_size 1m;
    # One connection may carry a whole suite.
    http2_max_concurrent_streams 1000;
    keepalive_requests 1000000;

    server {{
{listen}
        server_name _;
        ssl_certificate {own}/server.pem;
        ssl_certificate_key {own}/server.key;
        ssl_protocols TLSv1.2 TLSv1.3;

        location = /ready {{ return 204; }}
        location /files/ {{ alias {workdir}/files/; }}

        # Unknown size: a filter that may append something takes the Content-Length away. What it appends is empty, so the
        # bytes are exact, and unlike with sub_filter or SSI nothing is scanned and sendfile still works.
        location /chunked/ {{
            alias {workdir}/files/;
            addition_types *;
            add_after_body /nothing;
        }}
        location = /nothing {{ internal; return 200 ""; }}

        location /upload/ {{
            alias {workdir}/upload/;
            dav_methods PUT;
            create_full_put_path on;
        }}
        location /sink/ {{
            proxy_pass http://unix:{own}/sink.socket;
            proxy_http_version 1.1;
            proxy_request_buffering off;
            # Without buffering this is the h2 upload window: a round trip's worth of 1 Gbit/s at 100 ms.
            client_body_buffer_size 16m;
        }}
    }}
}}
"""


def launch(
    host: Host,
    certificates: Certificates,
    *,
    nginx: str | PurePath | None = None,
    http_port: int = HTTP_PORT,
    https_port: int = HTTPS_PORT,
    bind: str = "0.0.0.0",  # noqa: S104 - the lab's own network namespace
    bind_6: str = "",
    workers: int = 1,
    worker_user: str = "",
    config: str = "",
    begin: bool = True,
    http3: bool = False,
) -> NginxServer:
    """Start without waiting; or, without `begin`, only prepare. `config` replaces the rendered one."""
    own = host.workdir / "nginx"
    text = config or render_config(
        host.workdir,
        http_port=http_port,
        https_port=https_port,
        bind=bind,
        bind_6=bind_6,
        workers=workers,
        worker_user=worker_user,
        http3=http3,
    )
    host.write(own / "nginx.conf", text.encode())
    host.write(own / "server.pem", certificates.server_pem)
    host.write(own / "server.key", certificates.server_key_pem, mode=0o600)
    host.write(host.workdir / "upload" / ".keep", b"")
    probe = host.address or "127.0.0.1"
    checks = (f"http,{probe},{http_port},/ready", f"put,{probe},{http_port},/sink/ready")
    if not begin:
        return NginxServer("nginx", host, (), (), own / "error.log", http_port, https_port)
    sink = script_command(host, _SINK, str(own / "sink.socket"), str(own / "sink.counts"))
    argv = [program(host.under_test, "nginx", nginx), "-p", str(own), "-c", str(own / "nginx.conf"), "-e", str(own / "error.log")]
    processes = (host.start(sink, root=True), host.under_test.start(argv))
    return NginxServer("nginx", host, processes, checks, own / "error.log", http_port, https_port)


def start(
    host: Host,
    certificates: Certificates,
    *,
    nginx: str | PurePath | None = None,
    http_port: int = HTTP_PORT,
    https_port: int = HTTPS_PORT,
    bind: str = "0.0.0.0",  # noqa: S104
    workers: int = 1,
    worker_user: str = "",
    config: str = "",
) -> NginxServer:
    """Raises LabFault with nginx's own message when the configuration or a port is refused."""
    server = launch(
        host,
        certificates,
        nginx=nginx,
        http_port=http_port,
        https_port=https_port,
        bind=bind,
        workers=workers,
        worker_user=worker_user,
        config=config,
    )
    wait_ready([server])
    return server
