"""A line of `tc` or of tcset (tcconfig) as one direction of a link: every option is obeyed, or the line is refused.

Both shape what leaves a device, and tcset what comes in as well. netem's delay is one way, its `limit` counts the packets on
their way and those that queue, and without `limit` it is 1000.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import PurePath
from typing import Any, get_args

from pydantic import ValidationError

from lab.link.plan import NETEM_DEFAULT_LIMIT, plan
from lab.model.base import first_problem
from lab.model.errors import UsageProblem
from lab.model.impairments import Distribution
from lab.model.link import LinkDirection
from lab.model.units import BitRate, Duration, Queue, Ratio

_EXAMPLE = 'e.g. "tc qdisc add dev eth0 root netem delay 50ms rate 20mbit loss 1%" or "tcset eth0 --delay 50ms --rate 20Mbps"'
_NUMBER = r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_PARTS = {"": 10**9, "m": 10**6, "u": 10**3, "n": 1}
_TC_TIMES = {"": 10**3, **{f"{part}{second}": ns for part, ns in _PARTS.items() for second in ("s", "sec", "secs")}}
"""A bare number is microseconds."""
_TCSET_TIMES = {
    "": 10**6,
    **dict.fromkeys(("h", "hour", "hours"), 3600 * 10**9),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60 * 10**9),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 10**9),
    **dict.fromkeys(("ms", "msec", "msecs", "millisecond", "milliseconds"), 10**6),
    **dict.fromkeys(("us", "usec", "usecs", "microsecond", "microseconds"), 10**3),
}
"""A bare number is milliseconds, and `m` minutes."""
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


@dataclass(frozen=True)
class Line:
    """The meaning of a line. `incoming`: it shapes the packets that come into its host, not those that leave it."""

    settings: LinkDirection
    incoming: bool = False


@dataclass
class _Said:
    """The options so far, under the names of a direction's fields."""

    settings: dict[str, Any] = field(default_factory=dict)
    limit: int | None = None
    distribution: str = ""


