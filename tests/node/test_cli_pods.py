"""Pods from the command line, added and deleted, with the kernel as the witness."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from netlink.namespace import remove_namespace
from tests.cli import Cli, bridge_network

pytestmark = pytest.mark.sudo


def test_add_reports_the_addresses_and_routes_of_the_kernel(cli: Cli) -> None:
    cli.configure(bridge_network("net"))

    (pod,) = cli.add("pod1")

    (network,) = pod["networks"]
    assert cli.addresses(pod["netns"], "eth0") == {ip["address"] for ip in network["result"]["ips"]} == {"10.77.0.2/16"}
    assert {"ifname": "net0", "operstate": "UP"}.items() <= cli.ip("link", "show", "dev", "net0")[0].items()
    (route,) = cli.ip("route", "show", "default", netns=pod["netns"])
    assert (route["gateway"], route["dev"]) == ("10.77.0.1", "eth0")
    assert len(pod["containerID"]) == 64
    assert pod["seconds"] > 0


def test_loopback_of_a_pod_is_up(cli: Cli) -> None:
    cli.configure(bridge_network("net"))

    (pod,) = cli.add("pod1")

    (loopback,) = cli.ip("link", "show", "dev", "lo", netns=pod["netns"])
    assert "UP" in loopback["flags"]


def test_second_add_of_a_name_fails_and_changes_nothing(cli: Cli) -> None:
    cli.configure(bridge_network("net"))
    cli.add("pod1")
    before = (cli.pods(), cli.reservations("net"), cli.cached_results(), cli.ip("link"))

    second = cli.run("add", "pod1", check=False)

    assert (second.returncode, second.stdout) == (1, "")
    assert second.stderr.startswith("Error: pod default/pod1: exists already")
    assert (cli.pods(), cli.reservations("net"), cli.cached_results(), cli.ip("link")) == before


def test_add_with_exist_ok_shows_the_pod_that_is_there(cli: Cli) -> None:
    cli.configure(bridge_network("net"))
    (first,) = cli.add("pod1")

    (second,) = cli.add("pod1", "--exist-ok")

    assert second == first | {"seconds": None}


def test_add_with_exist_ok_renews_a_pod_without_sandbox(cli: Cli) -> None:
    cli.configure(bridge_network("net"))
    (first,) = cli.add("pod1")
    remove_namespace(first["netns"])
    assert [pod["state"] for pod in cli.pods()] == ["no sandbox"]

    (second,) = cli.add("pod1", "--exist-ok")

    assert second["containerID"] != first["containerID"]
    assert len(cli.reservations("net")) == 1
    assert cli.addresses(second["netns"], "eth0")


def test_same_name_in_two_namespaces_is_two_pods(cli: Cli) -> None:
    cli.configure(bridge_network("net"))

    cli.add("pod1")
    cli.add("pod1", "--namespace", "other")

    assert {(pod["namespace"], pod["name"]) for pod in cli.pods()} == {("default", "pod1"), ("other", "pod1")}


def test_delete_takes_everything_back(cli: Cli) -> None:
    cli.configure(bridge_network("net"))
    (pod,) = cli.add("pod1")

    cli.run("del", "pod1")

    assert not Path(pod["netns"]).exists()
    assert cli.pods() == []
    assert (cli.reservations("net"), cli.cached_results()) == (set(), set())
    assert [link["ifname"] for link in cli.ip("link")] == ["lo", "net0"]
    assert list((cli.node_dir / "pods").iterdir()) == []


def test_delete_of_a_pod_that_is_not_there_succeeds(cli: Cli) -> None:
    cli.configure(bridge_network("net"))
    cli.add("pod1")
    cli.run("del", "pod1")

    again = cli.run("del", "pod1")

    assert "no pod default/pod1" in again.stderr


def test_delete_without_any_node_makes_none(cli: Cli) -> None:
    cli.run("del", "pod1")

    assert not Path(f"/run/netns/{cli.node}").exists()
    assert not cli.node_dir.exists()


def test_delete_when_the_sandbox_is_gone(cli: Cli) -> None:
    cli.configure(bridge_network("net"))
    (pod,) = cli.add("pod1")
    remove_namespace(pod["netns"])

    cli.run("del", "pod1")

    assert (cli.pods(), cli.reservations("net")) == ([], set())


def test_delete_when_the_node_is_gone(cli: Cli) -> None:
    cli.configure(bridge_network("net"))
    cli.add("pod1")
    remove_namespace(f"/run/netns/{cli.node}")

    cli.run("del", "--all", "--prune")

    assert not cli.node_dir.exists()
    assert not Path(f"/run/netns/{cli.node}").exists()


def test_delete_uses_the_configuration_of_the_add(cli: Cli) -> None:
    cli.configure(bridge_network("net"))
    cli.add("pod1")
    shutil.rmtree(cli.conf_dir)
    cli.conf_dir.mkdir()

    cli.run("del", "pod1")

    assert cli.reservations("net") == set()


def test_delete_survives_a_broken_result_cache(cli: Cli) -> None:
    cli.configure(bridge_network("net"))
    cli.add("pod1")
    (cached,) = (cli.var_lib_cni / "results").iterdir()
    cached.write_bytes(b"")

    cli.run("del", "pod1")

    assert (cli.reservations("net"), cli.cached_results()) == (set(), set())


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_many_pods_at_once_get_different_addresses_and_go(cli: Cli) -> None:
    cli.configure(bridge_network("net"))
    names = [f"pod{number}" for number in range(50)]

    pods = cli.add(*names, "--jobs", "16")

    assert [pod["name"] for pod in pods] == names
    assert len({pod["networks"][0]["result"]["ips"][0]["address"] for pod in pods}) == 50
    assert len(cli.ip("link", "show", "master", "net0")) == 50
    cli.run("del", "--all", "--prune")
    assert not cli.node_dir.exists()
    assert not Path(f"/run/netns/{cli.node}").exists()
    assert not any(Path(pod["netns"]).exists() for pod in pods)


def test_two_nodes_share_nothing(make_cli: Callable[[Path], Cli], bin_dir: Path) -> None:
    one, other = make_cli(bin_dir), make_cli(bin_dir)
    for each in (one, other):
        each.configure(bridge_network("net"))

    first, second = one.add("pod1")[0], other.add("pod1")[0]

    assert first["networks"][0]["result"]["ips"] == second["networks"][0]["result"]["ips"]
    assert one.reservations("net") == other.reservations("net") == {"10.77.0.2"}


def test_a_node_leaves_the_machine_alone(cli: Cli) -> None:
    cli.configure(bridge_network(cli.node.replace("t-", "b")))

    (pod,) = cli.add("pod1")

    bridge = pod["networks"][0]["result"]["interfaces"][0]["name"]
    assert not Path(f"/sys/class/net/{bridge}").exists()
    assert not Path("/var/lib/cni/networks", pod["networks"][0]["name"]).exists()


def test_plugins_see_the_links_of_their_node_in_sysfs(own_cli: Cli) -> None:
    """As on any host: /sys shows the namespace that it was mounted in."""
    seen = own_cli.folder / "seen"
    own_cli.plugin("looker", f'ls /sys/class/net > {seen}\ncat > /dev/null\necho \'{{"cniVersion": "1.0.0"}}\'')
    network = bridge_network("net")
    own_cli.configure({**network, "plugins": [*network["plugins"], {"type": "looker"}]})

    own_cli.add("pod1")

    assert seen.read_text().split() == sorted(link["ifname"] for link in own_cli.ip("link"))


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_prune_keeps_a_bridge_that_is_still_used(cli: Cli) -> None:
    cli.configure(bridge_network("net"), bridge_network("lone", subnet="10.78.0.0/16"))
    cli.add("pod1", "pod2")
    cli.add("pod3", "--network", "lone")

    cli.run("del", "pod1", "pod3", "--prune")

    assert {"net0", "lone0"} & {link["ifname"] for link in cli.ip("link")} == {"net0"}
    cli.run("del", "pod2", "--prune")
    assert not cli.node_dir.exists()


@pytest.fixture
def two_bridges(cli: Cli) -> Cli:
    """pod1 on net0, and pod2 on lone0, which keeps the node."""
    cli.configure(bridge_network("net"), bridge_network("lone", subnet="10.78.0.0/16"))
    cli.add("pod1")
    cli.add("pod2", "--network", "lone")
    return cli


def test_prune_keeps_a_bridge_with_a_foreign_port(two_bridges: Cli) -> None:
    cli = two_bridges
    cli.ip("link", "add", "port0", "master", "net0", "type", "veth", "peer", "port1")

    cli.run("del", "pod1", "--prune")

    assert "net0" in {link["ifname"] for link in cli.ip("link")}


def test_prune_keeps_a_bridge_that_another_runtimes_result_names(two_bridges: Cli) -> None:
    cli = two_bridges
    (cached,) = (cli.var_lib_cni / "results").glob("net-*")
    entry = json.loads(cached.read_text()) | {"containerId": "another"}
    cached.with_name("net-another-eth0").write_text(json.dumps(entry))

    cli.run("del", "pod1", "--prune")

    assert "net0" in {link["ifname"] for link in cli.ip("link")}


def test_delete_without_prune_keeps_the_bridge(two_bridges: Cli) -> None:
    two_bridges.run("del", "pod1")

    assert "net0" in {link["ifname"] for link in two_bridges.ip("link")}


def test_node_that_was_there_before_stays(cli: Cli) -> None:
    cli.configure(bridge_network("net"))
    from netlink.namespace import create_namespace

    create_namespace(f"/run/netns/{cli.node}")
    cli.add("pod1")

    cli.run("del", "--all", "--prune")

    assert [link["ifname"] for link in cli.ip("link")] == ["lo"]


@pytest.fixture
def kept_node(cli: Cli) -> Cli:
    """A node whose network namespace was there before, and stays when its pods and files go."""
    from netlink.namespace import create_namespace

    cli.configure(bridge_network("net"))
    create_namespace(f"/run/netns/{cli.node}")
    return cli


def test_prune_removes_the_bridge_of_pods_that_were_deleted_before(kept_node: Cli) -> None:
    kept_node.add("pod1", "pod2")
    kept_node.run("del", "pod1", "pod2")
    assert "net0" in {link["ifname"] for link in kept_node.ip("link")}

    run = kept_node.run("del", "--all", "--prune")

    assert [link["ifname"] for link in kept_node.ip("link")] == ["lo"]
    assert run.stderr.splitlines() == [
        "Removed net0, which had no ports left",
        f"Removed node {kept_node.node}",
        "net.ipv4.ip_forward stays 1: other software may count on it",
    ]


def test_prune_of_the_whole_node_does_not_mention_forwarding(cli: Cli) -> None:
    cli.configure(bridge_network("net"))
    cli.add("pod1")

    assert "stays" not in cli.run("del", "--all", "--prune").stderr


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_prune_keeps_a_bridge_with_a_foreign_address(two_bridges: Cli) -> None:
    cli = two_bridges
    cli.ip("address", "add", "192.0.2.1/24", "dev", "net0")

    run = cli.run("del", "pod1", "--prune")

    assert "net0" in {link["ifname"] for link in cli.ip("link")}
    assert "Kept net0: no pod's network gave it 192.0.2.1/24" in run.stderr
    cli.ip("address", "delete", "192.0.2.1/24", "dev", "net0")
    cli.run("del", "pod2", "--prune")
    assert not cli.node_dir.exists()


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_prune_leaves_a_link_that_only_has_the_name_of_a_bridge_of_ours(two_bridges: Cli) -> None:
    cli = two_bridges
    cli.run("del", "pod1")
    cli.ip("link", "delete", "net0")
    cli.ip("link", "add", "net0", "type", "veth", "peer", "port1")

    cli.run("del", "pod1", "--prune")

    assert "net0" in {link["ifname"] for link in cli.ip("link")}
    assert not (cli.node_dir / "left-links").exists()


def test_resolv_conf_comes_from_the_result(cli: Cli) -> None:
    cli.configure(bridge_network("net", dns={"nameservers": ["192.0.2.53"], "search": ["a.example", "b.example"]}))
    cli.add("pod1")

    shown = cli.run("exec", "pod1", "--", "cat", "/etc/resolv.conf").stdout

    assert shown.splitlines()[1:] == ["nameserver 192.0.2.53", "search a.example b.example"]


def test_resolv_conf_is_a_copy_of_the_host_without_dns_in_results(cli: Cli) -> None:
    cli.configure(bridge_network("net"))
    cli.add("pod1")

    shown = cli.run("exec", "pod1", "cat", "/etc/resolv.conf").stdout

    assert shown.splitlines()[1:] == Path("/etc/resolv.conf").read_text().splitlines()
    assert shown.startswith("# No network")


def test_check_notices_a_missing_interface(cli: Cli) -> None:
    cli.configure(bridge_network("net"))
    (pod,) = cli.add("pod1")
    assert [each["error"] for each in cli.json("check", "pod1")["pods"][0]["networks"]] == [""]

    cli.ip("link", "delete", "eth0", netns=pod["netns"])

    failed = cli.run("check", "pod1", "-o", "json", check=False)
    assert failed.returncode == 1
    assert "eth0" in json.loads(failed.stdout)["pods"][0]["networks"][0]["error"]


def test_check_of_a_pod_that_is_not_there_fails(cli: Cli) -> None:
    cli.configure(bridge_network("net"))
    cli.add("pod1")

    failed = cli.run("check", "pod2", check=False)

    assert (failed.returncode, failed.stderr) == (1, "Error: pod default/pod2: there is no such pod\n")


@pytest.mark.parametrize("verb", [["check"], ["check", "pod1"], ["status"], ["snapshot"]])
def test_read_only_verbs_make_no_node(own_cli: Cli, verb: list[str]) -> None:
    own_cli.configure(bridge_network("net"))

    failed = own_cli.run(*verb, check=False)

    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr == f"Error: there is no node {own_cli.node}: its first `cni-harness add` makes it\n"
    assert not Path(f"/run/netns/{own_cli.node}").exists()
    assert not own_cli.state_dir.exists()


def test_inspect_shows_the_current_state_of_the_kernel(cli: Cli) -> None:
    cli.configure(bridge_network("net"))
    (pod,) = cli.add("pod1")
    cli.ip("address", "add", "192.0.2.7/24", "dev", "eth0", netns=pod["netns"])

    shown = cli.json("inspect", "pod1")

    assert shown["networks"][0]["result"] == pod["networks"][0]["result"]
    (link,) = [link for link in shown["kernel"]["links"] if link["name"] == "eth0"]
    assert {"10.77.0.2/16", "192.0.2.7/24"} <= set(link["addresses"])
    assert {"dst": "0.0.0.0/0", "dev": "eth0", "gw": "10.77.0.1"} in shown["kernel"]["routes"]


def test_gc_frees_the_address_of_a_lost_pod(cli: Cli) -> None:
    cli.configure(bridge_network("net"))
    kept, lost = cli.add("kept", "lost")
    remove_namespace(lost["netns"])
    shutil.rmtree(cli.node_dir / "pods" / "default_lost")
    assert len(cli.reservations("net")) == 2

    done = cli.json("gc")

    assert [each["containerID"] for each in done["networks"][0]["deleted"]] == [lost["containerID"]]
    assert cli.reservations("net") == {kept["networks"][0]["result"]["ips"][0]["address"].partition("/")[0]}
