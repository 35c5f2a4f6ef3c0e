"""portmap: one port has one pod; CHECK sees each removed part; DEL and GC need no more than the attachment's name."""

import json
from pathlib import Path
from typing import Any

import pytest

from firewall import iptables_program, port_mappings_iptables, port_mappings_nft
from launch.plugin_list import resolve
from skel import dispatch
from tests.attachments import Network
from tests.node.faults import dispatched, failing_once
from tests.nodes import Node
from tests.port_mappings import Ports, connects, mapping, refuses

BACKENDS = ["nftables", "iptables"]
LEGACY = Path("/usr/sbin/xtables-legacy-multi")
OTHER_IPAM = {"type": "host-local", "ranges": [[{"subnet": "10.89.0.0/16"}], [{"subnet": "fd00:89::/64"}]]}


def rules_of(node: Node) -> str:
    """The lines that name a container or a table of this project."""
    listings = [["nft", "list", "ruleset"], ["iptables-save"], ["ip6tables-save"]]
    lines = [line for listing in listings for line in node.run(listing).stdout.splitlines()]
    return "\n".join(line for line in lines if "id-" in line or "cni_harness" in line)


@pytest.mark.mostly_slow(4, "each back end and family; a part is in make test")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("held", "wanted"),
    [
        ({}, {}),
        ({"hostIP": "192.0.2.1"}, {"hostIP": "192.0.2.1"}),
        ({"hostIP": "192.0.2.1"}, {}),
        ({}, {"hostIP": "192.0.2.1"}),
        ({"hostIP": "0.0.0.0"}, {"hostIP": "192.0.2.1"}),
        ({"hostIP": "2001:db8::1"}, {}),
    ],
)
def test_a_port_that_another_pod_has_is_refused(
    node: Node, direct_bin_dir: Path, backend: str, held: dict[str, str], wanted: dict[str, str]
) -> None:
    ports = Ports(node, direct_bin_dir, backend=backend)
    ports.add("one", mapping(8080, 80, **held), mapping(8081, 81))
    ports.attach("two")
    before = rules_of(node)
    ports.mappings["two"] = [mapping(9090, 90), mapping(8080, 80, **wanted)]

    error = ports.fail("ADD", "two")

    assert "8080/tcp is taken" in error["msg"]
    assert 'container "id-one" of network "net"' in error["msg"]
    assert rules_of(node) == before
    ports.succeed("CHECK", "one")


@pytest.mark.mostly_slow(4, "each back end and family; a part is in make test")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("held", "wanted"),
    [({}, {}), ({"hostIP": "192.0.2.1"}, {}), ({}, {"hostIP": "192.0.2.1"}), ({"hostIP": "2001:db8::1"}, {})],
)
def test_a_port_that_a_pod_has_by_the_other_backend_is_refused(
    node: Node, direct_bin_dir: Path, backend: str, held: dict[str, str], wanted: dict[str, str]
) -> None:
    (other,) = set(BACKENDS) - {backend}
    mine = Ports(node, direct_bin_dir, backend=backend)
    theirs = Ports(node, direct_bin_dir, name="theirs", interface={"bridge": "br1", "ipam": OTHER_IPAM}, backend=other)
    theirs.add("one", mapping(8081, 81), mapping(8080, 80, **held))
    mine.attach("two")
    before = rules_of(node)
    mine.mappings["two"] = [mapping(9090, 90), mapping(8080, 80, **wanted)]

    error = mine.fail("ADD", "two")

    assert "8080/tcp is taken" in error["msg"]
    assert 'container "id-one" of network "theirs"' in error["msg"]
    assert rules_of(node) == before
    theirs.succeed("DEL", "one")
    mine.succeed("ADD", "two")


