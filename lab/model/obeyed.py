"""The fields of a file that a front end cannot obey, in one table. It obeys every other field (ADR 0041).

A *field* is a path in a model: `link.up.rate` of a topology, `limit.unit` of a client. A *front end* is a way to give the lab a
file: a command, the pytest plugin, Robot's keywords, a container, a virtual machine. Each calls `refuse` once it has read the
file. tests/unit/obeyed goes through fields and front ends: a field that nothing obeys turns it red.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from lab.model.base import Model
from lab.model.clock import Clock
from lab.model.errors import NotSupported, UsageProblem

FrontEnd = Literal[
    "run",
    "robot",
    "robot steps",
    "event",
    "workers",
    "bisect",
    "qualify",
    "repro",
    "rerun",
    "search limit",
    "search rtt",
    "search loss",
    "harm",
    "shell",
    "test",
    "up",
    "exec",
    "link",
    "calibrate",
    "pytest",
    "compose",
    "vagrant",
]
Kind = Literal["Topology", "ClientFile"]
"""The name of a file's model."""


@dataclass(frozen=True)
class Refused:
    """A field that cannot be obeyed. `has` is the clause after the file's name, `why` the clause that follows it."""

    kind: Kind
    field: str
    has: str | Callable[[Any], str]
    """A function gets the field's value; for a value that can be obeyed it returns nothing."""
    why: str
    remedy: str = ""

    def clause(self, document: Model) -> str:
        """`has a schedule` for a document in which the field is set to such a value, else empty."""
        if type(document).__name__ != self.kind:
            return ""
        value, default = _value(document, self.field)
        if value == default:
            return ""
        return self.has if isinstance(self.has, str) else self.has(value)


@dataclass(frozen=True)
class Facts:
    """A front end: its clocks, the kinds of files that it takes, and what to use for a file that needs the other clock."""

    clocks: tuple[Clock, ...]
    takes: tuple[Kind, ...]
    elsewhere: str = "--clock virtual"
    refused: tuple[Refused, ...] = ()


def _virtual_only(link: Any) -> str:
    return f"has {link.virtual_only}" if link.virtual_only else ""


_VIRTUAL = "which runs in virtual time only"
REAL_TIME: tuple[Refused, ...] = (
    Refused("Topology", "schedule", "has a schedule", _VIRTUAL),
    Refused("Topology", "link", _virtual_only, _VIRTUAL),
    Refused("Topology", "userlands", "has a userland", _VIRTUAL),
    Refused("Topology", "endpoint", "has an endpoint", _VIRTUAL),
    Refused("Topology", "ip", "has IPv6", _VIRTUAL),
    Refused("Topology", "ipv6", "has IPv6", _VIRTUAL),
    Refused("Topology", "dns", "has a resolver", _VIRTUAL),
    Refused("Topology", "path", "has a path", _VIRTUAL),
    Refused("ClientFile", "userland", "has a userland", _VIRTUAL),
)
"""Fields that no network in real time obeys. The remedy is the front end's `elsewhere`."""


def _one_host(why: str, remedy: str) -> Refused:
    return Refused("Topology", "same_host", "is one host without a link", why, remedy)


def _schedule(why: str, remedy: str) -> Refused:
    return Refused("Topology", "schedule", "has a schedule", why, remedy)


def _endpoint(why: str) -> Refused:
    return Refused("Topology", "endpoint", "has an endpoint", why, "name a network without one")


def _names(why: str) -> tuple[Refused, ...]:
    remedy = "name a network without it"
    return (
        Refused("Topology", "ip", "has IPv6", why, remedy),
        Refused("Topology", "ipv6", "has IPv6", why, remedy),
        Refused("Topology", "dns", "has a resolver", why, remedy),
    )


def _path(why: str) -> Refused:
    return Refused("Topology", "path", "has a path", why, "name a network without one")


def _side(side: str, setting: str, has: str) -> Refused:
    why = "and a search changes both directions"
    return Refused("Topology", f"link.{side}.{setting}", has, why, "name a network without it")


