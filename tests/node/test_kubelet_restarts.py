"""Containers that end, and those that kubelet ends: restart policies, back-off, probes, hooks, sidecars."""

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from typing import Any

import pytest

from tests.manifests import FOREVER, WIRES, KubeletNode, condition, container, pod
from tests.nodes import until

pytestmark = pytest.mark.sudo


@pytest.fixture
def running(kubelet_node: KubeletNode) -> Iterator[KubeletNode]:
    """A node with a network and a kubelet."""
    kubelet_node.configure(WIRES)
    with ExitStack() as stack:
        stack.enter_context(kubelet_node.kubelet())
        yield kubelet_node
        kubelet_node.run("delete", "--all")


def status_of(node: KubeletNode, name: str, container: str = "app") -> dict[str, Any]:
    """Return the status of a container."""
    status = node.one(name).get("status", {})
    everything = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    return next((each for each in everything if each["name"] == container), {"state": {}, "lastState": {}})


def run(node: KubeletNode, manifest: dict[str, Any]) -> None:
    """Hand a pod to the running kubelet, whatever becomes of it."""
    node.run("run", "-f", str(node.write(manifest, ".pod.json")), "--timeout", "0.1", check=False)


def reason(node: KubeletNode, name: str, container: str = "app") -> str:
    """Return why a container waits."""
    return str(status_of(node, name, container)["state"].get("waiting", {}).get("reason", ""))


