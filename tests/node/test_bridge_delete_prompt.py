"""DEL of the bridge plugin answers before the kernel has finished, and nothing of the pod is left by then."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from launch.launcher import find_plugin
from netlink.namespace import entered, open_namespace
from plugins.bridge import PLUGIN
from skel import Context, Outcome, dispatch
from tests.attachments import Network, bridge_config
from tests.cli import ROOT
from tests.node.faults import INJECTED, dispatched, failing_at
from tests.nodes import Node

ONE_ADDRESS = {
    "type": "host-local",
    "ranges": [[{"subnet": "10.88.0.0/16", "rangeStart": "10.88.0.9", "rangeEnd": "10.88.0.9"}]],
}


ROUNDS = 200
"""At most: a kernel may finish before anybody looks."""


class Pod:
    """A pod that is attached by calls in this process; `finish` does their remaining work."""

    def __init__(self, node: Node, bin_dir: Path, **keys: Any) -> None:
        ipam = {**ONE_ADDRESS, "dataDir": str(node.var_lib_cni / "networks")}
        self._config = bridge_config(**{"ipam": ipam, **keys})
        self.node = node
        self.netns = node.pod_namespace("pod")
        self._bin_dir = bin_dir
        self.contexts: list[Context] = []

    def call(self, verb: str, netns: str | None = None) -> Outcome:
        environ = {
            "CNI_COMMAND": verb,
            "CNI_CONTAINERID": "id-pod",
            "CNI_IFNAME": "eth0",
            "CNI_NETNS": self.netns if netns is None else netns,
            "CNI_PATH": str(self._bin_dir),
            "PATH": os.environ["PATH"],
        }
        self.contexts.append(Context(find_plugin=find_plugin))
        with open_namespace(self.node.path) as namespace, entered(namespace):
            outcome = dispatch(PLUGIN, environ, json.dumps(self._config).encode, self.contexts[-1])

        assert outcome.code == 0, outcome
        return outcome

    def finish(self) -> None:
        while self.contexts:
            context = self.contexts.pop(0)
            context.finish()
            context.open_sockets.close()


@contextmanager
def attached(node: Node, bin_dir: Path, **keys: Any) -> Iterator[Pod]:
    pod = Pod(node, bin_dir, **keys)
    try:
        yield pod
    finally:
        pod.finish()


def threads() -> set[str]:
    return {thread.name for thread in Path("/proc/self/task").iterdir()}


def test_name_and_address_are_used_again_while_the_kernel_still_works(node: Node, direct_bin_dir: Path) -> None:
    with attached(node, direct_bin_dir) as pod:
        seen_at_work = 0
        for _ in range(ROUNDS):
            pod.call("ADD")
            before = threads()
            pod.call("DEL")
            at_work = threads() - before
            pod.call("ADD")
            seen_at_work += bool(at_work & threads())
            (link,) = node.ip("addr", "show", "dev", "eth0", netns=pod.netns)
            assert "10.88.0.9" in [address["local"] for address in link["addr_info"]]
            node.run(["ping", "-c", "1", "-W", "5", "10.88.0.9"])
            pod.call("DEL")
            pod.finish()
            assert not at_work & threads()
            if seen_at_work >= 5:
                break
        assert seen_at_work >= 5


KILLED = """
import json, os, signal, sys
from launch.launcher import find_plugin
from plugins.bridge import PLUGIN
from skel import Context, dispatch

def call(verb):
    environ = {**os.environ, "CNI_COMMAND": verb}
    outcome = dispatch(PLUGIN, environ, sys.argv[1].encode, Context(find_plugin=find_plugin))
    assert outcome.code == 0, outcome

