"""Sandboxes of the built-in runtime, with the kernel and the plugins' own files as witnesses."""

import json
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.containerd.sandbox_networks import SandboxNetworks
from harness.containerd.sandboxes import Sandboxes
from harness.cri.messages import (
    DNSConfig,
    NamespaceMode,
    PodSandboxConfig,
    PodSandboxMetadata,
    PodSandboxState,
    PortMapping,
)
from harness.cri.service import NotFoundError, RuntimeServiceError
from harness.runtime.node import Node
from netlink.namespace import remove_namespace
from tests.cli import bridge_network
from tests.nodes import until

if TYPE_CHECKING:
    from harness.libcni.execute import Execution

pytestmark = pytest.mark.sudo


class Place:
    """A node with a runtime's sandboxes; `again` is the runtime after its process was killed."""

    def __init__(self, folder: Path, bin_dir: Path) -> None:
        self.name = f"cri-{uuid.uuid4().hex[:8]}"
        self.folder = folder
        self.conf_dir = folder / "net.d"
        self.conf_dir.mkdir(parents=True)
        self.bin_dir = bin_dir
        self.executions: list[Execution] = []
        self.sandboxes = self.again()

    @property
    def pods(self) -> Path:
        """The folder of the records."""
        return self.open_node().pods.folder

    def open_node(self) -> Node:
        return Node(self.name, self.folder / "state", threads=1)

    def again(self) -> Sandboxes:
        self.networks = SandboxNetworks(
            self.open_node, self.conf_dir, [self.bin_dir], observe=self.executions.append, warn=print
        )
        self.sandboxes = Sandboxes(self.open_node, self.networks)
        return self.sandboxes

    def configure(self, network: dict[str, Any], file: str = "10-net.conflist") -> None:
        (self.conf_dir / file).write_text(json.dumps(network))

    def of(self, sandbox_id: str) -> Path:
        """Return the folder of a sandbox."""
        return self.sandboxes.store.path(self.sandboxes.get(sandbox_id))

    def links(self) -> set[str]:
        node = self.open_node()
        with node.in_use():
            return set(node.run(os.listdir, "/sys/class/net")) - {"lo"}

    def close(self) -> None:
        for each in self.sandboxes.list():
            self.sandboxes.remove(each.id)
        node = self.open_node()
        with node.in_use():
            pass
        node.remove()


@pytest.fixture
def place(tmp_path: Path, bin_dir: Path) -> Iterator[Place]:
    made = Place(tmp_path, bin_dir)
    yield made
    made.close()


def config(name: str = "pod1", **further: Any) -> PodSandboxConfig:
    metadata = PodSandboxMetadata(name=name, uid=f"uid-{name}", namespace="default", attempt=0)
    return PodSandboxConfig(metadata=metadata, hostname=name, labels={"app": name}, **further)


def has_ended(pid: str) -> bool:
    """Whether a process is gone, or waits for init to reap it."""
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_sandbox_has_namespaces_files_and_an_address(place: Place) -> None:
    place.configure(bridge_network("net"))

    sandbox_id = place.sandboxes.run(config(dns_config=DNSConfig(servers=["192.0.2.53"], searches=["example.org"])))

    status = place.sandboxes.status(sandbox_id)
    assert (status.state, status.ips) == (PodSandboxState.READY, ["10.77.0.2"])
    pid = int(status.info["pid"])
    assert Path(f"/proc/{pid}/comm").read_text() == "pause\n"
    own = Path("/proc/self/ns")
    assert not any((own / kind).samefile(f"/proc/{pid}/ns/{kind}") for kind in ("ipc", "uts", "net"))
    assert (own / "pid").samefile(f"/proc/{pid}/ns/pid")
    assert Path(status.info["netns"]).samefile(f"/proc/{pid}/ns/net")
    folder = place.of(sandbox_id)
    assert (folder / "resolv.conf").read_text() == "search example.org\nnameserver 192.0.2.53\n"
    assert (folder / "hostname").read_text() == "pod1\n"
    assert os.path.ismount(folder / "shm")


