"""What tools/provision.sh, and so `vagrant up`, leaves behind. These come first: later ones take it apart."""

from pathlib import Path

from launch import PLUGINS
from launch.launcher import is_ours
from tests.vm.node.installation import BIN_DIR, Installation


def test_provisioning_installs_plugins_and_a_list_in_the_default_folders(provisioned: Installation) -> None:
    assert {path.name for path in BIN_DIR.iterdir()} == set(PLUGINS)
    assert all(is_ours(str(path)) for path in BIN_DIR.iterdir())
    # With a compiler there, it is the one that is fast to start.
    assert (BIN_DIR / "bridge").read_bytes().startswith(b"\x7fELF")
    assert [path.name for path in Path("/etc/cni/net.d").iterdir()] == ["10-cni-harness.conflist"]


def test_the_first_pod_is_on_its_network(provisioned: Installation) -> None:
    (pod,) = provisioned.pods()

    assert pod["name"] == "pod1"
    provisioned.harness("check", "pod1")
    provisioned.harness("exec", "pod1", "--", "ping", "-c", "1", "-W", "5", "10.86.0.1")
    provisioned.harness("exec", "pod1", "--", "ping", "-c", "1", "-W", "5", "fd0d:6e1b:8b5c::1")


def test_check_passes_after_udev_has_settled(provisioned: Installation) -> None:
    """The default link policy of systemd gives a MAC of its own to whatever has a random one."""
    provisioned.run("udevadm", "settle")

    provisioned.harness("check")
