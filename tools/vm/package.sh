#!/usr/bin/env bash
# Run by systemd in a Debian that has containerd and nothing of the project: runs tests that install the package, and
# turns the machine off.
#
#   package.sh CHECKOUT ARGUMENT...     ARGUMENTs are pytest's; /vm has checkout.tar, the package, and pytest
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
mkdir -p "$checkout/build"
tar -xf /vm/checkout.tar -C "$checkout"
ln -s /vm/cni-harness_*.deb "$checkout/build/"
# The root is an overlay file system, above which containerd could make none of its own.
systemctl stop containerd
mkdir -p /var/lib/containerd
mount -t tmpfs tmpfs /var/lib/containerd
systemctl start containerd
# Pods get a copy of it, and an installer would have written it.
[ -e /etc/hosts ] || echo '127.0.0.1 localhost' >/etc/hosts

cd "$checkout"
export CNI_HARNESS_TEST_MACHINE=package PYTHONDONTWRITEBYTECODE=1
set +e
PYTHONPATH=/vm/pytest python3 -m pytest -p no:cacheprovider --junitxml /vm/junit.xml "$@"
code=$?
trap - EXIT
finish "$code"
