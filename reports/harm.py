"""The table of harm as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from lab.judge.harm import Delay
from lab.run.harm import Beside, HarmTable


def print_harm(tables: Sequence[HarmTable], console: Console) -> None:
    """A table per topology: the bystander alone, then next to each client; what was left out below it."""
    for found in tables:
        beside = f", next to a flow of {found.flow}" if found.flow else ""
        table = Table(title=f"{found.topology.name}: round trip of a bystander, ms{beside}", title_justify="left", box=None)
        for heading in ("client", "how", "n"):
            table.add_column(heading, no_wrap=True)
        for heading in ("p50", "p95", "p99", "added p95", "lost", "harm", "share", "kB/s"):
            table.add_column(heading, justify="right")
        for heading in ("flow's harm", "flow's share") if found.flow else ():
            table.add_column(heading, justify="right")
        solo = found.solo_delay
        table.add_row("(alone)", "", "", *_delay(solo), "", f"{solo.loss:.1%}", "", "", "")
        for client in dict.fromkeys(row.client for row in found.rows):
            table.add_row(*_row(found, client))
        console.print(table)
        for why in (*found.left_out, *_problems(found.rows)):
            console.print(f"  {why}", markup=False)


def document(tables: Sequence[HarmTable]) -> dict[str, Any]:
    """All measurements, every round trip included."""
    return {
        "tables": [
            {
                "topology": found.topology.model_dump(mode="json", exclude_defaults=True),
                "seed": found.seed,
                "solo": {**asdict(found.solo_delay), "rtt_ms": [echo.rtt_ms for echo in found.solo]},
                "course_s": {"once": found.course.once_ns / 1e9, "period": found.course.period_ns / 1e9},
                "flow": str(found.flow) if found.flow else None,
                "flow_solo": {way: asdict(seen) for way, seen in found.flow_solo.items()} if found.flow else None,
                "clients": {
                    client: {
                        "solo": _dict(found.solo_of(client)),
                        "delay": _dict(found.pooled(client)),
                        "added_p95_ms": found.added_p95_ms(client),
                        "harm_of_delay_p95": found.harm(client),
                        "flow": {"harm": found.flow_harm(client), "share": found.flow_share(client)} if found.flow else None,
                        "samples": [_sample(row) for row in found.of(client)],
                    }
                    for client in dict.fromkeys(row.client for row in found.rows)
                },
                "left_out": list(found.left_out),
            }
            for found in tables
        ]
    }


def _row(found: HarmTable, client: str) -> list[str]:
    rows, pooled = found.of(client), found.pooled(client)
    harm, added = found.harm(client), found.added_p95_ms(client)
    good = [row for row in rows if not row.problem]
    transfer = rows[0].transfer
    words = [client, f"{transfer.protocol}-{transfer.direction} {transfer.size}", f"{len(good)}"]
    if pooled is None or harm is None or added is None:
        return [*words, *("-" for _ in range(8))]
    shares = [row.share for row in good if row.share is not None]
    share = f"{sum(shares) / len(shares):.1%}" if shares else "-"
    rates = [row.goodput_byte_s for row in good if row.goodput_byte_s is not None]
    rate = f"{sum(rates) / len(rates) / 1e3:.0f}" if rates else "-"
    flow = [_or_dash(found.flow_harm(client), ".2f"), _or_dash(found.flow_share(client), ".1%")] if found.flow else []
    return [*words, *_delay(pooled), f"{added:.2f}", f"{pooled.loss:.1%}", f"{harm:.2f}", share, rate, *flow]


def _or_dash(value: float | None, how: str) -> str:
    return "-" if value is None else format(value, how)


def _delay(found: Delay) -> list[str]:
    return [f"{found.p50_ms:.2f}", f"{found.p95_ms:.2f}", f"{found.p99_ms:.2f}"]


def _dict(found: Delay | None) -> dict[str, Any] | None:
    return asdict(found) if found else None


def _problems(rows: Sequence[Beside]) -> list[str]:
    return [f"{row.client}, transfer {row.index + 1}: {row.problem}" for row in rows if row.problem]


def _sample(row: Beside) -> dict[str, Any]:
    return {
        "transfer": row.transfer.model_dump(mode="json", exclude_defaults=True),
        "problem": row.problem,
        "wall_s": row.wall_s,
        "goodput_byte_s": row.goodput_byte_s,
        "share": row.share,
        "delay": _dict(row.delay),
        "rtt_ms": [echo.rtt_ms for echo in row.echoes],
        "flow": asdict(row.flow) if row.flow else None,
    }
