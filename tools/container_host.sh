#!/usr/bin/env bash
# README's first commands, in its order, and then the tests that `make test` leaves out, on a stand-in for a host with
# containers, from a checkout that only root can enter. The host is a network namespace that forwards packets and a mount
# namespace with Podman's network list in /etc/cni/net.d. Package registries are not reached from there: all is installed
# before. Results in build/junit.xml and build/junit-rest.xml.
set -euo pipefail
export PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

podman_list='{"cniVersion": "0.4.0", "name": "podman", "plugins": [
  {"type": "bridge", "bridge": "cni-podman0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "routes": [{"dst": "0.0.0.0/0"}],
            "ranges": [[{"subnet": "10.88.0.0/16", "gateway": "10.88.0.1"}]]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}, {"type": "firewall"}, {"type": "tuning"}]}'

# Makes the host of this process's namespaces; files in these folders stay in memory.
become_container_host() {
    local memory=$1
    mount -t tmpfs tmpfs "$memory"
    cp -a /etc "$memory/etc"
    rm -rf "$memory/etc/cni"
    mkdir -p "$memory/etc/cni/net.d"
    echo "$podman_list" >"$memory/etc/cni/net.d/87-podman-bridge.conflist"
    mount --bind "$memory/etc" /etc
    for folder in /opt/cni /var/lib/cni /var/lib/cni-harness /run/netns; do
        [ ! -d "$folder" ] || mount -t tmpfs -o mode=0755 tmpfs "$folder"
    done
    ip link set lo up
    echo 1 >/proc/sys/net/ipv4/ip_forward
}

if [ "${1-}" = --inside ]; then
    become_container_host "$2"
    set -x
    make up
    .venv/bin/cni-harness del pod1
    make down
    [ -z "$(ip -o link show type bridge)" ]
    make up
    make test
    make test-rest
    exit
fi

cd "$(dirname "${BASH_SOURCE[0]}")/.."
place=$(mktemp -d -p /root cni-harness.XXXXXXXX) # of mode 0700
memory=$(mktemp -d)
trap 'rm -rf "$place"; rmdir "$memory"' EXIT
mkdir "$place/checkout"
tar -c --exclude-vcs --exclude=./.venv --exclude=./build --exclude='.*_cache' --exclude=__pycache__ --exclude=./launch/_launcher . |
    tar -x -C "$place/checkout"
make -C "$place/checkout" test-venv rest-needs
mkdir -p /var/lib/cni /var/lib/cni-harness /run/netns # they stay: another run may be using them
code=0
(cd "$place/checkout" && unshare --net --mount --propagation private tools/container_host.sh --inside "$memory") || code=$?
mkdir -p build
for results in junit.xml junit-rest.xml; do
    rm -f "build/$results"
    if [ ! -e "$place/checkout/build/$results" ]; then
        code=$((code == 0 ? 1 : code))
        continue
    fi
    cp "$place/checkout/build/$results" build/
    # The kernel may lack drivers; nothing else is a reason. tests/kernel.py
    if grep -o '<skipped [^>]*' "build/$results" | grep -v kernel; then
        echo "tests were skipped" >&2
        code=1
    fi
done
exit "$code"
