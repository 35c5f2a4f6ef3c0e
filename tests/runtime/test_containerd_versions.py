"""Network lists of each version of the specification, under containerd."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.runtime.containerd import Containerd
from tests.runtime.cri import CriError


@pytest.fixture
def start(idle_containerd: Containerd, archives: list[Path]) -> Callable[[str], Containerd]:
    """Starts containerd with the network list as it would be for a version, which then is the only one."""

    def start(version: str) -> Containerd:
        [path] = idle_containerd.node.lists.iterdir()
        network = json.loads(path.read_text())
        del network["cniVersions"]
        path.write_text(json.dumps(network | {"cniVersion": version}))
        idle_containerd.start()
        idle_containerd.import_images(archives)
        return idle_containerd

    return start


def is_served(containerd: Containerd) -> None:
    """Raise AssertionError or CriError where a pod does not get its network, or does not give it back."""
    pod = containerd.cri.run_pod("one")
    assert containerd.addresses_in(pod)["eth0"] == containerd.cri.addresses(pod) == ["10.86.0.2", "fd0d:6e1b:8b5c::2"]
    containerd.remove(pod.id)
    assert containerd.reservations() == {}


@pytest.mark.parametrize("version", ["0.3.0", "0.3.1", "0.4.0", "1.0.0"])
def test_pods_of_each_version(start: Callable[[str], Containerd], version: str) -> None:
    is_served(start(version))


def test_lists_of_1_1_0_work_in_containerd_2_and_fail_cleanly_before(
    start: Callable[[str], Containerd],
) -> None:
    containerd = start("1.1.0")
    if int(containerd.cri.version().split()[1].partition(".")[0]) >= 2:
        is_served(containerd)
        return

    with pytest.raises(CriError) as refused:
        containerd.cri.run_pod("one")

    assert 'plugin type="bridge" failed (add): unsupported CNI result version "1.1.0"' in str(refused.value)
    # It has executed ADD, and not understood the result. That too is taken back.
    links = {link["ifname"] for link in containerd.node.ip("link")}
    assert links == {"lo", "cni-harness0"}
    assert containerd.reservations() == {}
    assert containerd.node.pods_namespaces() == {}
