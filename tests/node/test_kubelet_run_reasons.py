"""What `run` says of a pod that is not ready, and what `get` says of a pod whose kubelet has gone."""

import json
import os
import signal
from typing import Any

import pytest

from tests.cli import on_a_terminal
from tests.manifests import FOREVER, WIRES, KubeletNode, container, pod
from tests.nodes import until

pytestmark = pytest.mark.sudo


@pytest.fixture
def wired(kubelet_node: KubeletNode) -> KubeletNode:
    kubelet_node.configure(WIRES)
    return kubelet_node


def script(text: str) -> list[str]:
    return ["sh", "-c", text]


def test_run_names_a_failed_init_container_with_code_and_log(wired: KubeletNode) -> None:
    one = container("one", script("printf 'first\\nsecond\\nthe\\033[31mlast\\n'; exit 7"))
    said = wired.refused(pod("web", initContainers=[one], restartPolicy="Never"))

    assert "Error: pod default/web: init container one ended with exit code 7 (Error)\n" in said
    program = f"cni-harness --state-dir {wired.state_dir} --node {wired.node}"
    assert f"  the end of its log ({program} logs web -c one):\n    first\n    second\n    the\\x1b[31mlast\n" in said
    assert "\x1b" not in said


def test_run_of_a_container_that_ends_at_once_tells_its_crash_loop(wired: KubeletNode) -> None:
    said = wired.refused(pod("web", container("app", script("echo no configuration; exit 3"))), "--timeout", "30")

    assert "Error: pod default/web: container app: CrashLoopBackOff: back-off 10s restarting failed container" in said
    assert "; it ended with exit code 3 (Error)\n" in said
    assert " logs -p web -c app):\n    no configuration\n" in said


def test_run_of_a_container_that_ends_after_its_start_does_not_tell_running(wired: KubeletNode) -> None:
    run = wired.run("run", "-f", str(wired.write(pod("web", container("app", script("sleep 0.5"))))), check=False)

    assert run.returncode == 1
    assert "Running" not in run.stdout
    assert "ended with exit code 0 (Completed)" in run.stderr


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_run_out_of_time_tells_the_message_of_the_readiness_probe(wired: KubeletNode) -> None:
    probe = {"exec": {"command": script("echo cold; exit 1")}, "periodSeconds": 1}
    said = wired.refused(pod("web", container("app", FOREVER, readinessProbe=probe)), "--timeout", "4")

    assert "Error: pod default/web: not ready after 4 s: container app: Readiness probe failed: cold" in said


@pytest.mark.slow("it waits for the end of a pod; reasons of run are in make test")
def test_get_after_the_end_of_a_container_without_kubelet_tells_the_end(wired: KubeletNode) -> None:
    wired.start(pod("web", container("app", script("trap 'exit 5' USR1; while :; do sleep 0.1; done"))))
    assert " 1/1    Running " in wired.run("get", "pods").stdout
    [process] = [json.loads(path.read_text()) for path in wired.node_dir.glob("containers/*/process.json")]

    os.kill(process["pid"], signal.SIGUSR1)

    until(lambda: " 0/1    Error " in wired.run("get", "pods").stdout)
    described = wired.run("describe", "web").stdout
    assert "\n      Exit Code:    5\n" in described
    assert "Kubelet:          <none>: containers are neither restarted nor probed\n" in described
    (wired.manifests / "web.json").unlink()
    with wired.kubelet():
        until(lambda: " 1/1    Running " in wired.run("get", "pods").stdout)
        assert "Kubelet:" not in wired.run("describe", "web").stdout


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_get_without_kubelet_keeps_the_readiness_of_a_probed_container(wired: KubeletNode) -> None:
    probe: dict[str, Any] = {"exec": {"command": ["true"]}, "periodSeconds": 1}
    started = wired.start(pod("web", container("app", FOREVER, readinessProbe=probe, startupProbe=probe)))

    (document,) = wired.on_record()

    assert document["status"] == started["status"]


@pytest.mark.slow("it waits for pods; the progress of several pods of add is in make test")
def test_run_on_a_terminal_shows_progress_and_on_a_pipe_none(wired: KubeletNode) -> None:
    manifest = str(wired.write(pod("web", container("app", FOREVER))))

    shown = on_a_terminal(wired, "run", "-f", manifest)

    assert "Starting pods" in shown
    assert "web: " in shown
    assert "Starting pods" not in wired.run("run", "-f", manifest).stderr


@pytest.mark.slow("it waits for a deadline; reasons of run are in make test")
def test_pod_beyond_its_deadline_has_an_event_and_keeps_its_address(wired: KubeletNode) -> None:
    address = wired.start(pod("web", activeDeadlineSeconds=3))["status"]["podIP"]
    (wired.manifests / "web.json").unlink()

    with wired.kubelet():
        until(lambda: not any(each["ready"] for each in wired.one("web")["status"]["containerStatuses"]), within=60)
        status = wired.json("get", "pod", "web")["status"]
        [event] = [each for each in wired.events("web") if each["reason"] == "DeadlineExceeded"]

    deadline = "Pod was active on the node longer than the specified deadline"
    assert (event["type"], event["message"]) == ("Normal", deadline)
    assert (status["phase"], status["reason"], status["message"]) == ("Failed", "DeadlineExceeded", deadline)
    assert status["podIPs"] == [{"ip": address}]
