"""Pods of a manifest in a real containerd, by `--runtime-endpoint`, with our plugins in its folder."""

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest

from harness.cri.messages import ContainerConfig, ContainerMetadata, PodSandboxConfig, PodSandboxMetadata, PortMapping
from harness.cri.remote.client import RemoteRuntime
from harness.cri.service import ImageNotFoundError, NotFoundError, RuntimeServiceError
from tests.nodes import Node, until, veth_between
from tests.runtime.containerd import SOCKET, Containerd
from tests.runtime.cri import SECONDS
from tests.runtime.node import RuntimeNode
from tests.runtime.oci import BUSYBOX
from tests.runtime.pods import PORT, ManifestPods

PAGE = "first\nsecond\nhook\n"
"""Each init container of the manifest adds a line, and the hook the last one."""


@pytest.fixture
def started(idle_containerd: Containerd, archives: list[Path]) -> Containerd:
    """Containerd with images."""
    idle_containerd.start()
    idle_containerd.import_images(archives)
    return idle_containerd


@pytest.fixture
def neighbour(tmp_path: Path, runtime_node: RuntimeNode) -> Iterator[tuple[Node, str]]:
    """Another node, and the address of the runtime's node on the wire between them."""
    folder = tmp_path / "other"
    folder.mkdir()
    other = Node(folder)
    try:
        yield other, veth_between(other, runtime_node).ipv4[1]
    finally:
        other.close()


def test_a_manifest_runs_until_it_is_deleted(started: Containerd, neighbour: tuple[Node, str]) -> None:
    pods = ManifestPods(started.node)
    started.remove(started.cri.run_pod("first", ports={8079: 79}).id)
    before = started.state()

    pods.start()

    phases = [each["status"]["phase"] for each in pods.observed() if "status" in each]
    assert [phase for phase, _ in groupby(phases)] == ["Pending", "Running"]
    assert list(started.cri.pods().values()) == ["web"]
    other, address = neighbour
    get = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=60).read().decode(), end='')"
    page = other.run([sys.executable, "-c", get, f"http://{address}:{PORT}/index.html"]).stdout
    assert page == PAGE
    assert pods.run("exec", "web", "-c", "client", "--", "cat", "/data/fetched") == PAGE
    assert pods.run("logs", "web", "-c", "client") == "fetched\n"
    _check_exec(pods)
    _check_networks(pods)
    refused = pods.node.run(pods.cni_harness("delete", "web", "--runtime-endpoint", "unix:///other"), check=False)
    assert f"this node's pods of manifests are in unix://{SOCKET}" in refused.stderr

    pods.run("delete", "web")

    assert started.cri.pods() == {}
    assert json.loads(pods.run("get", "pods", "-o", "json"))["items"] == []
    assert [path for path in pods.state_dir.rglob("*") if path.is_file() and path.name != "lock"] == []
    [uid] = {
        each["arguments"][0]["metadata"]["uid"] for each in pods.observed() if each.get("call") == "run_pod_sandbox"
    }
    assert list(Path("/sys/fs/cgroup").rglob(f"pod{uid}")) == []
    started.assert_same_state(before)


def _check_networks(pods: ManifestPods) -> None:
    """Look at the verbs for networks, which know the pod by the runtime's cached results."""
    [listed] = json.loads(pods.run("list", "-o", "json"))["pods"]
    assert (listed["name"], listed["state"]) == ("web", "ready")
    assert "eth0" in [each["ifname"] for each in listed["networks"]]
    inspected = json.loads(pods.run("inspect", "web", "-o", "json"))
    assert "eth0" in [link["name"] for link in inspected["kernel"]["links"]]
    [checked] = json.loads(pods.run("check", "web", "-o", "json"))["pods"]
    assert {each["error"] for each in checked["networks"]} == {""}
    joined = pods.node.run(pods.cni_harness("connect", "web", "--network", "cni-harness"), check=False)
    assert "pod default/web is another runtime's, or has just ended" in joined.stderr


