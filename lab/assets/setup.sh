#!/bin/sh
# Sets this checkout up: Debian packages, virtual environment, servers, ferry, the `lab` launcher; for tests the UML router.
#
# Idempotent, and quick when there is nothing to do. It starts no daemon. Outside the checkout it changes only the user's cache
# and one launcher, and installs missing packages by apt-get. ROUGHWATER_LAUNCHER=no leaves the launcher out.
set -eu

here=$(cd "$(dirname "$0")/../.." && pwd)
cd "$here"
# Tests need more packages than the lab, and a release runs one on its package for Debian. An environment that has them serves both.
lock=requirements.lock
stamp=.venv/.roughwater-setup
if [ -n "${ROUGHWATER_TESTERS:-}${ROUGHWATER_RELEASE:-}" ]; then
    lock=requirements-test.lock
    stamp=.venv/.roughwater-setup-test
fi
marker='# Roughwater launcher, written by lab/assets/setup.sh'

say() { echo "setup: $*"; }
fail() {
    echo "setup: $*" >&2
    exit 4
}

# The first Python from 3.11 on, preferably the one on PATH.
find_python() {
    for candidate in python3 /usr/bin/python3 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
}

# Everything the environment depends on: when this changes, packages are installed again.
recipe() {
    cat pyproject.toml requirements.lock requirements-test.lock lab/assets/setup.sh
    .venv/bin/python -VV 2>/dev/null || echo none
    echo "$here"
}

install_packages() {
    say "installing the Debian packages $*"
    become=
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || fail "missing Debian packages: $*; ask an administrator to run: apt-get install --no-install-recommends $*"
        become=sudo
    fi
    command -v apt-get >/dev/null || fail "programs are missing, and there is no apt-get: install the equivalent of Debian's $*"
    # Noninteractive: iperf3 asks whether to run as a daemon; the default is no.
    $become env DEBIAN_FRONTEND=noninteractive apt-get update -qq || say "apt-get update failed; trying with the present package lists"
    # No removals: cargo-web would replace Debian's older cargo, which the user may need.
    # shellcheck disable=SC2086  # $become is nothing or one word
    $become env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends --no-remove "$@" >/dev/null ||
        fail "cannot install packages; ask an administrator to run: apt-get install --no-install-recommends $*"
}

ensure_packages() {
    python=$(find_python)
    if [ -z "$python" ]; then
        install_packages python3 python3-venv
        python=$(find_python)
        [ -n "$python" ] || fail "Python 3.11 or newer is needed; this system has $(python3 -V 2>&1)"
    fi
    lacking=$("$python" -m lab.assets packages)
    if [ -n "$lacking" ]; then
        # shellcheck disable=SC2086  # one package per word
        install_packages $lacking
    fi
}

ensure_venv() {
    current=$(recipe | sha256sum)
    for each in "$stamp" .venv/.roughwater-setup-test; do
        if [ "$(cat "$each" 2>/dev/null)" = "$current" ] && [ -x .venv/bin/lab ]; then
            return
        fi
    done
    # A venv without its Python, or one copied from another folder, does not work.
    if ! .venv/bin/python -c "import sys; sys.exit(sys.prefix != '$here/.venv' or sys.version_info < (3, 11))" 2>/dev/null; then
        say "making the virtual environment .venv with $("$python" -V)"
        "$python" -m venv --clear .venv || fail "cannot make a virtual environment with $python"
    fi
    say "installing the Python packages of $lock into .venv"
    # The lock file holds hatchling too, so that nothing is downloaded without a known hash.
    if ! { .venv/bin/python -m pip install --quiet --require-hashes -r "$lock" &&
        .venv/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .; }; then
        fail "pip could not install the Python packages (see above)"
    fi
    recipe | sha256sum >"$stamp"
}

ensure_launcher() {
    [ "${ROUGHWATER_LAUNCHER:-}" != no ] || return 0
    if [ "$(id -u)" = 0 ]; then folder=/usr/local/bin; else folder=$HOME/.local/bin; fi
    launcher=$folder/lab
    wanted="#!/bin/sh
$marker
exec '$here/.venv/bin/lab' \"\$@\""
    if [ -e "$launcher" ] || [ -L "$launcher" ]; then
        [ "$(cat "$launcher" 2>/dev/null)" != "$wanted" ] || return 0
        if ! grep -qF "$marker" "$launcher" 2>/dev/null; then
            say "$launcher is another program; it stays. Use $here/.venv/bin/lab"
            return 0
        fi
        # Replace the launcher of another checkout only if that checkout does not exist any more.
        other=$(sed -n "s/^exec '\(.*\)' .*/\1/p" "$launcher")
        if [ -x "$other" ]; then
            say "$launcher belongs to $other; it stays. Use $here/.venv/bin/lab"
            return 0
        fi
    fi
    if ! { mkdir -p "$folder" && printf '%s\n' "$wanted" >"$launcher.new" && chmod 755 "$launcher.new" && mv "$launcher.new" "$launcher"; }; then
        say "cannot write $launcher. Use $here/.venv/bin/lab"
        return 0
    fi
    say "launcher: $launcher"
    case ":$PATH:" in
    *":$folder:"*) ;;
    *) say "$folder is not on PATH; add it, or use $here/.venv/bin/lab" ;;
    esac
}

[ "$(uname -s)" = Linux ] || fail "the lab runs on Linux only, this is $(uname -s)"
[ -e /etc/debian_version ] || say "warning: this is not Debian; the lab may work, but this is not tested"
ensure_packages
if "$python" -m lab.assets check >/dev/null; then
    ensure_venv
else
    # Compile while pip downloads.
    "$python" -m lab.assets build &
    building=$!
    code=0
    (ensure_venv) || code=$?
    wait "$building" || code=$?
    [ "$code" = 0 ] || exit "$code"
fi
ensure_launcher
