"""The operations on a reference plugin (Debian's host-local)."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from harness.libcni.cache import ResultCache
from harness.libcni.execute import Executor, PluginError
from harness.libcni.networks import NetworkList, parse_network_list
from harness.libcni.operations import Libcni, plugin_versions
from harness.libcni.request import ContainerAttachment
from harness.validation.validate import validate
from tests.unit.libcni.recorder import BARE_POD1, POD1


@pytest.fixture
def host_local(tmp_path: Path) -> Callable[[str], NetworkList]:
    def listed(version: str) -> NetworkList:
        ipam = {"type": "host-local", "subnet": "10.9.0.0/29", "dataDir": str(tmp_path / "addresses")}
        plugin = {"type": "host-local", "ipam": ipam}
        return parse_network_list(json.dumps({"cniVersion": version, "name": "mynet", "plugins": [plugin]}).encode())

    return listed


@pytest.mark.parametrize("version", ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0"])
def test_debians_host_local_serves_a_whole_life(
    tmp_path: Path, host_local: Callable[[str], NetworkList], version: str
) -> None:
    """No mark for root: host-local touches nothing but its folder of addresses."""
    warnings: list[str] = []
    executor = Executor([Path("/usr/lib/cni")])
    libcni = Libcni(executor, ResultCache(tmp_path / "cni", warn=warnings.append), warn=warnings.append)
    listed = host_local(version)
    reserved = tmp_path / "addresses" / "mynet" / "10.9.0.2"

    result = libcni.add(listed, POD1)

    assert result["cniVersion"] == version
    assert "10.9.0.2/29" in json.dumps(result)
    assert reserved.read_bytes() == b"pod1\r\neth0"
    if version in {"0.4.0", "1.0.0"}:
        libcni.check(listed, POD1)
    assert validate(listed, partial(plugin_versions, executor), warnings.append) == []
    libcni.delete(listed, BARE_POD1)
    assert not reserved.exists()
    libcni.delete(listed, BARE_POD1)
    assert warnings == []


def test_error_of_debians_host_local_has_its_message(tmp_path: Path, host_local: Callable[[str], NetworkList]) -> None:
    libcni = Libcni(Executor([Path("/usr/lib/cni")]), ResultCache(tmp_path / "cni", warn=print), warn=print)
    for number in range(3, 8):
        libcni.add(host_local("1.0.0"), ContainerAttachment(f"pod{number}", "/proc/self/ns/net", "eth0"))

    with pytest.raises(PluginError, match=r"plugin host-local: ADD failed with code 999: .*no IP addresses available"):
        libcni.add(host_local("1.0.0"), POD1)

    assert len(libcni.gc(host_local("1.0.0"), [("pod3", "eth0")])) == 4
    libcni.add(host_local("1.0.0"), POD1)
