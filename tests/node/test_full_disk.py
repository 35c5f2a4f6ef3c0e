"""A full disk ends a verb or a plugin with an error that names the file, and nothing of it remains."""

import errno
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.files import naming, write_atomically
from harness.kubelet.volumes.files import Projection, write_atomically_into
from harness.runtime.left_links import LeftLinks
from ipam.reservation import make_file
from skel.regular_files import overwrite
from skel.state_file import StateFiles, write_whole
from tests.cli import Cli, bridge_network
from tests.full_disk import fill, full_disk
from tests.manifests import WIRES, KubeletNode, pod

pytestmark = pytest.mark.sudo

NO_SPACE = ": No space left on device"
TEXT = b"text"

WRITERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "file that survives a power cut": (lambda on: write_atomically(on / "file", TEXT), "file"),
    "file in a watched folder": (lambda on: write_atomically(on / "file", TEXT, watched=True), "file"),
    "file of a plugin": (lambda on: write_whole(str(on / "file"), TEXT, mode=0o600), "file"),
    "state of an attachment": (lambda on: StateFiles(str(on)).write("id1", "eth0", {"a": 1}), "id1:eth0"),
    "reservation": (lambda on: make_file(str(on / "192.0.2.1"), TEXT, lambda _: None), "192.0.2.1"),
    "file that is written in place": (lambda on: overwrite(str(on / "file"), TEXT), "file"),
    "bridge that stays": (lambda on: LeftLinks(on).note("net0", ["192.0.2.1"]), "net0"),
    "volume": (lambda on: write_atomically_into(on, {"key": Projection(TEXT, 0o644)}), "key"),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_error_of_a_writer_names_its_file(tmp_path: Path, writer: str) -> None:
    write, name = WRITERS[writer]

    with full_disk(tmp_path / "full"), pytest.raises(OSError, match="No space left") as caught:
        write(tmp_path / "full")

    assert caught.value.errno == errno.ENOSPC
    assert str(caught.value.filename).startswith(f"{tmp_path}/full/")
    assert Path(caught.value.filename).name == name


def test_error_that_names_a_file_keeps_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, naming(tmp_path):
        (tmp_path / "absent").read_bytes()

    assert caught.value.filename == str(tmp_path / "absent")


def failed(run: Any) -> str:
    """What a verb that failed says, without notes on its progress."""
    assert run.returncode == 1, run.stdout
    assert "Traceback" not in run.stderr
    assert "unforeseen" not in run.stderr
    return str(run.stderr)


def links(cli: Cli) -> list[str]:
    return [link["ifname"] for link in cli.ip("link")]


@pytest.mark.mostly_slow(2, "each folder; a part is in make test")
@pytest.mark.parametrize(
    ("place", "file"), [("pods", "/pod.json"), ("var-lib-cni/results", "-eth0"), ("data", "/net/10.77.0.2")]
)
def test_add_names_the_file_and_leaves_nothing(own_cli: Cli, tmp_path: Path, place: str, file: str) -> None:
    network = bridge_network("net")
    data = tmp_path / "data"
    network["plugins"][0]["ipam"]["dataDir"] = str(data)
    own_cli.configure(network)
    own_cli.add("first")
    own_cli.run("del", "first")
    (data / "net/last_reserved_ip.0").unlink()
    before = links(own_cli)
    folder = data if place == "data" else own_cli.node_dir / place

    with full_disk(folder) as filler:
        said = failed(own_cli.run("add", "pod1", check=False))

        assert re.search(rf"{re.escape(str(folder))}\S*{file}\b", said), said
        assert "No space left on device" in said
        assert links(own_cli) == before
        filler.unlink()
        assert own_cli.pods() == []
        [made] = own_cli.add("pod1")
        assert made["networks"][0]["result"]["ips"][0]["address"].startswith("10.77.")
        own_cli.run("del", "pod1")
    assert links(own_cli) == before


def test_del_on_a_full_disk_removes_the_pod(own_cli: Cli) -> None:
    own_cli.configure(bridge_network("net"))
    own_cli.add("first")
    own_cli.run("del", "first")
    before = links(own_cli)

    with full_disk(own_cli.node_dir / "pods") as filler:
        filler.unlink()
        own_cli.add("pod1")
        fill(filler)
        own_cli.run("del", "pod1")

        assert own_cli.pods() == []
    assert links(own_cli) == before


@pytest.mark.mostly_slow(4, "each folder; one is in make test")
@pytest.mark.parametrize("place", ["kubelet", "pods", "containers", "var-lib-cni/results"])
def test_run_names_the_file_and_its_pod_can_be_deleted(kubelet_node: KubeletNode, place: str) -> None:
    kubelet_node.configure(WIRES)
    before = kubelet_node.snapshot()
    folder = kubelet_node.node_dir / place

    with full_disk(folder) as filler:
        path = kubelet_node.write(pod("web"))
        said = failed(kubelet_node.run("run", "-f", str(path), "--timeout", "4", check=False))

        assert "No space left on device" in said
        assert f"{folder}/" in said
        filler.unlink()
        kubelet_node.run("delete", "--all")
    kubelet_node.assert_nothing_left(before)


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize("place", ["bin", "state", "conf"])
def test_install_names_the_file_and_uninstall_takes_back_the_others(tmp_path: Path, place: str) -> None:
    cli = Cli(tmp_path / "cli", tmp_path / "bin")
    folders = {"bin": cli.bin_dir, "state": cli.state_dir, "conf": cli.conf_dir}

    with full_disk(folders[place]) as filler:
        said = failed(cli.run("install", "--conf", check=False))

        assert NO_SPACE in said
        assert f"Error: {folders[place]}/" in said
        filler.unlink()
        cli.run("uninstall")
        assert [path for folder in folders.values() for path in folder.glob("*") if path.name != "install.lock"] == []
