"""Files of any size for a command: those that its words name, `http://server/files/20MB`, are on the server when it starts."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lab.model.units import Size
from lab.servers.bundle import Servers

_NAME = re.compile(r"/(?:files|chunked)/(\d+(?:\.\d+)?(?:GiB|MiB|KiB|GB|MB|kB|B))(?![\w.])")


def asked_files(words: Iterable[str]) -> list[str]:
    """The names in these words that are sizes, each once."""
    return [*dict.fromkeys(name for word in words for name in _NAME.findall(word))]


def put_asked_files(servers: Servers, words: Iterable[str]) -> None:
    """Make the files that these words name. Raises LabFault where the server has no room for one."""
    server = servers.network.server
    for name in asked_files(words):
        made = servers.payload(server, Size.parse(name).bytes)
        if made.name != name:
            server.run(["ln", "-sf", made.name, str(made.path.with_name(name))])
