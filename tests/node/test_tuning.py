"""The tuning plugin: kernel parameters and the interface of a pod, through every verb."""

import json
from pathlib import Path
from typing import Any

import pytest

from netlink.namespace import remove_namespace
from plugins.tuning import sysctls
from tests.attachments import Network, bridge_config
from tests.cli import REFERENCE_BIN_DIR
from tests.node.faults import FaultAt, answer_lost_at, failing_at, failing_once, fails_at_every_step
from tests.node.test_start_up import SLOW, loaded_by
from tests.nodes import HANG, Node

MAC = "02:00:00:00:00:09"
LINK: dict[str, Any] = {"mac": MAC, "mtu": 1400, "promisc": True, "allmulti": True, "txQLen": 500}
SYSCTL: dict[str, str] = {
    "net.core.somaxconn": "777",
    "net/ipv4/ip_local_port_range": "20000 30000",
    "net.ipv4.conf.IFNAME.arp_filter": "1",
}
ALL: dict[str, Any] = {**LINK, "sysctl": SYSCTL}
WITHOUT_IPAM = bridge_config(isGateway=False, ipam={})


class Tuned:
    """Pods on a bridge; `plugin` is the tuning plugin behind it."""

    def __init__(self, node: Node, bin_dir: Path, *, version: str = "1.1.0", **keys: Any) -> None:
        self.node = node
        self.interface = Network(node, bin_dir, WITHOUT_IPAM | {"cniVersion": version})
        self.data_dir = node.var_lib_cni / "tuning"
        config = {"cniVersion": version, "name": "net", "type": "tuning", "dataDir": str(self.data_dir), **keys}
        self.plugin = Network(node, bin_dir, config)

    def add(self, pod: str, **changes: Any) -> dict[str, Any]:
        """Attach a pod and tune it; return the result."""
        result: dict[str, Any] = self.plugin.succeed("ADD", pod, prevResult=self.interface.add(pod), **changes)
        return result

    def link(self, pod: str, ifname: str = "eth0") -> dict[str, Any]:
        """The pod's interface, by the plugin's keys."""
        [link] = self.node.ip("link", "show", "dev", ifname, netns=self.interface.namespace(pod))
        return {
            "mac": link["address"],
            "mtu": link["mtu"],
            "promisc": "PROMISC" in link["flags"],
            "allmulti": "ALLMULTI" in link["flags"],
            "txQLen": link.get("txqlen", 0),
        }

    def sysctl(self, pod: str, path: str) -> str:
        """A kernel parameter of the pod."""
        return self.node.run(["cat", f"/proc/sys/{path}"], netns=self.interface.namespace(pod)).stdout.strip()

    def saved(self) -> list[str]:
        """Names of the files of saved values."""
        return sorted(path.name for path in self.data_dir.iterdir()) if self.data_dir.exists() else []


@pytest.fixture
def tuned(node: Node, bin_dir: Path) -> Tuned:
    return Tuned(node, bin_dir, **ALL)


def by_reference(node: Node) -> Tuned:
    if not (REFERENCE_BIN_DIR / "tuning").exists():
        pytest.skip(f"the reference plugins (Debian: containernetworking-plugins) are not in {REFERENCE_BIN_DIR}")
    keys = {key: value for key, value in LINK.items() if key != "txQLen"}  # which a later release brought
    return Tuned(node, REFERENCE_BIN_DIR, version="1.0.0", **keys)


def test_a_pod_gets_all_values_and_del_restores_them(tuned: Tuned) -> None:
    attached = tuned.interface.add("one")
    before, link = tuned.node.state(), tuned.link("one")
    ports = tuned.sysctl("one", "net/ipv4/ip_local_port_range")

    result = tuned.plugin.succeed("ADD", "one", prevResult=attached)

    assert tuned.link("one") == LINK
    assert tuned.sysctl("one", "net/core/somaxconn") == "777"
    assert tuned.sysctl("one", "net/ipv4/ip_local_port_range").split() == ["20000", "30000"]
    assert tuned.sysctl("one", "net/ipv4/conf/eth0/arp_filter") == "1"
    interface = {"name": "eth0", "mac": MAC, "mtu": 1400, "sandbox": tuned.interface.namespace("one")}
    assert result["interfaces"] == [*attached["interfaces"][:-1], interface]
    assert tuned.saved() == ["id-one_eth0.json"]
    tuned.plugin.succeed("CHECK", "one", prevResult=result)
    tuned.plugin.succeed("REPAIR", "one", prevResult=result)
    tuned.plugin.succeed("STATUS", "one")

    tuned.plugin.succeed("DEL", "one", prevResult=result)

    assert (tuned.link("one"), tuned.saved()) == (link, [])
    assert tuned.sysctl("one", "net/ipv4/ip_local_port_range") == ports
    tuned.node.assert_same_state(before, ignore=["files/*tuning"], within=HANG)
    tuned.plugin.succeed("DEL", "one", prevResult=result)


