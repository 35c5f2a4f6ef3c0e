"""Podman's default network, as Podman itself writes it, with every one of its plugins ours."""

import json

from tests.runtime.node import RuntimeNode
from tests.runtime.oci import BUSYBOX

KEPT = ["*cni-podman0*", "node/sysctl/*", "files/*"]


def test_a_published_port_answers_and_nothing_is_left(runtime_node: RuntimeNode, podman: list[str]) -> None:
    node = runtime_node
    listed = json.loads(node.run([*podman, "network", "inspect", "podman"]).stdout)
    assert listed[0]["driver"] == "bridge"
    serve = "mkdir -p /www && echo pod > /www/index.html && exec httpd -f -p 80 -h /www"
    run = [*podman, "run", "--detach", "--publish=8080:80", BUSYBOX, "sh", "-c"]
    first = node.run([*run, serve]).stdout.strip()
    node.run([*podman, "rm", "--force", "--time=0", first])
    before = node.state()

    container = node.run([*run, serve]).stdout.strip()
    answer = node.fetched("http://127.0.0.1:8080/index.html")

    assert answer == "pod\n\n"
    node.run([*podman, "rm", "--force", "--time=0", container])
    node.assert_same_state(before, ignore=KEPT, within=60)