def test_the_calls_are_containerds(place: Place) -> None:
    place.configure(bridge_network("net"))

    sandbox_id = place.sandboxes.run(config(annotations={"note": "x"}))
    place.sandboxes.stop(sandbox_id)

    said = [(each.plugin, each.verb, each.environ["CNI_IFNAME"]) for each in place.executions]
    assert said == [
        ("loopback", "ADD", "lo"),
        ("bridge", "ADD", "eth0"),
        ("bridge", "DEL", "eth0"),
        ("loopback", "DEL", "lo"),
    ]
    args = dict(pair.split("=") for pair in place.executions[1].environ["CNI_ARGS"].split(";"))
    assert args == {
        "IgnoreUnknown": "1",
        "K8S_POD_NAMESPACE": "default",
        "K8S_POD_NAME": "pod1",
        "K8S_POD_INFRA_CONTAINER_ID": sandbox_id,
        "K8S_POD_UID": "uid-pod1",
    }


def test_stop_and_remove_leave_nothing_and_may_be_repeated(place: Place) -> None:
    place.configure(bridge_network("net"))
    sandbox_id = place.sandboxes.run(config())
    status = place.sandboxes.status(sandbox_id)

    for _ in range(2):
        place.sandboxes.stop(sandbox_id)
        assert place.sandboxes.status(sandbox_id).state == PodSandboxState.NOTREADY
    for _ in range(2):
        place.sandboxes.remove(sandbox_id)

    assert place.links() == {"net0"}  # the bridge stays, as with every runtime
    assert not Path(status.info["netns"]).exists()
    assert has_ended(status.info["pid"])
    assert not list(place.pods.iterdir())
    with pytest.raises(NotFoundError):
        place.sandboxes.status(sandbox_id)


def test_a_shared_pid_namespace_has_pause_as_its_first_process(place: Place) -> None:
    place.configure(bridge_network("net"))

    sandbox_id = place.sandboxes.run(config(pid=NamespaceMode.POD))

    pid = place.sandboxes.status(sandbox_id).info["pid"]
    (line,) = [each for each in Path("/proc", pid, "status").read_text().splitlines() if each.startswith("NSpid")]
    assert line.split()[1:] == [pid, "1"]


def test_sysctls_are_set_in_the_sandbox_alone(place: Place) -> None:
    place.configure(bridge_network("net"))
    settings = {"net.ipv4.ip_unprivileged_port_start": "7", "kernel.shm_rmid_forced": "1"}
    of_node = {name: Path(f"/proc/sys/{name.replace('.', '/')}").read_text().strip() for name in settings}

    sandbox = place.sandboxes.run(config(sysctls=settings))

    inside = "; ".join(f"cat /proc/sys/{name.replace('.', '/')}" for name in settings)
    words = ["nsenter", "--net", "--ipc", "-t", place.sandboxes.status(sandbox).info["pid"], "sh", "-c", inside]
    found = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
    assert list(settings.values()) == found
    assert of_node == {name: Path(f"/proc/sys/{name.replace('.', '/')}").read_text().strip() for name in settings}
    assert of_node != settings


def test_a_sysctl_that_is_missing_leaves_nothing(place: Place) -> None:
    place.configure(bridge_network("net"))

    with pytest.raises(RuntimeServiceError, match="/proc/sys/net/absent"):
        place.sandboxes.run(config(sysctls={"net.absent": "1"}))

    assert place.sandboxes.list() == []


def test_on_the_nodes_network_no_plugin_is_executed(place: Place) -> None:
    sandbox_id = place.sandboxes.run(config(network=NamespaceMode.NODE))

    status = place.sandboxes.status(sandbox_id)
    assert (status.state, status.ips, place.executions) == (PodSandboxState.READY, [], [])
    assert Path("/run/netns", place.name).samefile(f"/proc/{status.info['pid']}/ns/net")


def test_a_sandbox_has_the_time_of_its_creation(place: Place) -> None:
    before = time.time_ns()

    sandbox_id = place.sandboxes.run(config(network=NamespaceMode.NODE))

    assert before <= place.sandboxes.status(sandbox_id).created_at <= time.time_ns()


