"""Every field of a model, with two documents that differ in it alone.

Fields are found in the models. The type of a field decides its value; where that is not enough, `OTHER` has a value. A new field
of a known type needs nothing here. A field of a new type has no value, and its tests fail until it gets one.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel

from lab.model.client import BufferSetting, ClientFile, LimitSetting
from lab.model.libcurl import LibcurlSettings
from lab.model.link import Link, LinkDirection
from lab.model.topology import Topology
from lab.model.trace import Trace, packed
from lab.model.units import BitRate, ByteRate, Duration, Queue, Ratio, Size

Document = dict[str, Any]


class Leaf(NamedTuple):
    """A field without fields of its own: its path (an index of a list is left out), its model and its type."""

    path: str
    model: str
    kind: Any


class Pair(NamedTuple):
    """A document without the field's value, and the same one with it."""

    without: Document
    given: Document


def leaves(model: type[BaseModel], above: str = "") -> Iterator[Leaf]:
    """The fields of a model that have none of their own. A node's link counts as one: the judged link has all its pairs."""
    for name, field in model.model_fields.items():
        parts = [*_parts(field.annotation)]
        if (model.__name__, name) == ("PathNode", "link"):
            yield Leaf(f"{above}{name}", model.__name__, Link)
            continue
        models = [part for part in parts if isinstance(part, type) and issubclass(part, BaseModel)]
        path = f"{above}{name}"
        if plain := [part for part in parts if part not in models and part is not type(None)]:
            yield Leaf(path, model.__name__, plain[0])
        for each in models:
            yield from leaves(each, f"{path}.")


