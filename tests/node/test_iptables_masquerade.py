import errno
import os
from collections.abc import Callable, Sequence
from ipaddress import ip_interface
from pathlib import Path

import pytest

from firewall import iptables_program
from firewall import masquerade_iptables as iptables
from firewall import masquerade_reference as reference_nftables
from firewall.iptables_program import IptablesError
from firewall.owner import Owner
from firewall.tables import Interface, Tables
from netlink.netfilter import Netfilter
from tests.node.firewall import all_at_once, inside, with_tables
from tests.nodes import Node

pytestmark = pytest.mark.sudo


@with_tables
def masquerade_iptables(tables: Tables, addresses: Sequence[Interface], network: str, container_id: str) -> None:
    iptables.apply(tables, Owner(network, container_id, "eth0"), addresses)


@with_tables
def unmasquerade_iptables(tables: Tables, addresses: Sequence[Interface], network: str, container_id: str) -> None:
    iptables.remove(tables, Owner(network, container_id, "eth0"), addresses)


@with_tables
def is_masqueraded_by_iptables(tables: Tables, network: str, container_id: str) -> bool:
    """Tell whether an address of either family is masqueraded."""
    return any(iptables.holds(tables, Owner(network, container_id, "eth0"), [address]) for address in BOTH)


@with_tables
def collect_iptables(tables: Tables, network: str, valid: Sequence[str]) -> None:
    iptables.collect(tables, network, [Owner(network, container_id, "eth0") for container_id in valid])


@with_tables
def is_masqueraded_by_reference(tables: Tables, network: str, ifname: str, container_id: str) -> bool:
    return reference_nftables.holds(tables, Owner(network, container_id, ifname), BOTH)


@with_tables
def unmasquerade_reference(tables: Tables, network: str, ifname: str, container_id: str) -> None:
    reference_nftables.remove(tables, Owner(network, container_id, ifname), BOTH)


REFERENCE = Path("/usr/lib/cni")
LEGACY = Path("/usr/sbin/xtables-legacy-multi")

ADDRESS4 = ip_interface("10.1.0.2/16")
ADDRESS6 = ip_interface("fd01::2/64")
BOTH = [ADDRESS4, ADDRESS6]
CONFIG = {
    "cniVersion": "1.0.0",
    "name": "net",
    "type": "bridge",
    "bridge": "br0",
    "isGateway": True,
    "ipMasq": True,
    "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.0.0/16"}], [{"subnet": "fd01::/64"}]]},
}

# As the reference's nftables backend leaves them; the hashes are those of its own tests.
ONE = "6fd94d501e58f0aa-287fc69eff0574a2, net: unit-test, if: eth0, id: one"
TWO = "6fd94d501e58f0aa-d750b2c8f0f25d5f, net: unit-test, if: eth0, id: two"
REFERENCE_TABLE = f"""
table inet cni_plugins_masquerade {{
    comment "Masquerading for plugins from github.com/containernetworking/plugins"
    chain masq_checks {{
        ip saddr 192.168.1.1 ip daddr != 192.168.1.0/24 masquerade comment "{ONE}"
        ip saddr 192.168.1.2 ip daddr != 192.168.1.0/24 masquerade comment "{TWO}"
        ip6 saddr 2001:db8::1 ip6 daddr != 2001:db8::/64 masquerade comment "{ONE}"
        ip saddr 192.168.1.9 masquerade
    }}
    chain postrouting {{ type nat hook postrouting priority srcnat; goto masq_checks; }}
}}
"""