def _check_exec(pods: ManifestPods) -> None:
    """Look at streams, exit code and terminal of commands in a container."""
    script = "read line; echo got $line; echo bad >&2; exit 3"
    done = pods.node.run(pods.cni_harness("exec", "-i", "web", "--", "sh", "-c", script), stdin="word\n", check=False)
    note = "The runtime cannot tell the command that its input has ended; Ctrl-C ends this.\n"
    assert (done.returncode, done.stdout, done.stderr.replace(note, "")) == (3, "got word\n", "bad\n")
    absent = pods.node.run(pods.cni_harness("exec", "web", "--", "absent"), check=False)
    assert absent.returncode == 1
    assert "executable file not found" in absent.stderr

    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("4H", 33, 99, 0, 0))
    waiting = 'until [ "$(stty size)" = "33 99" ]; do sleep 0.1; done; read line; echo got $line; exit 7'
    words = pods.node.command(pods.cni_harness("exec", "-it", "web", "--", "sh", "-c", waiting))
    before = termios.tcgetattr(its)
    with os.fdopen(ours, "r+b", buffering=0) as screen:
        process = subprocess.Popen(words, env=pods.node.environment, stdin=its, stdout=its, stderr=its)
        screen.write(b"typed\r")
        assert process.wait(SECONDS) == 7
        shown = os.read(ours, 4096).decode()
        assert before == termios.tcgetattr(its)
        os.close(its)
    assert "got typed" in shown


def test_host_port_is_unserved_until_containerds_list_has_the_capability(started: Containerd) -> None:
    mapping = PortMapping(protocol="TCP", container_port=80, host_port=PORT)
    config = _sandbox_config(started, "asking")
    config.port_mappings = [mapping]
    with RemoteRuntime(f"unix://{started.node.root}{SOCKET}") as runtime:
        [request] = runtime.unserved_requests("", config)

        assert request.in_words() == (
            f"host port {PORT}/tcp has no effect: no plugin of network cni-harness has the capability portMappings"
        )
        ManifestPods(started.node)  # its list has portmap
        until(lambda: runtime.unserved_requests("", config) == [])


def test_each_kubelet_sees_its_own_pods_alone(started: Containerd) -> None:
    endpoint = f"unix://{started.node.root}{SOCKET}"
    with RemoteRuntime(endpoint, owner="/one") as one, RemoteRuntime(endpoint, owner="/two") as two:
        config = _sandbox_config(started, "owned")
        sandbox = one.run_pod_sandbox(config)
        container = one.create_container(sandbox, _container_config("main", "sleep", "1000"), config)

        assert [sandbox] == [each.id for each in one.list_pod_sandbox()]
        assert [(container, sandbox)] == [(each.id, each.pod_sandbox_id) for each in one.list_containers()]
        assert (two.list_pod_sandbox(), two.list_containers()) == ([], [])


def test_refusals_have_grpc_codes_of_containerd(started: Containerd) -> None:
    with RemoteRuntime(f"unix://{started.node.root}{SOCKET}") as runtime:
        config = _sandbox_config(started, "refused")
        sandbox = runtime.run_pod_sandbox(config)
        container = runtime.create_container(sandbox, _container_config("main", "sleep", "1000"), config)

        with pytest.raises(ImageNotFoundError, match="names no image"):
            runtime.create_container(sandbox, ContainerConfig(metadata=ContainerMetadata(name="bare")), config)
        with pytest.raises(NotFoundError, match=r"^rpc error: code = NotFound desc = .*absent"):
            runtime.container_status("absent")
        with pytest.raises(RuntimeServiceError, match=r"^rpc error: code = Unknown desc = .*CONTAINER_CREATED"):
            runtime.exec_sync(container, ["true"], 0)
        with pytest.raises(
            RuntimeServiceError, match=r"^rpc error: code = Unknown desc = failed to reserve sandbox name"
        ):
            runtime.run_pod_sandbox(config)
        runtime.start_container(container)
        with pytest.raises(TimeoutError, match='"sleep 60" timed out after 1s'):
            runtime.exec_sync(container, ["sleep", "60"], 1)
        assert runtime.images.image_status("images.test/absent:1") is None
        status = runtime.container_status(container)
        runtime.stop_container(container, 0)

        assert status.metadata.name == "main"
        assert runtime.container_status(container).exit_code == 137


def _sandbox_config(containerd: Containerd, name: str) -> PodSandboxConfig:
    metadata = PodSandboxMetadata(name=name, uid=f"uid-{name}", namespace="tests")
    return PodSandboxConfig(metadata=metadata, hostname=name, cgroup_parent=f"/{containerd.node.name}")


def _container_config(name: str, *command: str) -> ContainerConfig:
    return ContainerConfig(metadata=ContainerMetadata(name=name), image=BUSYBOX, command=list(command))
