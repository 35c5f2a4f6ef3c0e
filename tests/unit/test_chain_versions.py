"""Plugins of a list that stop below the version that the list offers."""

import json
import select
import socket
from functools import partial
from pathlib import Path

import pytest

from harness.install.doctor import versions_by_asking
from harness.libcni.chain_versions import unspoken_versions
from harness.libcni.execute import Executor, PluginError, PluginNotFoundError
from harness.libcni.networks import NetworkList, parse_network_list
from harness.libcni.operations import plugin_versions
from launch.launcher import launcher_bytes
from skel.versions import SUPPORTED
from tests.cli import REFERENCE_BIN_DIR, ROOT
from tests.nodes import HANG

OLD = ["0.4.0", "1.0.0"]
NEW = [*OLD, "1.1.0"]


def listed(versions: list[str], *plugins: object) -> NetworkList:
    document = {"cniVersion": versions[0], "cniVersions": versions, "name": "net", "plugins": plugins}
    return parse_network_list(json.dumps(document).encode())


def test_chained_plugin_that_stops_below_the_offer() -> None:
    network = listed(["1.0.0", "1.1.0"], {"type": "bridge"}, {"type": "portmap"})

    (found,) = unspoken_versions(network, lambda name: OLD if name == "portmap" else NEW)

    assert found.startswith(
        "plugins[1].type: plugin portmap does not speak version 1.1.0, only 0.4.0, 1.0.0; containerd"
    )
    assert 'take "1.1.0" out of cniVersions' in found


def test_delegate_that_stops_below_the_offer() -> None:
    network = listed(["1.1.0"], {"type": "bridge", "ipam": {"type": "static"}})

    (found,) = unspoken_versions(network, lambda name: OLD if name == "static" else NEW)

    assert found.startswith("plugins[0].ipam.type: plugin static does not speak version 1.1.0")
    assert 'set cniVersion "1.0.0"' in found


def test_offer_that_every_plugin_speaks() -> None:
    assert list(unspoken_versions(listed(["1.0.0", "1.1.0"], {"type": "bridge"}), lambda _: NEW)) == []
    assert list(unspoken_versions(listed(["0.4.0", "1.0.0"], {"type": "bridge"}), lambda _: OLD)) == []


def test_missing_plugin_is_another_message() -> None:
    def missing(name: str) -> list[str]:
        raise PluginNotFoundError(name, "VERSION", "no executable")

    assert list(unspoken_versions(listed(["1.1.0"], {"type": "bridge"}), missing)) == []


def test_below_1_1_0_nothing_is_said_of_containerd() -> None:
    (found,) = unspoken_versions(listed(["1.0.0"], {"type": "old"}), lambda _: ["0.4.0"])

    assert found == "plugins[0].type: plugin old does not speak version 1.0.0, only 0.4.0"


def test_own_list_with_debians_portmap(bin_dir: Path, tmp_path: Path) -> None:
    for name in ("bridge", "host-local"):
        (tmp_path / name).symlink_to(bin_dir / name)
    document = json.loads((ROOT / "conf" / "10-cni-harness.conflist").read_text())
    document["plugins"].append({"type": "portmap", "capabilities": {"portMappings": True}})
    network = parse_network_list(json.dumps(document).encode())

    (found,) = unspoken_versions(network, partial(plugin_versions, Executor([tmp_path, REFERENCE_BIN_DIR])))

    assert found.startswith("plugins[1].type: plugin portmap does not speak version 1.1.0")


def test_asking_plugins_of_this_installation_does_not_reach_the_server(tmp_path: Path) -> None:
    """Systemd starts the server for the first connection; `install` and `doctor` are not to do that."""
    path = tmp_path / "server.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(path))
        listening.listen()
        for content, name in ((launcher_bytes(socket=str(path)), "bridge"), (b"#!/bin/sh\nexit 1\n", "other")):
            (tmp_path / name).write_bytes(content)
            (tmp_path / name).chmod(0o755)
        versions_of = versions_by_asking(HANG)

        assert versions_of((tmp_path,), "bridge") == list(SUPPORTED)
        with pytest.raises(PluginError, match="other"):
            versions_of((tmp_path,), "other")
        assert select.select([listening], [], [], 0)[0] == []
