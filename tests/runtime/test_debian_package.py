"""The Debian package, installed by apt on a node without systemd, where Debian's reference plugins are."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.debian_package import (
    BIN_DIR,
    REMOVE,
    built_package,
    downgrades,
    files,
    install,
    older_package,
    refusing_package,
    version,
)
from tests.nodes import BARE_PATH
from tests.runtime.containerd import Containerd
from tests.runtime.node import RuntimeNode

_CHANGED = ("/etc", "/opt", "/usr", "/var/cache", "/var/lib", "/var/log")
REFERENCE = {"bridge", "host-local", "loopback"}


class PackagedNode(RuntimeNode):
    """A node that apt may change, with nothing of this project's in its environment."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, _CHANGED)
        self.environment = {"PATH": BARE_PATH, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
        self.run(["mount", "--bind", self.var_lib_cni, "/var/lib/cni"])
        # Or the package would be installed on this machine, and removed from it.
        for path in _CHANGED:
            shown = self.printed(["findmnt", "--noheadings", "--output", "FSTYPE", "--mountpoint", path])
            assert shown == "overlay\n", path
        self.run(["test", "!", "-e", "/var/lib/cni-harness"])

    def printed(self, command: Sequence[str]) -> str:
        """What a command prints."""
        return self.run(command).stdout

    def files(self) -> set[str]:
        """Every file of the node."""
        return files(self.printed)

    def types(self) -> dict[str, bytes]:
        """The first bytes of each plugin that runtimes find."""
        folder = Path(f"{self.root}{BIN_DIR}")
        return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}


@pytest.fixture
def packaged_node(tmp_path: Path) -> Iterator[PackagedNode]:
    node = PackagedNode(tmp_path)
    yield node
    node.close()


def test_pods_of_debians_containerd_and_no_trace_after_purge(
    packaged_node: PackagedNode, archives: list[Path], log: Path
) -> None:
    node = packaged_node
    before, reference = node.files(), node.types()
    node.run(install(built_package()))
    # The package decides on no network.
    assert not node.lists.exists()
    assert node.run(["cni-harness", "version"]).stdout
    changed = {name for name, content in node.types().items() if content != reference.get(name)}
    assert {*REFERENCE, "noop"} <= changed
    node.run(["cni-harness", "install", f"--bin-dir={BIN_DIR}", "--conf"])

    containerd = Containerd(node, log)
    try:
        containerd.start()
        containerd.import_images(archives)
        pod = containerd.cri.run_pod("one")
        assert containerd.addresses_in(pod)["eth0"] == ["10.86.0.2", "fd0d:6e1b:8b5c::2"]
        assert node.run(["ping", "-c", "1", "-W", "5", "10.86.0.2"]).returncode == 0
        containerd.remove(pod.id)

        node.run(REMOVE)
        assert node.files() == before
        assert node.types() == reference
        # Beside the reservations, whose other files the reference plugins use too.
        assert not list(node.var_lib_cni.rglob(".owners"))
    finally:
        containerd.close()


def test_reference_plugins_that_come_later_are_diverted(packaged_node: PackagedNode) -> None:
    """Our files are written over, and then a trigger of dpkg has them written again."""
    node = packaged_node
    archive = f"{node.folder}/reference.deb"
    node.run(["bash", "-c", REPACK, "bash", archive])
    node.run(["apt-get", "purge", "--yes", "--quiet=2", "containernetworking-plugins"])
    node.run(install(built_package()))
    ours = node.types()
    node.run(["dpkg", "--install", archive])

    assert node.types() | ours == node.types()
    node.run(REMOVE)
    now = node.types()
    assert set(now) >= REFERENCE
    assert not any(now[name] == ours[name] for name in REFERENCE)


def test_downgrade_is_refused_while_newer_pods_exist(packaged_node: PackagedNode) -> None:
    node = packaged_node
    node.run(install(built_package()))
    installed = version(node.printed)
    node.run(["cni-harness", "add", "bare"])
    node.run(["cni-harness", "--node", "trial", "add", "other", "--namespace", "tests"])
    by_dpkg, by_apt = downgrades(older_package(node.folder))

    for command in (by_dpkg, by_apt):
        refused = node.run(command, check=False)
        assert refused.returncode != 0
        # apt runs dpkg on a terminal.
        assert REFUSED in (refused.stdout + refused.stderr).replace("\r", "")
        assert version(node.printed) == installed
    # Neither is the same version refused, nor a package of another system.
    node.run(["dpkg", "--install", str(built_package())])
    node.run(["dpkg", "--no-act", "--root", str(node.folder), *by_dpkg[1:]])
    node.run(["env", f"DPKG_ROOT={node.folder}", "dpkg", "--no-act", *by_dpkg[1:]])

    for line in REFUSED.splitlines()[1:]:
        node.run(line.split())
    node.run(by_apt)
    assert version(node.printed) == "ii 0.1.0"


def test_downgrade_that_a_later_version_refuses_is_refused_by_this_one_too(packaged_node: PackagedNode) -> None:
    """The installed version is asked first by dpkg, then the one that is to replace it."""
    node = packaged_node
    node.run(["dpkg", "--install", refusing_package(node.folder)])

    by_dpkg, _ = downgrades(built_package())
    assert node.run(by_dpkg, check=False).returncode != 0
    assert version(node.printed) == "ii 9.0-1"


REFUSED = """\
cni-harness: version 0.1.0 cannot read the records of these pods; delete them before the downgrade:
  cni-harness del -n default bare
  cni-harness --node trial del -n tests other
"""

# A package of the same name with the same files, as those are on this machine.
REPACK = """
set -e
tree=$(mktemp -d)
mkdir -p "$tree/DEBIAN" "$tree/usr/lib/cni"
cp -a /usr/lib/cni/[a-z]* "$tree/usr/lib/cni/"
printf '%s\\n' 'Package: containernetworking-plugins' 'Version: 99' 'Architecture: all' \\
    'Maintainer: nobody <nobody@example.org>' 'Description: reference plugins' >"$tree/DEBIAN/control"
dpkg-deb --root-owner-group -Znone --build "$tree" "$1"
rm -r "$tree"
"""