def test_absent_keys_leave_the_pod_as_it_is(node: Node, bin_dir: Path) -> None:
    tuned = Tuned(node, bin_dir, mtu=0, promisc=False, allmulti=None, txQLen=None, mac="")
    attached = tuned.interface.add("one")
    link = tuned.link("one")

    assert tuned.plugin.succeed("ADD", "one", prevResult=attached) == attached
    assert (tuned.link("one"), tuned.saved()) == (link, [])


def test_false_and_zero_are_values(node: Node, bin_dir: Path) -> None:
    tuned = Tuned(node, bin_dir, allmulti=False, txQLen=0)
    attached = tuned.interface.add("one")
    node.run(["ip", "link", "set", "eth0", "allmulticast", "on"], netns=tuned.interface.namespace("one"))
    link = tuned.link("one")

    tuned.plugin.succeed("ADD", "one", prevResult=attached)
    assert tuned.link("one") == {**link, "allmulti": False, "txQLen": 0}
    tuned.plugin.succeed("DEL", "one")
    assert tuned.link("one") == link


def test_del_of_a_removed_pod_drops_its_saved_values(tuned: Tuned) -> None:
    tuned.add("one")
    remove_namespace(tuned.interface.namespace("one"))

    tuned.plugin.succeed("DEL", "one")
    assert tuned.saved() == []


def test_the_list_has_the_plugin_twice(node: Node, bin_dir: Path) -> None:
    tuned = Tuned(node, bin_dir, mac=MAC)
    attached = tuned.interface.add("one")
    link = tuned.link("one")
    ports = tuned.sysctl("one", "net/ipv4/ip_local_port_range")
    first, second = ({"net.ipv4.ip_local_port_range": f"{start} 60000"} for start in (20000, 30000))
    tuned.plugin.succeed("ADD", "one", prevResult=attached, sysctl=first)

    tuned.plugin.succeed("ADD", "one", prevResult=attached, mac="02:00:00:00:00:0a", mtu=1300, sysctl=second)
    tuned.plugin.succeed("DEL", "one")

    assert tuned.link("one") == link
    assert tuned.sysctl("one", "net/ipv4/ip_local_port_range") == ports


@pytest.mark.parametrize(
    "keys",
    [
        {"args": f"IgnoreUnknown=1;MAC={MAC}"},
        {"args": "MAC=02:00:00:00:00:02", "runtimeConfig": {"mac": MAC}},
    ],
    ids=["CNI_ARGS", "capability"],
)
def test_mac_of_the_capability_wins_over_cni_args_and_configuration(
    node: Node, bin_dir: Path, keys: dict[str, Any]
) -> None:
    tuned = Tuned(node, bin_dir, mac="02:00:00:00:00:01")
    result = tuned.add("one", **keys)

    assert tuned.link("one")["mac"] == MAC
    tuned.plugin.succeed("CHECK", "one", prevResult=result, **keys)


def test_arguments_by_convention_count_first(node: Node, bin_dir: Path) -> None:
    """The test's own `args` is CNI_ARGS, so these are in the configuration from the start."""
    asked = {**LINK, "sysctl": {"net.core.somaxconn": "55"}}
    tuned = Tuned(node, bin_dir, mac="02:00:00:00:00:01", sysctl=SYSCTL, runtimeConfig={"mac": "02:00:00:00:00:02"})
    tuned.plugin.config["args"] = {"cni": asked}

    tuned.add("one")

    assert tuned.link("one") == LINK
    assert tuned.sysctl("one", "net/core/somaxconn") == "55"
    assert tuned.sysctl("one", "net/ipv4/conf/eth0/arp_filter") == "1"


