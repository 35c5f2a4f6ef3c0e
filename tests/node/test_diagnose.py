"""`diagnose` names each fault that is made by hand, and no other, on nodes of both suites; a sound node has none."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from netlink.namespace import remove_namespace
from tests.cli import Cli, bridge_network

pytestmark = pytest.mark.sudo

PORTMAP = {"type": "portmap", "capabilities": {"portMappings": True}}
LOST = "c0ffee" * 10 + "dead"
"""A container that no runtime knows."""


class Trial:
    """A node with two pods on a bridge, of which the first has a port of the node."""

    def __init__(self, cli: Cli, **keys: Any) -> None:
        """Configure a bridge with further `keys`, and add the pods."""
        self.cli = cli
        network = bridge_network("net", ipMasq=True, **keys)
        network["plugins"] += [PORTMAP, {"type": "firewall"}]
        cli.configure(network)
        self.pods = [*cli.add("pod1", "-p", "8080:80"), *cli.add("pod2")]

    def faults(self, *args: str) -> list[dict[str, Any]]:
        """What `diagnose` finds; its exit code must be 1 exactly if there is anything."""
        run = self.cli.run("diagnose", *args, "-o", "json", check=False)
        assert run.stdout, run.stderr
        found: list[dict[str, Any]] = json.loads(run.stdout)["faults"]

        assert run.returncode == int(bool(found)), run.stderr
        return found

    def checks(self, *args: str) -> set[str]:
        return {fault["check"] for fault in self.faults(*args)}

    def sh(self, script: str, pod: int | None = None) -> str:
        """Run a script on the node, or in a pod."""
        netns = self.cli.node if pod is None else Path(self.pods[pod]["netns"]).name
        command = ["ip", "netns", "exec", netns, "sh", "-ec", script]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        return run.stdout.strip()

    def veth(self, pod: int) -> str:
        """The node's end of a pod's veth."""
        index = self.cli.ip("link", "show", "dev", "eth0", netns=self.pods[pod]["netns"])[0]["link_index"]
        return str(next(link["ifname"] for link in self.cli.ip("link", "show") if link["ifindex"] == index))

    def cache(
        self,
        container_id: str,
        netns: str,
        *,
        network: str = "net",
        ifname: str = "eth0",
        result: Mapping[str, object] | None = None,
    ) -> None:
        """Put a result of another runtime into the cache."""
        entry = {
            "kind": "cniCacheV1",
            "containerId": container_id,
            "ifName": ifname,
            "networkName": network,
            "netns": netns,
            "result": result or {"cniVersion": "1.0.0"},
        }
        (self.cli.var_lib_cni / "results" / f"{network}-{container_id}-{ifname}").write_text(json.dumps(entry))

    def write_list(self, name: str, text: str) -> None:
        (self.cli.conf_dir / name).write_text(text)


@pytest.fixture(params=["own", "reference"])
def trial(request: pytest.FixtureRequest, make_cli: Callable[[Path], Cli]) -> Trial:
    """A node with plugins of each suite."""
    if request.param == "reference":
        cli: Cli = request.getfixturevalue("reference_cli")
        return Trial(cli)
    return Trial(make_cli(request.getfixturevalue("served_bin_dir")))


def stale_lease(trial: Trial) -> None:
    (trial.cli.var_lib_cni / "networks" / "net" / "10.77.0.9").write_text(f"{LOST}\r\neth0")


def missing_plugin(trial: Trial) -> None:
    plugins = [{"type": "no-such-plugin"}]
    trial.write_list("50-other.conflist", json.dumps({"cniVersion": "1.0.0", "name": "other", "plugins": plugins}))


def plugin_not_executable(trial: Trial) -> None:
    trial.cli.plugin("flat", "exit 1")
    (trial.cli.folder / "bin" / "flat").chmod(0o644)
    plugins = [{"type": "flat"}]
    trial.write_list("50-other.conflist", json.dumps({"cniVersion": "1.0.0", "name": "other", "plugins": plugins}))


def plugin_too_old(trial: Trial) -> None:
    trial.cli.plugin("old", 'cat > /dev/null; echo \'{"cniVersion": "0.4.0", "supportedVersions": ["0.4.0"]}\'')
    plugins = [{"type": "old"}]
    trial.write_list("50-other.conflist", json.dumps({"cniVersion": "1.0.0", "name": "other", "plugins": plugins}))


def exhausted(trial: Trial) -> None:
    trial.cli.configure(bridge_network("tiny", subnet="10.99.0.0/30"))
    for path in trial.cli.conf_dir.glob("*tiny*"):
        path.rename(path.with_name("60-tiny.conflist"))
    trial.cli.run("add", "pod3", "--network", "tiny")
    trial.write_list("00-net.conflist", json.dumps(bridge_network("net")))


def interrupted(trial: Trial) -> None:
    record = trial.cli.node_dir / "pods" / "default_pod2" / "pod.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"state": "incomplete"}))


def sent_elsewhere(trial: Trial, rp_filter: int) -> None:
    trial.sh(
        f"sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.net0.rp_filter={rp_filter};"
        "ip link add x0 type veth peer name x1; ip link set x0 up; ip route add 10.77.0.2/32 dev x0"
    )


FOREIGN_DROP = (
    "nft add table inet site; nft add chain inet site forward '{ type filter hook forward priority 10; }';"
    "nft add rule inet site forward ip saddr 10.77.0.2 counter drop"
)
FOREIGN_POLICY = (
    "nft add table inet site; nft add chain inet site forward '{ type filter hook forward priority 10; policy drop; }';"
    "nft add rule inet site forward ct state established,related accept;"
    "nft add rule inet site forward ip saddr 10.77.0.3 accept"
)
FAULTS: dict[str, tuple[Callable[[Trial], object], str, str]] = {
    "namespace deleted": (lambda on: remove_namespace(on.pods[0]["netns"]), "sandbox-gone", "default/pod1"),
    "link of the pod deleted": (lambda on: on.sh("ip link del eth0", 0), "interface-missing", "default/pod1"),
    "link of the pod down": (lambda on: on.sh("ip link set eth0 down", 0), "interface-down", "default/pod1"),
    "link of the node down": (lambda on: on.sh(f"ip link set {on.veth(1)} down"), "interface-down", "default/pod2"),
    "bridge deleted": (lambda on: on.sh("ip link del net0"), "bridge-missing", "default/pod1"),
    "bridge down": (lambda on: on.sh("ip link set net0 down"), "bridge-down", "default/pod1"),
    "port taken out": (lambda on: on.sh(f"ip link set {on.veth(1)} nomaster"), "port-lost", "default/pod2"),
    "gateway removed": (lambda on: on.sh("ip addr del 10.77.0.1/16 dev net0"), "gateway-missing", "default/pod1"),
    "route removed": (lambda on: on.sh("ip route del default", 1), "route-differs", "default/pod2"),
    "address removed": (lambda on: on.sh("ip addr flush dev eth0", 1), "address-differs", "default/pod2"),
    "forwarding off": (lambda on: on.sh("sysctl -qw net.ipv4.ip_forward=0"), "forwarding-off", "default/pod1"),
    "forwarding off on the bridge": (
        lambda on: on.sh("sysctl -qw net.ipv4.conf.net0.forwarding=0"),
        "forwarding-off",
        "default/pod1",
    ),
    "foreign rule": (lambda on: on.sh(FOREIGN_DROP), "firewall-drops", "default/pod1"),
    "foreign policy": (lambda on: on.sh(FOREIGN_POLICY), "firewall-drops", "default/pod1"),
    "address twice": (
        lambda on: on.sh("ip addr add 10.77.0.2/32 dev eth0", 1),
        "duplicate-address",
        "default/pod1 default/pod2",
    ),
    "bridge with a smaller MTU": (lambda on: on.sh("ip link set net0 mtu 1400"), "mtu-mismatch", "default/pod1"),
    "veth with a smaller MTU": (lambda on: on.sh("ip link set eth0 mtu 9000", 1), "mtu-mismatch", "default/pod2"),
    "strict reverse path filter": (lambda on: sent_elsewhere(on, 1), "rp-filter", "default/pod1"),
    "route to another link": (lambda on: sent_elsewhere(on, 0), "node-route", "default/pod1"),
    "interrupted ADD": (interrupted, "pod-incomplete", "default/pod2"),
    "result without namespace": (lambda on: on.cache(LOST, "/run/netns/none"), "orphan-result", LOST),
    "reservation of an unknown container": (stale_lease, "stale-lease", ""),
    "range without a free address": (exhausted, "addresses-exhausted", ""),
    "list that is not JSON": (lambda on: on.write_list("50-b.conflist", "{"), "list-unusable", ""),
    "plugin missing": (missing_plugin, "list-unusable", ""),
    "plugin not executable": (plugin_not_executable, "list-unusable", ""),
    "plugin of an old version": (plugin_too_old, "list-unusable", ""),
}


@pytest.mark.mostly_slow(6, "each fault with each kind of plugins; a part is in make test")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_and_no_other(trial: Trial, fault: str) -> None:
    make, check, pods = FAULTS[fault]

    make(trial)
    found = trial.faults()

    assert {each["check"] for each in found} == {check}, found
    assert set(pods.split()) <= {pod for each in found for pod in each["pods"]}
    assert all(each["what"] and each["cause"] and each["remedy"] for each in found)


def no_list(trial: Trial) -> None:
    for path in trial.cli.conf_dir.iterdir():
        path.unlink()


def not_ready(trial: Trial) -> None:
    """Put a list first whose plugin answers STATUS with an error."""
    trial.cli.plugin(
        "moody",
        """cat > /dev/null
