"""Whoever ends the harness, it finishes its work first: no plugin goes on behind its back."""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli import ROOT, Cli, waits_for_a_lock
from tests.nodes import HANG, Node, until

pytestmark = pytest.mark.sudo

ENDING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
NETWORK = {"cniVersion": "1.1.0", "name": "net", "plugins": [{"type": "slow"}, {"type": "next"}]}


class Slow:
    """A plugin that waits, in one of its verbs, until the gate is opened, and another after it in the chain."""

    def __init__(self, folder: Path, verb: str) -> None:
        self.started, self.order, self._gate = (folder / name for name in ("started", "order", "gate"))
        os.mkfifo(self._gate)
        self.scripts = {
            "slow": f"""cat > /dev/null
if [ "$CNI_COMMAND" = {verb} ]; then
    touch {self.started}
    read -r line < {self._gate}
fi
echo "$CNI_COMMAND" >> {self.order}
[ "$CNI_COMMAND" != ADD ] || echo '{{"cniVersion": "1.1.0"}}'
""",
            "next": f"""cat > /dev/null
grep SigIgn /proc/self/status > {folder}/ignored
[ "$CNI_COMMAND" != ADD ] || echo '{{"cniVersion": "1.1.0"}}'
""",
        }

    def open(self) -> None:
        """Let the plugin go on; harmless if it does not wait (any more)."""
        gate = os.open(self._gate, os.O_RDWR)  # which waits for no reader
        os.write(gate, b"\n")
        until(self.order.exists)
        os.close(gate)

    def done(self) -> list[str]:
        """The verbs that the plugin has come to the end of."""
        return self.order.read_text().split()


@pytest.fixture
def cli(make_cli: Callable[[Path], Cli], direct_bin_dir: Path) -> Cli:
    return make_cli(direct_bin_dir)


def slow_network(cli: Cli, verb: str) -> Slow:
    slow = Slow(cli.folder, verb)
    for name, script in slow.scripts.items():
        cli.plugin(name, script)
    cli.configure(NETWORK)
    return slow


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize("number", ENDING)
def test_add_finishes_the_pod_that_it_has_begun_and_begins_no_more(cli: Cli, number: signal.Signals) -> None:
    slow = slow_network(cli, "ADD")

    with cli.background("add", "pod1", "pod2", "--jobs", "1") as add:
        until(slow.started.exists)
        add.send_signal(number)
        slow.open()
        _, said = add.communicate(timeout=HANG)

    assert add.returncode == 128 + number
    ending = ["Error: interrupted"] if number == signal.SIGINT else []
    lines = [line for line in said.splitlines() if line]  # click begins a new line after ^C
    assert lines[-2 - len(ending) :] == ["Ready: default/pod1", "Not begun: default/pod2", *ending]
    assert [(pod["name"], pod["state"]) for pod in cli.pods()] == [("pod1", "ready")]
    ignored = int((cli.folder / "ignored").read_text().split()[1], 16)
    assert not any(ignored >> (each - 1) & 1 for each in ENDING)


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize("number", ENDING)
def test_interrupted_add_names_at_once_the_pod_that_it_finishes(cli: Cli, number: signal.Signals) -> None:
    slow = slow_network(cli, "ADD")

    with cli.background("add", "pod1", "pod2", "pod3", "--jobs", "1") as add:
        until(slow.started.exists)
        add.send_signal(number)
        assert add.stderr is not None
        at_once = add.stderr.readline()
        assert not slow.order.exists()
        slow.open()
        _, said = add.communicate(timeout=HANG)

    assert at_once == "Interrupted: finishing pod default/pod1\n"
    assert said.splitlines()[:2] == ["Ready: default/pod1", "Not begun: default/pod2, default/pod3"]


