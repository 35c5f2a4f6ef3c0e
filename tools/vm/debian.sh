#!/usr/bin/env bash
# Sourced by the jobs that systemd runs in a Debian of its own, whose first argument is CHECKOUT: unpacks
# /vm/checkout.tar there, and turns the machine off when the job ends. /vm gets exit-code and junit.xml.
set -uo pipefail
checkout=$1
shift
exec </dev/null >/dev/console 2>&1
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8

finish() {
    echo "$1" >/vm/exit-code
    sync
    poweroff --force --force
}
trap 'finish 125' EXIT

# run_tests MACHINE PYTHON ARGUMENT...: runs pytest with these arguments, and ends the job.
run_tests() {
    export CNI_HARNESS_TEST_MACHINE=$1
    set +e
    PYTHONPATH=/vm/pytest "$2" -m pytest -p no:cacheprovider --junitxml /vm/junit.xml "${@:3}"
    local code=$?
    trap - EXIT
    finish "$code"
}

set -e
mkdir -p "$checkout"
tar -xf /vm/checkout.tar -C "$checkout"
cd "$checkout"
