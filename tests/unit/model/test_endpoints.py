"""Where a sample's file is, on both ends."""

from __future__ import annotations

import pytest

from lab.model.endpoints import Endpoints
from lab.model.transfer import Transfer

ENDS = Endpoints("server", "/s", "/c", "/c/ca.pem", "/k", "/key").for_sample("five", "up7")


@pytest.mark.parametrize(
    ("transfer", "uri"),
    [
        ({"protocol": "http1", "direction": "put", "sink": True}, "/sink/up7"),
        ({"protocol": "http1", "direction": "put"}, ""),
        ({"protocol": "http1", "direction": "get"}, ""),
    ],
)
def test_only_an_upload_to_the_sink_has_a_line_in_its_log(transfer: dict[str, object], uri: str) -> None:
    assert ENDS.sink_uri(Transfer.model_validate({"size": "5 MiB", **transfer})) == uri
