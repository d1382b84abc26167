#!/bin/sh
# Resolves pyproject.toml into requirements.lock (the lab) and requirements-test.lock (the lab, its tests, Dask), with hashes.
# Versions stay as they are unless --upgrade is given.
set -eu

cd "$(dirname "$0")/../.."
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
.venv/bin/python -m pip install --quiet --target "$tools" uv

# hatchling builds the editable package of this checkout.
resolve() {
    echo 'hatchling>=1.25' | "$tools/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --custom-compile-command 'make lock' "$@" pyproject.toml -
}

resolve --output-file requirements.lock "$@"
resolve --output-file requirements-test.lock --constraint requirements.lock --extra test --extra distributed "$@"
