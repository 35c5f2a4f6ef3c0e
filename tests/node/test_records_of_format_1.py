"""Pods that were made before records had a format number: both kinds, as those programs left them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.manifests import WIRES, KubeletNode, container, pod
from tests.nodes import until

pytestmark = pytest.mark.sudo


def to_format_1(node: KubeletNode, state: str = "") -> None:
    """Turn all records into those of format 1; `state` is for sandboxes."""
    for path in sorted((node.node_dir / "pods").glob("*/pod.json")):
        record = json.loads(path.read_text())
        del record["format"]
        if sandbox := record.pop("sandbox", None):
            _write_sandbox(path, record, sandbox, state)
        else:
            record["state"] = "ready" if record["state"] == "READY" else "incomplete"
            path.write_text(json.dumps(record, indent=1))
    for path in sorted((node.node_dir / "containers").glob("*/bundle/config.json")):
        _write_container(path)


def _write_container(path: Path) -> None:
    """Put the process of a container without an image where those programs had it."""
    document = json.loads(path.read_text())
    process = document.pop("process")
    user = process["user"]
    document |= {"uid": user["uid"], "gid": user["gid"], "groups": user["additionalGids"], "cwd": process["cwd"]}
    document |= {"args": process["args"], "env": dict(pair.split("=", 1) for pair in process["env"])}
    document |= {"no_new_privileges": process["noNewPrivileges"], "terminal": process["terminal"]}
    (path.parents[1] / "host.json").write_text(json.dumps(document))
    path.unlink()


def _write_sandbox(path: Path, record: dict[str, Any], sandbox: dict[str, Any], state: str) -> None:
    pairs = {"IgnoreUnknown": "1", "K8S_POD_NAMESPACE": record["namespace"], "K8S_POD_NAME": record["name"]}
    pairs |= {"K8S_POD_INFRA_CONTAINER_ID": record["containerID"], "K8S_POD_UID": record["uid"]}
    former = {
        "id": record["containerID"],
        "state": state or record["state"],
        **sandbox,
        "netns": record["netns"],
        "pause": record["pause"],
        "networks": [each | {"cniArgs": pairs} for each in record["networks"]],
    }
    folder = path.parents[2] / "sandboxes" / record["containerID"]
    folder.parent.mkdir(exist_ok=True)
    path.unlink()
    (path.parent / "lock").unlink()
    path.parent.rename(folder)
    (folder / "sandbox.json").write_text(json.dumps(former, indent=1))


@pytest.fixture
def filled(kubelet_node: KubeletNode) -> KubeletNode:
    kubelet_node.configure(WIRES)
    kubelet_node.snapshot()
    kubelet_node.run("add", "bare")
    kubelet_node.start(pod("web", container("app")))
    return kubelet_node


def test_pods_are_listed_checked_entered_and_deleted(filled: KubeletNode) -> None:
    before = filled.json("list")["pods"]
    to_format_1(filled)

    assert filled.json("list")["pods"] == before
    assert [each["error"] for one in filled.json("check")["pods"] for each in one["networks"]] == ["", "", ""]
    for name in ("bare", "web"):
        assert "eth0" in filled.run("exec", name, "--", "ls", "/sys/class/net").stdout.split()
    assert [line.split()[1:4] for line in filled.run("get", "pods").stdout.splitlines()[1:]] == [
        ["bare", "0/0", "Running"],
        ["web", "1/1", "Running"],
    ]
    logged = filled.run("-vv", "del", "bare", "web").stderr
    for each in before:
        assert f"CNI_CONTAINERID={each['containerID']}" in logged
        assert f"K8S_POD_UID={each['uid']}" in logged
        assert f"CNI_NETNS={each['netns']}" in logged
    assert_empty(filled)


@pytest.mark.slow("a kubelet runs; del ends both kinds in make test")
def test_a_kubelet_takes_them_over(filled: KubeletNode) -> None:
    to_format_1(filled)
    (before,) = filled.one("web")["status"]["containerStatuses"]

    for path in filled.manifests.iterdir():
        path.unlink()
    with filled.kubelet():
        until(lambda: "web" in filled.run("get", "pods").stdout)
        filled.run("delete", "web")

    assert before["state"]["running"]
    assert [each["name"] for each in filled.pods()] == ["bare"]
    filled.run("del", "bare")
    assert_empty(filled)


@pytest.mark.slow("each state; a ready one is in make test")
@pytest.mark.parametrize("state", ["MAKING", "UNKNOWN", "NOTREADY"])
def test_a_sandbox_that_was_left_is_ended(filled: KubeletNode, state: str) -> None:
    to_format_1(filled, state)

    filled.run("delete", "web")
    filled.run("del", "bare")

    assert_empty(filled)


@pytest.mark.slow("it takes seconds; del of both kinds is in make test")
def test_a_connection_makes_it_a_record_of_today(filled: KubeletNode) -> None:
    to_format_1(filled)

    filled.run("connect", "web", "--network", "wires")

    (folder,) = (filled.node_dir / "sandboxes").glob("*/")
    assert json.loads((folder / "pod.json").read_text())["format"] == 2
    assert not (folder / "sandbox.json").exists()
    assert [each["ifname"] for each in filled.json("inspect", "web")["networks"]] == ["lo", "eth0", "net1"]
    filled.run("del", "bare", "web")
    assert_empty(filled)


def assert_empty(node: KubeletNode) -> None:
    assert node.pods() == []
    assert node.reservations("wires") == set()
    assert node.cached_results() == set()
    assert [path.name for folder in ("pods", "sandboxes") for path in (node.node_dir / folder).glob("*")] == []
