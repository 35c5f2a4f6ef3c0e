"""`inspect` and `check`: the result of a pod's networks, held against the kernel."""

import json
from pathlib import Path
from typing import Any

import pytest

from netlink.namespace import remove_namespace
from tests.cli import Cli, bridge_network

pytestmark = pytest.mark.sudo


def errors(cli: Cli, *pods: str) -> dict[str, str]:
    """What `check` finds wrong with each pod's only network; it must fail exactly if there is anything."""
    run = cli.run("check", *pods, "-o", "json", check=False)
    found = {pod["name"]: pod["networks"][0]["error"] for pod in json.loads(run.stdout)["pods"]}

    assert run.returncode == int(any(found.values())), run.stderr
    return found


def liar(cli: Cli, result: dict[str, Any], **keys: object) -> None:
    """Configure a network whose only plugin makes nothing, reports `result`, and finds nothing wrong in CHECK."""
    cli.plugin("liar", f'cat > /dev/null; [ $CNI_COMMAND != ADD ] || sed "s|SANDBOX|$CNI_NETNS|g" {cli.folder}/result')
    (cli.folder / "result").write_text(json.dumps({"cniVersion": "1.0.0"} | result))
    cli.configure({"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "liar"}], **keys})


LO = {"name": "lo", "mac": "00:00:00:00:00:00", "sandbox": "SANDBOX"}


def two_families(**route: str) -> dict[str, Any]:
    ranges = [[{"subnet": "10.77.0.0/16"}], [{"subnet": "fd00:77::/64"}]]
    return {"type": "host-local", "ranges": ranges, "routes": [{"dst": "192.0.2.0/24"} | route]}


def test_check_finds_nothing_wrong_with_a_new_pod(cli: Cli) -> None:
    cli.configure(bridge_network("net", ipMasq=True, ipam=two_families(gw="10.77.0.9")))
    cli.add("pod1", "pod2")

    assert errors(cli) == {"pod1": "", "pod2": ""}


def test_check_takes_the_gateway_of_the_address_for_a_route_without_one(own_cli: Cli) -> None:
    """The reference's bridge gives such a route that gateway too, and then its own CHECK does not find it."""
    own_cli.configure(bridge_network("net", ipam=two_families()))
    own_cli.add("pod1")

    assert errors(own_cli) == {"pod1": ""}


def test_check_finds_a_default_route_that_goes_elsewhere(cli: Cli) -> None:
    cli.configure(bridge_network("net"))
    (pod,) = cli.add("pod1")
    cli.ip("route", "replace", "default", "via", "10.77.0.9", netns=pod["netns"])

    wanted = "route to 0.0.0.0/0 via 10.77.0.1, the kernel has it via 10.77.0.9 through eth0"
    assert wanted in errors(cli)["pod1"]


def test_check_takes_a_route_that_was_moved_to_another_table(own_cli: Cli) -> None:
    """As the plugin sbr does it, whose result still has the route."""
    route = {"dst": "192.0.2.0/24", "gw": "10.77.0.9"}
    liar(own_cli, {"interfaces": [{"name": "eth0", "sandbox": "SANDBOX"}], "routes": [route]})
    (pod,) = own_cli.add("pod1")
    own_cli.ip("link", "add", "eth0", "up", "type", "veth", "peer", "eth1", netns=pod["netns"])
    own_cli.ip("address", "add", "10.77.0.2/16", "dev", "eth0", netns=pod["netns"])
    assert errors(own_cli) == {
        "pod1": "the result has route to 192.0.2.0/24 via 10.77.0.9, the kernel has no such route"
    }

    own_cli.ip("route", "add", "192.0.2.0/24", "via", "10.77.0.9", "table", "100", netns=pod["netns"])

    assert errors(own_cli) == {"pod1": ""}


def test_check_finds_an_address_that_no_plugin_misses(own_cli: Cli) -> None:
    liar(own_cli, {"interfaces": [LO], "ips": [{"address": "192.0.2.9/24", "interface": 0}]})
    (pod,) = own_cli.add("pod1")
    assert errors(own_cli) == {"pod1": "the result has address 192.0.2.9/24 on lo, the kernel has 127.0.0.1/8"}

    own_cli.ip("address", "add", "192.0.2.9/24", "dev", "lo", netns=pod["netns"])

    assert errors(own_cli) == {"pod1": ""}


def test_check_finds_an_interface_that_no_plugin_misses(own_cli: Cli) -> None:
    liar(own_cli, {"interfaces": [LO | {"mac": "02:00:00:00:00:01"}, LO | {"name": "eth7"}]})
    own_cli.add("pod1")

    assert errors(own_cli) == {
        "pod1": "the result has interface lo with MAC 02:00:00:00:00:01, the kernel has MAC 00:00:00:00:00:00; "
        "the result has interface eth7 with MAC 00:00:00:00:00:00, the kernel has no such interface"
    }


def test_check_compares_nothing_of_a_network_that_forbids_check(own_cli: Cli) -> None:
    liar(own_cli, {"interfaces": [LO | {"name": "eth7"}]}, disableCheck=True)
    own_cli.add("pod1")

    assert errors(own_cli) == {"pod1": ""}


def test_check_leaves_addresses_without_an_interface_alone(own_cli: Cli) -> None:
    liar(own_cli, {"ips": [{"address": "192.0.2.9/24"}], "routes": [{"dst": "0.0.0.0/0"}]})
    own_cli.add("pod1")

    assert errors(own_cli) == {"pod1": ""}


def test_check_names_the_pod_with_the_missing_sandbox(cli: Cli) -> None:
    cli.configure(bridge_network("net"))
    gone, _ = cli.add("pod1", "pod2")
    remove_namespace(gone["netns"])

    assert errors(cli) == {"pod1": f"the sandbox of pod default/pod1 is gone: {gone['netns']}", "pod2": ""}


def test_inspect_shows_the_node_s_side_and_the_chain(own_cli: Cli) -> None:
    cli = own_cli
    cli.configure(bridge_network("net", ipMasq=True, macspoofchk=True))
    pod, other = cli.add("pod1")[0], cli.add("pod2")[0]

    shown = cli.json("inspect", "pod1")

    (network,) = shown["networks"]
    assert network["plugins"] == [{"type": "bridge", "ipam": "host-local", "executable": str(cli.bin_dir / "bridge")}]
    (eth0,) = cli.ip("link", "show", "dev", "eth0", netns=pod["netns"])
    veth, bridge = network["hostLinks"]
    assert (veth["index"], veth["portOf"]) == (eth0["link_index"], "net0")
    assert (bridge["name"], bridge["addresses"][0]) == ("net0", "10.77.0.1/16")
    words = [entry["words"] for entry in shown["firewall"]]
    assert any("subnet-10.77.0.0-16 { 10.77.0.2 }" in each for each in words)
    assert any("bridge cni_harness" in each and veth["name"] in each for each in words)
    assert not any(other["containerID"] in each or "10.77.0.3" in each for each in words)


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_inspect_of_a_pod_of_the_reference_shows_its_chains(reference_cli: Cli) -> None:
    reference_cli.configure(bridge_network("net", ipMasq=True))
    (pod,) = reference_cli.add("pod1")
    reference_cli.add("pod2")

    shown = reference_cli.json("inspect", "pod1")

    words = [entry["words"] for entry in shown["firewall"]]
    assert any("10.77.0.2" in each and pod["containerID"] in each for each in words)
    assert not any("10.77.0.3" in each for each in words)
    assert [link["kind"] for link in shown["networks"][0]["hostLinks"]] == ["veth", "bridge"]


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_inspect_marks_differences_from_the_kernel(cli: Cli) -> None:
    cli.configure(bridge_network("net"))
    (pod,) = cli.add("pod1")
    assert not [line for line in cli.run("inspect", "pod1").stdout.splitlines() if "!" in line]
    cli.ip("address", "delete", "10.77.0.2/16", "dev", "eth0", netns=pod["netns"])
    cli.ip("address", "add", "10.77.0.7/16", "dev", "eth0", netns=pod["netns"])

    shown = cli.run("inspect", "pod1").stdout

    marked = [line for line in shown.splitlines() if "!" in line]
    assert "! address 10.77.0.2/16 on eth0: the kernel has 10.77.0.7/16" in marked[0]
    assert "! route to 0.0.0.0/0 via 10.77.0.1: the kernel has no such route" in marked[1]
    assert len(marked) == 2


def test_inspect_of_a_pod_without_sandbox_has_no_links(cli: Cli) -> None:
    cli.configure(bridge_network("net"))
    (pod,) = cli.add("pod1")
    remove_namespace(pod["netns"])

    shown = cli.json("inspect", "pod1")

    assert (shown["state"], shown["kernel"]) == ("no sandbox", {"links": [], "routes": []})
    assert shown["networks"][0]["compared"] == []
    assert not Path(pod["netns"]).exists()


def test_exec_names_the_pod_with_the_missing_sandbox(own_cli: Cli) -> None:
    own_cli.configure(bridge_network("net"))
    (pod,) = own_cli.add("pod1", "--namespace", "shop")
    remove_namespace(pod["netns"])

    failed = own_cli.run("exec", "--namespace", "shop", "pod1", "--", "true", check=False)

    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr == f"Error: the sandbox of pod shop/pod1 is gone: {pod['netns']}\n"


def test_inspect_shows_no_interface_that_the_plugins_did_not_report(own_cli: Cli) -> None:
    own_cli.configure({"cniVersion": "1.0.0", "name": "none", "plugins": [{"type": "noop"}]})
    own_cli.add("pod1")

    shown = own_cli.run("inspect", "pod1").stdout

    assert "none (reports no interface)" in shown
    assert "eth0" not in shown