_BOTH: tuple[Clock, ...] = ("virtual", "real")
_CELLS: tuple[Kind, ...] = ("Topology", "ClientFile")
_APART = _one_host("and lab exec finds hosts that are apart", "use lab shell --topology, or lab run CLIENT--same-host--TRANSFER")
_NOTHING_TO_SHAPE = _one_host("so there is nothing to shape", "name another network")
_NO_ONE_VALUE = (
    _schedule("so no single value describes the link", "name another network"),
    _one_host("so there is nothing to search", "name another network"),
)
_ONE_OF = "and a search changes the judged link alone"
_COMMAND = "use lab run CELL, or lab shell --topology"
FRONT_ENDS: Mapping[FrontEnd, Facts] = {
    "run": Facts(_BOTH, _CELLS),
    "robot": Facts(_BOTH, _CELLS),
    "robot steps": Facts(_BOTH, _CELLS),
    "event": Facts(
        _BOTH,
        _CELLS,
        refused=(
            _schedule("and an event needs a link that stays as it is", "name a network without one"),
            _endpoint("and an event happens at the lab's own servers"),
            *_names("and an event happens to connections of IPv4, by addresses"),
            _path("and an event happens on the judged link"),
        ),
    ),
    "workers": Facts(_BOTH, _CELLS),
    "bisect": Facts(_BOTH, _CELLS),
    "qualify": Facts(_BOTH, _CELLS),
    "repro": Facts(_BOTH, _CELLS),
    "rerun": Facts(_BOTH, _CELLS),
    "search limit": Facts(("virtual",), _CELLS),
    "search rtt": Facts(
        ("virtual",),
        _CELLS,
        refused=(
            *_NO_ONE_VALUE,
            _path(_ONE_OF),
            _side("up", "delay", "sets up.delay"),
            _side("down", "delay", "sets down.delay"),
        ),
    ),
    "search loss": Facts(
        ("virtual",),
        _CELLS,
        refused=(*_NO_ONE_VALUE, _path(_ONE_OF), _side("up", "loss", "sets up.loss"), _side("down", "loss", "sets down.loss")),
    ),
    "harm": Facts(
        ("virtual",),
        _CELLS,
        refused=(
            _one_host("and a bystander shares a link", "name another network"),
            _endpoint("and both clients talk to the lab's own servers"),
            *_names("and the bystander speaks IPv4, by addresses"),
            _path("and a bystander shares one link"),
        ),
    ),
    "shell": Facts(_BOTH, ("Topology",), "leave --clock, --backend and --router out"),
    "test": Facts(
        ("virtual",),
        ("Topology",),
        refused=(
            Refused(
                "Topology",
                "userlands.client",
                "has a userland of the client",
                "and a suite runs programs of this machine",
                "use lab shell --topology",
            ),
        ),
    ),
    "up": Facts(("real",), ("Topology",), _COMMAND, (_APART,)),
    # Works in a lab of `lab up`, and takes no file.
    "exec": Facts(("real",), ()),
    "link": Facts(("real",), ("Topology",), _COMMAND, (_NOTHING_TO_SHAPE,)),
    "calibrate": Facts(
        _BOTH,
        ("Topology",),
        refused=(
            _schedule("and a calibration is of a link that stays as it is", "lab run CELL proves a schedule too"),
            Refused(
                "Topology", "userlands", "has a userland", "and a calibration runs the lab's own programs", "use lab run CELL"
            ),
            _endpoint("and a calibration runs the lab's own programs"),
            *_names("and a calibration runs over IPv4, by addresses"),
            _path("and a calibration is of one link"),
            _one_host("to calibrate", "name another network"),
        ),
    ),
    "pytest": Facts(_BOTH, _CELLS, "--lab-clock virtual"),
    "compose": Facts(
        ("real",), ("Topology",), "use lab run", (_one_host("and containers are hosts of their own", "name another network"),)
    ),
    "vagrant": Facts(("real",), ("Topology",), _COMMAND, (_NOTHING_TO_SHAPE,)),
}

SEARCHED: Mapping[FrontEnd, str] = {"search rtt": "link.rtt", "search loss": "link.loss"}
"""The field whose values a search tries, in place of the file's."""
EVERYWHERE: Mapping[Kind, Mapping[str, str]] = {
    "Topology": {
        "link.up.mtu": "a host has one MTU for both directions",
        "link.down.mtu": "a host has one MTU for both directions",
    },
    "ClientFile": {},
}
"""Fields that the models themselves refuse where they differ from what the field's neighbours say."""


def refusal(front_end: FrontEnd, document: Model, clock: Clock) -> UsageProblem | None:
    """The reason that this front end cannot obey the document by that clock, in one line; None where it obeys every field.

    A field of virtual time alone gives NotSupported, because a suite skips such a row.
    """
    facts, name = FRONT_ENDS[front_end], getattr(document, "name", "it")
    for each in facts.refused:
        if clause := each.clause(document):
            return UsageProblem(f"{name} {clause}, {each.why}", remedy=each.remedy)
    if clause := real_time_lacks(document) if clock == "real" else "":
        return NotSupported(f"{name} {clause}, {_VIRTUAL}", remedy=facts.elsewhere)
    return None


def refuse(front_end: FrontEnd, document: Model, clock: Clock) -> None:
    """Raise the `refusal`, if there is one."""
    if problem := refusal(front_end, document, clock):
        raise problem


def real_time_lacks(document: Model) -> str:
    """The clause, `has a schedule`, for a document that needs virtual time; else empty."""
    return next(filter(None, (each.clause(document) for each in REAL_TIME)), "")


def _value(document: Model, field: str) -> tuple[object, object]:
    """The field's value, and that of a document that does not set it."""
    value: Any = document
    default: object = None
    for name in field.split("."):
        if value is None:
            return None, None
        default = type(value).model_fields[name].get_default(call_default_factory=True)
        value = getattr(value, name)
    return value, default