def _parts(annotation: Any) -> Iterator[Any]:
    """The types that a field may hold; of a list those of its items."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _parts(get_args(annotation)[0])
    elif origin in (Union, UnionType):
        for part in get_args(annotation):
            yield from _parts(part)
    elif origin in (tuple, list) and any(_is_model(found) for part in get_args(annotation) for found in _parts(part)):
        for part in get_args(annotation):
            if part is not Ellipsis:
                yield from _parts(part)
    else:
        yield annotation


def _is_model(part: Any) -> bool:
    return isinstance(part, type) and issubclass(part, BaseModel)


# --- topologies -------------------------------------------------------------------------------------------------------

_LINE: Document = {"rate": "20 Mbit/s", "rtt": "40 ms"}
_STEP: Document = {"at": "1 s", "rate": "10 Mbit/s"}
_FRAMES = packed([2, 0, 1])
_SIDE: Document = {"file": "x.down", "sha256": "0" * 64, "frames": _FRAMES}
TRACE: Document = {"down": _SIDE, "up": _SIDE, "rtts": [{"at": "0 ms", "rtt": "40 ms"}, {"at": "1 ms", "rtt": "50 ms"}]}

ENDPOINT: Document = {
    "name": "mine",
    "description": "A test.",
    "program": "/bin/mine",
    "start": "{program} {workdir}",
    "ports": {"http": 80},
    "urls": {"http1": {"get": "http://server/files/{payload}", "put": "http://server/upload/{upload}"}},
    "stored": "{root}/upload/{upload}",
}

_FORMS: Mapping[str, Document] = {
    "GilbertElliott": {"model": "gilbert-elliott", "p": "1 %", "r": "25 %"},
    "StateLoss": {"model": "state", "p13": "1 %", "p31": "25 %", "p32": "10 %", "p23": "50 %"},
    "Jitter": {"spread": "2 ms", "distribution": "normal"},
    "PolicedUdp": {"policed": "8 Mbit/s", "burst": "100 kB"},
    "ManagedQueue": {"kind": "fq_codel"},
    "TopologyUserlands": {"server": "debian:13"},
    "SlowerIpv6": {"slower": "300 ms"},
}
"""The mapping around a field, for fields of a mapping that stands in place of a text or of nothing."""
_KINDS = {"least": "red", "most": "red", "probability": "red", "rtt": "cake", "burst": "policer"}
"""The kind of queue that has the setting, where it is not `fq_codel`."""
_QUEUES: Mapping[str, Document] = {
    "policer": {"kind": "policer", "burst": "20 kB"},
    "red": {"kind": "red", "limit": "300 packets"},
}

OTHER: Mapping[tuple[str, str], Any] = {
    ("Topology", "name"): "other",
    ("Topology", "description"): "Another test.",
    ("Topology", "congestion_control"): "reno",
    ("Topology", "same_host"): True,
    ("Topology", "ip"): 6,
    ("Topology", "path"): ["link", {"name": "wifi", "link": {"rate": "5 Mbit/s"}}],
    ("PathNode", "name"): "cable",
    ("PathNode", "link"): {"rate": "7 Mbit/s"},
    ("Nat", "tcp_idle"): "90 s",
    ("Nat", "udp_idle"): "90 s",
    ("Topology", "ipv6"): "dead",
    ("SlowerIpv6", "slower"): "200 ms",
    ("Dns", "delay"): "30 ms",
    ("DnsLookup", "answer"): "silence",
    ("Link", "rate"): "30 Mbit/s",
    ("LinkOverride", "rate"): "30 Mbit/s",
    ("Link", "rtt"): "80 ms",
    ("Link", "hidden_mtu"): 1300,
    ("LinkOverride", "hidden_mtu"): 1300,
    ("Link", "udp"): "blocked",
    ("LinkOverride", "udp"): "blocked",
    ("GilbertElliott", "good"): "0.5 %",
    ("GilbertElliott", "bad"): "50 %",
    ("StateLoss", "p23"): "40 %",
    ("StateLoss", "p31"): "30 %",
    ("StateLoss", "p32"): "20 %",
    ("Jitter", "spread"): "3 ms",
    ("Jitter", "distribution"): "pareto",
    ("ManagedQueue", "kind"): "codel",
    ("ManagedQueue", "least"): "10 packets",
    ("ManagedQueue", "most"): "150 packets",
    ("ManagedQueue", "probability"): "5 %",
    ("Step", "at"): "2 s",
    ("Step", "over"): "1 s",
    ("Step", "outage"): "1 s",
    ("Step", "rtt"): "60 ms",
    ("Schedule", "repeat"): "5 s",
    ("TraceDirection", "file"): "y.down",
    ("TraceDirection", "sha256"): "1" * 64,
    ("TraceDirection", "frames"): packed([3, 1, 1]),
    ("TraceRtt", "at"): "2 ms",
    ("TraceRtt", "rtt"): "70 ms",
    ("TopologyUserlands", "client"): "debian:12",
    ("TopologyUserlands", "server"): "debian:12",
    ("TopologyUserlands", "http3"): "aioquic",
    ("EndpointFile", "name"): "others",
    ("EndpointFile", "description"): "Another test.",
    ("EndpointFile", "program"): "/bin/others",
    ("EndpointFile", "userland"): "debian:13",
    ("EndpointFile", "packages"): ["rsync"],
    ("EndpointFile", "image"): "/srv/image.tar",
    ("EndpointFile", "users"): ["ftp"],
    ("EndpointFile", "files"): {"mine.conf": "two"},
    ("EndpointFile", "prepare"): "mkdir {workdir}/x",
    ("EndpointFile", "start"): "other {workdir}",
    ("EndpointFile", "environment"): {"MINE": "{root}"},
    ("EndpointFile", "ports"): {"http": 81, "more": 82},
    ("EndpointFile", "seed"): "cp {payload}",
    ("EndpointFile", "urls"): {"http1": {"get": "http://other/{payload}", "put": "http://other/{upload}"}},
    ("EndpointFile", "credentials"): {"TOKEN": "{secret.token}"},
    ("EndpointFile", "stored"): "{root}/other/{upload}",
    ("EndpointFile", "read_back"): "cat {root}/{upload}",
    ("EndpointFile", "log"): "{workdir}/log",
    ("EndpointFile", "notes"): ["a note"],
    ("Ready", "port"): "more",
    ("Ready", "banner"): "220 ",
    ("Ready", "http"): "/ready",
}
_BY_TYPE: Mapping[type, Any] = {
    BitRate: "5 Mbit/s",
    ByteRate: "2 MB/s",
    Duration: "10 ms",
    Ratio: "2 %",
    Queue: "30 packets",
    Size: "64 KiB",
    bool: True,
    int: 1400,
}


def topology_leaves() -> list[Leaf]:
    """A trace and an endpoint are in a file by their names too; `load_topology` reads them."""
    names = ("schedule.trace", "schedule.trace.down", "schedule.trace.up", "endpoint")
    return [leaf for leaf in leaves(Topology) if leaf.path not in names]


def topology_pair(leaf: Leaf) -> Pair:
    """Two topologies that differ in that field. `schedule.trace` as a text is a file's name, which `load_topology` takes."""
    without: Document = {"name": "net", "description": "A test."}
    if leaf.path != "same_host":
        without["link"] = dict(_LINE)
    if leaf.path == "link.seed" or leaf.path.endswith(".seed"):
        without["link"]["loss"] = "1 %"
    if leaf.path.startswith("schedule."):
        without["schedule"] = {"trace": copy.deepcopy(TRACE)} if ".trace." in leaf.path else {"steps": [dict(_STEP)]}
    if leaf.path.endswith(("steps.over", "steps.rtt")) or leaf.path == "schedule.steps.rate":
        without["schedule"]["steps"][0] = {"at": "1 s", "rtt": "50 ms", "rate": "10 Mbit/s"}
    if leaf.path.partition(".")[0] in ("ipv6", "dns"):
        without["ip"] = "both"
    if leaf.path.startswith("path."):
        node: Document = {"nat": {}} if ".nat." in leaf.path else {"link": {"rate": "5 Mbit/s"}}
        without["path"] = [{"name": "wifi", **node}, "link"]
    *place, name = leaf.path.split(".")
    if place[:1] == ["endpoint"]:
        without["endpoint"] = copy.deepcopy(ENDPOINT)
        if name == "packages":
            without["endpoint"] |= {"program": "", "userland": "debian:13", "start": "mine {workdir}"}
        if name == "port":
            without["endpoint"]["ports"] = {"http": 80, "more": 82}
    given = copy.deepcopy(without)
    if place[:1] == ["endpoint"] and name in ("userland", "image", "read_back"):
        given["endpoint"] |= {"stored": ""} if name == "read_back" else {"program": ""}
    form = _form(leaf)
    if form is not None:
        _put(given, place, form)
        if name != "model":
            _put(without, place, copy.deepcopy(form))
            _put(given, [*place, name], _value(leaf))
        if leaf.path.startswith("link.queue.") and name == "kind":
            _put(without, place, {"kind": "fq_codel"})
    else:
        _put(given, [*place, name], _value(leaf))
    for document in (without, given):
        _add_delays(document)
    return Pair(without, given)


