"""DEL and GC of host-local with keys that cannot be read: all reservations go, unless their place is not known."""

from pathlib import Path
from typing import Any

import pytest

from plugins import loopback, noop
from skel import Plugin, dispatch
from tests.unit.host_local import DUAL_STACK, HostLocal

BAD: list[tuple[dict[str, Any], str]] = [
    ({"subnet": "10.88.0.0/33", "ranges": DUAL_STACK}, "expected a CIDR"),
    ({"ranges": [[{"subnet": 5}], [{"subnet": "2001:db8::/64"}]]}, "expected a CIDR"),
    ({"ranges": DUAL_STACK, "rangeStart": "x"}, "expected an IP address"),
    ({"ranges": DUAL_STACK, "routes": 5}, ""),  # DEL does not read them: there may be thousands
]


def spoilt(network: HostLocal, keys: dict[str, Any]) -> dict[str, Any]:
    section = network.config["ipam"]
    return {"ipam": {"type": section["type"], "dataDir": section["dataDir"], **keys}}


@pytest.mark.parametrize(("keys", "told"), BAD)
@pytest.mark.parametrize("is_index_whole", [True, False])
def test_del_releases_the_addresses_of_both_families(
    tmp_path: Path, keys: dict[str, Any], told: str, *, is_index_whole: bool
) -> None:
    network = HostLocal(tmp_path)
    network.add("other")
    kept = network.reservations()
    network.add("pod")
    if not is_index_whole:
        (network.folder / ".owners").unlink()
    config = spoilt(network, keys)
    assert network.fail("ADD", "third", **config)[0] == 7

    ran = network.succeed("DEL", "pod", **config)

    assert told in ran.log
    assert network.reservations() == kept


def test_gc_with_bad_keys_releases_invalid_attachments(tmp_path: Path) -> None:
    network = HostLocal(tmp_path)
    network.add("pod")

    keys: dict[str, Any] = {"cni.dev/valid-attachments": [], **spoilt(network, BAD[0][0])}
    network.succeed("GC", **keys)

    assert network.reservations() == {}


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"name": "a/b"}, "name: "),
        ({"name": 5}, "name: "),
        ({"ipam": 5}, "ipam: "),
        ({"ipam": {"type": "host-local", "dataDir": 5}}, "ipam.dataDir: "),
    ],
)
def test_del_with_an_unknown_data_dir_fails_and_releases_nothing(
    tmp_path: Path, config: dict[str, Any], named: str
) -> None:
    network = HostLocal(tmp_path)
    network.add("pod")
    reserved = network.reservations()

    assert named in network.fail("DEL", "pod", **config)[1]
    assert network.reservations() == reserved


@pytest.mark.parametrize("plugin", [loopback.PLUGIN, noop.PLUGIN], ids=["loopback", "noop"])
def test_other_plugins_go_on_too(plugin: Plugin[Any]) -> None:
    environ = {
        "CNI_COMMAND": "DEL",
        "CNI_CONTAINERID": "pod",
        "CNI_IFNAME": "eth0",
        "CNI_PATH": "/none",
        "CNI_ARGS": "none" if plugin.name == "noop" else "",
    }
    stdin = b'{"cniVersion": "1.1.0", "name": "net", "type": "x", "dns": 5, "capabilities": []}'

    outcome = dispatch(plugin, environ, lambda: stdin)

    assert (outcome.code, outcome.stdout) == (0, b"")
    assert outcome.stderr.count(b"ignoring a key that cannot be read") >= 2
