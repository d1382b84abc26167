#!/bin/sh
# The work of action.yml, for GitHub's runners and any other that sets variables: install the lab, run one command of it, and hand
# its results to the job. Ends with 0, or with the command's exit code where its verdict should fail the job.
#
#   LAB_INSTALL   what pip installs into an environment of its own; empty: the `lab` on PATH
#   LAB_COMMAND   words after `lab`: `run throttle --client ./mine.yaml`, `qualify ./mine.yaml --quick`
#   LAB_FAIL_ON   verdicts that fail the job; not set: FAIL INCONCLUSIVE INVALID
#   LAB_RESULTS   the folder of the results; default: ./results
#   LAB_REAL_TIME true: let this machine's users make namespaces, which cells in real time need (Ubuntu 24.04 forbids it)
set -eu

results=${LAB_RESULTS:-$PWD/results}
fail_on=${LAB_FAIL_ON-FAIL INCONCLUSIVE INVALID}
export ROUGHWATER_RESULTS="$results" NO_COLOR=1

if [ -z "${LAB_COMMAND:-}" ]; then
    echo "::error::there is nothing to do: set the action's input \`command\`, e.g. run throttle"
    exit 2
fi

if [ -n "${LAB_INSTALL:-}" ]; then
    environment=${RUNNER_TEMP:-${TMPDIR:-/tmp}}/roughwater
    python3 -m venv "$environment"
    "$environment/bin/python" -m pip install --quiet --disable-pip-version-check "$LAB_INSTALL"
    export PATH="$environment/bin:$PATH"
    [ -z "${GITHUB_PATH:-}" ] || echo "$environment/bin" >>"$GITHUB_PATH"
fi

guard=/proc/sys/kernel/apparmor_restrict_unprivileged_userns
if [ "${LAB_REAL_TIME:-}" = true ] && [ "$(cat "$guard" 2>/dev/null || echo 0)" = 1 ]; then
    sudo sysctl --quiet --write kernel.apparmor_restrict_unprivileged_userns=0
fi

before=$(readlink "$results/latest" || true)
code=0
# shellcheck disable=SC2086 # words, as a user types them
lab $LAB_COMMAND || code=$?
if [ "$(readlink "$results/latest" || true)" = "$before" ]; then
    echo "::error::lab $LAB_COMMAND left no results (exit code $code)"
    if [ "$code" = 0 ]; then exit 4; fi
    exit "$code"
fi

if [ -n "${GITHUB_OUTPUT:-}" ]; then
    lab report latest --github
    echo "exit-code=$code" >>"$GITHUB_OUTPUT"
fi

case $code in
    0) verdict=PASS ;;
    1) verdict=FAIL ;;
    3) verdict=INCONCLUSIVE ;;
    4) verdict=INVALID ;;
    *) exit "$code" ;;
esac
case " $fail_on " in
    *" $verdict "*) exit "$code" ;;
esac
