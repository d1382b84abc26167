"""The program under test, `uploader.py FILE URL`: uploads in pieces of 256 KiB, each again until the server has it."""

import http.client
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

PIECE = 256 * 1024
PATIENCE_S = 5


def upload(host: str, path: str, piece: bytes) -> bool:
    """Whether the server has taken it."""
    connection = http.client.HTTPConnection(host, timeout=PATIENCE_S)
    try:
        connection.request("PUT", path, piece)
        return connection.getresponse().status in {201, 204}
    except OSError:
        return False
    finally:
        connection.close()


def main(file: str, url: str) -> None:
    place, content = urlsplit(url), Path(file).read_bytes()
    for number, start in enumerate(range(0, len(content), PIECE)):
        while not upload(place.netloc, f"{place.path}.{number:04}", content[start : start + PIECE]):
            time.sleep(0.5)


if __name__ == "__main__":
    main(*sys.argv[1:])
