"""QIFs: header blocks of answers by two encoders, without a dynamic table, and blocks that are wrong in one thing."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from typing import Any

from tests.conformance.cases import Outcome
from tests.conformance.program import answers, vendored


def qpack() -> Iterator[Outcome]:
    """One case per block. The order of fields with different names has no meaning (RFC 9110, 5.3)."""
    found: dict[str, Any] = json.loads(lzma.decompress(vendored("qifs").read_bytes()))
    blocks = [
        (f"{encoder} {number}", block, fields)
        for encoder, encoded in found["encoders"].items()
        for number, (block, fields) in enumerate(zip(encoded, found["fields"], strict=True))
    ]
    blocks += [(name, block, None) for name, block in found["errors"].items()]
    made = answers([{"kind": "qpack", "block": block} for _, block, _ in blocks])
    for (name, _, fields), answer in zip(blocks, made, strict=True):
        right = "error" in answer if fields is None else sorted(answer.get("fields", [])) == sorted(fields)
        yield Outcome(name, "" if right else f"{answer}"[:200])
