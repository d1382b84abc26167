"""Runs with a userland's Python and aioquic: the lab's server (`lab/servers/aioquic_script.py`), which insists on one thing.

usage: quic_server_script.py ADDRESS PORT FOLDER CERTIFICATE KEY retry|chacha20|keyupdate|amplificationlimit

The lab's script is in FOLDER/lab/servers.
"""

from __future__ import annotations

import asyncio
import sys

sys.path.insert(0, sys.argv[3])

from aioquic.asyncio import serve
from aioquic.h3.connection import H3_ALPN
from aioquic.h3.events import H3Event, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.tls import CipherSuite

from lab.servers import aioquic_script

_NEW_KEYS_EVERY_S = 0.1


class Updating(aioquic_script.Files):
    """New keys with the first request, and again while the answer is on its way."""

    def took(self, event: H3Event) -> None:
        if isinstance(event, HeadersReceived):
            self.update()
        super().took(event)

    def update(self) -> None:
        self._quic.request_key_update()
        asyncio.get_running_loop().call_later(_NEW_KEYS_EVERY_S, self.update)


async def insist(address: str, port: str, certificate: str, key: str, what: str) -> None:
    configuration = QuicConfiguration(is_client=False, alpn_protocols=H3_ALPN)
    configuration.load_cert_chain(certificate, key)
    if what == "chacha20":
        configuration.cipher_suites = [CipherSuite.CHACHA20_POLY1305_SHA256]
    protocol = Updating if what == "keyupdate" else aioquic_script.Files
    await serve(address, int(port), configuration=configuration, create_protocol=protocol, retry=what == "retry")
    await asyncio.Event().wait()


if __name__ == "__main__":
    aioquic_script.folder = sys.argv[3]
    asyncio.run(insist(sys.argv[1], sys.argv[2], *sys.argv[4:7]))
