#!/usr/bin/env bash
# Run by tools/test_run.sh: makes ROOT this machine's root, with memory above it for new files, and runs unit tests there.
#
#   inside.sh ROOT WHEELS FOLDER VERSION TEST...     FOLDER has checkout.tar, and gets junit.xml
set -euo pipefail
root=$1 wheels=$2 folder=$3 version=$4
shift 4

# Named from within it: in mount's options, a comma or a colon in a path would mean something else.
cd "$root"
mount -t tmpfs tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay overlay -o lowerdir=.,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root
for place in proc sys dev; do
    mount --rbind "/$place" "/mnt/root/$place"
done
for place in run tmp; do
    mount -t tmpfs tmpfs "/mnt/root/$place"
done
mkdir -p /mnt/root/run/netns /mnt/root/mnt/wheels /mnt/root/mnt/folder /mnt/root/opt/cni-harness
# The reference plugins are this machine's: only Python is to differ.
mount --bind /usr/lib/cni /mnt/root/usr/lib/cni
mount --bind "$wheels" /mnt/root/mnt/wheels
mount --bind "$folder" /mnt/root/mnt/folder

exec chroot /mnt/root env --ignore-environment HOME=/root LANG=C.UTF-8 \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin bash -euxc '
        cd /opt/cni-harness
        tar -xf /mnt/folder/checkout.tar
        "python$0" -m venv .venv
        PIP_NO_INDEX=1 PIP_FIND_LINKS=/mnt/wheels .venv/bin/pip install --quiet --editable ".[test,lint]"
        .venv/bin/python -m pytest -n 2 --dist worksteal --junitxml /mnt/folder/junit.xml -m "not needs and not slow" "$@"
    ' "$version" "$@"
