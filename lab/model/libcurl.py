"""The settings of the lab's application on libcurl: the `libcurl` part of a client's YAML file."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from lab.model.base import SLUG_PATTERN, Model
from lab.model.units import Duration, Size

_LONGEST = Duration(3_600_000_000_000)
_COARSEST = Duration(1_000_000_000)


class LibcurlSettings(Model):
    """An application on libcurl. What is not given keeps the library's default."""

    version: Annotated[str, Field(pattern=rf"^{SLUG_PATTERN}$")] = Field(
        "debian", description="the version where the client is named without one; NAME@8.4.0 names another"
    )
    interface: Literal["easy", "multi"] = Field(
        "easy",
        description="easy: curl_easy_perform; multi: a loop with curl_multi_perform, as always for several at once",
    )
    wait: Literal["poll", "wait", "select", "sleep"] = Field(
        "poll",
        description="what multi waits with: curl_multi_poll (since 7.66.0), curl_multi_wait, select on curl_multi_fdset and "
        "curl_multi_timeout, or a sleep that no data ends",
    )
    every: Duration = Field(Duration(1_000_000_000), description="the longest wait of the loop; of wait: sleep every wait")
    idle: Duration = Field(Duration(0), description="wait: wait: a sleep after a call that had no socket to wait for")
    timer: Duration = Field(
        Duration(0), description="timers end at multiples of this, as 15.625 ms on Windows; in libcurl's own waits too"
    )
    buffer: Size | None = Field(None, description="CURLOPT_BUFFERSIZE; a transfer's buffer size replaces it")
    upload_buffer: Size | None = Field(None, description="CURLOPT_UPLOAD_BUFFERSIZE; a transfer's buffer size replaces it")
    receive_window: Size | None = Field(None, description="SO_RCVBUF of its sockets; the window then does not grow")
    send_window: Size | None = Field(None, description="SO_SNDBUF of its sockets")
    no_delay: bool = Field(True, description="CURLOPT_TCP_NODELAY; off was libcurl's default before 7.50.2")
    unknown_size: bool = Field(False, description="uploads without an announced size; over HTTP/1.1 chunked")

    @model_validator(mode="after")
    def _sane(self) -> Self:
        for name, value in (("every", self.every), ("idle", self.idle)):
            if value > _LONGEST:
                raise ValueError(f"{name} is at most {_LONGEST}")
            if value.ns % 1_000_000:
                raise ValueError(f"{name} counts milliseconds, and {value} is not a number of them")
        if self.timer > _COARSEST:
            raise ValueError(f"timer is at most {_COARSEST}")
        if self.interface == "multi" and self.wait == "sleep" and self.every.ns == 0:
            raise ValueError("wait: sleep needs an every of 1 ms or more")
        if self.idle.ns and self.wait != "wait":
            raise ValueError("idle is a part of wait: wait")
        return self
