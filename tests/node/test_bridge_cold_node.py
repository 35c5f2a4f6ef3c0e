"""Many pods at once on a node that has had none."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.attachments import SHARED_BY_PODS, Network, bridge_config
from tests.nodes import Node

PODS = 100


@pytest.mark.slow("a hundred pods; test_cli_pods makes many at once in make test")
def test_a_hundred_pods_at_once(node: Node, bin_dir: Path) -> None:
    network = Network(node, bin_dir, bridge_config(ipMasq=True, macspoofchk=True))
    before = node.state()
    pods = [f"pod-{number}" for number in range(PODS)]
    for pod in pods:
        node.pod_namespace(pod)

    with ThreadPoolExecutor(PODS) as at_once:
        results = list(at_once.map(lambda pod: network.run("ADD", pod), pods))
    failed = [ran for ran in results if ran.code != 0]
    assert failed == []

    addresses = [ip["address"] for ran in results for ip in ran.stdout["ips"]]
    ports = node.ip("link", "show", "master", "br0")
    assert len(set(addresses)) == 2 * PODS
    assert len(ports) == PODS
    assert all(network.ping(None, ran.stdout["ips"][0]["address"].split("/")[0]) for ran in results[:: PODS // 5])

    with ThreadPoolExecutor(PODS) as at_once:
        deleted = list(at_once.map(lambda pod: network.run("DEL", pod), pods))
    assert [ran for ran in deleted if ran.code != 0] == []
    node.assert_same_state(before, ignore=SHARED_BY_PODS)
