"""Pods that one plugin suite added are checked and deleted by the other, on one node, as `cni-harness` runs both."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from harness.snapshot import Snapshot, differences, take
from tests.cli import REFERENCE_BIN_DIR, Cli, bridge_network

# As in each suite alone: where to go on reserving, and an index that is checked when it is read.
KEPT = ["files/*/last_reserved_ip.*", "files/*/.owners"]

MASQUERADES: dict[str, dict[str, Any]] = {
    "none": {"ipMasq": False},
    "nftables": {"ipMasq": True},
    "iptables": {"ipMasq": True, "ipMasqBackend": "iptables"},
}
"""By what our plugin masquerades; the reference has iptables only, and passes over the key that it does not know."""


class Suites:
    """One node, one network, and the folders of both suites."""

    def __init__(self, folder: Path, ours: Path, adder: str) -> None:
        """Make `adder` ("ours" or "theirs") the one that adds pods."""
        bin_dirs = {"ours": str(ours), "theirs": str(REFERENCE_BIN_DIR)}
        self.adder = bin_dirs.pop(adder)
        [self.other] = bin_dirs.values()
        self.cli = Cli(folder, ours)

    def run(self, bin_dir: str, *args: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run `cni-harness ARGS` with the plugins of a suite."""
        return self.cli.run(*args, env={"CNI_PATH": bin_dir}, check=check)

    def warm_up(self) -> None:
        """Have each suite make what all its pods share."""
        for bin_dir in (self.adder, self.other):
            self.run(bin_dir, "add", "first")
            self.run(bin_dir, "del", "first")

    def answers(self, pod: str) -> bool:
        """Whether the node gets an answer from a pod."""
        [netns] = [each["netns"] for each in self.cli.pods() if each["name"] == pod]
        [address] = self.cli.addresses(netns, "eth0")
        ping = ["ping", "-c", "1", "-W", "5", address.partition("/")[0]]
        entered = ["nsenter", f"--net=/run/netns/{self.cli.node}", "--"]
        return subprocess.run([*entered, *ping], stdout=subprocess.DEVNULL, check=False).returncode == 0

    def state(self) -> Snapshot:
        """The node's network, and what plugins and the harness keep in files."""
        return take({"node": f"/run/netns/{self.cli.node}"}, [self.cli.var_lib_cni])

    def left_since(self, before: Snapshot) -> list[str]:
        """The differences, a line for each."""
        return [each.in_words() for each in differences(before, self.state(), ignore=KEPT)]


@pytest.fixture
def make_suites(tmp_path: Path, bin_dir: Path) -> Iterator[Callable[[str], Suites]]:
    """Makes a node for both suites; pods are added by the one that is named."""
    with ExitStack() as made:

        def make(adder: str) -> Suites:
            suites = Suites(tmp_path / "cli", bin_dir, adder)
            made.callback(suites.cli.close)
            return suites

        yield make


@pytest.mark.parametrize(
    ("adder", "masquerade"),
    [("theirs", "none"), ("theirs", "iptables"), ("theirs", "nftables"), ("ours", "none"), ("ours", "iptables")],
)
def test_pods_of_either_suite_are_checked_and_deleted_by_the_other(
    make_suites: Callable[[str], Suites], adder: str, masquerade: str
) -> None:
    suites = make_suites(adder)
    suites.cli.configure(bridge_network("net", **MASQUERADES[masquerade]))
    suites.warm_up()
    suites.run(suites.other, "add", "stays")
    before = suites.state()
    suites.run(suites.adder, "add", "one")

    assert suites.answers("one")
    suites.run(suites.other, "check", "one")
    suites.run(suites.adder, "check", "stays")
    suites.run(suites.other, "del", "one")
    assert suites.left_since(before) == []
    assert suites.answers("stays")


def test_reference_del_leaves_our_nftables_elements_to_our_gc(
    make_suites: Callable[[str], Suites],
) -> None:
    """Their DEL takes the program's word that a chain of iptables is not there for a failure, though after the rest.

    With `ipMasqBackend: iptables` they take away what ours made; see the test above.
    """
    suites = make_suites("ours")
    suites.cli.configure(bridge_network("net", **MASQUERADES["nftables"]))
    suites.warm_up()
    suites.run(suites.adder, "add", "stays")
    before = suites.state()
    suites.run(suites.adder, "add", "one")
    suites.run(suites.other, "check", "one")

    refused = suites.run(suites.other, "del", "one", check=False)
    assert "Chain 'CNI-" in refused.stderr
    suites.run(suites.other, "del", "one")
    listed, left = sorted(suites.left_since(before))
    assert listed.startswith("+ node: nft element inet cni_harness_masquerade owners {")
    assert left.startswith("+ node: nft element inet cni_harness_masquerade subnet-")

    # GC is since 1.1.0, which their release does not know.
    suites.cli.configure(bridge_network("net", version="1.1.0", **MASQUERADES["nftables"]))
    suites.run(suites.adder, "gc")
    assert suites.left_since(before) == []
    assert suites.answers("stays")
