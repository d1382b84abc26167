#!/bin/sh
# Resolves versions of a package of PyPI into NAME-VERSION.lock in this folder, with hashes: lock.sh requests==2.31.0 ...
# Versions that have a lock keep it; its name is what makes the version known to `lab client build`.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
"$here/../../../.venv/bin/python" -m pip install --quiet --target "$tools" uv
for wanted in "$@"; do
    lock="$here/${wanted%%==*}-${wanted##*==}.lock"
    [ ! -e "$lock" ] || continue
    echo "$wanted" | "$tools/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
        --output-file "$lock" -
done
