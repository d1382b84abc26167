#!/bin/sh
# Sets this checkout up: Debian packages, virtual environment, servers, ferry, launchers; for tests the UML router.
#
# Idempotent, and quick when there is nothing to do. It starts no daemon. Outside the checkout it changes only the user's cache
# and the launchers `lab` and `roughwater`, and installs missing packages by apt-get. ROUGHWATER_LAUNCHER is another folder for
# them, or `no`, which leaves them out. The word `setup` says where they are even if nothing changes; `wheel` builds the package only.
set -eu

# Physical, as Python sees it: below, the environment's prefix is compared with it.
here=$(cd "$(dirname "$0")/../.." && pwd -P)
cd "$here"
asked=${1:-}
# Tests need more packages than the lab, and a release runs one on its package for Debian. An environment that has them serves both.
lock=requirements.lock
stamp=.venv/.roughwater-setup
uncompiled=
if [ -n "${ROUGHWATER_TESTERS:-}${ROUGHWATER_RELEASE:-}" ]; then
    lock=requirements-test.lock
    stamp=.venv/.roughwater-setup-test
    uncompiled=--no-compile
fi
marker='# Roughwater launcher, written by lab/assets/setup.sh'
# A launcher of the time before November 2026.
former_marker='# Throughline launcher, written by lab/assets/setup.sh'

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
    # A machine that has just started updates itself, for minutes.
    # No removals: cargo-web would replace Debian's older cargo, which the user may need.
    # shellcheck disable=SC2086  # $become is nothing or one word
    $become env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install -y -qq --no-install-recommends --no-remove "$@" >/dev/null ||
        fail "cannot install packages; ask an administrator to run: apt-get install --no-install-recommends $*"
}

ensure_python() {
    python=$(find_python)
    [ -z "$python" ] || return 0
    install_packages python3 python3-venv
    python=$(find_python)
    [ -n "$python" ] || fail "Python 3.11 or newer is needed; this system has $(python3 -V 2>&1)"
}

ensure_packages() {
    ensure_python
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
    if ! .venv/bin/python -c "import sys; sys.exit(sys.prefix != sys.argv[1] or sys.version_info < (3, 11))" "$here/.venv" 2>/dev/null; then
        say "making the virtual environment .venv with $("$python" -V)"
        "$python" -m venv --clear .venv || fail "cannot make a virtual environment with $python"
    fi
    say "installing the Python packages of $lock into .venv"
    # The lock file holds hatchling too, so that nothing is downloaded without a known hash. It names every package: pip need
    # not look for more. Half of the time for the testers' packages is to compile modules that most tests never import.
    if ! { .venv/bin/python -m pip install --quiet --no-deps $uncompiled --require-hashes -r "$lock" &&
        .venv/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .; }; then
        fail "pip could not install the Python packages (see above)"
    fi
    recipe | sha256sum >"$stamp"
}

# Text as one word of a shell.
quoted() { printf "'%s'" "$(printf '%s\n' "$1" | sed "s/'/'\\\\''/g")"; }

# The checkout that a launcher starts, if it can still start it.
launched_checkout() {
    program=$(sed -n "s/^exec '\(.*\)' .*/\1/p" "$1" | sed "s/'\\\\''/'/g")
    if [ -x "$program" ]; then (cd "${program%/.venv/bin/*}" 2>/dev/null && pwd -P); fi
}

# Write the launcher of one program into $folder; 1 if something else of that name stays there.
ensure_launcher() {
    launcher=$folder/$1
    wanted="#!/bin/sh
$marker
exec $(quoted "$here/.venv/bin/$1") \"\$@\""
    if [ -e "$launcher" ] || [ -L "$launcher" ]; then
        [ "$(cat "$launcher" 2>/dev/null)" != "$wanted" ] || return 0
        if ! grep -qF -e "$marker" -e "$former_marker" "$launcher" 2>/dev/null; then
            say "$launcher is another program; it stays. Use $here/.venv/bin/$1"
            return 1
        fi
        # Replace the launcher of another checkout only if that checkout does not exist any more.
        other=$(launched_checkout "$launcher")
        if [ -n "$other" ] && [ "$other" != "$here" ]; then
            say "$launcher belongs to the checkout $other; it stays. Use $here/.venv/bin/$1"
            return 1
        fi
    fi
    if ! { mkdir -p "$folder" && printf '%s\n' "$wanted" >"$launcher.new" && chmod 755 "$launcher.new" && mv "$launcher.new" "$launcher"; }; then
        say "cannot write $launcher. Use $here/.venv/bin/$1"
        return 1
    fi
    wrote=yes
}

