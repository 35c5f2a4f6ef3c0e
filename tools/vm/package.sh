#!/usr/bin/env bash
# Run by systemd in a Debian that has containerd and nothing of the project: runs tests that install the package, and
# turns the machine off.
#
#   package.sh CHECKOUT ARGUMENT...     ARGUMENTs are pytest's; /vm has checkout.tar, the package, and pytest
source /vm/debian.sh

mkdir -p build
ln -s /vm/cni-harness_*.deb build/
# The root is an overlay file system, above which containerd could make none of its own.
systemctl stop containerd
mkdir -p /var/lib/containerd
mount -t tmpfs tmpfs /var/lib/containerd
systemctl start containerd
# Pods get a copy of it, and an installer would have written it.
[ -e /etc/hosts ] || echo '127.0.0.1 localhost' >/etc/hosts

export PYTHONDONTWRITEBYTECODE=1
run_tests package python3 "$@"
