"""Fixtures of tests on a real kernel."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness.cri.messages import NamespaceMode
from tests.builtin_containers import BUSYBOX, Pod, build_busybox, pause
from tests.cli import REFERENCE_BIN_DIR, Cli, bridge_network
from tests.fresh_machine import as_fresh_machine
from tests.manifests import KubeletNode
from tests.markers import IMAGES
from tests.nodes import Neighbours, Node, veth_between


@pytest.fixture
def neighbour(make_node: Callable[[], Node]) -> Node:
    """Another machine, on the same wire."""
    return make_node()


@pytest.fixture
def wire(node: Node, neighbour: Node) -> Neighbours:
    """A wire between the node and its neighbour."""
    return veth_between(node, neighbour)


@pytest.fixture
def reference_cli(make_cli: Callable[[Path], Cli]) -> Cli:
    """A command line on a node of its own, with the reference's plugins."""
    if not (REFERENCE_BIN_DIR / "bridge").exists():
        pytest.skip(f"the reference plugins (Debian: containernetworking-plugins) are not in {REFERENCE_BIN_DIR}")
    return make_cli(REFERENCE_BIN_DIR)


@pytest.fixture
def own_cli(make_cli: Callable[[Path], Cli], bin_dir: Path) -> Cli:
    """A command line on a node of its own, with our plugins."""
    return make_cli(bin_dir)


@pytest.fixture(
    params=[
        pytest.param("reference", marks=pytest.mark.slow("a third kind of plugins behind the same command line")),
        "direct",
        "served",
    ]
)
def cli(request: pytest.FixtureRequest, make_cli: Callable[[Path], Cli]) -> Cli:
    """A command line on a node of its own; each test runs with the reference's plugins and with ours."""
    if request.param == "reference":
        made: Cli = request.getfixturevalue("reference_cli")
        return made
    return make_cli(request.getfixturevalue(f"{request.param}_bin_dir"))


@pytest.fixture
def kubelet_node(tmp_path: Path, direct_bin_dir: Path) -> Iterator[KubeletNode]:
    """A command line on a node of its own, for pods of manifests, with our plugins and without a network list."""
    node = KubeletNode(tmp_path / "kubelet-node", direct_bin_dir)
    yield node
    node.close()


@pytest.fixture
def bridged(kubelet_node: KubeletNode) -> KubeletNode:
    """The same with a bridge for the pods, and host ports."""
    network = bridge_network("net", version="1.0.0")
    network["plugins"].append({"type": "portmap", "capabilities": {"portMappings": True}})
    kubelet_node.configure(network)
    return kubelet_node


@pytest.fixture
def fresh_machine(node: Node, tmp_path: Path) -> Node:
    """A node that stands for a machine with nothing but this checkout, on whose PATH `.venv/bin` is."""
    return as_fresh_machine(node, tmp_path)


PODMAN_LIST = {
    "cniVersion": "0.4.0",
    "name": "podman",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "cni-podman0",
            "isGateway": True,
            "ipMasq": True,
            "hairpinMode": True,
            "ipam": {
                "type": "host-local",
                "routes": [{"dst": "0.0.0.0/0"}],
                "ranges": [[{"subnet": "10.88.0.0/16", "gateway": "10.88.0.1"}]],
            },
        },
        {"type": "portmap", "capabilities": {"portMappings": True}},
        {"type": "firewall"},
        {"type": "tuning"},
    ],
}


@pytest.fixture
def container_host(fresh_machine: Node) -> Node:
    """The same with Podman's network list in /etc/cni/net.d, and forwarding switched on."""
    fresh_machine.run(["sh", "-c", "mkdir -p /etc/cni/net.d && echo 1 > /proc/sys/net/ipv4/ip_forward"])
    fresh_machine.run(["tee", "/etc/cni/net.d/87-podman-bridge.conflist"], stdin=json.dumps(PODMAN_LIST))
    return fresh_machine


@pytest.fixture(scope="session")
def busybox_layout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An OCI image layout with an image of Debian's busybox."""
    return build_busybox(tmp_path_factory.mktemp("busybox"))


@pytest.fixture(params=[pytest.param("image", marks=IMAGES), "node-files"])
def make_pod(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[bool], Pod]]:
    """Makes a sandbox for containers, of an image under runc or on the node's files; True shares its processes."""
    with ExitStack() as made:

        def make(shared: bool) -> Pod:  # noqa: FBT001 -- one of two kinds
            pid = made.enter_context(pause(own_pids=shared))
            image = BUSYBOX if request.param == "image" else ""
            mode = NamespaceMode.POD if shared else NamespaceMode.CONTAINER
            pod = Pod(tmp_path / "pod", pid, image=image, pid=mode)
            made.callback(pod.close)
            if image:
                pod.images.load(request.getfixturevalue("busybox_layout"))
            return pod

        yield make


@pytest.fixture
def pod(make_pod: Callable[[bool], Pod]) -> Pod:
    """A sandbox whose containers have a PID namespace each."""
    return make_pod(False)


@pytest.fixture
def shared_pod(make_pod: Callable[[bool], Pod]) -> Pod:
    """A sandbox whose containers share its PID namespace."""
    return make_pod(True)
