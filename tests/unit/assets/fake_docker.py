"""A container engine for tests: images are a JSON file in $FAKE_ENGINE, every command line is a line of its log."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import sys
import tarfile
from itertools import pairwise
from pathlib import Path
from string import Template
from typing import Any, Never

HOME = Path(os.environ["FAKE_ENGINE"])
IMAGES = HOME / "images.json"


def images() -> dict[str, Any]:
    return dict(json.loads(IMAGES.read_text())) if IMAGES.exists() else {}


def add(name: str, labels: dict[str, str]) -> None:
    digest = hashlib.sha256(json.dumps([name, labels]).encode()).hexdigest()
    IMAGES.write_text(json.dumps({**images(), name: {"Id": f"sha256:{digest}", "Config": {"Labels": labels}, "Size": 7_000_000}}))


def refuse(text: str) -> Never:
    sys.exit(text)


def values(words: list[str], option: str) -> list[str]:
    return [after for word, after in pairwise(words) if word == option]


def build(words: list[str]) -> None:
    name = values(words, "--tag")[0]
    context = HOME / "contexts" / name.replace("/", "_").partition(":")[0]
    shutil.rmtree(context, ignore_errors=True)
    shutil.copytree(words[-1], context)
    arguments = dict(value.split("=", 1) for value in values(words, "--build-arg"))
    dockerfile = Path(*values(words, "--file") or [context / "Dockerfile"]).read_text()
    said = [word for line in dockerfile.splitlines() if line.startswith("LABEL ") for word in line.split()[1:]]
    labels = [*(Template(word).substitute(arguments) for word in said), *values(words, "--label")]
    add(name, dict(label.split("=", 1) for label in labels))


def save(names: list[str]) -> None:
    held = images()
    manifest = [{"Config": f"{held[name]['Id'][7:]}.json", "RepoTags": [name], "Layers": []} for name in names]
    files = {f"{held[name]['Id'][7:]}.json": {"config": held[name]["Config"]} for name in names}
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as archive:
        for name, content in {**files, "manifest.json": manifest}.items():
            data = json.dumps(content).encode()
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        sys.stdout.flush()
        if (HOME / "save-fails").exists():
            refuse("Error response from daemon: the layer is gone")


def main() -> None:
    words = sys.argv[1:]
    with (HOME / "log").open("a") as log:
        log.write(" ".join(words) + "\n")
    if (HOME / "down").exists():
        refuse("Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?")
    match words:
        case ["version", *_]:
            print("20.10.24")
        case ["image", "inspect", name]:
            print(json.dumps([images()[name]])) if name in images() else refuse(f"Error: No such image: {name}")
        case ["pull", *_, name]:
            add(name, {}) if (HOME / "registry").exists() else refuse("Error response from daemon: lookup registry: no such host")
        case ["build", *_]:
            build(words)
        case ["save", *names]:
            save(names)
        case ["run", *_]:  # cat, of the recipe in an image
            print((HOME / "recipe").read_text() if (HOME / "recipe").exists() else "")
        case ["load", *_] | ["image", "rm", _]:
            pass
        case _:
            refuse(f"Error: unknown command {words}")


main()
