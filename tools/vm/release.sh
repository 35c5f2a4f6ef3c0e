#!/usr/bin/env bash
# Run by systemd in a Debian that has nothing of the project: runs tests that install each artefact, and turns the
# machine off.
#
#   release.sh CHECKOUT ARGUMENT...     ARGUMENTs are pytest's; /vm has checkout.tar, artefacts, and pytest
source /vm/debian.sh

# Pods get a copy of it, and an installer would have written it.
[ -e /etc/hosts ] || echo '127.0.0.1 localhost' >/etc/hosts

export PYTHONDONTWRITEBYTECODE=1
run_tests release python3 "$@"
