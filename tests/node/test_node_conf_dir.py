"""The network lists of a named node: a copy of the host's /etc/cni/net.d, which is its own from then on."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli import Cli, bridge_network

pytestmark = pytest.mark.sudo

# The machine may have no /etc/cni, and a mount needs a place.
_HOLDER = (
    'mount -t overlay -o "lowerdir=$0:/etc" overlay /etc && mount --bind "$0/cni" /etc/cni && echo ready && read -r _'
)


@pytest.fixture
def lists(own_cli: Cli, tmp_path: Path) -> Iterator[Path]:
    """The /etc/cni/net.d of a host, on which the command runs."""
    folder = tmp_path / "etc" / "cni" / "net.d"
    folder.mkdir(parents=True)
    (folder / "10-host.conflist").write_text(json.dumps(bridge_network("host")))
    del own_cli.environment["NETCONFPATH"]
    command = ["unshare", "--mount", "sh", "-c", _HOLDER, str(tmp_path / "etc")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        own_cli.prefix = ["nsenter", f"--mount=/proc/{holder.pid}/ns/mnt"]
        yield folder
        own_cli.run("del", "--all", "--prune")


def names(cli: Cli, *options: str) -> list[str]:
    return [each["name"] for each in cli.json(*options, "networks")["networks"]]


def test_node_has_the_hosts_lists_and_later_ones_are_not_the_nodes(own_cli: Cli, lists: Path) -> None:
    own_cli.add("pod1")
    (lists / "10-host.conflist").unlink()
    (lists / "20-later.conflist").write_text(json.dumps(bridge_network("later")))

    own_cli.add("pod2")

    assert names(own_cli) == ["host"]
    assert names(own_cli, "--conf-dir", "/etc/cni/net.d") == ["later"]
    assert [path.name for path in (own_cli.node_dir / "etc-cni-net.d").iterdir()] == ["10-host.conflist"]


def test_plugin_on_a_node_writes_into_the_nodes_lists(own_cli: Cli, lists: Path) -> None:
    own_cli.plugin("writer", f"echo ours >/etc/cni/net.d/written\nexec {own_cli.bin_dir}/bridge\n")
    network = bridge_network("host")
    network["plugins"][0]["type"] = "writer"
    (lists / "10-host.conflist").write_text(json.dumps(network))

    own_cli.add("pod1")

    assert (own_cli.node_dir / "etc-cni-net.d" / "written").read_text() == "ours\n"
    assert [path.name for path in lists.iterdir()] == ["10-host.conflist"]


def test_copy_keeps_modes_folders_and_the_targets_of_links_and_leaves_out_the_rest(own_cli: Cli, lists: Path) -> None:
    (secret := lists / "host" / "kubeconfig").parent.mkdir()
    secret.write_text("token")
    secret.chmod(0o600)
    (lists / "link").symlink_to(secret)
    (lists / "to-nothing").symlink_to("nothing")
    os.mkfifo(lists / "pipe")

    own_cli.add("pod1")

    copy = own_cli.node_dir / "etc-cni-net.d"
    assert sorted(path.name for path in copy.iterdir()) == ["10-host.conflist", "host", "link"]
    assert (copy / "host" / "kubeconfig").stat().st_mode & 0o777 == 0o600
    assert (copy / "link").read_text() == "token"
    assert not (copy / "link").is_symlink()


def test_node_without_lists_uses_this_projects(own_cli: Cli, lists: Path) -> None:
    (lists / "10-host.conflist").unlink()

    own_cli.add("pod1")
    (own_cli.node_dir / "etc-cni-net.d" / "10-mine.conflist").write_text(json.dumps(bridge_network("mine")))

    assert names(own_cli) == ["mine"]
