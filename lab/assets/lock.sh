#!/bin/sh
# Resolves pyproject.toml into requirements.lock (the lab) and requirements-test.lock (the lab and its tests), with hashes.
# Versions stay as they are unless --upgrade is given.
set -eu

cd "$(dirname "$0")/../.."
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
.venv/bin/python -m pip install --quiet --target "$tools" uv

# setuptools builds the editable package of this checkout.
resolve() {
    echo 'setuptools>=68' | "$tools/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --custom-compile-command 'make lock' "$@" pyproject.toml -
}

resolve --output-file requirements.lock "$@"
resolve --output-file requirements-test.lock --constraint requirements.lock --extra test "$@"
