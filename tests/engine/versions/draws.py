"""A plan: the way, the files, and the steps that a seed decides."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.engine.versions.origin import HONEST, Manners
from tests.engine.versions.source import KINDS

WAYS = (
    "http1-get", "http1-get", "h2-get", "http1-list", "h2-list", "http1-put", "h2-put",
    "sftp-get", "sftp-get", "sftp-put", "sftp-put", "sftp-get-tree", "sftp-put-tree",
    "sftp-get-mirror", "sftp-put-mirror", "sftp-get-mirror", "sftp-put-mirror",
)  # fmt: skip
_SET = ("a", "b", "sub/c", "sub/d", "other/deep/e", "other/f")
_LIST = ("a", "b", "c", "d", "e", "f", "g", "h")
# With several connections a file of 4 MiB and more comes in parts.
_ALONE = (0, 1, 30_000, 400_000, 3 << 20, 6 << 20, 13 << 20)
_MANY = (0, 1, 2_000, 60_000, 400_000, 2 << 20)
# Less than 32 MiB of an upload are sent again by --resume.
_LONG = 44 << 20
_MODES = (0o644, 0o600, 0o640, 0o444)


@dataclass(frozen=True)
class Hold:
    """The moment when the link is taken down: after `bytes_` of the greeting, or else after a share of what is due."""

    share: float
    bytes_: int = 0


@dataclass(frozen=True)
class Step:
    """`what` is start, go, cut, kill, change."""

    what: str
    who: str = ""
    hold: Hold | None = None
    resume: bool = False
    # The first file of a list alone, over several connections: killed, it leaves holes.
    alone: bool = False
    kind: str = ""
    path: str = ""
    share: float = 0.0
    same_size: bool = False

    def __str__(self) -> str:
        if self.what == "change":
            return f"change {self.path} ({self.kind})"
        hold = "" if self.hold is None else f", held at {self.hold.bytes_ or format(self.hold.share, '.2f')}"
        return f"{self.what} {self.who}{' (the first file)' if self.alone else ''}{' --resume' if self.resume else ''}{hold}"


@dataclass(frozen=True)
class Plan:
    """`sizes` has the first version of each file, in bytes; `late`: further connections begin only after the first hold."""

    seed: int
    way: str
    connections: int
    sizes: dict[str, int]
    modes: dict[str, int]
    manners: Manners
    late: bool
    sync: bool
    steps: list[Step] = field(default_factory=list)

    def __str__(self) -> str:
        odd = "" if self.manners == HONEST else f", {self.manners}"
        late = ", late connections" if self.late else ""
        return f"seed {self.seed}: {self.way}, {self.connections} connections{late}, {sum(self.sizes.values())} bytes{odd}"


def draw(seed: int) -> Plan:
    dice = random.Random(seed)
    way = dice.choice(WAYS)
    connections = dice.choice((1, 1, 2, 3, 4)) if way in ("http1-get", "h2-get", "sftp-get", "sftp-put") else 1
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    if way.endswith("-list"):
        names, sizes = _LIST[: dice.randint(2, len(_LIST))], _MANY
    elif way.endswith(("tree", "mirror")):
        names, sizes = _SET[: dice.randint(3, len(_SET))], _MANY
        connections = dice.choice((1, 1, 2))
    else:
        names, sizes = ("file",), _ALONE[3:] if connections > 1 or dice.random() < 0.7 else _ALONE
    given = {name: dice.choice(sizes) + dice.randrange(2) * dice.randrange(1000) for name in names}
    if way == "sftp-put" and dice.random() < 0.25:
        given["file"] = _LONG + dice.randrange(1000)
    if way.endswith("-list") and dice.random() < 0.4:
        given["a"] = 9 << 20
    plan = Plan(
        seed,
        way,
        connections,
        given,
        {name: dice.choice(_MODES) for name in names},
        _manners(dice) if way.startswith(("http", "h2")) else HONEST,
        connections > 1 and dice.random() < 0.6,
        dice.random() < 0.7,
    )
    plan.steps.extend(_steps(dice, plan))
    return plan


def _manners(dice: random.Random) -> Manners:
    if dice.random() < 0.3:
        return HONEST
    validators = dice.choice(("strong", "strong", "strong", "weak", "date", "none"))
    length = dice.random() < 0.8
    return Manners(
        validators,
        dice.choice(("honoured", "ignored", "dates")),
        dice.random() < 0.9,
        length,
        length and validators == "strong" and dice.random() < 0.1,
    )


def _hold(dice: random.Random) -> Hold:
    how = dice.random()
    if how < 0.2:
        return Hold(0.0, dice.randint(1, 8000))
    return Hold(1.0) if how < 0.3 else Hold(dice.random())


def _change(dice: random.Random, plan: Plan) -> Step:
    path = dice.choice(sorted(plan.sizes))
    if plan.way.endswith(("tree", "mirror")) and dice.random() < 0.15:
        path = dice.choice(("new", "sub/new", "other/new"))
    kinds = KINDS if "/" in path else tuple(kind for kind in KINDS if not kind.endswith("folder"))
    kind = dice.choice((*kinds, "replace", "replace", "replace"))
    return Step("change", kind=kind, path=path, share=dice.random(), same_size=dice.random() < 0.6)


def _steps(dice: random.Random, plan: Plan) -> list[Step]:
    """Held runs, and what happens meanwhile; in the end every run goes on to its end."""
    steps: list[Step] = []
    if dice.random() < (0.7 if plan.way.endswith("mirror") else 0.25):
        # An earlier version is there, and has its name.
        steps += [Step("start", "zero"), *(_change(dice, plan) for _ in range(dice.randint(1, 3)))]
    if plan.way.endswith("-list") and plan.sizes["a"] > _MANY[-1] + 1000:
        steps += [Step("start", "holes", Hold(dice.uniform(0.5, 0.9)), alone=True), Step("kill", "holes")]
        if dice.random() < 0.7:
            steps.append(Step("change", kind=dice.choice(("replace", "remove")), path="a", share=dice.random()))
    alive = ["one"]
    resume = dice.random() < 0.6
    steps.append(Step("start", "one", _hold(dice), resume))
    spare = ["two", "three"]
    for _ in range(dice.randint(1, 4)):
        choice = dice.random()
        if choice < 0.45 or not alive:
            steps.append(_change(dice, plan))
        elif choice < 0.65 and spare:
            who = spare.pop(0)
            alive.append(who)
            steps.append(Step("start", who, _hold(dice), resume))
        else:
            who = dice.choice(alive)
            what = dice.choice(("kill", "kill", "cut", "go"))
            steps.append(Step(what, who, None if what == "kill" else _hold(dice)))
            if what == "kill":
                alive.remove(who)
    dice.shuffle(alive)
    for at, who in enumerate(alive):
        steps.append(Step("kill" if at > 0 and dice.random() < 0.4 else "go", who))
        if dice.random() < 0.2:
            steps.append(_change(dice, plan))
    if spare and dice.random() < 0.3:
        steps.append(Step("start", spare[0], None, resume))
    return steps