def _form(leaf: Leaf) -> Document | None:
    if leaf.model == "ManagedQueue":
        kind = _KINDS.get(leaf.path.rpartition(".")[2], "fq_codel")
        return dict(_QUEUES.get(kind, {"kind": kind}))
    return copy.deepcopy(_FORMS[leaf.model]) if leaf.model in _FORMS else None


def _value(leaf: Leaf) -> Any:
    name = leaf.path.rpartition(".")[2]
    if (leaf.model, name) in OTHER:
        return OTHER[leaf.model, name]
    if leaf.kind in _BY_TYPE:
        return _BY_TYPE[leaf.kind]
    if get_origin(leaf.kind) is Literal:
        return get_args(leaf.kind)[-1]
    raise AssertionError(
        f"{leaf.path}: no value of {leaf.kind} is known here; add one to OTHER, and decide which front ends obey it"
    )


def _put(document: Document, place: list[str], value: Any) -> None:
    at: Any = document
    for part in place[:-1]:
        at = at[0] if isinstance(at, list) else at
        at = at.setdefault(part, {})
    at = at[0] if isinstance(at, list) else at
    at[place[-1]] = value


def _add_delays(document: Document) -> None:
    """A direction's delay is part of the link's round trip."""
    link = document.get("link", {})
    for side in ("up", "down"):
        if isinstance(link.get(side), dict) and "delay" in link[side]:
            link["rtt"] = "40 ms"


