"""Pods under containerd as Debian configures it, with our plugins by `cni-harness install --conf --divert`."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

from tests.runtime.containerd import Containerd

LOOPBACK = ["127.0.0.1", "::1"]


def answers(containerd: Containerd, address: str, *, within: int = 5) -> bool:
    """Whether the node gets an answer from an address, in so many seconds."""
    return containerd.node.run(["ping", "-c", "1", "-W", str(within), address], check=False).returncode == 0


def test_pod_in_containerd_has_the_addresses_of_its_network(containerd: Containerd) -> None:
    pod = containerd.cri.run_pod("one")
    container = containerd.cri.run_container(pod)

    addresses = containerd.cri.addresses(pod)
    assert addresses == ["10.86.0.2", "fd0d:6e1b:8b5c::2"]
    assert containerd.addresses_in(pod) == {"lo": LOOPBACK, "eth0": addresses}
    assert containerd.reservations() == dict.fromkeys(addresses, pod.id)
    code, printed = containerd.cri.execute(container, "ip", "address", "show", "dev", "eth0")
    assert code == 0
    assert re.findall(r"inet6? (\S+) .*global", printed) == ["10.86.0.2/16", "fd0d:6e1b:8b5c::2/64"]
    assert " state UP " in printed or ",UP," in printed


def test_pods_and_the_node_reach_each_other(containerd: Containerd) -> None:
    one, two = (containerd.cri.run_pod(name) for name in ("one", "two"))
    container = containerd.cri.run_container(one)

    for address in [*containerd.cri.addresses(two), "10.86.0.1", "fd0d:6e1b:8b5c::1"]:
        code, printed = containerd.cri.execute(container, "ping", "-c", "1", "-W", "5", address)
        assert code == 0, printed
    for address in [*containerd.cri.addresses(one), *containerd.cri.addresses(two)]:
        assert answers(containerd, address)


def test_stop_and_remove_leave_nothing(containerd: Containerd) -> None:
    containerd.warm_up()
    before = containerd.state()
    pod = containerd.cri.run_pod("one")
    containerd.cri.run_container(pod)
    address = containerd.cri.addresses(pod)[0]

    containerd.cri.stop_pod(pod.id)
    assert containerd.reservations() == {}
    assert not answers(containerd, address, within=1)
    containerd.cri.stop_pod(pod.id)
    containerd.cri.remove_pod(pod.id)

    assert containerd.cri.pods() == {}
    containerd.assert_same_state(before)


def test_twenty_at_once(containerd: Containerd) -> None:
    containerd.warm_up()
    before = containerd.state()

    with ThreadPoolExecutor(20) as pool:
        pods = list(pool.map(containerd.cri.run_pod, [f"pod{number}" for number in range(20)]))
        addresses: dict[str, list[str]] = {pod.id: containerd.cri.addresses(pod) for pod in pods}
        every = [address for both in addresses.values() for address in both]
        assert all(pool.map(lambda address: answers(containerd, address), every))
    assert len(set(every)) == 40
    assert containerd.reservations() == {address: pod for pod, both in addresses.items() for address in both}

    containerd.remove(*addresses)
    containerd.assert_same_state(before)


def test_doctor_names_the_origin_of_containerds_plugins(idle_containerd: Containerd) -> None:
    node = idle_containerd.node

    def origins() -> dict[str, str]:
        [runtime] = [
            each
            for each in json.loads(node.run(node.cni_harness("doctor", "-o", "json")).stdout)["runtimes"]
            if each["name"] == "containerd"
        ]
        assert runtime["configuration"] == ["/etc/containerd/config.toml"]
        assert runtime["list"] == "/etc/cni/net.d/10-cni-harness.conflist"
        return {plugin["path"]: plugin["origin"] for plugin in runtime["plugins"]}

    paths = [f"/usr/lib/cni/{name}" for name in ("bridge", "host-local", "loopback")]
    assert origins() == dict.fromkeys(paths, "this cni-harness")

    node.run(node.cni_harness("uninstall", "--bin-dir", "/usr/lib/cni"))

    document = json.loads(node.run(node.cni_harness("doctor", "-o", "json"), check=False).stdout)
    assert {plugin["origin"] for each in document["runtimes"] for plugin in each["plugins"]} == {
        "containernetworking-plugins"
    }
