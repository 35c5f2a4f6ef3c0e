#!/usr/bin/env bash
# The first process of a machine whose root is the host's: makes a machine of it, runs pytest, and turns it off.
#
#   tests.sh PYTHON CHECKOUT ARGUMENT...     ARGUMENTs are pytest's; /vm gets exit-code and junit.xml
set -uo pipefail
python=$1 checkout=$2
shift 2
exec </dev/null >/dev/console 2>&1
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8

finish() {
    echo "$1" >/vm/exit-code
    sync
    busybox poweroff -f
}
trap 'finish 125' EXIT

set -e
mount -t sysfs sysfs /sys
mkdir -p /dev/pts /dev/shm /dev/net
mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts /dev/pts
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount --bind "$checkout" /mnt # it may be below /tmp
mount -t tmpfs -o mode=0755 tmpfs /run
mount -t tmpfs -o mode=1777 tmpfs /tmp
mkdir -p "$checkout"
mount --bind /mnt "$checkout"
mount -t cgroup2 cgroup2 /sys/fs/cgroup
# The host's files here are not the guest's.
mkdir -p /var/lib/cni
mount -t tmpfs -o mode=0755 tmpfs /var/lib/cni

modprobe --all bridge veth vxlan nf_tables 8021q dummy ipvlan macvlan vrf tun ifb sch_tbf sch_htb sch_ingress cls_u32 act_mirred \
    sctp virtio_net e1000
[ -e /dev/net/tun ] || mknod -m 0666 /dev/net/tun c 10 200 # there is no udev
hostname vm
ip link set lo up
# As on a machine with containers, under systemd: new network namespaces inherit it.
for parameter in ip_forward=1 conf/all/rp_filter=2 conf/default/rp_filter=2 conf/default/promote_secondaries=1; do
    echo "${parameter#*=}" >"/proc/sys/net/ipv4/${parameter%=*}"
done

cd "$checkout"
# No test may say that this kernel lacks something, and all may take longer.
export CNI_HARNESS_TEST_KERNEL=full
set +e
"$python" -m pytest --junitxml /vm/junit.xml "$@"
code=$?
trap - EXIT
finish "$code"