ensure_launchers() {
    folder=${ROUGHWATER_LAUNCHER:-}
    [ "$folder" != no ] || return 0
    whom=
    if [ -z "$folder" ] && [ "$(id -u)" = 0 ]; then
        folder=/usr/local/bin
        whom=", for every user of this machine because you are root"
    fi
    folder=${folder:-$HOME/.local/bin}
    case $folder in /*) ;; *) folder=$here/$folder ;; esac
    wrote=
    ours=
    for each in lab roughwater; do
        if ensure_launcher "$each"; then ours="$ours${ours:+ and }$folder/$each"; fi
    done
    [ -n "$ours" ] || return 0
    if [ -n "$wrote" ]; then
        say "wrote $ours, to start this lab$whom"
    elif [ "$asked" = setup ]; then
        say "use $ours to start this lab$whom"
    else
        return 0
    fi
    case ":$PATH:" in *":$folder:"*) return 0 ;; esac
    case $folder in
    "$HOME/.local/bin") line='export PATH="$HOME/.local/bin:$PATH"' ;;
    *) line="export PATH=$(quoted "$folder"):\"\$PATH\"" ;;
    esac
    say "$folder is not on your PATH. Add this line to your shell's profile (~/.profile, ~/.bashrc, ~/.zshrc) and open a new shell:"
    printf '%s\n' "$line"
}

# The package needs hatchling and nothing else: no engine, no packages of the lab. The environment is the lab's if it is there.
build_wheel() {
    ensure_python
    locked=$(sed -n 's/^hatchling==\([^ ]*\).*/\1/p' requirements.lock)
    for builder in .venv build/wheel-venv; do
        has_hatchling "$builder" && break
    done
    if ! has_hatchling "$builder"; then
        "$python" -c 'import ensurepip' 2>/dev/null || install_packages python3-venv
        "$python" -m venv --clear "$builder" || fail "cannot make a virtual environment with $python"
        # Hatchling's entry and those of what it needs, with their hashes. If one were left out, pip would refuse.
        awk '/^[a-z0-9]/ { if (keep) printf "%s", entry; entry = ""; keep = /^hatchling==/ }
            /^ +# +(via )?hatchling$/ { keep = 1 }
            { entry = entry $0 "\n" }
            END { if (keep) printf "%s", entry }' requirements.lock >"$builder/hatchling.lock"
        "$builder/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$builder/hatchling.lock" ||
            fail "pip could not install hatchling (see above)"
    fi
    "$builder/bin/python" -m hatchling build --target wheel --directory build/wheel
}

# The version that is locked, in an environment that was made for this folder.
has_hatchling() {
    "$1/bin/python" -c "import sys, importlib.metadata as installed
sys.exit(sys.prefix != sys.argv[1] or installed.version('hatchling') != sys.argv[2])" "$here/$1" "$locked" 2>/dev/null
}

if [ "$asked" = wheel ]; then
    build_wheel
    exit
fi
[ "$(uname -s)" = Linux ] || fail "the lab runs on Linux only, this is $(uname -s)"
[ -e /etc/debian_version ] || say "warning: this is not Debian; the lab may work, but this is not tested"
ensure_packages
if [ "${1:-}" = environment ]; then
    # Tests of the lab begin while ferry is still compiled (tests/support/jobs.py).
    ensure_venv
elif "$python" -m lab.assets check >/dev/null; then
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
ensure_launchers