def read_line(line: str) -> Line:
    """The direction that the line shapes, and how. Raises UsageProblem, one line, for an option that no link of the lab has."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise _not_a_line(line, str(error)) from None
    if words[:1] == ["sudo"]:
        words = words[1:]
    program = PurePath(words[0]).name if words else ""
    if program == "tc":
        return Line(_direction(_tc(words[1:])))
    if program == "tcset":
        said, incoming = _tcset(words[1:])
        return Line(_direction(said), incoming)
    raise _not_a_line(line, "it begins with neither tc nor tcset")


def _not_a_line(line: str, why: str) -> UsageProblem:
    return UsageProblem(f"{' '.join(line.split())[:80]!r} is not a line of tc or tcset: {why}", remedy=_EXAMPLE)


def _refuse(what: str, why: str, remedy: str = "leave it out, or write the network by hand") -> UsageProblem:
    return UsageProblem(f"{what}: {why}", remedy=remedy)


# --- tc -----------------------------------------------------------------------------------------------------------------


class _Words:
    """The words that are left."""

    def __init__(self, words: Sequence[str]) -> None:
        self._left = [*words]

    def __bool__(self) -> bool:
        return bool(self._left)

    def next(self, after: str) -> str:
        if not self._left:
            raise _refuse(after, "its value is missing", _EXAMPLE)
        return self._left.pop(0)

    def numbers(self) -> list[str]:
        """The words that begin with a digit, up to the first other."""
        found = []
        while self._left and re.match(r"[.0-9]", self._left[0]):
            found.append(self._left.pop(0))
        return found

    def parameters(self, option: str, most: int) -> list[str]:
        """One value and up to `most`. Raises UsageProblem for none."""
        found = self.numbers()
        if not found or len(found) > most:
            what = "its value is missing" if not found else f"the lab knows {most} of its {len(found)} values"
            raise _refuse(" ".join(("netem", option, *found)), what)
        return found


def _tc(words: Sequence[str]) -> _Said:
    left = _Words(words)
    verb = " ".join([left.next("tc"), left.next("tc qdisc")])
    if verb not in {"qdisc add", "qdisc replace", "qdisc change"}:
        raise _refuse(f"tc {verb}", "only `tc qdisc add`, `replace` and `change` shape a link", _EXAMPLE)
    while (word := left.next("tc qdisc")) in {"dev", "root", "handle"}:
        if word != "root":
            left.next(word)
    if word in {"parent", "ingress", "clsact"}:
        raise _refuse(f"tc qdisc {word}", "the lab can take a qdisc that is the root of its device", _EXAMPLE)
    if word != "netem":
        raise _refuse(f"tc qdisc {word}", "the lab can take netem, whose `rate` and `limit` are a line and its queue", _EXAMPLE)
    said = _Said()
    while left:
        _option(said, left.next("netem"), left)
    if not said.settings:
        raise _refuse("netem", "it shapes nothing without options", _EXAMPLE)
    return said


def _option(said: _Said, name: str, left: _Words) -> None:
    settings = said.settings
    if name == "limit":
        said.limit = _count(name, left.next(name))
    elif name in {"delay", "latency"}:
        times = left.parameters(name, 3)
        settings["delay"] = _time(name, times[0], _TC_TIMES)
        if len(times) > 1:
            settings["jitter"] = _time(name, times[1], _TC_TIMES)
        _no_correlation(name, times[2:])
    elif name == "distribution":
        said.distribution = left.next(name)
    elif name in {"loss", "drop"}:
        settings["loss"] = _loss(left)
    elif name in {"corrupt", "duplicate", "reorder"}:
        shares = left.parameters(name, 2)
        settings[name] = _share(name, shares[0])
        _no_correlation(name, shares[1:])
    elif name == "gap":
        if left.next(name) != "1":
            raise _refuse("netem gap", "a link of the lab draws each packet that is reordered")
    elif name == "rate":
        rates = left.numbers()
        if len(rates) != 1:
            raise _refuse(" ".join(("netem rate", *rates)), "a link of the lab has a rate, and frames without overhead or cells")
        settings["rate"] = _tc_rate(rates[0])
    elif name == "seed":
        settings["seed"] = _count(name, left.next(name))
    else:
        raise _refuse(f"netem {name}", "no link of the lab has that")


def _loss(left: _Words) -> object:
    shares = left.numbers()
    model = "random" if shares else left.next("loss")
    shares = shares or left.numbers()
    if not shares:
        raise _refuse(f"netem loss {model}", "its share is missing")
    if model == "random":
        _no_correlation("loss", shares[1:])
        return _share("loss", shares[0])
    names = {"gemodel": ("p", "r", "bad", "good"), "state": ("p13", "p31", "p32", "p23", "p14")}.get(model)
    if names is None or len(shares) > len(names):
        raise _refuse(" ".join(("netem loss", model, *shares)), "the lab knows random, gemodel and state with their values")
    given = {name: _share("loss", share) for name, share in zip(names, shares, strict=False)}
    first, second = names[:2]
    # tc's default for the second.
    given.setdefault(second, Ratio(1 - given[first].value))
    return {"model": "gilbert-elliott" if model == "gemodel" else "state", **given}


def _no_correlation(option: str, shares: Sequence[str]) -> None:
    if any(_share(option, share).value for share in shares):
        raise _refuse(
            f"netem {option} with a correlation of {shares[0]}",
            "no link of the lab has that",
            "leave it out; losses in bursts are `loss gemodel` and `loss state`",
        )


def _tc_rate(text: str) -> BitRate:
    match = re.fullmatch(rf"{_NUMBER}(?:([kmgt]?)(i?)(bit|bps))?", text, re.IGNORECASE)
    if not match:
        raise _refuse(f"netem rate {text}", "it is not a rate such as 20mbit", _EXAMPLE)
    number, power, binary, unit = (each or "" for each in match.groups())
    # tc's bps are bytes.
    bits = Fraction(number) * (1024 if binary else 1000) ** _POWERS[power.lower()] * (8 if unit.lower() == "bps" else 1)
    return BitRate(round(bits))


# --- tcset --------------------------------------------------------------------------------------------------------------

_NOTHING_TO_OBEY = {"--overwrite", "--change", "--add", "--tc-command", "--tc-script"}
"""The options for putting a rule in force, which a file does not need to know."""
_QUIET = {"--debug", "--quiet", "--debug-query", "--stacktrace"}
_SHARES: Mapping[str, str] = {
    "--loss": "loss",
    "--duplicate": "duplicate",
    "--corrupt": "corrupt",
    "--reordering": "reorder",
}
_SHORT = {"--bandwidth-rate": "--rate", "-d": "--device"}


def _tcset(words: Sequence[str]) -> tuple[_Said, bool]:
    left, said, incoming = _Words(words), _Said(), False
    while left:
        name, equals, value = left.next("tcset").partition("=")
        name = _SHORT.get(name, name)
        if not name.startswith("-") or name in _NOTHING_TO_OBEY | _QUIET:
            continue
        value = value if equals else left.next(name)
        if name in _SHARES:
            said.settings[_SHARES[name]] = _share(name, value)
        elif name == "--direction" and value in {"outgoing", "incoming"}:
            incoming = value == "incoming"
        elif name == "--limit":
            said.limit = _count(name, value)
        elif name == "--rate":
            said.settings["rate"] = _tcset_rate(value)
        elif name == "--delay":
            said.settings["delay"] = _time(name, value, _TCSET_TIMES)
        elif name == "--delay-distro":
            said.settings["jitter"] = _time(name, value, _TCSET_TIMES)
        elif name == "--delay-distribution":
            said.distribution = value
        elif name != "--device" and (name, value) != ("--shaping-algo", "htb"):
            raise _refuse(f"tcset {name}", "a link of the lab shapes all that passes, in one way")
    if "jitter" in said.settings:
        # tcset's default.
        said.distribution = said.distribution or "normal"
    if not said.settings:
        raise _refuse("tcset", "it shapes nothing without options", _EXAMPLE)
    return said, incoming


def _tcset_rate(text: str) -> BitRate:
    match = re.fullmatch(rf"{_NUMBER}\s*(?:([kmgt])(?:bps|bit/s)?|bps|bit/s)", text, re.IGNORECASE)
    if not match:
        raise _refuse(f"tcset --rate {text}", "it is not a rate such as 20Mbps", _EXAMPLE)
    # tcset's bps are bits.
    return BitRate(round(Fraction(match[1]) * 1000 ** _POWERS[(match[2] or "").lower()]))


# --- both ---------------------------------------------------------------------------------------------------------------


def _count(option: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,10}", text):
        raise _refuse(f"{option} {text}", "it is not a count", _EXAMPLE)
    return int(text)


def _time(option: str, text: str, units: Mapping[str, int]) -> Duration:
    match = re.fullmatch(rf"{_NUMBER}\s*([a-z]*)", text, re.IGNORECASE)
    if not match or (ns := units.get(match[2].lower())) is None:
        raise _refuse(f"{option} {text}", "it is not a time such as 50ms", _EXAMPLE)
    return Duration(round(Fraction(match[1]) * ns))


def _share(option: str, text: str) -> Ratio:
    match = re.fullmatch(rf"{_NUMBER}\s*%?", text)
    if not match or Fraction(match[1]) > 100:
        raise _refuse(f"{option} {text}", "it is not a share such as 1%", _EXAMPLE)
    return Ratio.parse(f"{match[1]} %" if match[1][0] != "." and match[1][-1] != "." else f"{float(match[1])} %")


def _direction(said: _Said) -> LinkDirection:
    settings = dict(said.settings)
    if said.distribution and "jitter" in settings:
        if said.distribution not in get_args(Distribution):
            raise _refuse(f"distribution {said.distribution}", f"the lab knows {', '.join(get_args(Distribution))}")
        if said.distribution != "uniform":
            settings["jitter"] = {"spread": settings["jitter"], "distribution": said.distribution}
    try:
        found = LinkDirection.model_validate({**settings, "queue": Queue("packets", 1)})
    except ValidationError as error:
        raise _refuse("this line", first_problem(error), "change that option") from None
    if found.rate is None:
        if said.limit is not None:
            raise _refuse(f"limit {said.limit} without a rate", "a link of the lab drops nothing where nothing limits its rate")
        return LinkDirection.model_validate(settings)
    planned = plan(found, Duration(0), supports_seed=True)
    assert planned is not None, "a direction with a rate has a netem"
    limit, on_the_way = NETEM_DEFAULT_LIMIT if said.limit is None else said.limit, planned.limit_packets - 1
    if limit <= on_the_way:
        raise _refuse(
            f"limit {limit}" if said.limit is not None else f"netem's own limit of {limit} packets",
            f"{on_the_way} packets are on their way at {found.rate} within {Duration(planned.delay.ns + planned.reach_ns)}, "
            "so that this line is slower than its rate",
            f"give a limit above {on_the_way}",
        )
    return LinkDirection.model_validate({**settings, "queue": Queue("packets", limit - on_the_way)})
