"""SIGKILL of an agent's process at random moments, and losses and changes of Nodes while it lives and while it is dead.

The node is a network namespace with one uplink. The other nodes exist in manifests alone. ip(8) and bridge(8) read the
kernel's state, which is compared with a model of a few lines; so are the network list and the table of masquerading.
"""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final, NamedTuple

from agent.kernel import PROTOCOL
from agent.peers import tunnel_mac
from agent.plan import TUNNEL
from firewall.cluster_masquerade import TABLE
from harness.runtime.node import Node

_COMMAND: Final = (sys.executable, "-m", "harness.cli.main", "agent", "--node-name", "node-0")
"""An agent; its first line on stderr says that it begins."""
_CLUSTER: Final = "10.244.0.0/16,fd00:10:244::/48"
LIMIT: Final = 1.0
"""Seconds after that line in which all has to be as the Nodes are."""
_WORK: Final = 0.2
"""Seconds, of which a kill comes at a random one: an agent gathers changes for 50 ms, and then takes some 50 ms."""
_NODES: Final = 120
_NUMBERS: Final = range(1, 250)
_HANG: Final = 60.0
_DEFAULT_ROUTES: Final = ("route replace default via 192.0.2.253", "route replace default via 2001:db8::fd")
_UPLINK: Final = (
    "link add uplink0 type veth peer name uplink1",
    "link set uplink0 up",
    "link set uplink1 up",
    "address add 192.0.2.254/24 dev uplink0 nodad",
    "address add 2001:db8::fe/64 dev uplink0 nodad",
    *_DEFAULT_ROUTES,
)
_LOSSES: Final = (
    (f"route flush proto {PROTOCOL}",),
    (f"-6 route flush proto {PROTOCOL}",),
    (f"link del {TUNNEL}",),
    (f"link set {TUNNEL} down",),
    ("link set uplink0 down", "link set uplink0 up", *_DEFAULT_ROUTES),
    (f"neigh flush dev {TUNNEL} nud permanent",),
    (f"route add 10.244.254.0/24 via 192.0.2.253 proto {PROTOCOL}",),
    (f"-6 route add fd00:10:244:fe::/64 via 2001:db8::fd proto {PROTOCOL}",),
    (f"address flush dev {TUNNEL}",),
)
"""Arguments of ip(8). A command may fail, as one for a tunnel that does not exist."""

State = set[tuple[str, ...]]


@dataclass
class AgentKills:
    """The outcome."""

    kills: int = 0
    lives: int = 0
    """Starts after which the kernel's state was compared."""
    losses: int = 0
    """Damages while the agent lived."""
    slowest: float = 0.0
    """Seconds from the first line of an agent until nothing was stale or missing."""
    slowest_loss: float = 0.0
    """Seconds from a damage until it was made good."""
    left: list[str] = field(default_factory=list)
    """Stale and missing things after the limit, in words."""


class _Peer(NamedTuple):
    """Another node: the number of its ranges, and that of its addresses on this link or on another."""

    ranges: int
    address: int
    is_near: bool


def kill_agents(folder: Path, root: Path, kills: int, seed: int, *, limit: float = LIMIT) -> AgentKills:
    """End so many agents by SIGKILL, and compare the kernel's state after every second start.

    Raises RuntimeError if an agent ends by itself.
    """
    node = Node("soak-agents", folder / "state")
    if node.has_foreign_netns():
        raise SystemExit("another program has made the network namespace soak-agents")
    with ExitStack() as stack:
        stack.callback(node.remove)
        stack.enter_context(node.in_use())
        for line in _UPLINK:
            _ip(node, line).check_returncode()
        # As network managers do: the kernel removes IPv6 addresses of a link that goes down.
        _on(node, "sysctl", "-qw", "net.ipv6.conf.uplink0.keep_addr_on_down=1")
        round_ = _Rounds(node, folder, root, random.Random(seed), limit)  # noqa: S311 -- no secret
        while round_.outcome.kills < kills:
            round_.interrupted_life()
            round_.judged_life()
    return round_.outcome


