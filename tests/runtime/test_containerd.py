"""Pods under containerd, with this project's plugins and network list as `cni-harness install --conf` puts them."""

import re
from concurrent.futures import ThreadPoolExecutor

from tests.runtime.containerd import Containerd

LOOPBACK = ["127.0.0.1", "::1"]


def answers(containerd: Containerd, address: str, *, within: int = 5) -> bool:
    """Whether the node gets an answer from an address, in so many seconds."""
    return containerd.node.run(["ping", "-c", "1", "-W", str(within), address], check=False).returncode == 0


def test_a_pod_has_what_its_network_gives_it(containerd: Containerd) -> None:
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
