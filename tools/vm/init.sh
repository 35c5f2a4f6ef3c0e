#!/bin/sh
# /init of the initramfs, run by busybox: the root that is shared with the machine, and memory above it for new
# files. The next first process finds the kernel's modules, and the files shared with the host at /vm.
set -e
export PATH=/bin
mount -t devtmpfs none /dev
exec </dev/console >/dev/console 2>&1
mount -t proc none /proc

while read -r module; do
    insmod "/modules/$module"
done </modules/order

share=trans=virtio,version=9p2000.L,msize=512000
mount -t 9p -o "$share,ro,cache=loose" root /lower
mount -t tmpfs -o mode=0755 none /upper
mkdir /upper/files /upper/work
mount -t overlay -o lowerdir=/lower,upperdir=/upper/files,workdir=/upper/work none /root

modules=/root/usr/lib/modules/$(uname -r)
mkdir -p "$modules" /root/vm
mount -t 9p -o "$share,ro,cache=loose" modules "$modules"
mount -t 9p -o "$share" exchange /root/vm
mount -o move /dev /root/dev
mount -o move /proc /root/proc

echo "vm: the guest is up"
# shellcheck disable=SC2046 # words
exec switch_root /root $(cat /next)
