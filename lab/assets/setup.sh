#!/bin/sh
# Sets this checkout up: Debian packages, virtual environment, servers, ferry, the `lab` launcher; for `make test` the UML router.
#
# Idempotent, and under a second when there is nothing to do. Starts no daemon and touches nothing outside the checkout, the
# user's cache and one launcher, except through apt-get when a package is missing. THROUGHLINE_LAUNCHER=no leaves the launcher out.
set -eu

here=$(cd "$(dirname "$0")/../.." && pwd)
cd "$here"
stamp=.venv/.throughline-setup
marker='# Throughline launcher, written by lab/assets/setup.sh'

say() { echo "setup: $*"; }
fail() {
    echo "setup: $*" >&2
    exit 4
}

# The first Python of at least 3.11, the one on PATH preferred.
find_python() {
    for candidate in python3 /usr/bin/python3 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
}

# What the environment is made from: when this changes, it is made again.
recipe() {
    cat pyproject.toml lab/assets/setup.sh
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
    command -v apt-get >/dev/null || fail "missing programs, and no apt-get here: install what Debian calls $*"
    # Noninteractive: iperf3 asks whether to run as a daemon, and its default is not to.
    $become env DEBIAN_FRONTEND=noninteractive apt-get update -qq || say "apt-get update failed; trying with the package lists there are"
    # No removals: cargo-web takes the place of Debian's older cargo, which may be somebody's; that is theirs to decide.
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
    if [ "$(cat "$stamp" 2>/dev/null)" = "$(recipe | sha256sum)" ] && [ -x .venv/bin/lab ]; then
        return
    fi
    # A venv whose Python has gone, or that was copied from another folder, is no use.
    if ! .venv/bin/python -c "import sys; sys.exit(sys.prefix != '$here/.venv' or sys.version_info < (3, 11))" 2>/dev/null; then
        say "making the virtual environment .venv with $("$python" -V)"
        "$python" -m venv --clear .venv || fail "cannot make a virtual environment with $python"
    fi
    say "installing Python packages into .venv"
    .venv/bin/python -m pip install --quiet --editable '.[test]' || fail "pip could not install the Python packages (see above)"
    recipe | sha256sum >"$stamp"
}

ensure_launcher() {
    [ "${THROUGHLINE_LAUNCHER:-}" != no ] || return 0
    if [ "$(id -u)" = 0 ]; then folder=/usr/local/bin; else folder=$HOME/.local/bin; fi
    launcher=$folder/lab
    wanted="#!/bin/sh
$marker
exec '$here/.venv/bin/lab' \"\$@\""
    if [ -e "$launcher" ] || [ -L "$launcher" ]; then
        [ "$(cat "$launcher" 2>/dev/null)" != "$wanted" ] || return 0
        if ! grep -qF "$marker" "$launcher" 2>/dev/null; then
            say "$launcher is another program and stays; use $here/.venv/bin/lab"
            return 0
        fi
        # Another checkout's launcher is replaced only when that checkout has gone.
        other=$(sed -n "s/^exec '\(.*\)' .*/\1/p" "$launcher")
        if [ -x "$other" ]; then
            say "$launcher belongs to $other and stays; use $here/.venv/bin/lab"
            return 0
        fi
    fi
    if ! { mkdir -p "$folder" && printf '%s\n' "$wanted" >"$launcher.new" && chmod 755 "$launcher.new" && mv "$launcher.new" "$launcher"; }; then
        say "cannot write $launcher; use $here/.venv/bin/lab"
        return 0
    fi
    say "launcher: $launcher"
    case ":$PATH:" in
    *":$folder:"*) ;;
    *) say "$folder is not on PATH; add it, or use $here/.venv/bin/lab" ;;
    esac
}

[ "$(uname -s)" = Linux ] || fail "the lab runs on Linux only, this is $(uname -s)"
[ -e /etc/debian_version ] || say "warning: this is not Debian; it may work, but nobody has checked"
ensure_packages
if "$python" -m lab.assets check >/dev/null; then
    ensure_venv
else
    # Two minutes of compiling, and pip mostly waits for the network.
    "$python" -m lab.assets build &
    building=$!
    code=0
    (ensure_venv) || code=$?
    wait "$building" || code=$?
    [ "$code" = 0 ] || exit "$code"
fi
ensure_launcher