class _Rounds:
    """Lives of agents on one node, and the Nodes that they follow."""

    def __init__(self, node: Node, folder: Path, root: Path, chance: random.Random, limit: float) -> None:
        self.outcome = AgentKills()
        self._node = node
        self._manifests = folder / "nodes.json"
        self._lists = folder / "net.d"
        self._state_dir = folder / "agent"
        self._root = root
        self._chance = chance
        self._limit = limit
        self._peers: dict[str, _Peer] = {}
        self._start = 0.3
        """Seconds that an agent takes until its first line, as last seen."""
        for _ in range(_NODES):
            self._add_peer()
        self._write()

    def interrupted_life(self) -> None:
        """Kill an agent while it starts, or while it repairs the losses from before."""
        self._disturb()
        at_work = self._chance.random() < 0.5  # noqa: PLR2004 -- every second time
        with self._living(first_line=at_work):
            time.sleep(self._chance.uniform(0, _WORK if at_work else self._start + _WORK))

    def judged_life(self) -> None:
        """Compare after a start and after a loss, and kill the agent while it makes good another one."""
        self._disturb()
        with self._living(first_line=True):
            self.outcome.lives += 1
            self.outcome.slowest = max(self.outcome.slowest, self._settled("start"))
            self._lose()
            self.outcome.losses += 1
            self.outcome.slowest_loss = max(self.outcome.slowest_loss, self._settled("loss"))
            self._change_nodes()
            self._lose()
            time.sleep(self._chance.uniform(0, _WORK))

    @contextmanager
    def _living(self, *, first_line: bool) -> Iterator[None]:
        """Start an agent, wait for its first line if that is wanted, and kill it at the end of the block."""
        options = {
            "--manifests": self._manifests,
            "--cluster-cidr": _CLUSTER,
            "--state-dir": self._state_dir,
            "--conf-dir": self._lists,
        }
        words = [f"{name}={value}" for name, value in options.items()]
        command = ["nsenter", f"--net={self._node.netns}", *_COMMAND, *words]
        environment = {**os.environ, "PYTHONPATH": str(self._root)}
        begun = time.monotonic()
        with (
            TemporaryFile() as said,
            subprocess.Popen(
                command, cwd=self._root, env=environment, stdin=subprocess.DEVNULL, stderr=said
            ) as process,
        ):
            try:
                while first_line and not os.fstat(said.fileno()).st_size and process.poll() is None:
                    time.sleep(0.001)
                if first_line:
                    self._start = time.monotonic() - begun
                yield
                if process.poll() is not None:
                    said.seek(0)
                    raise RuntimeError(f"the agent ended by itself: {said.read().decode()}")
            finally:
                process.kill()
        self.outcome.kills += 1

    def _settled(self, after: str) -> float:
        """Wait until nothing is stale or missing, and return the seconds; what stays too long is noted."""
        wanted, begun = self._wanted(), time.monotonic()
        while (present := self._present()) != wanted:
            if time.monotonic() - begun > self._limit:
                what = f"kill {self.outcome.kills}, after {after}"
                self.outcome.left += [f"{what}: stale: {' '.join(each)}" for each in sorted(present - wanted)]
                self.outcome.left += [f"{what}: missing: {' '.join(each)}" for each in sorted(wanted - present)]
                break
        return time.monotonic() - begun

    def _disturb(self) -> None:
        """Change Nodes and the kernel's state while no agent lives."""
        self._change_nodes()
        for _ in range(self._chance.randrange(3)):
            self._lose()

    def _lose(self) -> None:
        for line in self._chance.choice(_LOSSES):
            _ip(self._node, line)

    def _change_nodes(self) -> None:
        for _ in range(self._chance.randrange(1, 4)):
            name = self._chance.choice(sorted(self._peers))
            match self._chance.randrange(4):
                case 0:
                    self._add_peer()
                case 1:
                    del self._peers[name]
                case 2:
                    self._peers[name] = self._peers[name]._replace(is_near=not self._peers[name].is_near)
                case 3:
                    self._peers[name] = self._peers[name]._replace(ranges=self._free_number())
        self._write()

    def _add_peer(self) -> None:
        number = self._free_number()
        self._peers[f"node-{number}"] = _Peer(number, number, self._chance.random() < 0.5)  # noqa: PLR2004 -- half

    def _free_number(self) -> int:
        taken = {number for each in self._peers.values() for number in (each.ranges, each.address)}
        return self._chance.choice([number for number in _NUMBERS if number not in taken])

    def _write(self) -> None:
        """Write all Nodes as one file, by rename."""
        items = [_manifest("node-0", 0, ("192.0.2.254", "2001:db8::fe"))]
        items += [_manifest(name, each.ranges, _addresses(each)) for name, each in self._peers.items()]
        new = self._manifests.with_suffix(".new")
        new.write_text(json.dumps({"kind": "List", "items": items}))
        new.rename(self._manifests)

    def _wanted(self) -> State:
        """Return the state that leads to all nodes."""
        state: State = {("list", "whole"), ("table", TABLE)}
        for name, peer in self._peers.items():
            addresses = _addresses(peer)
            for cidr, address in zip(_cidrs(peer.ranges), addresses, strict=True):
                inner = cidr.partition("/")[0]
                if peer.is_near:
                    state.add(("route", cidr, "via", address, "dev", "uplink0"))
                else:
                    state.add(("route", cidr, "via", inner, "dev", TUNNEL))
                    state.add(("neighbour", inner, tunnel_mac(name)))
            if not peer.is_near:
                state.add(("fdb", tunnel_mac(name), addresses[0]))
        if not all(each.is_near for each in self._peers.values()):
            state |= {("address", each.partition("/")[0]) for each in _cidrs(0)}
        return state

    def _present(self) -> State:
        """Return the kernel's state: routes by their protocol, the rest by the tunnel's link."""
        state: State = set()
        for family in ("-4", "-6"):
            for route in _listed(self._node, "ip", family, "route", "show", "proto", str(PROTOCOL)):
                state.add(("route", route["dst"], "via", route["gateway"], "dev", route["dev"]))
        for each in _listed(self._node, "ip", "neigh", "show", "dev", TUNNEL, "nud", "permanent"):
            state.add(("neighbour", each["dst"], each["lladdr"]))
        for each in _listed(self._node, "bridge", "fdb", "show", "dev", TUNNEL):
            if "dst" in each:
                state.add(("fdb", each["mac"], each["dst"]))
        for link in _listed(self._node, "ip", "address", "show", "dev", TUNNEL, "scope", "global"):
            state |= {("address", each["local"]) for each in link.get("addr_info", ()) if "local" in each}
        for path in self._lists.glob("*.conflist"):
            state.add(("list", "whole" if json.loads(path.read_bytes())["plugins"] else "empty"))
        if _on(self._node, "nft", "list", "table", "inet", TABLE).returncode == 0:
            state.add(("table", TABLE))
        return state


