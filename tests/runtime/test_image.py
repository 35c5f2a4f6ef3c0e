"""The image that `make image` builds, as Podman runs it: without a network, and with nothing of this checkout."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli import ROOT, VERSION
from tests.runtime.conftest import PODMAN_OPTIONS
from tests.runtime.node import RuntimeNode

ARCHIVE = ROOT / "build" / f"cni-harness-image-{VERSION}.tar"
IMAGE = f"localhost/cni-harness:{VERSION}"


class PodmanNode(RuntimeNode):
    """A node with Podman and the image."""

    def podman(self, *args: str, code: int = 0) -> str:
        """Run Podman to its end with an exit code, and return its stdout."""
        run = self.run(["podman", *PODMAN_OPTIONS, *args], check=False)
        assert run.returncode == code, run.stdout + run.stderr
        return run.stdout

    def container(self, *args: str, code: int = 0) -> str:
        """Run a container that may change its own network, to its end with an exit code, and return its stdout."""
        return self.podman("run", "--rm", "--network=none", "--privileged", *args, code=code)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodmanNode]:
    made = PodmanNode(tmp_path_factory.mktemp("image"))
    try:
        made.run(["mkdir", "-p", "/etc/containers"])
        made.run(["tee", "/etc/containers/policy.json"], stdin='{"default": [{"type": "insecureAcceptAnything"}]}')
        made.podman("load", "--input", str(ARCHIVE))
        yield made
    finally:
        made.close()


def shell_blocks(page: Path) -> list[str]:
    """Return the blocks of a page that are commands for a shell."""
    return re.findall(r"^```sh\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def unpack(archive: Path, folder: Path) -> None:
    """Write the files of an image of one layer into a new folder."""
    folder.mkdir()
    layout = folder.with_name("layout")
    layout.mkdir()
    subprocess.run(["tar", "-x", "-f", archive, "-C", layout], check=True)
    layer = max(layout.glob("blobs/sha256/*"), key=lambda path: path.stat().st_size)
    subprocess.run(["tar", "-x", "-z", "-f", layer, "-C", folder], check=True)


def test_image_has_the_version_and_runs_on_read_only_storage(node: PodmanNode) -> None:
    [described] = json.loads(node.podman("image", "inspect", IMAGE))

    assert described["Labels"]["org.opencontainers.image.version"] == VERSION
    printed = node.podman("run", "--rm", "--network=none", "--read-only", "--cap-drop=all", IMAGE, "--version")
    assert printed == f"cni-harness {VERSION}\n"


def test_container_of_the_image_gives_its_pods_a_network(node: PodmanNode) -> None:
    commands = """
        set -e
        cni-harness add pod1 >&2
        cni-harness exec pod1 -- ip -json address show dev eth0
        ping -c 1 -W 5 10.86.0.2 >&2
        cni-harness del --all --prune >&2
    """

    [eth0] = json.loads(node.container("--entrypoint=sh", IMAGE, "-c", commands))

    assert "10.86.0.2" in {address["local"] for address in eth0["addr_info"]}


def test_container_of_the_image_finds_the_fault_of_a_plugin_from_outside(node: PodmanNode, tmp_path: Path) -> None:
    """The plugin succeeds with each version, also with those that it does not name."""
    plugin = tmp_path / "theirs"
    plugin.write_text(f"#!/bin/sh\necho '{json.dumps({'cniVersion': '1.1.0', 'supportedVersions': ['1.1.0']})}'\n")
    plugin.chmod(0o755)
    network = {"cniVersion": "1.1.0", "name": "net", "plugins": [{"type": "theirs"}]}
    (tmp_path / "net.conflist").write_text(json.dumps(network))

    folders = [f"--volume={tmp_path}:/plugins", IMAGE, "conformance", "--bin-dir=/plugins"]
    chosen = ["--conf=/plugins/net.conflist", "--profile=interface", "--check=version-*", "--output=json"]
    report = json.loads(node.container(*folders, *chosen, code=1))

    assert [check["id"] for check in report["checks"] if check["outcome"] == "fail"] == ["version-unsupported"]
    assert report["summary"]["pass"] > 3


def test_node_with_python_gets_the_plugins_from_a_container(node: PodmanNode, tmp_path: Path) -> None:
    """By the commands of docs/install.md; plugins alone do not start. The node is the image's own Debian."""
    host = tmp_path / "host"
    unpack(ARCHIVE, host)
    subprocess.run(
        ["rm", "-r", host / "usr/lib/cni-harness", host / "usr/bin/cni-harness", host / "opt/cni"], check=True
    )
    [commands] = [block for block in shell_blocks(ROOT / "docs" / "install.md") if "/host" in block]
    script = f"""
        set -e
        exec 3>&1 >&2
        export CNI_COMMAND=VERSION
        mount -t proc proc /host/proc
        mount --bind /dev /host/dev
        cp /opt/cni/bin/bridge /host/tmp/
        if chroot /host /tmp/bridge </dev/null; then exit 9; fi
        {commands}
        chroot /host /opt/cni/bin/bridge </dev/null >&3
    """

    printed = node.container(f"--volume={host}:/host", "--entrypoint=sh", IMAGE, "-c", script)

    assert "1.1.0" in json.loads(printed)["supportedVersions"]
