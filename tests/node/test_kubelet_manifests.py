"""`cni-harness kubelet`: a folder of manifests is watched, and what a killed kubelet left is taken over."""

import http.client
import json
import random
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.manifests import FOREVER, WIRES, KubeletNode, container, pod
from tests.nodes import HANG, until

pytestmark = pytest.mark.sudo


class _Connection(http.client.HTTPConnection):
    """HTTP over the kubelet's socket."""

    def __init__(self, node: KubeletNode) -> None:
        super().__init__("kubelet", timeout=HANG)
        self._node = node

    def connect(self) -> None:
        self.sock = self._node.connected()


def answer(node: KubeletNode, path: str) -> tuple[int, str]:
    """Return status and body of a GET."""
    connection = _Connection(node)
    connection.request("GET", path)
    response = connection.getresponse()
    return response.status, response.read().decode()


def static(node: KubeletNode, name: str) -> str:
    """Return the name that a static pod has."""
    return f"{name}-{node.node}"


def is_running(node: KubeletNode, name: str) -> bool:
    status = node.one(static(node, name)).get("status", {})
    return bool(status.get("phase") == "Running" and "running" in status["containerStatuses"][0]["state"])


def is_gone(node: KubeletNode, name: str) -> bool:
    return not node.one(static(node, name))


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_manifests_come_change_and_go(kubelet_node: KubeletNode) -> None:
    kubelet_node.configure(WIRES)
    before = kubelet_node.snapshot()
    (kubelet_node.manifests / "first.json").unlink()
    kubelet_node.write(pod("one"))

    with kubelet_node.kubelet():
        until(lambda: is_running(kubelet_node, "one"), within=60)
        old = kubelet_node.one(static(kubelet_node, "one"))
        kubelet_node.write(pod("two"))
        until(lambda: is_running(kubelet_node, "two"), within=60)
        kubelet_node.write(pod("one", container("app", FOREVER, env=[{"name": "CHANGED", "value": "yes"}])))
        until(lambda: kubelet_node.one(static(kubelet_node, "one")).get("metadata", {}).get("uid")
              not in {None, old["metadata"]["uid"]} and is_running(kubelet_node, "one"), within=60)  # fmt: skip
        words = kubelet_node.run("exec", static(kubelet_node, "one"), "--", "sh", "-c", "echo $CHANGED").stdout
        (kubelet_node.manifests / "two.json").unlink()
        until(lambda: is_gone(kubelet_node, "two"), within=60)
        refused = kubelet_node.run("delete", static(kubelet_node, "one"), check=False)
        (kubelet_node.manifests / "one.json").unlink()
        kubelet_node.until_no_pods()

    assert words == "yes\n"
    assert f"{static(kubelet_node, 'one')}: the running kubelet wants them: remove their manifests" in refused.stderr
    kubelet_node.assert_nothing_left(before)