@pytest.mark.mostly_slow(3, "a long table; a part is in make test")
@pytest.mark.parametrize(
    "key",
    [
        "net.ipv4.conf.IFNAME.arp_ignore",
        "net/ipv4/conf/IFNAME/arp_ignore",
        "net/ipv4/conf/eth0.100/arp_ignore",
        "net.ipv4.conf.eth0/100.arp_ignore",
        "net.ipv4.conf.eth0.100.arp_ignore",
    ],
)
def test_an_interface_name_with_a_dot(node: Node, bin_dir: Path, key: str) -> None:
    tuned = Tuned(node, bin_dir, sysctl={key: "2"})
    node.pod_namespace("one")
    attached = tuned.interface.succeed("ADD", "one", ifname="eth0.100")

    result = tuned.plugin.succeed("ADD", "one", ifname="eth0.100", prevResult=attached)
    assert tuned.sysctl("one", "net/ipv4/conf/eth0.100/arp_ignore") == "2"
    tuned.plugin.succeed("CHECK", "one", ifname="eth0.100", prevResult=result)


CHANGES = {
    "mac": "ip link set eth0 address 02:00:00:00:00:0b",
    "mtu": "ip link set eth0 mtu 1450",
    "promisc": "ip link set eth0 promisc off",
    "allmulti": "ip link set eth0 allmulticast off",
    "txQLen": "ip link set eth0 txqueuelen 400",
    "sysctl.net.core.somaxconn": "tee /proc/sys/net/core/somaxconn",
    "sysctl.net/ipv4/ip_local_port_range": "tee /proc/sys/net/ipv4/ip_local_port_range",
}


@pytest.mark.mostly_slow(3, "a long table; a part is in make test")
@pytest.mark.parametrize("key", CHANGES)
def test_check_finds_a_change(node: Node, direct_bin_dir: Path, key: str) -> None:
    tuned = Tuned(node, direct_bin_dir, **ALL)
    result = tuned.add("one")
    node.run(
        CHANGES[key].split(), netns=tuned.interface.namespace("one"), stdin="20000 40000"[: 11 if "/" in key else 5]
    )

    error = tuned.plugin.fail("CHECK", "one", prevResult=result)

    assert (error["code"], error["msg"].startswith(key), "the configuration says" in error["msg"]) == (999, True, True)


BAD = [
    ({"sysctl": {"kernel.msgmax": "1"}}, 'sysctl.kernel.msgmax: expected a parameter below "net.", got "1"'),
    (
        {"sysctl": {"net/../kernel/msgmax": "1"}},
        'sysctl.net/../kernel/msgmax: expected a parameter below "net.", got "1"',
    ),
    ({"sysctl": {"net.nothing": "1"}}, 'sysctl.net.nothing: this kernel has no such parameter, got "1"'),
    ({"sysctl": {"net.core.somaxconn": 5}}, "sysctl.net.core.somaxconn: expected a string, got 5"),
    ({"mac": "02:00"}, 'mac: expected a MAC address, got "02:00"'),
    ({"mtu": 67}, "mtu: expected 0 or an MTU of at least 68 bytes, got 67"),
    ({"promisc": "yes"}, 'promisc: expected true or false, got "yes"'),
    ({"txQLen": -1}, "txQLen: expected a number of packets from 0 to 4294967295, got -1"),
    ({"runtimeConfig": {"mac": "x"}}, 'runtimeConfig.mac: expected a MAC address, got "x"'),
]


@pytest.mark.mostly_slow(3, "a long table; a part is in make test")
@pytest.mark.parametrize(("keys", "message"), BAD)
def test_a_bad_key(node: Node, direct_bin_dir: Path, keys: dict[str, Any], message: str) -> None:
    tuned = Tuned(node, direct_bin_dir, **{**ALL, **keys})
    attached = tuned.interface.add("one")
    before, link = node.state(), tuned.link("one")

    error = tuned.plugin.fail("ADD", "one", prevResult=attached)

    assert (error["code"], error["msg"]) == (7, message)
    assert (tuned.link("one"), tuned.saved()) == (link, [])
    node.assert_same_state(before)
    assert tuned.plugin.run("DEL", "one", prevResult=attached).code == 0