@pytest.fixture(params=["nft", "legacy"])
def backend(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which of its two backends `iptables` on PATH is."""
    name = str(request.param)
    if name == "legacy":
        if not LEGACY.exists():
            pytest.skip(f"no {LEGACY}")
        for program in ("iptables", "ip6tables", "iptables-restore", "ip6tables-restore"):
            (tmp_path / program).symlink_to(LEGACY)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return name


def add_by_reference(node: Node) -> str:
    """Add a pod with the reference plugin, and return its namespace."""
    netns = node.pod_namespace("pod")
    run = node.plugin(REFERENCE, "bridge", "ADD", CONFIG, container_id="c1", ifname="eth0", netns=netns)
    assert run.code == 0, run
    assert {ip["address"] for ip in run.stdout["ips"]} == {str(address) for address in BOTH}
    return netns


def nat_rules(node: Node, backend: str = "nft") -> list[str]:
    """The rules in the nat tables of both families, as `iptables -S` shows them."""
    programs = [f"{program}-{backend}" for program in ("iptables", "ip6tables")]
    lines = [node.run([program, "-t", "nat", "-S"]).stdout.splitlines() for program in programs]
    return [line for family in lines for line in family if not line.startswith("-P")]


def test_rules_equal_the_rules_of_the_reference(make_node: Callable[[], Node]) -> None:
    ours, theirs = make_node(), make_node()
    add_by_reference(theirs)

    with inside(ours.path):
        masquerade_iptables(BOTH, "net", "c1")

    assert nat_rules(ours) == nat_rules(theirs)
    assert len(nat_rules(ours)) == 8


@pytest.mark.parametrize("addresses", [BOTH, []])
def test_rules_of_the_reference_are_found_and_removed(node: Node, addresses: list[object]) -> None:
    add_by_reference(node)

    with inside(node.path):
        assert is_masqueraded_by_iptables("net", "c1")
        unmasquerade_iptables(addresses, "net", "c1")  # type: ignore[arg-type] # an empty list of anything
        assert not is_masqueraded_by_iptables("net", "c1")

    assert nat_rules(node) == []


def test_reference_removes_our_rules(node: Node) -> None:
    netns = add_by_reference(node)
    with inside(node.path):
        unmasquerade_iptables(BOTH, "net", "c1")
        masquerade_iptables(BOTH, "net", "c1")
    assert len(nat_rules(node)) == 8

    run = node.plugin(REFERENCE, "bridge", "DEL", CONFIG, container_id="c1", ifname="eth0", netns=netns)

    assert run.code == 0
    assert nat_rules(node) == []


def test_repeated_apply_changes_nothing(node: Node, backend: str) -> None:
    with inside(node.path):
        masquerade_iptables(BOTH, "net", "c1")
        before = nat_rules(node, backend)
        masquerade_iptables(BOTH, "net", "c1")

    assert len(before) == 8
    assert nat_rules(node, backend) == before


def test_a_comment_that_iptables_shortens_is_recognized(node: Node, backend: str) -> None:
    with inside(node.path):
        masquerade_iptables(BOTH, "net", "c" * 250)
        before = nat_rules(node, backend)
        masquerade_iptables(BOTH, "net", "c" * 250)

    assert len(before) == 8
    assert nat_rules(node, backend) == before


def test_only_the_containers_own_rules_are_removed(node: Node, backend: str) -> None:
    with inside(node.path):
        masquerade_iptables([ip_interface("10.1.0.3/16")], "net", "c2")
        before = nat_rules(node, backend)
        masquerade_iptables(BOTH, "net", "c1")
        assert is_masqueraded_by_iptables("net", "c1")

        unmasquerade_iptables(BOTH, "net", "c1")
        unmasquerade_iptables([], "net", "c1")

        assert is_masqueraded_by_iptables("net", "c2")
        assert not is_masqueraded_by_iptables("net", "c1")

    assert nat_rules(node, backend) == before


def test_rules_are_removed_by_the_program_of_the_backend_they_are_in(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not LEGACY.exists():
        pytest.skip(f"no {LEGACY}")
    with inside(node.path):
        masquerade_iptables(BOTH, "net", "c1")
        (tmp_path / "iptables").symlink_to(LEGACY)
        (tmp_path / "ip6tables").symlink_to(LEGACY)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

        unmasquerade_iptables(BOTH, "net", "c1")

    assert nat_rules(node) == []


def test_all_addresses_of_a_family_share_the_chain(node: Node) -> None:
    # The reference puts the second subnet behind the rule that masquerades everything, where it has no effect.
    second = ip_interface("10.2.0.2/24")
    with inside(node.path):
        masquerade_iptables([ADDRESS4, second], "net", "c1")

    [first_jump, second_jump] = [rule.split()[3] for rule in nat_rules(node) if rule.startswith("-A POSTROUTING")]
    targets = [rule.split()[-1] for rule in nat_rules(node) if rule.startswith("-A CNI-")]
    assert (first_jump, second_jump) == ("10.1.0.2/32", "10.2.0.2/32")
    assert targets == ["ACCEPT", "ACCEPT", "MASQUERADE"]


@pytest.mark.mostly_slow(3, "a long table; a part is in make test")
@pytest.mark.parametrize("second", ["10.2.0.2/24", "10.1.0.3/16"])
@pytest.mark.parametrize("by_reference", [False, True])
def test_removal_for_one_interface_keeps_rules_of_the_other(
    node: Node, backend: str, second: str, *, by_reference: bool
) -> None:
    added = ip_interface(second)
    with inside(node.path):
        masquerade_iptables(BOTH, "net", "c1")
        before = nat_rules(node, backend)
        if by_reference:
            append_as_the_reference(node, backend, second)
        else:
            masquerade_iptables([added], "net", "c1")
        assert len(nat_rules(node, backend)) > len(before)

        unmasquerade_iptables([added], "net", "c1")
        assert nat_rules(node, backend) == before

        unmasquerade_iptables(BOTH, "net", "c1")
    assert nat_rules(node, backend) == []


def append_as_the_reference(node: Node, backend: str, address: str) -> None:
    """Give the container a second address as the reference does, and as its early releases did, by its subnet."""
    append = [f"iptables-{backend}", "-t", "nat", "-A"]
    [jump] = [rule for rule in nat_rules(node, backend) if "-s 10.1.0.2/32 " in rule]
    chain = jump.split()[-1]
    comment = ["-m", "comment", "--comment", 'name: "net" id: "c1"']
    network = str(ip_interface(address).network)
    if network not in str(nat_rules(node, backend)):
        node.run([*append, chain, "-d", network, *comment, "-j", "ACCEPT"])
    for source in (address.partition("/")[0], network):
        node.run([*append, "POSTROUTING", "-s", source, *comment, "-j", chain])


def test_removal_of_an_unmasqueraded_address_keeps_the_other_rules(node: Node, backend: str) -> None:
    with inside(node.path):
        masquerade_iptables([ADDRESS4], "net", "c1")
        before = nat_rules(node, backend)

        unmasquerade_iptables([ip_interface("10.1.0.3/16"), ADDRESS6], "net", "c1")

    assert nat_rules(node, backend) == before


def test_both_interfaces_of_a_container_reach_their_subnets_as_they_are(node: Node, backend: str) -> None:
    with inside(node.path):
        masquerade_iptables([ADDRESS4], "net", "c1")
        masquerade_iptables([ip_interface("10.2.0.2/24")], "net", "c1")

    rules = [rule.split() for rule in nat_rules(node, backend) if rule.startswith("-A CNI-")]
    assert {rule[3] for rule in rules[:2]} == {"10.1.0.0/16", "10.2.0.0/24"}
    assert [rule[-1] for rule in rules] == ["ACCEPT", "ACCEPT", "MASQUERADE"]


def test_removal_without_rules_runs_no_program(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.run(["iptables-nft", "-t", "nat", "-N", "SOMEBODY_ELSES"])

    def unexpected(program: object, *_: object, **__: object) -> None:
        pytest.fail(f"run: {program}")

    monkeypatch.setattr(iptables, "run", unexpected)
    with inside(node.path):
        assert not is_masqueraded_by_iptables("net", "c1")
        unmasquerade_iptables(BOTH, "net", "c1")
        unmasquerade_iptables([], "net", "c1")


@pytest.mark.parametrize("network", ["net", "n\"e\\t's", "n" * 200])
def test_gc_keeps_only_valid_containers_of_the_network(node: Node, backend: str, network: str) -> None:
    long = "c" * 200
    with inside(node.path):
        for number, container_id in enumerate(["valid", f"valid-{long}"]):
            masquerade_iptables([ip_interface(f"10.1.0.{number}/16")], network, container_id)
        masquerade_iptables([ip_interface("10.2.0.1/16")], f"{network}2", "another")
        masquerade_iptables([ip_interface("10.2.0.2/16")], network[:-1], "another")
        before = nat_rules(node, backend)
        for number, container_id in enumerate(["lost", "l\"o\\s't", f"lost-{long}"]):
            masquerade_iptables([ip_interface(f"10.1.1.{number}/16"), ADDRESS6], network, container_id)

        collect_iptables(network, ["valid", f"valid-{long}", "never-was"])

    assert nat_rules(node, backend) == before
    assert len(before) == 16


def test_gc_collects_rules_of_the_reference(node: Node) -> None:
    add_by_reference(node)

    with inside(node.path):
        collect_iptables("net", ["c1"])
        assert len(nat_rules(node)) == 8
        collect_iptables("net", [])

    assert nat_rules(node) == []


def test_a_chain_that_two_networks_share_stays(node: Node) -> None:
    with inside(node.path):
        masquerade_iptables([ip_interface("10.1.0.1/16")], "net", "1c")
        masquerade_iptables([ip_interface("10.1.0.2/16")], "net1", "c")
        before = nat_rules(node)
        collect_iptables("net", [])

    assert nat_rules(node) == before


def test_gc_removes_the_other_chains_if_one_is_in_use(node: Node) -> None:
    with inside(node.path):
        masquerade_iptables([ADDRESS4], "net", "c1")
        chain = nat_rules(node)[0].removeprefix("-N ")
        node.run(["iptables-nft", "-t", "nat", "-N", "ANOTHER"])
        node.run(["iptables-nft", "-t", "nat", "-A", "ANOTHER", "-j", chain])
        before = nat_rules(node)
        for number in range(4):
            masquerade_iptables([ip_interface(f"10.1.1.{number}/16"), ADDRESS6], "net", f"lost{number}")

        with pytest.raises(IptablesError, match=r"(?s)iptables-nft-restore .*exit code 4: .*busy"):
            collect_iptables("net", [])

    assert nat_rules(node) == before


def test_gc_without_stale_chains_runs_no_program(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def unexpected(program: object, *_: object, **__: object) -> None:
        pytest.fail(f"run: {program}")

    with inside(node.path):
        with monkeypatch.context() as patched:
            patched.setattr(iptables, "run", unexpected)
            collect_iptables("net", [])

        for chain in ("CNI-HOSTPORT-DNAT", "CNI-DN-0123456789abcdef01234", "SOMEBODY_ELSES"):
            node.run(["iptables-nft", "-t", "nat", "-N", chain])
        node.run(["iptables-nft", "-t", "filter", "-N", "CNI-0123456789abcdef01234567"])
        masquerade_iptables(BOTH, "net", "c1")
        monkeypatch.setattr(iptables, "run", unexpected)
        collect_iptables("net", ["c1"])


def test_the_programs_are_found_without_a_path(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PATH")

    with inside(node.path):
        masquerade_iptables(BOTH, "net", "c1")

    assert len(nat_rules(node)) == 8


def test_programs_get_the_environment_of_the_call_and_are_found_on_its_path(node: Node, tmp_path: Path) -> None:
    for name in ("iptables-restore", "ip6tables-restore"):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\necho "$MARK" > {tmp_path}/$(basename "$0").seen\nexec /usr/sbin/{name} "$@"\n')
        program.chmod(0o755)
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "MARK": "of the call"}

    with inside(node.path), Netfilter() as netfilter:
        iptables.apply(Tables(lambda: netfilter, environ), Owner("net", "c1", "eth0"), BOTH)

    assert (tmp_path / "iptables-restore.seen").read_text() == "of the call\n"
    assert (tmp_path / "ip6tables-restore.seen").read_text() == "of the call\n"
    assert len(nat_rules(node)) == 8


def test_a_missing_program_is_named(node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iptables_program, "_DEFAULT_PATH", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))

    with inside(node.path), pytest.raises(IptablesError, match="no program 'iptables-restore'") as raised:
        masquerade_iptables(BOTH, "net", "c1")

    assert raised.value.errno == errno.ENOENT


def test_failure_has_the_message_of_iptables_and_changes_nothing(node: Node) -> None:
    with inside(node.path):
        masquerade_iptables(BOTH, "net", "c1")
        chain = nat_rules(node)[0].removeprefix("-N ")
        node.run(["iptables-nft", "-t", "nat", "-N", "ANOTHER"])
        node.run(["iptables-nft", "-t", "nat", "-A", "ANOTHER", "-j", chain])
        before = nat_rules(node)

        with pytest.raises(IptablesError, match=r"(?s)iptables-nft-restore .*exit code 4: .*busy") as raised:
            unmasquerade_iptables([ADDRESS4], "net", "c1")

    assert raised.value.errno == errno.EIO
    assert nat_rules(node) == before


def test_names_with_quotes_and_newlines_are_escaped_for_iptables(node: Node) -> None:
    names = 'n"et\\', "c1\n-A POSTROUTING -j ACCEPT"
    with inside(node.path):
        masquerade_iptables([ADDRESS4], *names)
        assert is_masqueraded_by_iptables(*names)
        assert len(nat_rules(node)) == 4

        unmasquerade_iptables([ADDRESS4], *names)

    assert nat_rules(node) == []


def test_many_at_once_are_all_added_and_all_removed(node: Node) -> None:
    setup = """
from ipaddress import ip_interface
from tests.node.test_iptables_masquerade import masquerade_iptables, unmasquerade_iptables
"""
    arguments = '[ip_interface(f"10.1.1.{number}/16")], "net", f"c{number}"'

    all_at_once(node, 20, setup, f"masquerade_iptables({arguments})")

    assert len([rule for rule in nat_rules(node) if rule.startswith("-A POSTROUTING")]) == 20
    assert len(nat_rules(node)) == 80

    all_at_once(node, 20, setup, f"unmasquerade_iptables({arguments})")

    assert nat_rules(node) == []


def test_the_rules_of_the_references_nftables_backend_are_removed(node: Node) -> None:
    node.run(["nft", "-f", "-"], stdin=REFERENCE_TABLE)

    with inside(node.path):
        unmasquerade_reference("unit-test", "eth1", "one")
        assert sum("rule" in entry for entry in node.nft()) == 5

        assert is_masqueraded_by_reference("unit-test", "eth0", "one")
        unmasquerade_reference("unit-test", "eth0", "one")
        unmasquerade_reference("unit-test", "eth0", "one")
        assert not is_masqueraded_by_reference("unit-test", "eth0", "one")

    rules = [entry["rule"] for entry in node.nft() if "rule" in entry]
    assert [rule.get("comment") for rule in rules] == [TWO, None, None]


def test_removal_without_the_references_table_changes_nothing(node: Node) -> None:
    with inside(node.path):
        unmasquerade_reference("unit-test", "eth0", "one")

    assert node.nft() == []