def test_a_port_that_a_pod_has_by_the_older_iptables_is_refused(
    node: Node, direct_bin_dir: Path, tmp_path: Path
) -> None:
    if not LEGACY.exists() or node.run(["iptables-legacy", "-t", "nat", "-L"], check=False).returncode:
        pytest.skip("this machine has no table of the older iptables")
    for program in ("iptables", "ip6tables"):
        for ending in ("", "-restore", "-save"):
            (tmp_path / f"{program}{ending}").symlink_to(LEGACY)
    theirs = Ports(
        node, direct_bin_dir, name="theirs", interface={"bridge": "br1", "ipam": OTHER_IPAM}, backend="iptables"
    )
    theirs.attach("one")
    theirs.mappings["one"] = [mapping(8080, 80)]
    theirs.succeed("ADD", "one", extra_env={"PATH": f"{tmp_path}:/usr/sbin:/usr/bin:/bin"})
    mine = Ports(node, direct_bin_dir)
    mine.attach("two")
    mine.mappings["two"] = [mapping(8080, 80)]

    error = mine.fail("ADD", "two")

    assert 'container "id-one" of network "theirs"' in error["msg"]
    theirs.succeed("DEL", "one")
    mine.succeed("ADD", "two")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_port_that_a_pod_gets_by_the_other_backend_meanwhile_is_refused(
    node: Node, direct_bin_dir: Path, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (other,) = set(BACKENDS) - {backend}
    mine = Ports(node, direct_bin_dir, backend=backend)
    theirs = Ports(node, direct_bin_dir, name="theirs", interface={"bridge": "br1", "ipam": OTHER_IPAM}, backend=other)
    mine.attach("two")
    theirs.attach("one")
    theirs.mappings["one"] = [mapping(8080, 80)]
    module = {"nftables": port_mappings_nft, "iptables": port_mappings_iptables}[backend]
    apply = module.apply

    def late(*arguments: Any) -> None:
        theirs.succeed("ADD", "one")
        apply(*arguments)

    monkeypatch.setattr(module, "apply", late)
    sent = {**mine.portmap.config, "prevResult": mine.results["two"]}
    sent["runtimeConfig"] = {"portMappings": [mapping(8080, 80)]}

    refused = dispatched(node, direct_bin_dir, "ADD", sent, "two")

    assert (refused.code, "8080/tcp is taken" in refused.stdout.decode()) == (1, True)
    assert "id-two" not in rules_of(node)
    theirs.succeed("CHECK", "one")


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_other_backends_ports_of_another_protocol_address_or_condition_are_free(
    node: Node, direct_bin_dir: Path, backend: str
) -> None:
    (other,) = set(BACKENDS) - {backend}
    narrowing = {
        "iptables": {"conditionsV4": ["-s", "192.0.2.7/32"], "conditionsV6": ["-m", "mark", "--mark", "0x7/0x7"]},
        "nftables": {"conditionsV4": ["ip saddr 192.0.2.7"], "conditionsV6": ["meta mark 7"]},
    }
    mine = Ports(node, direct_bin_dir, backend=backend)
    theirs = Ports(node, direct_bin_dir, name="theirs", interface={"bridge": "br1", "ipam": OTHER_IPAM}, backend=other)
    narrow = Ports(node, direct_bin_dir, name="theirs", backend=other, **narrowing[other])
    theirs.add("one", mapping(8080, 80, "udp"), mapping(8081, 81, hostIP="192.0.2.2"))
    theirs.attach("narrow")
    narrow.results, narrow.mappings["narrow"] = theirs.results, [mapping(8082, 82)]
    narrow.succeed("ADD", "narrow")

    mine.add("two", mapping(8080, 80), mapping(8081, 81, hostIP="192.0.2.1"), mapping(8082, 82))

    for ports, pod in ((mine, "two"), (theirs, "one"), (narrow, "narrow")):
        ports.succeed("CHECK", pod)


def test_no_program_is_run_for_ports_that_no_pod_has_by_iptables(
    node: Node, direct_bin_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = Ports(
        node, direct_bin_dir, name="theirs", interface={"bridge": "br1", "ipam": OTHER_IPAM}, backend="iptables"
    )
    theirs.add("one", mapping(8080, 80), mapping(8081, 81, "udp"))
    mine = Ports(node, direct_bin_dir)
    mine.attach("two")
    sent = {**mine.portmap.config, "prevResult": mine.results["two"]}
    codes = []

    for port in (9090, 8081, 8080):
        with monkeypatch.context() as patch:
            failing_once(patch, port_mappings_iptables, "_listed")
            sent["runtimeConfig"] = {"portMappings": [mapping(port, 80)]}
            codes.append(dispatched(node, direct_bin_dir, "ADD", sent, "two").code)

    assert codes == [0, 1, 1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_pods_second_network_may_use_the_other_backend(node: Node, direct_bin_dir: Path, backend: str) -> None:
    first, second = Ports(node, direct_bin_dir, backend=backend), Ports(node, direct_bin_dir, name="second")
    (second.portmap.config["backend"],) = set(BACKENDS) - {backend}
    first.add("one", mapping(8080, 80))
    result = {**first.results["one"], "ips": [{"address": "10.99.0.2/16", "interface": 2}]}
    second.results["one"], second.mappings["one"] = result, [mapping(8080, 80)]

    second.succeed("ADD", "one")

    for ports in (second, first):
        ports.succeed("DEL", "one", runtimeConfig=None, prevResult=None)


def test_the_same_port_of_another_protocol_or_address_is_free(node: Node, direct_bin_dir: Path) -> None:
    ports = Ports(node, direct_bin_dir)
    ports.add("one", mapping(8080, 80), mapping(8081, 81, hostIP="192.0.2.1"))
    ports.add("two", mapping(8080, 80, "udp"), mapping(8081, 81, hostIP="192.0.2.2"))

    for pod in ("one", "two"):
        ports.succeed("CHECK", pod)


def test_leftover_mappings_of_a_reused_address_are_replaced(node: Node, direct_bin_dir: Path) -> None:
    ports = Ports(node, direct_bin_dir)
    ports.add("one", mapping(8080, 80))
    ports.bridge.succeed("DEL", "one")
    node.run(["sh", "-c", f"rm -rf {node.var_lib_cni}/networks/*"])
    ports.add("two", mapping(8080, 88))

    assert ports.results["one"]["ips"] == ports.results["two"]["ips"]
    assert connects(node.path, "10.88.0.1", 8080, ports.namespace("two"), 88)
    ports.succeed("DEL", "one")
    ports.succeed("CHECK", "two")


@pytest.mark.parametrize("backend", BACKENDS)
def test_another_add_of_the_attachment_replaces_its_ports(node: Node, direct_bin_dir: Path, backend: str) -> None:
    ports = Ports(node, direct_bin_dir, backend=backend)
    ports.add("one", mapping(8080, 80), mapping(8081, 81))
    ports.add("one", mapping(8080, 88))

    assert connects(node.path, "10.88.0.1", 8080, ports.namespace("one"), 88)
    assert refuses(node.path, "10.88.0.1", 8081)
    ports.succeed("CHECK", "one")
    ports.succeed("DEL", "one")
    assert "id-one" not in rules_of(node)


def test_a_pods_second_network_leaves_the_first_its_ports(node: Node, direct_bin_dir: Path) -> None:
    """A runtime sends the ports to all networks of a pod that can have some."""
    first, second = Ports(node, direct_bin_dir), Ports(node, direct_bin_dir, name="second")
    first.add("one", mapping(8080, 80))
    result = {**first.results["one"], "ips": [{"address": "10.99.0.2/16", "interface": 2}]}
    second.results["one"], second.mappings["one"] = result, [mapping(8080, 80), mapping(8081, 81, hostIP="192.0.2.1")]

    second.succeed("ADD", "one")

    assert connects(node.path, "10.88.0.1", 8080, first.namespace("one"), 80)
    for ports in (first, second):
        ports.succeed("CHECK", "one")
    for ports in (second, first):
        ports.succeed("DEL", "one", runtimeConfig=None, prevResult=None)
    assert "cni_harness_portmap" not in rules_of(node)


TABLE = "inet cni_harness_portmap"
REMOVALS = {
    "a port": f"delete element {TABLE} ports4 {{ tcp . 8080 }}",
    "a port of IPv6": f"delete element {TABLE} ports6 {{ tcp . 8080 }}",
    "a port of an address": f"delete element {TABLE} address_ports4 {{ 192.0.2.1 . udp . 53 }}",
    "its masquerading": f'delete element {TABLE} masquerade4 {{ 10.88.0.2 . "br0" }}',
    "the list": f"flush map {TABLE} owners",
    "the first chain": f"flush chain {TABLE} prerouting",
    "the second chain": f"flush chain {TABLE} output",
    "the rules": f"flush chain {TABLE} forward_ports",
    "the masquerading of all": f"flush chain {TABLE} postrouting",
    "the table": f"delete table {TABLE}",
    "everything": "flush ruleset",
}


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_check_sees_that_a_part_is_gone_and_repair_puts_it_back(node: Node, direct_bin_dir: Path) -> None:
    ports = Ports(node, direct_bin_dir)
    ports.add("one", mapping(8080, 80), mapping(53, 53, "udp", hostIP="192.0.2.1"))
    before = node.filtering()
    ports.succeed("CHECK", "one")
    for what, removal in REMOVALS.items():
        node.run(["nft", removal])

        error = ports.fail("CHECK", "one")

        assert error["code"] == 999, what
        assert error["msg"].startswith("host ports do not lead to the pod: "), what
        ports.succeed("REPAIR", "one")
        assert node.filtering() == before, what
    ports.succeed("CHECK", "one")


IPTABLES_REMOVALS = {
    "the container's chain": ["-F", "{own}"],
    "the way to it": ["-F", "CNI-HOSTPORT-DNAT"],
    "the first chain": ["-F", "PREROUTING"],
    "the second chain": ["-F", "OUTPUT"],
    "the mark": ["-F", "CNI-HOSTPORT-SETMARK"],
    "the masquerading": ["-F", "CNI-HOSTPORT-MASQ"],
    "the way to masquerading": ["-F", "POSTROUTING"],
    "everything": ["-F"],
}


def iptables_rules(node: Node) -> list[str]:
    """The rules of the nat table, sorted: some are put back behind others."""
    lines = node.run(["iptables-save", "-t", "nat"]).stdout.splitlines()
    return sorted(line for line in lines if line.startswith("-A"))


def test_check_sees_that_a_rule_of_iptables_is_gone(node: Node, direct_bin_dir: Path) -> None:
    ports = Ports(node, direct_bin_dir, backend="iptables")
    ports.add("one", mapping(8080, 80), mapping(53, 53, "udp", hostIP="192.0.2.1"))
    before = iptables_rules(node)
    [own] = {word for rule in before for word in rule.split() if word.startswith("CNI-DN-")}
    ports.succeed("CHECK", "one")
    for what, removal in IPTABLES_REMOVALS.items():
        node.run(["iptables", "-t", "nat", *(word.format(own=own) for word in removal)])

        assert ports.fail("CHECK", "one")["code"] == 999, what
        ports.succeed("REPAIR", "one")
        assert iptables_rules(node) == before, what
    node.run(["nft", "flush ruleset"])
    ports.succeed("REPAIR", "one")
    assert iptables_rules(node) == before
    ports.succeed("CHECK", "one")


def test_repair_touches_nothing_that_is_in_order(node: Node, direct_bin_dir: Path) -> None:
    ports = Ports(node, direct_bin_dir)
    ports.add("one", mapping(8080, 80))
    before = node.run(["nft", "-a", "list", "ruleset"]).stdout

    ports.succeed("REPAIR", "one")

    assert node.run(["nft", "-a", "list", "ruleset"]).stdout == before


def test_check_sees_that_127_0_0_1_does_not_work(node: Node, direct_bin_dir: Path) -> None:
    ports = Ports(node, direct_bin_dir)
    ports.add("one", mapping(8080, 80))
    node.run(["sh", "-c", "echo 0 > /proc/sys/net/ipv4/conf/br0/route_localnet"])

    assert "route_localnet" in ports.fail("CHECK", "one")["msg"]
    ports.succeed("REPAIR", "one")
    ports.succeed("CHECK", "one")


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize("backend", BACKENDS)
def test_del_needs_neither_ports_nor_result_nor_namespace(node: Node, direct_bin_dir: Path, backend: str) -> None:
    ports = Ports(node, direct_bin_dir, backend=backend)
    many = [mapping(8000 + number, 80, "udp" if number % 2 else "tcp") for number in range(40)]
    ports.add("one", *many)
    ports.add("two", mapping(9090, 80))
    ports.succeed("CHECK", "one")

    ports.succeed("DEL", "one", runtimeConfig=None, prevResult=None, netns="")
    assert "id-one" not in rules_of(node)
    assert refuses(node.path, "10.88.0.1", 8000)
    ports.succeed("CHECK", "two")
    unreadable = ports.run("DEL", "two", runtimeConfig={"portMappings": "no list"}, backend="unknown", snat=7)
    assert unreadable.code == 0, unreadable
    assert "id-two" not in rules_of(node)
    assert "cni_harness_portmap" not in rules_of(node)


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize("backend", BACKENDS)
def test_gc_keeps_valid_attachments_and_other_networks(node: Node, direct_bin_dir: Path, backend: str) -> None:
    ports, other = (Ports(node, direct_bin_dir, name=name, backend=backend) for name in ("net", "net2"))
    other.bridge.config["bridge"] = "br1"
    other.bridge.config["ipam"] = {"type": "host-local", "ranges": [[{"subnet": "10.89.0.0/16"}]]}
    for number, pod in enumerate(("one", "two")):
        ports.add(pod, mapping(8080 + number, 80))
    other.add("three", mapping(8090, 80))
    valid = [{"containerID": "id-two", "ifname": "eth0"}]

    def gc(**keys: Any) -> None:
        ran = node.plugin(direct_bin_dir, "portmap", "GC", {**ports.portmap.config, **keys})
        assert ran.code == 0, ran

    gc()
    assert "id-one" in rules_of(node)
    gc(**{"cni.dev/valid-attachments": valid})
    assert "id-one" not in rules_of(node)
    ports.succeed("CHECK", "two")
    other.succeed("CHECK", "three")
    gc(**{"cni.dev/valid-attachments": []})
    assert "id-two" not in rules_of(node)
    other.succeed("CHECK", "three")
    other.succeed("DEL", "three")
    assert "cni_harness_portmap" not in rules_of(node)


def test_gc_removes_owner_lists_without_ports(node: Node, direct_bin_dir: Path) -> None:
    ports = Ports(node, direct_bin_dir)
    ports.add("one", mapping(8080, 80))
    ports.add("two", mapping(8081, 80))
    for name in ("ports4", "ports6", "masquerade4", "masquerade6"):
        node.run(["nft", f"flush {'map' if 'ports' in name else 'set'} {TABLE} {name}"])

    ran = node.plugin(direct_bin_dir, "portmap", "GC", {**ports.portmap.config, "cni.dev/valid-attachments": []})

    assert ran.code == 0, ran
    assert "cni_harness_portmap" not in rules_of(node)


@pytest.mark.parametrize(
    ("keys", "program"),
    [({}, ""), ({"backend": "iptables"}, "iptables"), ({"conditionsV4": ["ip saddr 192.0.2.0/24"]}, "nft")],
    ids=["no program", "iptables", "nft"],
)
def test_status_finds_that_a_program_is_missing(
    node: Node, direct_bin_dir: Path, monkeypatch: pytest.MonkeyPatch, keys: dict[str, Any], program: str
) -> None:
    config = {"cniVersion": "1.1.0", "name": "net", "type": "portmap", **keys}
    assert node.plugin(direct_bin_dir, "portmap", "STATUS", config).code == 0
    monkeypatch.setattr(iptables_program, "_DEFAULT_PATH", "/nowhere")

    outcome = dispatch(resolve("portmap"), {"CNI_COMMAND": "STATUS", "CNI_PATH": "/"}, json.dumps(config).encode)

    answer = json.loads(outcome.stdout or "{}")
    assert answer.get("code") == (50 if program else None), answer
    assert program in answer.get("msg", "")


BAD_KEYS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "backend": ({"backend": "ebtables"}, ["backend", "ebtables"]),
    "bit": ({"markMasqBit": 32}, ["markMasqBit", "32"]),
    "bit and chain": ({"markMasqBit": 5, "externalSetMarkChain": "KUBE"}, ["markMasqBit", "5", "externalSetMarkChain"]),
    "chain of iptables": (
        {"backend": "nftables", "externalSetMarkChain": "KUBE-MARK"},
        ["externalSetMarkChain", "KUBE-MARK", "nftables"],
    ),
    "conditions of iptables": ({"backend": "nftables", "conditionsV4": ["-s", "192.0.2.1"]}, ["conditionsV4", "-s"]),
    "conditions of nftables": (
        {"backend": "iptables", "conditionsV6": ["ip6 saddr ::1"]},
        ["conditionsV6", "ip6 saddr ::1", "iptables"],
    ),
    "conditions of both": (
        {"conditionsV4": ["-s", "192.0.2.1"], "conditionsV6": ["ip6 saddr ::1"]},
        ["conditionsV6", "iptables"],
    ),
    "condition of two lines": ({"conditionsV4": ["ip saddr 1.2.3.4\nflush ruleset"]}, ["conditionsV4[0]", "flush"]),
    "snat": ({"snat": "yes"}, ["snat", "yes"]),
    "no port of the host": ({"mappings": [mapping(0, 80)]}, ["runtimeConfig.portMappings[0].hostPort", "0"]),
    "no port of the pod": ({"mappings": [mapping(80, 65536)]}, ["portMappings[0].containerPort", "65536"]),
    "protocol": ({"mappings": [mapping(80, 80), mapping(80, 80, "icmp")]}, ["portMappings[1].protocol", "icmp"]),
    "address": ({"mappings": [mapping(80, 80, hostIP="localhost")]}, ["portMappings[0].hostIP", "localhost"]),
    "two targets": ({"mappings": [mapping(80, 80), mapping(80, 81)]}, ["portMappings[1].hostPort", "80"]),
}


@pytest.mark.mostly_slow(4, "a long table; a part is in make test")
@pytest.mark.parametrize(("keys", "words"), BAD_KEYS.values(), ids=BAD_KEYS)
def test_a_bad_key_is_named_with_its_value(
    node: Node, direct_bin_dir: Path, keys: dict[str, Any], words: list[str]
) -> None:
    others = {key: value for key, value in keys.items() if key != "mappings"}
    config = {
        "cniVersion": "1.1.0",
        "name": "net",
        "type": "portmap",
        "prevResult": {"cniVersion": "1.1.0", "ips": [{"address": "10.1.0.2/24"}]},
        "runtimeConfig": {"portMappings": keys.get("mappings", [mapping(80, 80)])},
        **others,
    }
    before = node.state()

    ran = node.plugin(
        direct_bin_dir, "portmap", "ADD", config, container_id="one", ifname="eth0", netns=node.pod_namespace("one")
    )

    assert (ran.code, ran.stdout["code"]) == (1, 7)
    assert all(word in ran.stdout["msg"] for word in words), ran.stdout
    node.assert_same_state(before)


def test_missing_prev_result_is_an_error(node: Node, direct_bin_dir: Path) -> None:
    node.pod_namespace("one")
    network = Network(node, direct_bin_dir, {"cniVersion": "1.1.0", "name": "net", "type": "portmap"})

    assert "prevResult" in network.fail("ADD", "one")["msg"]
    assert "prevResult" in network.fail("CHECK", "one")["msg"]
    network.succeed("DEL", "one")
