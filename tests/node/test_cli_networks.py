"""`networks NAME`: the addresses of a network, and who has them."""

import os
from pathlib import Path

import pytest

from tests.cli import Cli, bridge_network

pytestmark = pytest.mark.sudo


def holders(cli: Cli, name: str = "net") -> dict[str, str]:
    """Who has each reserved address, as the table says it."""
    _, _, leases = cli.run("networks", name).stdout.partition("\n\n")
    return {line.split("  ")[0].strip(): line[len(line.split("  ")[0]) :].strip() for line in leases.splitlines()[1:]}


def test_each_address_with_the_pod_that_has_it(cli: Cli) -> None:
    cli.configure(bridge_network("net", subnet="10.77.0.0/24"))
    pods = cli.add("pod1", "pod2")
    cli.add("pod1", "--namespace", "other")

    shown = cli.json("networks", "net")

    assert {each["address"] for each in shown["reservations"]} == cli.reservations("net")
    found = {each["address"]: (each["pod"], each["containerID"], each["ifname"]) for each in shown["reservations"]}
    for pod in pods:
        address = pod["networks"][0]["result"]["ips"][0]["address"].partition("/")[0]
        assert found[address] == (f"default/{pod['name']}", pod["containerID"], "eth0")
    assert {pod for pod, _, _ in found.values()} == {"default/pod1", "default/pod2", "other/pod1"}
    assert shown["ranges"] == [
        {
            "subnet": "10.77.0.0/24",
            "rangeStart": "10.77.0.1",
            "rangeEnd": "10.77.0.254",
            "gateway": "10.77.0.1",
            "size": 253,
            "used": 3,
            "free": 250,
        }
    ]


def test_every_range_is_counted_by_itself(own_cli: Cli) -> None:
    ranges = [
        [{"subnet": "10.77.0.0/24", "rangeStart": "10.77.0.10", "rangeEnd": "10.77.0.11"}, {"subnet": "10.78.0.0/30"}],
        [{"Subnet": "fd00:77::/64"}],
    ]
    own_cli.configure(bridge_network("net", isDefaultGateway=False, ipam={"type": "host-local", "ranges": ranges}))
    own_cli.add("pod1", "pod2", "pod3")

    shown = own_cli.json("networks", "net")["ranges"]

    assert [(each["subnet"], each["used"], each["free"]) for each in shown] == [
        ("10.77.0.0/24", 2, 0),
        ("10.78.0.0/30", 1, 0),
        ("fd00:77::/64", 3, 2**64 - 2 - 3),
    ]


def test_reservation_without_a_pod_is_shown_as_such(own_cli: Cli) -> None:
    own_cli.configure(bridge_network("net"))
    own_cli.add("pod1")
    folder = own_cli.var_lib_cni / "networks" / "net"
    (folder / "10.77.0.50").write_bytes(b"lost\r\neth0")
    (folder / "10.77.0.51").write_bytes(b"0123456789abcdef")
    (folder / "10.77.0.52").write_text("the printer in room 5\n")
    (folder / "10.77.0.53").touch()
    (folder / "10.77.0.54").symlink_to("/etc/passwd")
    os.mkfifo(folder / "10.77.0.55")

    found = holders(own_cli)

    assert found["10.77.0.2"].startswith("default/pod1")
    assert found["10.77.0.50"].split() == ["no", "pod", "eth0", "lost"]
    assert found["10.77.0.51"].split() == ["no", "pod", "-", "0123456789abcdef"]
    assert found["10.77.0.52"].startswith("no pod: the printer in room 5")
    assert found["10.77.0.53"].startswith("no pod: empty file")
    assert found["10.77.0.54"].startswith("no pod: not a regular file")
    assert found["10.77.0.55"].startswith("no pod: not a regular file")
    assert own_cli.json("networks", "net")["ranges"][0]["used"] == 7


def test_folder_of_the_list_is_read(own_cli: Cli, tmp_path: Path) -> None:
    ipam = {"type": "host-local", "subnet": "10.77.0.0/24", "DataDir": str(tmp_path / "elsewhere")}
    own_cli.configure(bridge_network("net", ipam=ipam))
    own_cli.add("pod1")
    assert (tmp_path / "elsewhere" / "net" / "10.77.0.2").exists()

    assert [each["pod"] for each in own_cli.json("networks", "net")["reservations"]] == ["default/pod1"]


def test_networks_reads_a_data_dir_below_the_folder_of_the_node(own_cli: Cli) -> None:
    ipam = {"type": "host-local", "subnet": "10.77.0.0/24", "dataDir": "/var/lib/cni/of-this-list"}
    own_cli.configure(bridge_network("net", ipam=ipam))
    own_cli.add("pod1")
    assert (own_cli.var_lib_cni / "of-this-list" / "net" / "10.77.0.2").exists()

    assert [each["pod"] for each in own_cli.json("networks", "net")["reservations"]] == ["default/pod1"]


def test_unused_network_is_free_and_makes_no_node(own_cli: Cli) -> None:
    own_cli.configure(bridge_network("net", subnet="10.77.0.0/29"))

    shown = own_cli.json("networks", "net")

    assert (shown["ranges"][0]["free"], shown["reservations"]) == (5, [])
    assert not own_cli.state_dir.exists()


def test_network_without_host_local(own_cli: Cli) -> None:
    own_cli.configure(
        bridge_network("net", ipam={}), {"cniVersion": "1.0.0", "name": "x", "plugins": [{"type": "noop"}]}
    )

    for name in ("net", "x"):
        run = own_cli.run("networks", name)

        assert (run.stdout, run.stderr) == ("", f"Network {name} has no addresses of host-local\n")


def test_network_that_is_not_configured(own_cli: Cli) -> None:
    own_cli.configure(bridge_network("net"))

    failed = own_cli.run("networks", "nett", check=False)

    assert failed.returncode == 1
    assert failed.stderr.startswith("Error: no network named nett (there are: net;")
    assert "did you mean net?)" in failed.stderr


def test_range_that_cannot_be_read_is_a_warning(own_cli: Cli) -> None:
    own_cli.configure(bridge_network("net", subnet="10.77.0.0/33"))

    shown = own_cli.run("networks", "net")

    assert 'plugins[0].ipam.ranges[0][0].subnet: expected a CIDR, got "10.77.0.0/33"' in shown.stderr