def test_a_value_that_the_kernel_refuses_takes_back_the_others(tuned: Tuned) -> None:
    attached = tuned.interface.add("one")
    link, limit = tuned.link("one"), tuned.sysctl("one", "net/core/somaxconn")
    refused = {"net.core.somaxconn": "99", "net.ipv4.conf.IFNAME.arp_filter": "maybe"}

    error = tuned.plugin.fail("ADD", "one", prevResult=attached, sysctl=refused)

    expected = 'sysctl.net.ipv4.conf.IFNAME.arp_filter: cannot set "maybe": Invalid argument'
    assert (error["code"], error["msg"]) == (7, expected)
    error = tuned.plugin.fail("ADD", "one", prevResult=attached, mtu=0, mac="01:00:00:00:00:01")
    assert 'mac: set 01:00:00:00:00:01 on "eth0"' in error["msg"]
    assert (tuned.link("one"), tuned.sysctl("one", "net/core/somaxconn"), tuned.saved()) == (link, limit, [])


def test_without_an_earlier_plugin_and_without_the_interface(tuned: Tuned) -> None:
    tuned.node.pod_namespace("one")

    error = tuned.plugin.fail("ADD", "one")
    assert (error["code"], "prevResult" in error["msg"]) == (7, True)
    error = tuned.plugin.fail("ADD", "one", prevResult={"cniVersion": "1.1.0"})
    assert error["msg"] == 'interface "eth0" is missing in the container'
    assert tuned.saved() == []


@pytest.mark.parametrize("suite", ["own", "reference"])
def test_sysctl_alone_needs_no_interface(node: Node, bin_dir: Path, suite: str) -> None:
    folder = REFERENCE_BIN_DIR if suite == "reference" else bin_dir
    tuned = Tuned(node, folder, version="1.0.0", sysctl={"net.core.somaxconn": "777"})
    node.pod_namespace("one")
    result = {"cniVersion": "1.0.0", "interfaces": [], "ips": [{"address": "10.88.0.5/24"}]}

    tuned.plugin.succeed("ADD", "one", prevResult=result)

    assert tuned.sysctl("one", "net/core/somaxconn") == "777"
    if suite == "own":  # the reference's CHECK looks for the interface
        tuned.plugin.succeed("CHECK", "one", prevResult=result)
        error = tuned.plugin.fail("CHECK", "one", prevResult=result, mtu=1400)
        assert error["msg"] == 'interface "eth0" is missing in the container'
    tuned.plugin.succeed("DEL", "one", prevResult=result)
    assert tuned.saved() == []


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("^net.core\\..*$\n\n  ^net.ipv4.conf.IFNAME.[a-z_]*$  \n", ""),
        ("^net.core\\..*$\n", 'sysctl.net.ipv4.conf.IFNAME.arp_filter: {} does not allow it, got "1"'),
        ("", 'sysctl.net.core.somaxconn: {} does not allow it, got "777"'),
        ("(", '{}: "(" is no regular expression: missing ), unterminated subpattern at position 0'),
    ],
    ids=["allowed", "not allowed", "empty", "broken"],
)
def test_the_allow_list(node: Node, direct_bin_dir: Path, lines: str, message: str) -> None:
    keys = {key: value for key, value in SYSCTL.items() if "/" not in key}
    tuned = Tuned(node, direct_bin_dir, sysctl=keys)
    config = {**tuned.plugin.config, "prevResult": tuned.interface.add("one")}
    environ = {
        "CNI_COMMAND": "ADD",
        "CNI_CONTAINERID": "id-one",
        "CNI_IFNAME": "eth0",
        "CNI_NETNS": tuned.interface.namespace("one"),
        "CNI_PATH": str(direct_bin_dir),
    }
    # An /etc of its own, with that one file.
    own_etc = 'mount -t tmpfs tmpfs /etc && mkdir -p /etc/cni/tuning && printf %s "$1" >"$2" && exec "$3"'
    command = ["unshare", "--mount", "sh", "-ec", own_etc, "sh", lines, sysctls.ALLOW_LIST]

    ran = node.run([*command, direct_bin_dir / "tuning"], env=environ, stdin=json.dumps(config), check=False)

    assert (ran.returncode, json.loads(ran.stdout).get("msg", "")) == (
        1 if message else 0,
        message.format(sysctls.ALLOW_LIST),
    )


