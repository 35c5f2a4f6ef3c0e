"""Pods that cannot run: the reason is told, and nothing remains."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builtin_containers import BUSYBOX
from tests.cli import AS_UNPRIVILEGED_USER
from tests.manifests import FOREVER, WIRES, KubeletNode, container, pod
from tests.nodes import until

pytestmark = pytest.mark.sudo

NET = {"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "faulty"}]}

FAULTS = {
    "fails": (
        """cat > /dev/null; [ "$CNI_COMMAND" = ADD ] || exit 0
echo '{"cniVersion": "1.0.0", "code": 111, "msg": "not today", "details": "no reason"}'; exit 1""",
        "plugin faulty: ADD failed with code 111: not today; no reason",
    ),
    "hangs": (
        'cat > /dev/null; [ "$CNI_COMMAND" = ADD ] || exit 0; sleep 1000',
        "plugin faulty: ADD failed: gave no answer and was killed after 2",
    ),
    "answers rubbish": (
        'cat > /dev/null; [ "$CNI_COMMAND" = ADD ] || exit 0; echo "<html>"',
        "plugin faulty: ADD failed: ",
    ),
    "gives no address": (
        """cat > /dev/null; [ "$CNI_COMMAND" = ADD ] || exit 0; echo '{"cniVersion": "1.0.0"}'""",
        "failed to find network info for sandbox",
    ),
}


@pytest.mark.mostly_slow(4, "each fault; one is in make test")
@pytest.mark.parametrize("fault", FAULTS)
def test_add_by_a_faulty_plugin_is_reported_and_undone(kubelet_node: KubeletNode, fault: str) -> None:
    kubelet_node.configure(WIRES)
    before = kubelet_node.snapshot()
    script, words = FAULTS[fault]
    kubelet_node.plugin("faulty", script)
    kubelet_node.configure(NET)

    said = kubelet_node.refused(pod("web"), "--plugin-timeout", "2")

    failed = "FailedCreatePodSandBox: Failed to create pod sandbox: rpc error: code = Unknown desc = "
    assert f"Error: pod default/web: {failed}" in said
    assert words in said
    document = kubelet_node.one("web")
    assert document["status"]["phase"] == "Pending"
    (status,) = document["status"]["containerStatuses"]
    assert status["state"]["waiting"]["reason"] == "ContainerCreating"
    kubelet_node.run("delete", "web", "--plugin-timeout", "2")
    kubelet_node.configure(WIRES)
    (kubelet_node.conf_dir / "00-net.conflist").unlink()
    kubelet_node.assert_nothing_left(before)


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_list_without_name_leaves_the_node_ready_and_fails_the_add(kubelet_node: KubeletNode) -> None:
    """98-noop.conf, as libcni and containerd take it."""
    kubelet_node.configure(WIRES)
    before = kubelet_node.snapshot()
    for path in kubelet_node.conf_dir.iterdir():
        path.unlink()
    (kubelet_node.conf_dir / "98-noop.conf").write_text('{"cniVersion": "0.3.1", "type": "noop"}')

    said = kubelet_node.refused(pod("web"), "--timeout", "3")

    assert "98-noop.conf: name: missing network name" in said
    assert "NetworkNotReady" not in said
    assert kubelet_node.run("status").returncode == 0
    bare = kubelet_node.run("add", "bare", check=False)
    assert (bare.returncode, "98-noop.conf: name: missing network name" in bare.stderr) == (1, True)
    kubelet_node.run("delete", "web")
    (kubelet_node.conf_dir / "98-noop.conf").unlink()
    kubelet_node.configure(WIRES)
    kubelet_node.assert_nothing_left(before)


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_a_missing_plugin_makes_the_node_unready(kubelet_node: KubeletNode) -> None:
    kubelet_node.configure(WIRES)
    before = kubelet_node.snapshot()
    kubelet_node.configure({"cniVersion": "1.1.0", "name": "net", "plugins": [{"type": "missing"}]})

    said = kubelet_node.refused(pod("web"))

    assert "NetworkNotReady: network is not ready: container runtime network not ready: NetworkReady=false " in said
    assert "reason:NetworkPluginNotReady message:Network plugin returns error: " in said
    assert 'no executable "missing"' in said
    kubelet_node.run("delete", "web")
    (kubelet_node.conf_dir / "00-net.conflist").unlink()
    kubelet_node.assert_nothing_left(before)


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_a_node_without_a_network_runs_pods_of_the_nodes_network_only(kubelet_node: KubeletNode) -> None:
    said = kubelet_node.refused(pod("web"))

    assert "NetworkReady=false reason:NetworkPluginNotReady" in said
    assert "cni plugin not initialized" in said
    assert kubelet_node.start(pod("of-node", hostNetwork=True))["status"]["phase"] == "Running"
    kubelet_node.configure({"cniVersion": "1.1.0", "name": "net", "plugins": [{"type": "noop"}]})
    said = kubelet_node.refused(pod("web"))
    # The node is ready now. A runtime cannot use a pod without an address (containerd's setupPodNetwork).
    assert "failed to find network info for sandbox" in said
    kubelet_node.configure(WIRES)
    (kubelet_node.conf_dir / "00-net.conflist").unlink()
    assert kubelet_node.start(pod("web"))["status"]["phase"] == "Running"


@pytest.mark.mostly_slow(2, "each policy; one is in make test")
@pytest.mark.parametrize(
    ("policy", "reason", "message"),
    [
        (
            "Never",
            "ErrImageNeverPull",
            'Container image "nowhere.test/none:1" is not present with pull policy of Never',
        ),
        ("IfNotPresent", "ErrImagePull", "nowhere.test/none:1"),
    ],
)
def test_a_missing_image(kubelet_node: KubeletNode, policy: str, reason: str, message: str) -> None:
    kubelet_node.configure(WIRES)
    before = kubelet_node.snapshot()
    app = container("app") | {"image": "nowhere.test/none:1", "imagePullPolicy": policy}

    said = kubelet_node.refused(pod("web", app))

    assert f"{reason}: " in said
    assert message in said
    events = [(each["reason"], each["message"]) for each in kubelet_node.events("web")]
    assert ("Failed", f"Error: {reason}") in events
    kubelet_node.run("delete", "web")
    kubelet_node.assert_nothing_left(before)


def test_pulls_of_a_missing_image_are_backed_off(kubelet_node: KubeletNode) -> None:
    """After the second failure at the latest: the first delay, 10 s, may be over at the next sync."""
    kubelet_node.configure(WIRES)
    app = container("app") | {"image": "nowhere.test/none:1", "imagePullPolicy": "Always"}
    kubelet_node.write(pod("web", app))

    with kubelet_node.kubelet():
        until(lambda: _waiting(kubelet_node)["reason"] == "ImagePullBackOff")

        message = _waiting(kubelet_node)["message"]
        assert message.startswith('Back-off pulling image "nowhere.test/none:1": ErrImagePull: ')


def _waiting(node: KubeletNode) -> dict[str, Any]:
    name = f"web-{node.node}"
    statuses = node.one(name).get("status", {}).get("containerStatuses") or [{"state": {}}]
    found: dict[str, Any] = statuses[0]["state"].get("waiting", {"reason": "", "message": ""})
    return found


@pytest.mark.mostly_slow(4, "each fault; test_kubelet_admission has all messages in make test")
@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"restartPolicy": "Foo"}, 'spec.restartPolicy: Unsupported value: "Foo": supported values: '),
        ({"containers": []}, "spec.containers: Required value"),
        ({"contaners": 1}, 'unknown field "spec.contaners"'),
        (
            {"containers": [container("app", ports=[{"containerPort": 70000}])]},
            "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
        ),
    ],
)
def test_an_invalid_manifest_changes_nothing(kubelet_node: KubeletNode, change: dict[str, Any], error: str) -> None:
    kubelet_node.configure(WIRES)
    before = kubelet_node.snapshot()
    manifest = pod("web")
    manifest["spec"] |= change

    said = kubelet_node.refused(manifest)

    assert error in said
    assert str(kubelet_node.manifests / "web.json") in said
    kubelet_node.assert_nothing_left(before)


@pytest.mark.slow("two pods; other reasons of a rejection are in make test")
def test_a_taken_host_port_is_the_reason_of_a_rejection(kubelet_node: KubeletNode) -> None:
    kubelet_node.configure(WIRES)
    before = kubelet_node.snapshot()
    ports = [{"containerPort": 80, "hostPort": 18081}]
    kubelet_node.start(pod("one", container("app", ports=ports)))

    said = kubelet_node.refused(pod("two", container("app", ports=ports)))

    words = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
    assert f"Error: pod default/two: NodePorts: Pod was rejected: {words}" in said
    status = kubelet_node.one("two")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "NodePorts")
    assert not status.get("conditions")
    assert [(each["reason"], each["message"]) for each in kubelet_node.events("two")] == [("NodePorts", words)]
    kubelet_node.run("delete", "--all")
    kubelet_node.assert_nothing_left(before)


@pytest.mark.slow("it waits; other hooks are in make test")
def test_a_hook_that_fails_ends_its_container(kubelet_node: KubeletNode) -> None:
    kubelet_node.configure(WIRES)
    hook = {"postStart": {"exec": {"command": ["sh", "-c", "echo bad >&2; exit 3"]}}}

    said = kubelet_node.refused(pod("web", container("app", ["sleep", "1000"], lifecycle=hook)))

    assert "container app: PostStartHookError: " in said
    reasons = [each["reason"] for each in kubelet_node.events("web")]
    assert reasons[:4] == ["Created", "Started", "FailedPostStartHook", "Killing"]


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_a_second_run_changes_nothing_and_another_manifest_is_refused(kubelet_node: KubeletNode) -> None:
    kubelet_node.configure(WIRES)
    first = kubelet_node.start(pod("web"))

    again = kubelet_node.start(pod("web"))

    # The first pod's network has given the node its address.
    of_node = {"hostIP": "", "hostIPs": []}
    assert again["status"] | of_node == first["status"] | of_node
    said = kubelet_node.refused(pod("web", container("app", FOREVER, env=[{"name": "A", "value": "b"}])))
    assert "pod default/web: another pod of this name runs; `cni-harness delete web` ends it" in said
    assert kubelet_node.one("web")["status"]["containerStatuses"] == first["status"]["containerStatuses"]


@pytest.mark.parametrize("words", [["get", "pods"], ["describe", "web"], ["logs", "web"]])
def test_reading_verbs_without_root_are_refused_with_the_reason(kubelet_node: KubeletNode, words: list[str]) -> None:
    kubelet_node.prefix = AS_UNPRIVILEGED_USER
    del kubelet_node.environment["NETCONFPATH"]  # click refuses a folder that only root can read

    run = kubelet_node.run(*words, check=False)

    assert (run.returncode, run.stdout) == (1, ""), run.stderr
    assert f"`cni-harness {words[0]}` needs root: it reads the records of pods" in run.stderr


def test_an_image_that_is_loaded_is_listed_and_removed(kubelet_node: KubeletNode, busybox_layout: Path) -> None:
    kubelet_node.run("image", "load", str(busybox_layout))

    (image,) = json.loads(kubelet_node.run("image", "list", "-o", "json").stdout)["images"]
    kubelet_node.run("image", "rm", BUSYBOX)

    assert image["repo_tags" if "repo_tags" in image else "repoTags"] == [BUSYBOX]
    assert kubelet_node.json("image", "list")["images"] == []


@pytest.mark.slow("it waits; test_builtin_containers reads termination messages in make test")
def test_fifo_at_the_termination_message_path_ends_with_its_pod(kubelet_node: KubeletNode) -> None:
    kubelet_node.configure(WIRES)
    before = kubelet_node.snapshot()
    maker = container("maker", ["mkfifo", "/d/fifo"], volumeMounts=[{"name": "d", "mountPath": "/d"}])
    mounts = [{"name": "d", "mountPath": "/dev/message", "subPath": "fifo"}]
    app = container("app", ["sh", "-c", "exit 3"], volumeMounts=mounts, terminationMessagePath="/dev/message")
    volumes = [{"name": "d", "emptyDir": {}}]
    manifest = pod("web", app, initContainers=[maker], restartPolicy="Never", volumes=volumes)

    kubelet_node.refused(manifest)
    terminated = kubelet_node.one("web")["status"]["containerStatuses"][0]["state"]["terminated"]
    kubelet_node.run("delete", "web")

    assert terminated["exitCode"] == 3
    assert terminated["message"].startswith("Error on reading termination log ")
    assert terminated["message"].endswith(": not a regular file")
    kubelet_node.assert_nothing_left(before)
