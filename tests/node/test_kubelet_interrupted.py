"""`run` and `delete` that a signal ends name the pods that stay, and a command for them that does what it says."""

import re
import shlex
import signal
import subprocess
from collections.abc import Callable

import pytest

from tests.manifests import FOREVER, WIRES, KubeletNode, container, pod
from tests.nodes import HANG, until

pytestmark = pytest.mark.sudo

ENDING = [signal.SIGINT, signal.SIGTERM]
_AGAIN = "the same command again goes on with them"
STUBBORN = ["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"]


def ended_by(process: subprocess.Popen[str], number: signal.Signals, meanwhile: Callable[[], object]) -> list[str]:
    """Send a signal, wait for the answer to it, and return the lines of stderr after that."""
    process.send_signal(number)
    assert process.stderr is not None
    assert process.stderr.readline() == "Interrupted: finishing the steps under way\n"
    meanwhile()
    # Not by `communicate`, which loses lines that were read ahead with the first one.
    lines = [line for line in process.stderr.read().splitlines() if line]  # click begins a line after ^C
    assert process.wait(timeout=HANG) == 128 + number
    if number == signal.SIGINT:
        assert lines.pop() == "Error: interrupted"
    return lines


def carry_out(node: KubeletNode, line: str) -> None:
    """Run the commands between backquotes, without variables that name the node."""
    commands = re.findall("`([^`]+)`", line)
    assert commands
    for command in commands:
        program, *words = shlex.split(command)
        assert program == "cni-harness"
        node.run(*words, env={"CNI_HARNESS_NODE": "", "CNI_HARNESS_STATE_DIR": ""})


@pytest.mark.slow("each signal; an interruption in the add is in make test")
@pytest.mark.parametrize("number", ENDING)
def test_run_interrupted_in_its_wait_names_pods_of_all_namespaces(
    kubelet_node: KubeletNode, number: signal.Signals
) -> None:
    kubelet_node.configure(WIRES)
    probe = {"exec": {"command": ["false"]}, "periodSeconds": 1}
    one, other = (pod(name, container("app", FOREVER, readinessProbe=probe)) for name in ("web", "db"))
    other["metadata"]["namespace"] = "data"
    for each in (one, other):
        kubelet_node.write(each)

    with kubelet_node.background("run", "-f", str(kubelet_node.manifests)) as run:
        until(lambda: all(kubelet_node.one(name).get("status", {}).get("podIP") for name in ("web", "db")))
        lines = ended_by(run, number, lambda: None)

    program = f"cni-harness --state-dir {kubelet_node.state_dir} --node {kubelet_node.node}"
    addresses = {name: kubelet_node.one(name)["status"]["podIP"] for name in ("web", "db")}
    assert lines == [
        f"Kept: data/db (0/1 Running, {addresses['db']}), default/web (0/1 Running, {addresses['web']})",
        f"`{program} delete --namespace data db` and `{program} delete web` remove them; {_AGAIN}",
    ]
    carry_out(kubelet_node, lines[1])
    assert kubelet_node.on_record() == []


def test_run_interrupted_in_the_add_names_the_pod_and_goes_on_when_repeated(kubelet_node: KubeletNode) -> None:
    started, gate = (kubelet_node.folder / name for name in ("started", "gate"))
    script = f"""cat > /dev/null
[ "$CNI_COMMAND" = ADD ] || exit 0
touch {started}
until [ -e {gate} ]; do sleep 0.05; done
echo '{{"cniVersion": "1.0.0", "ips": [{{"address": "10.78.0.9/24"}}]}}'
"""
    kubelet_node.plugin("slow", script)
    kubelet_node.configure({"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "slow"}]})
    manifest = pod("web", container("app", FOREVER))

    with kubelet_node.background("run", "-f", str(kubelet_node.write(manifest))) as run:
        until(started.exists)
        kept, remedy = ended_by(run, signal.SIGINT, gate.touch)

    assert kept.startswith("Kept: default/web (")
    assert f" delete web` removes them; {_AGAIN}" in remedy
    assert kubelet_node.start(manifest)["status"]["phase"] == "Running"
    carry_out(kubelet_node, remedy)
    assert kubelet_node.on_record() == []


@pytest.mark.slow("each verb; an interruption in the add is in make test")
@pytest.mark.parametrize("verb", ["delete", "del"])
def test_delete_interrupted_in_a_grace_period_names_the_pod_and_the_command_goes_on(
    kubelet_node: KubeletNode, verb: str
) -> None:
    kubelet_node.configure(WIRES)
    kubelet_node.start(pod("web", container("app", STUBBORN), terminationGracePeriodSeconds=3))

    with kubelet_node.background(verb, "--all") as delete:
        until(lambda: "Killing" in [event["reason"] for event in kubelet_node.events("web")])
        lines = ended_by(delete, signal.SIGINT, lambda: None)

    assert lines[0].startswith("Not removed: default/web (")
    assert " Terminating" in lines[0]
    program = f"cni-harness --state-dir {kubelet_node.state_dir} --node {kubelet_node.node}"
    assert lines[1:] == [f"`{program} delete web` goes on"]
    carry_out(kubelet_node, lines[1])
    assert kubelet_node.on_record() == []


def test_run_interrupted_beside_a_kubelet_says_that_it_goes_on(kubelet_node: KubeletNode) -> None:
    kubelet_node.configure(WIRES)
    probe = {"exec": {"command": ["false"]}, "periodSeconds": 1}
    manifest = kubelet_node.folder / "web.json"
    kubelet_node.write(pod("web", container("app", FOREVER, readinessProbe=probe))).rename(manifest)

    with kubelet_node.kubelet(), kubelet_node.background("run", "-f", str(manifest)) as run:
        until(lambda: kubelet_node.one("web").get("status", {}).get("podIP"))
        run.send_signal(signal.SIGINT)
        lines = run.communicate(timeout=HANG)[1].splitlines()

    assert run.returncode == 130
    assert lines[0].startswith("Kept: default/web (0/1 Running, 10.78.")
    assert re.fullmatch("The running kubelet goes on with them; `.* delete web` removes them", lines[1])
    kubelet_node.run("delete", "web")