def test_interrupted_add_names_failed_pods(cli: Cli) -> None:
    slow = slow_network(cli, "ADD")
    cli.configure({"cniVersion": "1.1.0", "name": "quick", "plugins": [{"type": "noop"}]}, NETWORK)
    cli.add("there", "--network", "quick")

    with cli.background("add", "there", "pod1", "pod2", "--network", "net", "--jobs", "1") as add:
        until(slow.started.exists)
        add.send_signal(signal.SIGTERM)
        slow.open()
        _, said = add.communicate(timeout=HANG)

    assert "Error: pod default/there: exists already" in said
    assert said.splitlines()[-2:] == ["Ready: default/pod1", "Not begun: default/pod2"]


def test_del_finishes_the_pod_that_it_has_begun_and_begins_no_more(cli: Cli) -> None:
    slow = slow_network(cli, "DEL")
    cli.add("pod1", "pod2")
    slow.order.unlink()

    with cli.background("del", "pod1", "pod2", "--jobs", "1") as delete:
        until(slow.started.exists)
        delete.send_signal(signal.SIGTERM)
        assert delete.stderr is not None
        at_once = delete.stderr.readline()
        slow.open()
        _, said = delete.communicate(timeout=HANG)

    assert at_once == "Interrupted: finishing pod default/pod1\n"
    assert said.splitlines() == ["Gone: default/pod1", "Not begun: default/pod2"]
    assert [(pod["name"], pod["state"]) for pod in cli.pods()] == [("pod2", "ready")]


def test_interrupted_add_keeps_its_pod_locked_until_it_ends(cli: Cli) -> None:
    slow = slow_network(cli, "ADD")

    with cli.background("add", "pod1") as add:
        until(slow.started.exists)
        add.send_signal(signal.SIGHUP)
        assert add.stderr is not None
        assert "Interrupted" in add.stderr.readline()
        for number in ENDING:
            add.send_signal(number)
        with cli.background("del", "pod1") as delete:
            until(lambda: waits_for_a_lock(delete.pid) or delete.poll() is not None)
            early = delete.poll()
            slow.open()
            assert (add.wait(HANG), early, delete.wait(HANG)) == (129, None, 0)

    assert slow.done() == ["ADD", "DEL"]
    assert cli.pods() == []


def test_interrupted_delete_removes_its_pod_first(cli: Cli) -> None:
    slow = slow_network(cli, "DEL")
    (pod,) = cli.add("pod1")
    slow.order.unlink()

    with cli.background("del", "pod1") as delete:
        until(slow.started.exists)
        delete.send_signal(signal.SIGTERM)
        slow.open()
        assert delete.wait(HANG) == 143

    assert slow.done() == ["DEL"]
    assert cli.pods() == []
    assert not Path(pod["netns"]).exists()


@pytest.mark.parametrize("number", ENDING)
def test_gc_of_this_host_finishes_the_plugin_that_it_has_begun(node: Node, number: signal.Signals) -> None:
    slow = Slow(node.folder, "GC")
    for name, script in slow.scripts.items():
        (node.bin_dir / name).write_text(f"#!/bin/sh\n{script}")
        (node.bin_dir / name).chmod(0o755)
    (node.conf_dir / "net.conflist").write_text(json.dumps(NETWORK))
    command = [sys.executable, "-m", "harness.cli.main", "gc", "--sole-runtime"]
    folders = {"PYTHONPATH": str(ROOT), "CNI_PATH": str(node.bin_dir), "NETCONFPATH": str(node.conf_dir)}

    with node.background(command, env=folders) as gc:
        until(slow.started.exists)
        gc.send_signal(number)
        slow.open()
        assert gc.wait(HANG) == 128 + number

    assert slow.done() == ["GC"]
    assert not (node.folder / "ignored").exists()


def test_signal_that_was_ignored_stays_so(cli: Cli) -> None:
    slow = slow_network(cli, "ADD")
    cli.prefix = ["sh", "-c", 'trap "" HUP; exec "$@"', "nohup"]

    with cli.background("add", "pod1") as add:
        until(slow.started.exists)
        add.send_signal(signal.SIGHUP)
        slow.open()
        assert add.wait(HANG) == 0

    assert [pod["state"] for pod in cli.pods()] == ["ready"]
