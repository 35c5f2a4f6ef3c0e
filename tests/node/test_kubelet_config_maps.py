"""Config maps beside the pods of manifests: they are kept with the pods that name them, and go with these."""

import json
from typing import Any

import pytest

from tests.manifests import FOREVER, WIRES, KubeletNode, container, pod
from tests.nodes import until

pytestmark = pytest.mark.sudo


def config_map(text: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"text": text}}


def reader(name: str) -> dict[str, Any]:
    """Return a pod that reads a config map as a file and as a variable."""
    reference = {"configMapKeyRef": {"name": "settings", "key": "text"}}
    app = container(
        "app",
        ["sh", "-c", f'echo "$(cat /mnt/text) $TEXT"; {FOREVER[2]}'],
        env=[{"name": "TEXT", "valueFrom": reference}],
        volumeMounts=[{"name": "settings", "mountPath": "/mnt"}],
    )
    return pod(name, app, volumes=[{"name": "settings", "configMap": {"name": "settings"}}])


def test_a_config_map_of_run_goes_with_its_last_pod(kubelet_node: KubeletNode) -> None:
    kubelet_node.configure(WIRES)
    before = kubelet_node.snapshot()
    (kubelet_node.manifests / "first.json").unlink()
    kubelet_node.write(config_map("one"), "settings.json")
    for name in ("web", "other"):
        kubelet_node.write(reader(name))
    kubelet_node.run("run", "-f", str(kubelet_node.manifests))

    kubelet_node.run("delete", "other")
    kubelet_node.run("exec", "web", "--", "kill", "-USR1", "1", check=False)  # it may end with the container

    def is_restarted() -> bool:
        kubelet_node.run("run", "-f", str(kubelet_node.manifests / "web.json"))
        (status,) = kubelet_node.one("web")["status"]["containerStatuses"]
        return bool(status.get("restartCount") == 1)

    until(is_restarted, within=60)
    assert kubelet_node.run("logs", "web").stdout == "one one\n"
    kubelet_node.run("delete", "web")
    kubelet_node.assert_nothing_left(before)


def test_a_single_pass_has_the_config_maps_of_static_pods(kubelet_node: KubeletNode) -> None:
    kubelet_node.configure(WIRES)
    kubelet_node.write(config_map("one"), "settings.json")
    kubelet_node.write(reader("static"))
    name = f"static-{kubelet_node.node}"
    with kubelet_node.kubelet():
        until(lambda: kubelet_node.one(name).get("status", {}).get("phase") == "Running", within=60)
        kubelet_node.write(config_map("two"), "settings.json")
        folder = kubelet_node.node_dir / "kubelet/pods" / kubelet_node.one(name)["metadata"]["uid"]
        until(lambda: "two" in json.dumps([path.read_text() for path in folder.glob("config-maps/*")]), within=60)
    kubelet_node.run("exec", name, "--", "kill", "-USR1", "1", check=False)  # it may end with the container

    # Ready when the static pod's second attempt has written its line.
    logs = kubelet_node.node_dir / "kubelet/logs"
    waits = container(
        "init",
        ["sh", "-c", "until grep -qr 'two two' /mnt; do sleep 0.1; done"],
        volumeMounts=[{"name": "logs", "mountPath": "/mnt"}],
    )
    own = pod("own", initContainers=[waits], volumes=[{"name": "logs", "hostPath": {"path": str(logs)}}])
    path = kubelet_node.folder / "own.json"
    path.write_text(json.dumps(own))
    kubelet_node.run("run", "-f", str(path))

    assert "FailedMount" not in {each["reason"] for each in kubelet_node.events(name)}
