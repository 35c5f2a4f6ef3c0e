#!/usr/bin/env bash
# Turns a clean Debian machine into a node: the plugins in /opt/cni/bin, the network list beside them, and a first pod.
#
#   tools/provision.sh            as root, from anywhere; the project stays where it is
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The compiler is for the plugins' launcher, which it makes twenty times as fast to start.
tools/need.sh make=make python3=python3 cc=gcc /usr/include/stdlib.h=libc6-dev
make install
ln -sfn "$PWD/.venv/bin/cni-harness" "${COMMAND_DIR:-/usr/local/bin}/cni-harness"
make up
