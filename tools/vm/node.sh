#!/usr/bin/env bash
# Run by systemd in a Debian that has nothing of the project: does what `vagrant up` does, runs tests of what came of
# it, and turns the machine off.
#
#   node.sh CHECKOUT ARGUMENT...     ARGUMENTs are pytest's; /vm has checkout.tar, and wheels in place of a registry
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

set -e
mkdir -p "$checkout"
tar -xf /vm/checkout.tar -C "$checkout"
began=$SECONDS
PIP_NO_INDEX=1 PIP_FIND_LINKS=/vm/wheels "$checkout/tools/provision.sh"
echo "provisioned in $((SECONDS - began)) s"

cd "$checkout"
export CNI_HARNESS_TEST_MACHINE=node
set +e
PYTHONPATH=/vm/pytest .venv/bin/python -m pytest -p no:cacheprovider --junitxml /vm/junit.xml "$@"
code=$?
trap - EXIT
finish "$code"