def test_host_ports_and_bandwidth_reach_the_plugins_that_declare_them(place: Place) -> None:
    network = bridge_network("net")
    network["plugins"] += [
        {"type": "portmap", "capabilities": {"portMappings": True}},
        {"type": "bandwidth", "capabilities": {"bandwidth": True}},
    ]
    place.configure(network)
    mapping = PortMapping(container_port=80, host_port=8080)

    place.sandboxes.run(config(port_mappings=[mapping], annotations={"kubernetes.io/ingress-bandwidth": "10M"}))

    by_plugin = {each.plugin: json.loads(each.stdin) for each in place.executions}
    wanted = {"hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": ""}
    assert by_plugin["portmap"]["runtimeConfig"] == {"portMappings": [wanted]}
    assert by_plugin["bandwidth"]["runtimeConfig"] == {
        "bandwidth": {"ingressRate": 10_000_000, "ingressBurst": 2**32 - 1}
    }
    assert "runtimeConfig" not in by_plugin["bridge"]


@pytest.mark.parametrize(
    ("annotations", "said"),
    [
        ({"kubernetes.io/ingress-bandwidth": "1"}, '"1": resource is unreasonably small (< 1kbit)'),
        ({"kubernetes.io/egress-bandwidth": "ten"}, "annotation kubernetes.io/egress-bandwidth"),
        ({"k8s.v1.cni.cncf.io/networks": "other"}, '"other": no such network; there are net'),
        ({"k8s.v1.cni.cncf.io/networks": "[{]"}, "not JSON"),
        ({"k8s.v1.cni.cncf.io/networks": "net@eth0"}, "an interface name is used twice"),
    ],
)
def test_a_wrong_annotation_is_named_and_changes_nothing(place: Place, annotations: dict[str, str], said: str) -> None:
    place.configure(bridge_network("net"))

    with pytest.raises(RuntimeServiceError, match="annotation") as caught:
        place.sandboxes.run(config(annotations=annotations))

    assert said in str(caught.value)
    assert (place.sandboxes.list(), place.executions, place.links()) == ([], [], set())


def test_several_networks_by_the_annotation(place: Place) -> None:
    place.configure(bridge_network("net"))
    place.configure(bridge_network("other", subnet="10.78.0.0/16"), "20-other.conflist")

    place.sandboxes.run(config(annotations={"k8s.v1.cni.cncf.io/networks": "default/other, other@fast"}))

    said = [each.environ["CNI_IFNAME"] for each in place.executions if each.verb == "ADD"]
    assert said == ["lo", "eth0", "net1", "fast"]


def _without_lists(place: Place) -> str:
    (place.conf_dir / "10-net.conflist").unlink()
    return f"no network config found in {place.conf_dir}: cni plugin not initialized"