def test_changed_pod_starts_after_its_old_version_has_ended(kubelet_node: KubeletNode) -> None:
    kubelet_node.configure(WIRES)
    log = kubelet_node.folder / "log"
    log.touch()
    script = f"echo START >> {log}; trap 'sleep 1; echo END >> {log}; exit' TERM; while :; do sleep 0.1; done"

    def manifest(word: str) -> dict[str, Any]:
        env = [{"name": "WORD", "value": word}]
        app = container("app", ["sh", "-c", script], env=env, volumeMounts=[{"name": "log", "mountPath": str(log)}])
        volumes = [{"name": "log", "hostPath": {"path": str(log), "type": "File"}}]
        return pod("one", app, volumes=volumes, terminationGracePeriodSeconds=60)

    kubelet_node.write(manifest("old"))
    with kubelet_node.kubelet():
        until(lambda: is_running(kubelet_node, "one"), within=60)
        for word in ("newer", "newest"):
            kubelet_node.write(manifest(word))
        until(lambda: log.read_text().split().count("START") >= 2, within=60)
        (kubelet_node.manifests / "one.json").unlink()
        until(lambda: is_gone(kubelet_node, "one"), within=60)

    assert log.read_text().split() in (["START", "END"] * 2, ["START", "END"] * 3)


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_a_manifest_that_comes_back_at_once_is_started_again(kubelet_node: KubeletNode) -> None:
    kubelet_node.configure(WIRES)
    script = "trap 'sleep 2; exit' TERM; while :; do sleep 0.1; done"
    manifest = pod("one", container("app", ["sh", "-c", script]), terminationGracePeriodSeconds=60)
    path = kubelet_node.write(manifest)
    with kubelet_node.kubelet():
        until(lambda: is_running(kubelet_node, "one"), within=60)
        (first,) = kubelet_node.one(static(kubelet_node, "one"))["status"]["containerStatuses"]
        path.unlink()
        name = static(kubelet_node, "one")
        until(lambda: any(each["reason"] == "Killing" for each in kubelet_node.events(name)), within=60)

        kubelet_node.write(manifest)

        def has_another() -> bool:
            statuses = kubelet_node.one(name).get("status", {}).get("containerStatuses", [])
            return bool(statuses) and statuses[0].get("containerID", "") not in {"", first["containerID"]}

        until(lambda: has_another() and is_running(kubelet_node, "one"), within=60)
        path.unlink()
        until(lambda: is_gone(kubelet_node, "one"), within=60)


def test_the_socket_answers(kubelet_node: KubeletNode) -> None:
    kubelet_node.configure(WIRES)
    kubelet_node.write(pod("one"))
    with kubelet_node.kubelet():
        until(lambda: is_running(kubelet_node, "one"), within=60)

        assert answer(kubelet_node, "/healthz") == (200, "ok")
        status, body = answer(kubelet_node, "/pods")
        assert status == 200
        listed = json.loads(body)
        assert (listed["kind"], [each["metadata"]["name"] for each in listed["items"]]) == (
            "PodList",
            [static(kubelet_node, "one")],
        )
        assert listed["items"][0]["status"]["phase"] == "Running"
        assert answer(kubelet_node, "/else")[0] == 404


def test_faulty_files_are_named_and_the_others_run(kubelet_node: KubeletNode) -> None:
    kubelet_node.configure(WIRES)
    kubelet_node.write(pod("good"))
    kubelet_node.write(pod("twice"), "a.json")
    kubelet_node.write(pod("twice", container("other")), "b.json")
    (kubelet_node.manifests / "bad.yaml").write_text("kind: Pod\napiVersion: v1\nspec: {x: 1}\n")
    with kubelet_node.kubelet() as process:
        until(lambda: is_running(kubelet_node, "good") and is_running(kubelet_node, "twice"), within=60)
        twice = kubelet_node.one(static(kubelet_node, "twice"))
        process.send_signal(signal.SIGTERM)
        said = process.stderr.read()

    assert [each["name"] for each in twice["spec"]["containers"]] == ["other"]
    assert "bad.yaml: " in said
    assert f'duplicate pod name "{static(kubelet_node, "twice")}", ignoring' in said


@pytest.mark.slow("a kubelet and run at once; each alone is in make test")
def test_pods_of_run_beside_a_kubelet(kubelet_node: KubeletNode) -> None:
    kubelet_node.configure(WIRES)
    before = kubelet_node.snapshot()
    path = kubelet_node.folder / "own.json"
    path.write_text(json.dumps(pod("own")))
    (kubelet_node.manifests / "first.json").unlink()
    with kubelet_node.kubelet():
        (own,) = kubelet_node.json("run", "-f", str(path))["pods"]
        assert own["status"]["phase"] == "Running"

        kubelet_node.run("delete", "own")

        assert kubelet_node.on_record() == []
        kubelet_node.until_no_pods()
    kubelet_node.assert_nothing_left(before)