# --- clients ----------------------------------------------------------------------------------------------------------

_CLIENT: Document = {
    "name": "mine",
    "program": "/bin/mine",
    "protocols": ["http1", "sftp"],
    "get": "{program} {options} {url} {output}",
    "put": "{program} {options} -u {source} {url}",
    "get_set": "{program} -r {url} {output} {options}",
    "put_set": "{program} -ru {source} {url} {options}",
    "get_discard": "{program} -n {files} -p {parallel} {url} {options}",
    "limit": {"option": "-l {limit}"},
    "buffer": {"option": "-b {buffer}"},
    "files": {"mine.conf": "one {host}"},
}
_LIBCURL: Document = {"name": "mine", "libcurl": {"interface": "multi", "version": "8.4.0"}}
CLIENT_OTHER: Mapping[str, Any] = {
    "name": "other",
    "program": "/bin/other",
    "package": "httpx",
    "userland": "debian:13",
    "version": ["-V"],
    "teller": "tell",
    "protocols": ["http1", "sftp", "h2"],
    "command": "{program} --mode {options} {action}",
    "get": "{program} --get {options} {url} {output}",
    "put": "{program} --put {options} {source} {url}",
    "get_set": "{program} --get-set {options} {url} {output}",
    "put_set": "{program} --put-set {options} {source} {url}",
    "get_discard": "{program} --discard {options} {files} {parallel} {url}",
    "limit.option": "--limit {limit}",
    "limit.unit": "1 kB/s",
    "limit.least": "2 MB/s",
    "limit.most": "500 kB/s",
    "limit.what": "is a test's",
    "limit.direction": "put",
    "buffer.option": "--buffer {buffer}",
    "buffer.unit": "1 KiB",
    "buffer.least": "1 MiB",
    "buffer.most": "1 KiB",
    "buffer.what": "is a test's",
    "buffer.direction": "put",
    "files": {"mine.conf": "two {host}"},
    "environment": {"MINE": "{workdir}"},
    "report": r"took (?P<total_s>\d+)",
    "cannot": {"get": "it is a test"},
    "notes": ["a note"],
    "libcurl.version": "8.5.0",
    "libcurl.wait": "wait",
    "libcurl.every": "50 ms",
    "libcurl.idle": "5 ms",
    "libcurl.timer": "15 ms",
    "libcurl.no_delay": False,
    "libcurl.interface": "easy",
}


def client_leaves() -> list[Leaf]:
    return [*leaves(ClientFile)]


def client_pair(leaf: Leaf) -> Pair:
    """Two clients that differ in that field."""
    without = copy.deepcopy(_LIBCURL if leaf.model == LibcurlSettings.__name__ else _CLIENT)
    if leaf.path == "libcurl.idle":
        without["libcurl"]["wait"] = "wait"
    if leaf.path in ("limit.what", "buffer.what"):
        without[leaf.path.partition(".")[0]] |= {"least": "1 GB/s" if leaf.model == LimitSetting.__name__ else "1 GiB"}
    given = copy.deepcopy(without)
    value = CLIENT_OTHER[leaf.path] if leaf.path in CLIENT_OTHER else _value(leaf)
    _put(given, leaf.path.split("."), value)
    return Pair(without, given)


__all__ = [
    "TRACE",
    "BufferSetting",
    "Leaf",
    "Link",
    "LinkDirection",
    "Pair",
    "Trace",
    "client_leaves",
    "client_pair",
    "leaves",
    "topology_leaves",
    "topology_pair",
]
