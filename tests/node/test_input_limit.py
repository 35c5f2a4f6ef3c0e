"""Input of more than 16 MiB is refused; a GC with 20,000 attachments is not."""

import json
from pathlib import Path

from tests.nodes import Node

CONFIG = {
    "cniVersion": "1.1.0",
    "name": "net",
    "type": "bridge",
    "ipam": {"type": "host-local", "subnet": "10.88.0.0/24"},
}
MOST = 1 << 24


def padded(size: int) -> str:
    """Return the configuration as JSON of that many bytes."""
    text = json.dumps(CONFIG | {"padding": ""})
    return json.dumps(CONFIG | {"padding": "x" * (size - len(text))})


def test_input_beyond_the_limit_is_one_error_and_the_next_call_works(node: Node, bin_dir: Path) -> None:
    for verb in ("STATUS", "DEL", "ADD"):
        netns = node.pod_namespace(verb)
        refused = node.plugin(
            bin_dir, "host-local", verb, padded(MOST + 1), container_id="one", ifname="eth0", netns=netns
        )

        assert (refused.code, refused.stdout["code"]) == (1, 6)
        assert refused.stdout["msg"] == f"network configuration: expected at most {MOST} bytes on stdin"
    assert node.plugin(bin_dir, "host-local", "STATUS", padded(MOST)).code == 0
    assert not list(node.var_lib_cni.glob("networks/*/*"))


def test_gc_takes_twenty_thousand_attachments(node: Node, bin_dir: Path) -> None:
    netns = node.pod_namespace("pod")
    containers = [f"{number:064x}" for number in range(20_000)]
    for container_id in (containers[7], "f" * 64):
        added = node.plugin(bin_dir, "host-local", "ADD", CONFIG, container_id=container_id, ifname="eth0", netns=netns)
        assert added.code == 0
    valid = [{"containerID": each, "ifname": "eth0"} for each in containers]
    config = CONFIG | {"cni.dev/valid-attachments": valid, "cni.dev/attachments": valid}

    collected = node.plugin(bin_dir, "host-local", "GC", config)

    assert collected.code == 0, collected
    kept = [path.read_text() for path in node.var_lib_cni.glob("networks/net/10.*")]
    assert [text.split() for text in kept] == [[containers[7], "eth0"]]
