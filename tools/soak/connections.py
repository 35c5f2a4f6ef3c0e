"""`connect` and `disconnect`, thousands of times on one pod that lives: what do they leave?"""

import json
from pathlib import Path
from typing import Final

from harness.libcni.networks import NetworkList, parse_network_list
from harness.runtime.node import Node
from harness.runtime.node_snapshot import take_node
from harness.runtime.pod_lifecycle import PodRuntime
from harness.runtime.pod_networks import NetworkPlan
from harness.snapshot import differences
from tools.soak.suite import write_launchers

_POD: Final = ("default", "soaked")
_EXPECTED: Final = ["*last_reserved_ip*"]
"""host-local's note of the address that it gave last."""


def connect_often(folder: Path, root: Path, times: int) -> list[str]:
    """Join a pod so many times to a further network and take it off; return in words what is left on node and pod.

    One in ten times two connections overlap. Raises PodError, PluginError.
    """
    said: list[str] = []
    bin_dir = write_launchers(folder / "direct", root)
    node = Node("soak-connections", folder / "state")
    with node.in_use():
        runtime = PodRuntime(node, bin_dirs=[bin_dir], warn=said.append)
        pod = runtime.add(*_POD, [NetworkPlan(_network("first", 0), "eth0", {}, {})]).pod
        further = NetworkPlan(_network("further", 1), "", {}, {})
        _connect(runtime, further, 1)  # the bridge and the folders of the network stay, as after each DEL
        before = take_node(node, [pod], [node.folder])
        for number in range(times):
            _connect(runtime, further, 1 + (number % 10 == 0))
        after = take_node(node, [pod], [node.folder])
        runtime.delete(*_POD)
    left = [str(each) for each in differences(before, after, ignore=_EXPECTED)]
    left += [str(path) for path in (*node.pods.folder.glob("*"), *(node.var_lib_cni / "results").glob("*"))]
    node.remove()
    return left + said


def _connect(runtime: PodRuntime, plan: NetworkPlan, count: int) -> None:
    [pod] = runtime.node.pods.named(*_POD)
    made = [runtime.connect(pod, plan) for _ in range(count)]
    for network in made:
        runtime.disconnect(pod, network.name, network.ifname)


def _network(name: str, number: int) -> NetworkList:
    ipam = {"type": "host-local", "ranges": [[{"subnet": f"10.{77 + number}.0.0/24"}]]}
    plugin = {"type": "bridge", "bridge": f"{name}0", "isGateway": True, "ipMasq": True, "ipam": ipam}
    return parse_network_list(json.dumps({"cniVersion": "1.0.0", "name": name, "plugins": [plugin]}).encode())