case $CNI_COMMAND in
  VERSION) echo '{"cniVersion": "1.1.0", "supportedVersions": ["1.1.0"]}' ;;
  STATUS) echo '{"cniVersion": "1.1.0", "code": 50, "msg": "not today"}'; exit 1 ;;
esac""",
    )
    plugins = [{"type": "moody"}]
    trial.write_list("00-a.conflist", json.dumps({"cniVersion": "1.1.0", "name": "first", "plugins": plugins}))


NOT_READY: dict[str, tuple[Callable[[Trial], object], str]] = {
    "no list": (no_list, "no network config found in "),
    "first list invalid": (lambda on: on.write_list("00-a.conflist", "{"), "00-a.conflist"),
    "plugin not ready": (not_ready, "not today"),
}


@pytest.mark.mostly_slow(3, "each reason; a part is in make test")
@pytest.mark.parametrize("fault", NOT_READY)
def test_a_node_that_is_not_ready_is_named_with_the_kubelets_reason(own_cli: Cli, fault: str) -> None:
    make, reason = NOT_READY[fault]
    trial = Trial(own_cli)

    make(trial)
    found = {each["check"]: each for each in trial.faults()}

    assert found.keys() - {"list-unusable"} == {"node-not-ready"}
    said = found["node-not-ready"]["what"]
    assert said.startswith("container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady ")
    assert reason in said


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_a_flushed_firewall_is_named(trial: Trial) -> None:
    trial.sh("nft flush ruleset")

    assert trial.checks() == {"masquerade-lost", "port-mapping-lost", "admission-lost"}


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_lost_ports_of_containerd_are_named(trial: Trial) -> None:
    """Its arguments have the names of Go's fields."""
    for record in trial.cli.node_dir.glob("pods/*/pod.json"):
        record.write_text(record.read_text().replace('"hostPort"', '"HostPort"').replace('"protocol"', '"Protocol"'))

    trial.sh("nft flush ruleset")

    assert "port-mapping-lost" in trial.checks()


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_each_lost_table_is_named(own_cli: Cli) -> None:
    trial = Trial(own_cli)
    lost = {"masquerade": "masquerade-lost", "portmap": "port-mapping-lost", "firewall": "admission-lost"}
    expected: set[str] = set()
    for table, check in lost.items():
        trial.sh(f"nft delete table inet cni_harness_{table}")
        expected.add(check)

        assert trial.checks() == expected


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize("backend", ["nftables", "iptables"])
def test_a_lost_exception_is_named(make_cli: Callable[[Path], Cli], direct_bin_dir: Path, backend: str) -> None:
    """The second exception is of the family that the pods lack."""
    trial = Trial(make_cli(direct_bin_dir), ipMasqBackend=backend, ipMasqExcept=["192.0.2.0/24", "fd00::/8"])
    assert trial.checks() == set()
    if backend == "nftables":
        trial.sh("nft flush set inet cni_harness_masquerade $(nft list sets | grep -o 'except-[^ ]*')")
    else:
        trial.sh(
            "chain=$(iptables -t nat -S POSTROUTING | grep -o 'CNI-[0-9a-f]*' | head -n1);"
            "iptables -t nat -D $chain $(iptables -t nat -L $chain --line-numbers | awk '/RETURN/ {print $1}')"
        )

    faults = trial.faults()

    assert {each["check"] for each in faults} == {"exception-lost"}
    assert len(faults) == {"nftables": 2, "iptables": 1}[backend]
    trial.cli.run("repair")
    assert trial.checks() == set()


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_a_veth_and_a_namespace_of_an_unknown_container_are_named(trial: Trial) -> None:
    """As after a kill of the plugin between the veth and the result."""
    name = f"cni-{os.getpid()}-lost"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        trial.sh(
            f"ip link add veth77 type veth peer name eth0 netns {name};"
            f"ip link set veth77 alias net/{LOST}/eth0; ip link set veth77 master net0"
        )

        found = {each["check"]: each["subject"] for each in trial.faults()}
    finally:
        remove_namespace(f"/run/netns/{name}")

    assert found == {"orphan-veth": "veth77", "orphan-netns": name}


