#!/usr/bin/env bash
# Run by systemd in a Debian that has nothing of the project: does what `vagrant up` does, runs tests of what came of
# it, and turns the machine off.
#
#   node.sh CHECKOUT ARGUMENT...     ARGUMENTs are pytest's; /vm has checkout.tar, and wheels in place of a registry
source /vm/debian.sh

began=$SECONDS
PIP_NO_INDEX=1 PIP_FIND_LINKS=/vm/wheels tools/provision.sh
echo "provisioned in $((SECONDS - began)) s"

run_tests node .venv/bin/python "$@"
