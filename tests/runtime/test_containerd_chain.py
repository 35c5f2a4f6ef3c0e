"""A list of five plugins under containerd as Debian configures it: a port of the node leads to the pod."""

import json

import pytest

from tests.runtime.containerd import Containerd

MBIT = 1_000_000
CHAIN = {
    "cniVersion": "1.0.0",
    "name": "cni-harness",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "chain0",
            "isGateway": True,
            "ipMasq": True,
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": "10.86.0.0/16"}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        },
        {"type": "portmap", "capabilities": {"portMappings": True}},
        {
            "type": "bandwidth",
            "ingressRate": 50 * MBIT,
            "ingressBurst": MBIT,
            "egressRate": 50 * MBIT,
            "egressBurst": MBIT,
        },
        {"type": "firewall"},
        {"type": "tuning", "sysctl": {"net.core.somaxconn": "500"}},
    ],
}


@pytest.fixture
def chained(containerd: Containerd) -> Containerd:
    """Containerd with the chain as its network; it reads a changed list by itself."""
    (path,) = containerd.node.lists.glob("*cni-harness.conflist")
    path.write_text(json.dumps(CHAIN))
    # The first pod with a port also sets the bridge's kernel parameter route_localnet, which stays.
    containerd.remove(containerd.cri.run_pod("first", ports={8079: 79}).id)
    return containerd


def test_a_port_of_the_node_leads_to_the_pod(chained: Containerd) -> None:
    before = chained.state()
    pod = chained.cri.run_pod("one", ports={8080: 80})
    container = chained.cri.run_container(pod)
    [address] = chained.cri.addresses(pod)
    assert address.startswith("10.86.")
    code, printed = chained.cri.execute(
        container, "sh", "-c", "mkdir -p /tmp/www && echo pod > /tmp/www/index.html && httpd -p 80 -h /tmp/www"
    )
    assert code == 0, printed

    for reached in ("127.0.0.1:8080", "10.86.0.1:8080", f"{address}:80"):
        assert chained.node.fetched(f"http://{reached}/index.html") == "pod\n\n", reached
    queues = json.loads(chained.node.run(["tc", "-j", "qdisc", "show"]).stdout)
    assert [queue["kind"] for queue in queues].count("tbf") == 2
    code, printed = chained.cri.execute(container, "sh", "-c", "cat /proc/sys/net/core/somaxconn")
    assert (code, printed) == (0, "500\n")

    chained.remove(pod.id)
    chained.assert_same_state(before)