def test_a_sound_node_has_no_fault(cli: Cli) -> None:
    trial = Trial(cli)

    assert trial.faults() == []
    assert "No fault found: 2 attachments" in cli.run("diagnose").stderr


def test_a_network_with_the_name_of_a_plugin_has_no_fault(cli: Cli) -> None:
    network = bridge_network("portmap", ipMasq=True)
    network["plugins"].append(PORTMAP)
    cli.configure(network)
    cli.add("pod1", "-p", "8080:80")

    assert json.loads(cli.run("diagnose", "-o", "json").stdout) == {"faults": []}


def test_a_node_with_other_interface_plugins_has_no_fault(cli: Cli) -> None:
    trial = Trial(cli)
    trial.sh("ip link add up0 type veth peer name up1; ip link set up0 up; ip link set up1 up")
    subnets = {"ptp": "10.78.0.0/24", "macvlan": "10.79.0.0/24", "ipvlan": "10.80.0.0/24"}
    networks = [
        {
            "cniVersion": "1.0.0",
            "name": kind,
            "plugins": [
                {"type": kind, "ipam": {"type": "host-local", "subnet": subnet}}
                | ({"ipMasq": True} if kind == "ptp" else {"master": "up0"})
            ],
        }
        for kind, subnet in subnets.items()
    ]
    cli.configure(*networks)
    for kind in subnets:
        run = cli.run("add", f"on-{kind}", "--network", kind, check=False)
        assert run.returncode == 0 or "Unknown device type" in run.stderr or "not supported" in run.stderr

    assert trial.faults() == []


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_loopback_addresses_of_two_pods_are_no_duplicates(trial: Trial) -> None:
    """A kubelet's pods have an attachment of the plugin loopback, whose result has 127.0.0.1."""
    for each in trial.pods:
        address = {"version": "4", "address": "127.0.0.1/8", "interface": 0}
        interface = {"name": "lo", "sandbox": each["netns"]}
        result = {"cniVersion": "1.0.0", "interfaces": [interface], "ips": [address]}
        trial.cache(each["containerID"], each["netns"], network="cni-loopback", ifname="lo", result=result)

    assert trial.faults() == []