@pytest.mark.slow("two kubelets after each other; manifests that come and go are in make test")
def test_pods_outlive_the_kubelet_and_are_taken_over(kubelet_node: KubeletNode) -> None:
    kubelet_node.configure(WIRES)
    kubelet_node.write(pod("one"))
    with kubelet_node.kubelet():
        until(lambda: is_running(kubelet_node, "one"), within=60)
    (before,) = kubelet_node.one(static(kubelet_node, "one"))["status"]["containerStatuses"]

    with kubelet_node.kubelet():
        until(lambda: answer(kubelet_node, "/pods")[1].count('"Running"') == 1, within=60)
        until(lambda: len(json.loads(answer(kubelet_node, "/pods")[1])["items"]) == 1, within=60)

    (after,) = kubelet_node.one(static(kubelet_node, "one"))["status"]["containerStatuses"]
    assert (after["containerID"], after["state"]) == (before["containerID"], before["state"])


@pytest.mark.slow("many kills; test_builtin_containers_crash kills at single steps in make test")
def test_a_kubelet_killed_at_random_moments(kubelet_node: KubeletNode) -> None:
    kubelet_node.configure(WIRES)
    before = kubelet_node.snapshot()
    (kubelet_node.manifests / "first.json").unlink()
    moments = random.Random(13)  # noqa: S311 -- the same moments in each run of the test
    for number in range(8):
        for name in "abc":
            path = kubelet_node.manifests / f"{name}.json"
            if path.exists() and moments.random() < 0.5:
                path.unlink()
            else:
                kubelet_node.write(
                    pod(name, container("app", env=[{"name": "N", "value": str(number)}]), initContainers=[_init()])
                )
        with kubelet_node.background("kubelet", "--manifests", str(kubelet_node.manifests)) as process:
            until((kubelet_node.node_dir / "kubelet/kubelet.sock").exists, within=60)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(moments.uniform(0.0, 2.5))
            process.kill()
            process.wait(HANG)
        (kubelet_node.node_dir / "kubelet/kubelet.sock").unlink(missing_ok=True)
    wanted = [path.stem for path in kubelet_node.manifests.glob("*.json")]

    with kubelet_node.kubelet():
        until(lambda: all(is_running(kubelet_node, name) for name in wanted), within=120)
        until(lambda: all(is_gone(kubelet_node, name) for name in set("abc") - set(wanted)), within=120)
        for path in kubelet_node.manifests.glob("*.json"):
            path.unlink()
        kubelet_node.until_no_pods()

    kubelet_node.assert_nothing_left(before)


def test_del_all_ends_pods_of_manifests(kubelet_node: KubeletNode) -> None:
    kubelet_node.configure(WIRES)
    kubelet_node.add("bare", "--network", "wires")
    kubelet_node.start(pod("web", container("app")))
    before = len(kubelet_node._processes())

    run = kubelet_node.run("del", "--all", "--prune", "-o", "json")

    assert {each["name"] for each in json.loads(run.stdout)["deleted"]} == {"bare", "web"}
    assert f"Removed node {kubelet_node.node}" in run.stderr
    assert (before > 0, kubelet_node._processes()) == (True, [])
    assert not kubelet_node.node_dir.exists()
    assert not Path(f"/run/netns/{kubelet_node.node}").exists()


def test_del_all_keeps_and_names_pods_of_a_running_kubelet(kubelet_node: KubeletNode) -> None:
    kubelet_node.configure(WIRES)
    kubelet_node.write(pod("web", container("app")))
    with kubelet_node.kubelet():
        until(lambda: is_running(kubelet_node, "web"), within=120)
        name = static(kubelet_node, "web")

        run = kubelet_node.run("del", "--all", "--prune", check=False)

        assert run.returncode == 1
        assert f"Kept pod default/{name}: its manifest is in the folder of a running kubelet" in run.stderr
        assert is_running(kubelet_node, "web")
        (kubelet_node.manifests / "web.json").unlink()
        kubelet_node.until_no_pods()


def _init() -> dict[str, Any]:
    return container("init", ["sh", "-c", "exit 0"])