call("ADD")
call("DEL")
print(len(os.listdir("/proc/self/task")), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("keys", [{}, {"ipMasq": True, "macspoofchk": True}])
def test_sigkill_right_after_the_answer_leaves_nothing(node: Node, direct_bin_dir: Path, keys: dict[str, Any]) -> None:
    network = Network(node, direct_bin_dir, bridge_config(**keys))
    network.add("first")
    network.succeed("DEL", "first")
    netns = node.pod_namespace("one")
    before = node.state()
    command = [sys.executable, "-c", KILLED, json.dumps(network.config)]
    environ = {
        "CNI_CONTAINERID": "id-one",
        "CNI_IFNAME": "eth0",
        "CNI_NETNS": netns,
        "CNI_PATH": str(direct_bin_dir),
        "PYTHONPATH": str(ROOT),
    }

    threads_at_the_end: set[str] = set()
    for _ in range(ROUNDS):
        ran = node.run(command, env=environ, check=False)

        assert ran.returncode == -signal.SIGKILL, ran
        node.assert_same_state(before, ignore=["files/*last_reserved_ip*"])
        threads_at_the_end.add(ran.stdout.strip())
        if "2" in threads_at_the_end:
            break
    assert "2" in threads_at_the_end


INTERRUPTED = """
import json, os, signal, sys, threading
from launch.launcher import find_plugin
from netlink.socket import Socket
from plugins.bridge import PLUGIN
from skel import Context, Interruption, dispatch

send, may_go = Socket._send, threading.Event()
Interruption._overdue = lambda *_: os._exit(9)  # the end comes at once, not because time is over

def send_late(self, packet):
    if packet[4] == 17:  # RTM_DELLINK, sent by a thread while the call waits
        while not may_go.wait(0.01):  # again: a signal just before poll(2) does not end it
            os.kill(os.getpid(), signal.SIGTERM)
    send(self, packet)

Socket._send = send_late
context = Context(find_plugin=find_plugin)
signal.signal(signal.SIGTERM, lambda *_: context.interruption.request("ended by signal 15"))
outcome = dispatch(PLUGIN, dict(os.environ), sys.argv[1].encode, context)
print(outcome.stdout.decode(), flush=True)
may_go.set()
context.finish()
"""


def test_a_signal_ends_the_wait_and_the_next_del_takes_the_rest(node: Node, direct_bin_dir: Path) -> None:
    network = Network(node, direct_bin_dir, bridge_config(ipMasq=True))
    network.add("first")
    network.succeed("DEL", "first")
    node.pod_namespace("one")
    before = node.state()
    network.succeed("ADD", "one")
    environ = {
        "CNI_COMMAND": "DEL",
        "CNI_CONTAINERID": "id-one",
        "CNI_IFNAME": "eth0",
        "CNI_NETNS": network.namespace("one"),
        "CNI_PATH": str(direct_bin_dir),
        "PYTHONPATH": str(ROOT),
    }
    ran = node.run([sys.executable, "-c", INTERRUPTED, json.dumps(network.config)], env=environ)

    assert json.loads(ran.stdout)["msg"] == "ended by signal 15"
    assert "id-one" in str(node.state())  # the address was not released
    network.succeed("DEL", "one")
    node.assert_same_state(before, ignore=["files/*last_reserved_ip*"])


@pytest.mark.parametrize("renamed", [False, True])
def test_del_after_a_del_with_any_failed_request_removes_the_rest(
    node: Node, direct_bin_dir: Path, *, renamed: bool
) -> None:
    """Renamed, the host's end is found by the pod's, as that of another suite."""
    config = bridge_config()
    node.pod_namespace("one")
    assert dispatched(node, direct_bin_dir, "ADD", config, "one").code == 0
    assert dispatched(node, direct_bin_dir, "DEL", config, "one").code == 0
    before = node.state()
    step = 0
    while True:
        step += 1
        assert dispatched(node, direct_bin_dir, "ADD", config, "one").code == 0
        if renamed:
            (port,) = node.ip("link", "show", "type", "veth")
            node.run(["ip", "link", "set", port["ifname"], "down"])
            node.run(["ip", "link", "set", port["ifname"], "name", "other0", "up"])
        with failing_at(step) as seen:
            outcome = dispatched(node, direct_bin_dir, "DEL", config, "one")
        if len(seen) < step:
            break

        assert outcome.code == 1, (step, outcome)
        assert INJECTED.encode() in outcome.stdout
        assert dispatched(node, direct_bin_dir, "DEL", config, "one").code == 0
        node.assert_same_state(before, ignore=["files/*last_reserved_ip*"])
    assert outcome.code == 0
    assert step == (5 if renamed else 3)


def test_repeated_del_needs_one_request_and_no_thread(
    node: Node, direct_bin_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with attached(node, direct_bin_dir) as pod:
        pod.call("ADD")
        pod.call("DEL")
        pod.finish()
        monkeypatch.setattr("netlink.link_removal.start_new_thread", None)
        times = {path: path.stat().st_ctime_ns for path in node.var_lib_cni.rglob("*")}

        with failing_at(0) as requests:
            pod.call("DEL", netns="")
        assert len(requests) == 1
        assert {path: path.stat().st_ctime_ns for path in node.var_lib_cni.rglob("*")} == times


LOADED = """
import json, os, sys
from launch.launcher import find_plugin
from plugins.bridge import PLUGIN
from skel import Context, dispatch
outcome = dispatch(PLUGIN, dict(os.environ), sys.argv[1].encode, Context(find_plugin=find_plugin))
print(outcome.code, *sys.modules)
"""


def test_repeated_del_loads_no_slow_module(node: Node, direct_bin_dir: Path) -> None:
    environ = {
        "CNI_COMMAND": "DEL",
        "CNI_CONTAINERID": "gone",
        "CNI_IFNAME": "eth0",
        "CNI_NETNS": "",
        "CNI_PATH": str(direct_bin_dir),
        "PYTHONPATH": str(ROOT),
    }
    config = json.dumps(bridge_config())
    ran = node.run([sys.executable, "-S", "-c", LOADED, config], env=environ)

    code, *modules = ran.stdout.split()
    assert code == "0", ran
    slow = {"netaddr", "pyroute2", "subprocess", "threading", "netlink.bridge_ports", "netlink.nftables"}
    assert not slow & set(modules)