@pytest.mark.slow("further faults; a part of the faults is in make test")
def test_faults_of_one_pod_alone(own_cli: Cli) -> None:
    trial = Trial(own_cli)
    trial.sh("ip route del default", 0)
    trial.sh(f"ip link set {trial.veth(1)} nomaster")

    assert trial.checks("pod1") == {"route-differs"}
    assert trial.checks("pod2") == {"port-lost"}
    assert "there is no pod default/pod9" in own_cli.run("diagnose", "pod9", check=False).stderr


def paste(cli: Cli, remedy: str) -> None:
    """Run a remedy in a shell of the machine, outside of the node, without the variables that choose the node."""
    environment = {name: value for name, value in cli.environment.items() if not name.startswith("CNI_HARNESS_")}
    program = 'cni-harness() { "$PYTHON" -m harness.cli.main "$@"; }'
    run = subprocess.run(
        ["bash", "-ec", f"{program}\n{remedy}"],
        env={**environment, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.mostly_slow(3, "each remedy; a part is in make test")
@pytest.mark.parametrize(
    ("fault", "subject"),
    [
        ("bridge down", "net0"),
        ("port taken out", ""),
        ("gateway removed", "10.77.0.1"),
        ("forwarding off", "net.ipv4.ip_forward"),
        ("bridge with a smaller MTU", "net0"),
        ("route to another link", "10.77.0.2/32"),
    ],
)
def test_the_remedy_ends_the_fault(own_cli: Cli, fault: str, subject: str) -> None:
    trial = Trial(own_cli)
    FAULTS[fault][0](trial)
    first = trial.faults()[0]
    assert subject in first["subject"]

    paste(own_cli, first["remedy"].partition(", or ")[0])

    assert trial.faults() == []


@pytest.mark.slow("further remedies; a part of the remedies is in make test")
@pytest.mark.parametrize("fault", ["bridge deleted", "masquerading flushed"])
def test_repair_is_a_remedy(own_cli: Cli, fault: str) -> None:
    trial = Trial(own_cli)
    trial.sh("ip link del net0" if fault == "bridge deleted" else "nft flush ruleset")
    [remedy] = {each["remedy"] for each in trial.faults()}

    paste(own_cli, remedy)

    assert trial.faults() == []


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_diagnose_changes_nothing(trial: Trial) -> None:
    snapshot = trial.cli.run("snapshot", "-o", "json").stdout

    trial.sh("sysctl -qw net.ipv4.ip_forward=0")
    trial.faults()
    trial.sh("sysctl -qw net.ipv4.ip_forward=1")

    path = trial.cli.folder / "before.json"
    path.write_text(snapshot)
    assert trial.cli.run("diff", str(path), check=False).stdout == ""
