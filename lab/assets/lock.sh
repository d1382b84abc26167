#!/bin/sh
# Resolves pyproject.toml into requirements.lock (the lab), requirements-test.lock (the lab, its tests, Dask) and
# lab/assets/release/tools.lock (what builds a release), with hashes.
# Versions stay as they are unless --upgrade is given.
set -eu

cd "$(dirname "$0")/../.."
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
.venv/bin/python -m pip install --quiet --target "$tools" uv

resolve() {
    "$tools/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --custom-compile-command 'make lock' "$@"
}
# hatchling builds the editable package of this checkout.
resolve_lab() { echo 'hatchling>=1.25' | resolve "$@" pyproject.toml -; }

resolve_lab --output-file requirements.lock "$@"
resolve_lab --output-file requirements-test.lock --constraint requirements.lock --extra test --extra distributed "$@"
resolve --output-file lab/assets/release/tools.lock --group release "$@"
