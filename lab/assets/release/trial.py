"""Installs what was built, as a user would: the wheels in a new environment, the .deb in a Debian 12 and a Debian 13."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

from lab.assets import store
from lab.assets.release import inventory
from lab.assets.release.checks import Check
from lab.assets.release.workshop import Words, Workshop, tail, uv_cache

# The test that installs the .deb; CI has no .deb and skips it.
DEB_TEST = "tests/install/test_deb.py"
DEB_VARIABLE = "ROUGHWATER_DEB"


def wheels(shop: Workshop, version: str, folder: Path, work: Path) -> Check:
    """`roughwater[ferry]` from the folder of artefacts, in an environment with the locked dependencies."""
    name = "trial install"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    lock = work / "requirements.txt"
    lock.write_text(inventory.dependencies((shop.root / "requirements.lock").read_text(encoding="utf-8")), encoding="utf-8")
    place = work / "environment"
    bin_folder = place / "bin"
    pip: Words = [bin_folder / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    uv: Words = ["uv", "pip", "install", "--quiet", "--no-config", "--python", bin_folder / "python", "--cache-dir", uv_cache()]
    steps: list[Words] = [
        [sys.executable, "-m", "venv", place],
        [*uv, "--require-hashes", "--requirement", lock],
        [*pip, "--no-index", "--find-links", folder, f"roughwater[ferry]=={version}"],
        [bin_folder / "python", "-m", "pip", "check"],
        # Reads every shipped network; runs nothing.
        [bin_folder / "lab", "topologies"],
    ]
    for step in steps:
        code, output = shop.ask(step, cwd=work)
        if code:
            return Check(name, False, f"{' '.join(str(word) for word in step)}:\n{tail(output)}")
    said = {program: shop.ask([bin_folder / program, "--version"], cwd=work)[1].strip() for program in ("lab", "ferry")}
    ok = all(re.search(rf"\b{re.escape(version)}\b", text.splitlines()[0] if text else "") for text in said.values())
    return Check(name, ok, ", ".join(text.splitlines()[0] if text else f"{program}: nothing" for program, text in said.items()))


def deb(root: Path, path: Path) -> Check:
    """The .deb in bare Debians: installed, used by a user without sudo, removed. Only root can make them."""
    name = "Debian 12 and 13"
    environment = {**os.environ, DEB_VARIABLE: str(path), "PYTHONPATH": str(root)}
    words = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-p", "no:xdist", DEB_TEST]
    code, output = store.run(words, timeout_s=3600, cwd=root, env=environment)
    last = re.sub(r"=+", "", tail(output, 1)).strip()
    skipped = re.findall(r"^SKIPPED .*?: (.*)$", output, re.MULTILINE)
    if code == 0 and not skipped:
        return Check(name, True, last)
    return Check(name, False, f"not run: {skipped[0]}" if code == 0 else f"{last}\n{tail(output, 30)}")