def _missing_plugin(place: Place) -> str:
    place.configure({"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "absent"}]})
    return "absent"


def _failing_plugin(place: Place) -> str:
    network = bridge_network("net")
    network["plugins"].append({"type": "tuning", "sysctl": {"net.ipv4.absent": "1"}})
    place.configure(network)
    return "plugin tuning: ADD failed"


@pytest.mark.parametrize("fault", [_without_lists, _missing_plugin, _failing_plugin])
def test_a_network_that_fails_leaves_nothing(place: Place, fault: Callable[[Place], str]) -> None:
    place.configure(bridge_network("net"))
    said = fault(place)

    with pytest.raises(RuntimeServiceError) as caught:
        place.sandboxes.run(config())

    assert said in str(caught.value)
    assert place.sandboxes.list() == []
    assert not list(place.pods.iterdir())
    assert not any(Path(each.environ["CNI_NETNS"]).exists() for each in place.executions)
    assert place.links() <= {"net0"}


def test_after_a_failed_add_each_plugin_gets_one_del(place: Place) -> None:
    place.configure(bridge_network("net"))
    _failing_plugin(place)

    with pytest.raises(RuntimeServiceError):
        place.sandboxes.run(config())

    assert [(each.plugin, each.verb) for each in place.executions] == [
        ("loopback", "ADD"),
        ("bridge", "ADD"),
        ("tuning", "ADD"),
        ("tuning", "DEL"),
        ("bridge", "DEL"),
        ("loopback", "DEL"),
    ]


def test_network_readiness_has_the_messages_of_containerd(place: Place) -> None:
    lacking = place.networks.condition()
    place.configure({"cniVersion": "1.1.0", "name": "net", "plugins": [{"type": "noop"}]})
    present = place.networks.condition()

    words = f"Network plugin returns error: no network config found in {place.conf_dir}: cni plugin not initialized"
    assert (lacking.status, lacking.reason, lacking.message) == (False, "NetworkPluginNotReady", words)
    assert (present.status, present.reason) == (True, "")


def test_two_sandboxes_of_one_attempt_are_refused(place: Place) -> None:
    place.configure(bridge_network("net"))
    first = place.sandboxes.run(config())

    with pytest.raises(RuntimeServiceError, match=f'failed to reserve sandbox name .* "{first}"'):
        place.sandboxes.run(config())

    assert [each.id for each in place.sandboxes.list()] == [first]


def test_sandbox_without_pause_process_is_not_ready(place: Place) -> None:
    place.configure(bridge_network("net"))
    sandbox_id = place.sandboxes.run(config())

    os.kill(int(place.sandboxes.status(sandbox_id).info["pid"]), signal.SIGKILL)

    until(lambda: place.sandboxes.status(sandbox_id).state == PodSandboxState.NOTREADY)
    assert place.sandboxes.view(sandbox_id).pause_pid == 0


def test_a_new_process_takes_over(place: Place) -> None:
    place.configure(bridge_network("net"))
    sandbox_id = place.sandboxes.run(config())
    before = place.sandboxes.status(sandbox_id)

    again = place.again()

    assert again.status(sandbox_id) == before
    again.remove(sandbox_id)
    assert place.links() == {"net0"}


def test_a_sandbox_that_was_being_made_is_stopped_and_removed(place: Place) -> None:
    place.configure(bridge_network("net"))
    sandbox_id = place.sandboxes.run(config())
    record = place.sandboxes.get(sandbox_id)
    pid = place.sandboxes.status(sandbox_id).info["pid"]
    path = place.of(sandbox_id) / "pod.json"
    path.write_text(json.dumps(record.encode() | {"state": "MAKING"}))

    again = place.again()

    assert again.status(sandbox_id).state == PodSandboxState.NOTREADY
    again.remove(sandbox_id)
    assert has_ended(pid)
    assert place.links() == {"net0"}


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_a_pause_process_that_is_not_on_record_is_ended(place: Place) -> None:
    place.configure(bridge_network("net"))
    sandbox_id = place.sandboxes.run(config())
    other = place.sandboxes.run(config("pod2"))
    record = place.sandboxes.get(sandbox_id).encode()
    pid = place.sandboxes.status(sandbox_id).info["pid"]
    del record["pause"]
    (place.of(sandbox_id) / "pod.json").write_text(json.dumps(record | {"state": "MAKING"}))

    place.again().remove(sandbox_id)

    assert has_ended(pid)
    assert place.sandboxes.status(other).state == PodSandboxState.READY


def test_a_folder_without_a_record_is_removed_by_the_next_process(place: Place) -> None:
    left = place.pods / "default_pod1_0123"
    left.mkdir(parents=True)
    (left / "hostname").write_text("pod1")

    place.again()

    assert not left.exists()


def test_a_sandbox_that_another_thread_makes_is_not_stopped(place: Place) -> None:
    place.configure(bridge_network("net"))
    refused = []

    def stop(execution: "Execution") -> None:
        if execution.plugin == "bridge":
            with pytest.raises(RuntimeServiceError, match="it is being made"):
                place.sandboxes.remove(place.sandboxes.list()[0].id)
            refused.append(execution)

    place.networks.observe = stop
    sandbox_id = place.sandboxes.run(config())
    place.networks.observe = None

    assert len(refused) == 1
    assert place.sandboxes.status(sandbox_id).state == PodSandboxState.READY


def test_a_namespace_that_has_vanished_does_not_stop_the_removal(place: Place) -> None:
    place.configure(bridge_network("net"))
    sandbox_id = place.sandboxes.run(config())
    os.kill(int(place.sandboxes.status(sandbox_id).info["pid"]), signal.SIGKILL)
    remove_namespace(place.sandboxes.status(sandbox_id).info["netns"])

    place.sandboxes.remove(sandbox_id)

    assert place.executions[-1].environ["CNI_NETNS"] == ""
    assert place.sandboxes.list() == []