def test_gc(tuned: Tuned) -> None:
    for pod in ("one", "gone"):
        tuned.add(pod)
    other = {**json.loads((tuned.data_dir / "id-gone_eth0.json").read_text()), "network": "other"}
    (tuned.data_dir / "id-other_eth0.json").write_text(json.dumps(other))
    (tuned.data_dir / "id-references_eth0.json").write_text('{"mtu": 1500}')
    valid = {"cni.dev/valid-attachments": [{"containerID": "id-one", "ifname": "eth0"}]}

    ran = tuned.node.plugin(tuned.plugin.bin_dir, "tuning", "GC", {**tuned.plugin.config, **valid})

    assert (ran.code, ran.stderr) == (0, "")
    assert tuned.saved() == [f"id-{name}_eth0.json" for name in ("one", "other", "references")]


def test_a_broken_file_of_saved_values(tuned: Tuned) -> None:
    tuned.add("one")
    (tuned.data_dir / "id-one_eth0.json").write_text("{")

    ran = tuned.plugin.run("DEL", "one")

    assert (ran.code, "saved values cannot be read" in ran.stderr, tuned.saved()) == (0, True, [])


def test_pods_of_the_reference(node: Node, bin_dir: Path) -> None:
    reference = by_reference(node)
    ours = Tuned(node, bin_dir, version="1.0.0")
    ours.plugin.config = reference.plugin.config
    attached = reference.interface.add("one")
    link = ours.link("one")
    result = reference.plugin.succeed("ADD", "one", prevResult=attached)
    assert ours.link("one") != link

    ours.plugin.succeed("CHECK", "one", prevResult=result)
    ours.plugin.succeed("REPAIR", "one", prevResult=result)
    ours.plugin.succeed("DEL", "one", prevResult=result)

    assert (ours.link("one"), ours.saved()) == (link, [])


def test_the_reference_takes_our_pods(node: Node, bin_dir: Path) -> None:
    reference = by_reference(node)
    ours = Tuned(node, bin_dir, version="1.0.0")
    ours.plugin.config = reference.plugin.config
    attached = ours.interface.add("one")
    link = ours.link("one")
    result = ours.plugin.succeed("ADD", "one", prevResult=attached)

    reference.plugin.succeed("CHECK", "one", prevResult=result)
    reference.plugin.succeed("DEL", "one", prevResult=result)

    assert (ours.link("one"), ours.saved()) == (link, [])


@pytest.mark.parametrize("fault_at", [failing_at, answer_lost_at])
def test_add_fails_at_every_request_to_the_kernel(node: Node, direct_bin_dir: Path, fault_at: FaultAt) -> None:
    tuned = Tuned(node, direct_bin_dir, **ALL)
    config = {**tuned.plugin.config, "ipam": {}, "prevResult": tuned.interface.add("one")}
    tuned.data_dir.mkdir()

    assert fails_at_every_step(node, direct_bin_dir, config, fault_at) >= 4


@pytest.mark.parametrize("step", ["set_sysctl", "read_sysctl"])
def test_add_fails_at_a_parameter(node: Node, direct_bin_dir: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.node.faults import dispatched

    tuned = Tuned(node, direct_bin_dir, **LINK, sysctl={"net.core.somaxconn": "777"})
    config = {**tuned.plugin.config, "ipam": {}, "prevResult": tuned.interface.add("one")}
    link, limit = tuned.link("one"), tuned.sysctl("one", "net/core/somaxconn")
    if step == "read_sysctl":  # a parameter that can only be written
        failing_once(monkeypatch, sysctls, step)
        assert dispatched(node, direct_bin_dir, "ADD", config, "one").code == 0
        assert tuned.link("one") == LINK
        return
    failing_once(monkeypatch, sysctls, step)

    outcome = dispatched(node, direct_bin_dir, "ADD", config, "one")

    assert (outcome.code, b"sysctl.net.core.somaxconn" in outcome.stdout) == (1, True)
    assert (tuned.link("one"), tuned.sysctl("one", "net/core/somaxconn"), tuned.saved()) == (link, limit, [])


def test_nothing_slow_is_loaded(node: Node, python_bin_dir: Path, direct_bin_dir: Path) -> None:
    tuned = Tuned(node, direct_bin_dir, **ALL)
    config = {**tuned.plugin.config, "prevResult": tuned.interface.add("pod")}

    for verb in ("ADD", "DEL", "STATUS"):
        loaded = loaded_by(node, python_bin_dir, verb, config)

        assert "plugins.tuning" in loaded
        assert {module.partition(".")[0] for module in loaded} & SLOW == set()