def _cidrs(number: int) -> tuple[str, str]:
    return f"10.244.{number}.0/24", f"fd00:10:244:{number:x}::/64" if number else "fd00:10:244::/64"


def _addresses(peer: _Peer) -> tuple[str, str]:
    if peer.is_near:
        return f"192.0.2.{peer.address}", f"2001:db8::{peer.address:x}"
    return f"198.51.100.{peer.address}", f"2001:db8:1::{peer.address:x}"


def _manifest(name: str, number: int, addresses: Sequence[str]) -> dict[str, Any]:
    listed = [{"type": "InternalIP", "address": each} for each in addresses]
    return {
        "kind": "Node",
        "metadata": {"name": name},
        "spec": {"podCIDRs": [*_cidrs(number)]},
        "status": {"addresses": listed},
    }


def _ip(node: Node, line: str) -> subprocess.CompletedProcess[str]:
    return _on(node, "ip", *line.split())


def _listed(node: Node, program: str, *arguments: str) -> list[dict[str, Any]]:
    """Return the JSON that ip(8) or bridge(8) prints; nothing if there is no such link."""
    printed = _on(node, program, "-j", *arguments).stdout
    listed: list[dict[str, Any]] = json.loads(printed) if printed.strip() else []
    return listed


def _on(node: Node, *command: str) -> subprocess.CompletedProcess[str]:
    inside = ["nsenter", f"--net={node.netns}", *command]
    return subprocess.run(inside, capture_output=True, text=True, timeout=_HANG, check=False)