@pytest.mark.slow("it waits; test_kubelet_backoff has the times in make test")
def test_a_container_that_ends_twice_is_in_crash_loop_back_off(running: KubeletNode) -> None:
    run(running, pod("web", container("app", ["sh", "-c", "echo said; echo bye > /dev/termination-log; exit 3"])))

    until(lambda: reason(running, "web") == "CrashLoopBackOff", within=60)

    document = running.one("web")
    uid = document["metadata"]["uid"]
    status = status_of(running, "web")
    assert status["restartCount"] == 1
    waiting = status["state"]["waiting"]
    assert waiting["message"] == f"back-off 10s restarting failed container=app pod=web_default({uid})"
    ended = status["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["message"]) == (3, "Error", "bye\n")
    assert document["status"]["phase"] == "Running"
    (backoff,) = [each for each in running.events("web") if each["reason"] == "BackOff"]
    assert backoff["message"] == f"Back-off restarting failed container app in pod web_default({uid})"
    assert running.run("logs", "web", "--previous").stdout == "said\n"
    began = time.monotonic()
    until(lambda: status_of(running, "web").get("restartCount") == 2, within=60)
    assert time.monotonic() - began > 5


@pytest.mark.mostly_slow(3, "each end; one is in make test")
@pytest.mark.parametrize(
    ("policy", "code", "phase"),
    [("Never", 0, "Succeeded"), ("Never", 4, "Failed"), ("OnFailure", 0, "Succeeded")],
)
def test_pod_with_finished_containers_is_succeeded_or_failed(
    running: KubeletNode, policy: str, code: int, phase: str
) -> None:
    run(running, pod("job", container("app", ["sh", "-c", f"exit {code}"]), restartPolicy=policy))

    until(lambda: running.one("job").get("status", {}).get("phase") == phase, within=60)

    status = status_of(running, "job")
    assert status["state"]["terminated"]["exitCode"] == code
    assert status.get("restartCount", 0) == 0
    ready = next(each for each in running.one("job")["status"]["conditions"] if each["type"] == "Ready")
    assert ready["reason"] == ("PodCompleted" if phase == "Succeeded" else "PodFailed")


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_a_container_of_on_failure_is_started_again_until_it_succeeds(running: KubeletNode) -> None:
    script = "test -e /mnt/second && exit 0; touch /mnt/second; exit 1"
    app = container("app", ["sh", "-c", script], volumeMounts=[{"name": "data", "mountPath": "/mnt"}])
    run(running, pod("job", app, restartPolicy="OnFailure", volumes=[{"name": "data", "emptyDir": {}}]))

    until(lambda: running.one("job").get("status", {}).get("phase") == "Succeeded", within=60)

    assert status_of(running, "job")["restartCount"] == 1


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_a_failed_liveness_probe_restarts_the_container(running: KubeletNode) -> None:
    probe = {"exec": {"command": ["sh", "-c", "exit 1"]}, "periodSeconds": 1, "failureThreshold": 2}
    run(running, pod("web", container("app", livenessProbe=probe)))

    until(lambda: status_of(running, "web").get("restartCount", 0) >= 1, within=60)

    events = [(each["reason"], each["message"]) for each in running.events("web")]
    assert ("Killing", "Container app failed liveness probe, will be restarted") in events
    assert any(reason == "Unhealthy" and text.startswith("Liveness probe failed: ") for reason, text in events)


def test_a_readiness_probe_that_fails_makes_the_pod_unready(running: KubeletNode) -> None:
    probe = {"exec": {"command": ["cat", "/mnt/ready"]}, "periodSeconds": 1, "failureThreshold": 1}
    mounts = [{"name": "data", "mountPath": "/mnt"}]
    app = container("app", ["sh", "-c", f"touch /mnt/ready; {FOREVER[2]}"], readinessProbe=probe, volumeMounts=mounts)
    run(running, pod("web", app, volumes=[{"name": "data", "emptyDir": {}}]))
    until(lambda: condition(running.one("web") or {"status": {"conditions": []}}, "Ready") == "True", within=60)

    running.run("exec", "web", "--", "rm", "/mnt/ready")

    until(lambda: condition(running.one("web"), "Ready") == "False", within=60)
    assert status_of(running, "web").get("restartCount", 0) == 0


def test_a_sidecar_runs_before_and_beside_the_containers(running: KubeletNode) -> None:
    sidecar = container("sidecar", restartPolicy="Always")
    run(running, pod("job", container("app", ["sh", "-c", "exit 0"]), initContainers=[sidecar], restartPolicy="Never"))

    until(lambda: running.one("job").get("status", {}).get("phase") == "Succeeded", within=60)

    began = [each["fieldPath"] for each in running.events("job") if each["reason"] == "Started"]
    assert began == ["spec.initContainers{sidecar}", "spec.containers{app}"]
    until(lambda: "terminated" in status_of(running, "job", "sidecar")["state"], within=60)


@pytest.mark.slow("it waits; test_kubelet_handlers has hooks in make test")
def test_the_pre_stop_hook_runs_within_the_grace_period(running: KubeletNode) -> None:
    witness = running.folder / "witness"
    witness.touch()
    hook = {"preStop": {"exec": {"command": ["sh", "-c", f"echo before >> {witness}"]}}}
    script = f"trap 'echo signal >> {witness}' TERM; while :; do sleep 0.1; done"
    mounts = [{"name": "witness", "mountPath": str(witness)}]
    app = container("app", ["sh", "-c", script], lifecycle=hook, volumeMounts=mounts)
    volumes = [{"name": "witness", "hostPath": {"path": str(witness)}}]
    run(running, pod("web", app, volumes=volumes, terminationGracePeriodSeconds=2))
    until(lambda: "running" in status_of(running, "web")["state"], within=60)
    began = time.monotonic()

    running.run("delete", "web")

    assert witness.read_text().split() == ["before", "signal"]
    assert 2 <= time.monotonic() - began < 30


@pytest.mark.slow("it waits for the end of a pod; a second delete is in make test")
def test_a_shorter_grace_period_of_delete_counts(running: KubeletNode) -> None:
    app = container("app", ["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"])
    run(running, pod("web", app, terminationGracePeriodSeconds=300))
    until(lambda: "running" in status_of(running, "web")["state"], within=60)

    running.run("delete", "web", "--grace-period", "1")

    assert running.on_record() == []


@pytest.mark.mostly_slow(2, "each verb; one is in make test")
@pytest.mark.parametrize("by", ["kubelet", "delete"])
def test_a_second_delete_shortens_the_grace_period(kubelet_node: KubeletNode, by: str) -> None:
    kubelet_node.configure(WIRES)
    app = container("app", ["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"])
    with kubelet_node.kubelet() if by == "kubelet" else nullcontext():
        path = kubelet_node.write(pod("web", app, terminationGracePeriodSeconds=300), ".pod.json")
        kubelet_node.run("run", "-f", str(path))
        with kubelet_node.background("delete", "web") as first:
            until(lambda: "Killing" in {each["reason"] for each in kubelet_node.events("web")}, within=60)
            began = time.monotonic()

            kubelet_node.run("delete", "web", "--grace-period", "1")

            assert time.monotonic() - began < 60
            assert kubelet_node.on_record() == []
            assert first.wait(60) == 0


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_a_failed_init_container_keeps_the_others_from_starting(running: KubeletNode) -> None:
    first = container("first", ["sh", "-c", "exit 1"])
    run(running, pod("job", container("app"), initContainers=[first], restartPolicy="Never"))

    until(lambda: running.one("job").get("status", {}).get("phase") == "Failed", within=60)

    assert "waiting" in status_of(running, "job")["state"]
    began = [each["fieldPath"] for each in running.events("job") if each["reason"] == "Started"]
    assert began == ["spec.initContainers{first}"]
    row = next(line for line in running.run("get", "pods").stdout.splitlines() if " job " in line)
    assert re.search(r"0/1 +Init:Error", row)
