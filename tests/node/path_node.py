"""A node with pods of several networks and rules of other programs, made from a seed; and packets sent on it."""

import json
import random
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from ipaddress import ip_address, ip_network
from typing import Final, NamedTuple

from harness.runtime.node import Node
from harness.views.attachments import known_attachments
from harness.views.path_network import PathNamespaces
from harness.views.path_place import PathNamespace
from netlink.namespace import create_namespace, entered, open_namespace, remove_namespace
from tests.cli import Cli, bridge_network
from tests.nft_trace import TraceReader
from tests.nodes import until

LISTENED: Final = (53, 80, 5353, 8080, 9090)
"""Ports with listeners, in every place."""
_PORTMAP: Final = {"type": "portmap", "capabilities": {"portMappings": True}}
_FIRST_SOURCE_PORT: Final = 20000
_OUTSIDE: Final = "192.0.2.2"
_TRACER: Final = """
table inet tracer {
  chain prerouting {
    type filter hook prerouting priority -400
    udp sport 20000-29999 meta nftrace set 1
    tcp sport 20000-29999 tcp flags & (syn | ack) == syn meta nftrace set 1
  }
}
table bridge tracer {
  chain prerouting {
    type filter hook prerouting priority -400
    udp sport 20000-29999 meta nftrace set 1
    tcp sport 20000-29999 tcp flags & (syn | ack) == syn meta nftrace set 1
  }
}
"""
_WITNESS: Final = """
table inet witness {
  set seen { type inet_proto . inet_service; flags dynamic; size 65535; }
  chain input { type filter hook input priority 1000; meta l4proto { tcp, udp } add @seen { meta l4proto . th sport }; }
}
"""


class Flow(NamedTuple):
    """A packet to send: from a pod, with a source port that no other has."""

    origin: str
    destination: str
    protocol: str
    port: int
    source_port: int


class Furnished:
    """The node, its places, and sockets that listen in each."""

    def __init__(self, cli: Cli, namespaces: PathNamespaces, stack: ExitStack, chance: random.Random) -> None:
        self.cli = cli
        self.namespaces = namespaces
        self._chance = chance
        self._source_port = _FIRST_SOURCE_PORT
        self._namespaces = {
            label: stack.enter_context(open_namespace(place.view.path)) for label, place in namespaces.places.items()
        }
        self.trace = stack.enter_context(closing(TraceReader(self._namespaces[namespaces.places["node"].label])))
        self._listeners = {label: self._listen(label, stack) for label in self._namespaces}
        self._stack = stack

    def flow(self) -> Flow:
        """Return a random flow."""
        pods = [label for label in self.namespaces.places if label.startswith("p")]
        origin = self._chance.choice(pods)
        kind = self._chance.choices(("pod", "neighbour", "node", "outside", "nobody"), (5, 3, 3, 2, 1))[0]
        if kind == "pod":
            destination = self.address(self._chance.choice(pods))
        elif kind == "neighbour":
            network = ip_network(f"{self.address(origin)}/24", strict=False)
            own = [each for each in map(self.address, pods) if ip_address(each) in network]
            destination = self._chance.choice(own)
        elif kind == "node":
            own = [
                str(each.ip)
                for each in self.namespaces.places["node"].interfaces()
                if each.version == 4 and not each.ip.is_loopback
            ]
            destination = self._chance.choice(sorted(own))
        else:
            nobody = ("10.77.200.200", "10.82.0.200", "203.0.113.9")
            destination = _OUTSIDE if kind == "outside" else self._chance.choice(nobody)
        protocol = self._chance.choice(("tcp", "udp"))
        return self.again(Flow(origin, destination, protocol, self._chance.choice(LISTENED), 0))

    def again(self, flow: Flow) -> Flow:
        """Return a flow with another source port."""
        self._source_port += 1
        return flow._replace(source_port=self._source_port)

    def address(self, label: str) -> str:
        """Return a pod's IPv4 address."""
        (address,) = (
            each.ip
            for each in self.namespaces.places[label].interfaces()
            if each.version == 4 and not each.ip.is_loopback
        )
        return str(address)

    def send(self, flow: Flow, size: int = 0) -> bool:
        """Send the first packet of a flow; False if the kernel refuses at once. `size` is the datagram's, in bytes."""
        kind = socket.SOCK_DGRAM if flow.protocol == "udp" else socket.SOCK_STREAM
        with entered(self._namespaces[flow.origin]):
            sender = socket.socket(socket.AF_INET, kind)
        # Closed at once: then TCP repeats nothing.
        with closing(sender), suppress(BlockingIOError):
            sender.setblocking(False)
            sender.bind(("0.0.0.0", flow.source_port))
            return self._send(sender, flow, size)
        return True

    @staticmethod
    def _send(sender: socket.socket, flow: Flow, size: int) -> bool:
        try:
            if flow.protocol == "tcp":
                sender.connect((flow.destination, flow.port))
                return True
            # IP_MTU_DISCOVER: IP_PMTUDISC_PROBE, so that DF is set and no discovered MTU is used.
            sender.setsockopt(socket.IPPROTO_IP, 10, 3)
            text = str(flow.source_port).encode()
            sender.sendto(text.ljust(size - 28 if size else len(text)), (flow.destination, flow.port))
        except BlockingIOError:
            raise
        except OSError:
            return False
        return True

    def settle_all(self) -> None:
        """Wait until no packet is on its way: a later one from each pod to itself has come, and traces pause."""
        for label in self._namespaces:
            if label.startswith("p"):
                last = self.again(Flow(label, "127.0.0.1", "udp", LISTENED[0], 0))
                assert self.send(last)
                until(lambda last=last: self.received(last))  # type: ignore[misc]
        seen = -1
        while seen != (seen := sum(map(len, self.trace.events.values()))):
            time.sleep(0.2)
            self.trace.read()

    def received(self, flow: Flow) -> list[str]:
        """Return the places whose listeners have got a datagram of a flow."""
        self._read()
        return [label for label, ports in self._got.items() if flow.source_port in ports]

    def witnessed(self) -> dict[tuple[str, int], list[str]]:
        """Return the places in which a packet came to the end of the input hook, by protocol and source port."""
        found: dict[tuple[str, int], list[str]] = {}
        for label, place in self.namespaces.places.items():
            command = ["nsenter", f"--net={place.view.path}", "nft", "-j", "list", "set", "inet", "witness", "seen"]
            listed = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["nftables"]
            for element in next(each["set"].get("elem", []) for each in listed if "set" in each):
                protocol, port = element["concat"]
                found.setdefault((protocol, port), []).append(label)
        return found

    def _listen(self, label: str, stack: ExitStack) -> list[socket.socket]:
        listeners = []
        self._got: dict[str, set[int]] = getattr(self, "_got", {})
        self._got[label] = set()
        with entered(self._namespaces[label]):
            for port in LISTENED:
                for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
                    listener = stack.enter_context(closing(socket.socket(socket.AF_INET, kind)))
                    listener.setblocking(False)
                    listener.bind(("0.0.0.0", port))
                    if kind == socket.SOCK_STREAM:
                        listener.listen(256)
                    else:
                        listeners.append(listener)
        return listeners

    def _read(self) -> None:
        for label, listeners in self._listeners.items():
            for listener in listeners:
                while True:
                    try:
                        text = listener.recv(65536)
                    except BlockingIOError:
                        break
                    self._got[label].add(int(text))


@contextmanager
def furnished(cli: Cli, chance: random.Random) -> Iterator[Furnished]:
    """Make the node: two restricted bridges, one without restrictions, ptp, macvlan, an uplink, foreign rules."""
    outside = f"{cli.node}-outside"
    with ExitStack() as stack:
        _networks(cli)
        cli.add("p0", "--network", "net", "-p", "8080:80", "-p", "5353:53/udp")
        for number, network in enumerate(("net", "net", "iso", "iso", "free"), 1):
            cli.add(f"p{number}", "--network", network)
        create_namespace(f"/run/netns/{outside}")
        stack.callback(remove_namespace, f"/run/netns/{outside}")
        _uplinks(cli, outside)
        cli.add("p6", "--network", "free", "-p", "9090:80", "-p", "9090:53/udp")
        cli.add("p7", "--network", "direct", "-p", "5353:5353")
        for number, network in enumerate(("direct", "flat", "flat"), 8):
            cli.add(f"p{number}", "--network", network)
        node = Node(cli.node, cli.state_dir)
        with closing(PathNamespaces(node, known_attachments(node, warn=print))) as before:
            _neighbours(before)
            _mtus(before, chance)
            _load(before.places["node"], _TRACER + _foreign(before, chance))
            for place in before.places.values():
                _load(place, _WITNESS)
        namespaces = stack.enter_context(closing(PathNamespaces(node, known_attachments(node, warn=print))))
        yield Furnished(cli, namespaces, stack, chance)


def _networks(cli: Cli) -> None:
    def firewall(policy: str) -> dict[str, str]:
        return {"type": "firewall", "backend": "nftables", "ingressPolicy": policy}

    net = bridge_network("net", ipMasq=True)
    net["plugins"] += [_PORTMAP, firewall("same-bridge")]
    iso = bridge_network("iso", subnet="10.78.0.0/16", ipMasq=True)
    iso["plugins"].append(firewall("isolated"))
    free = bridge_network("free", subnet="10.80.0.0/16", ipMasq=True)
    free["plugins"].append(_PORTMAP)
    default = [{"dst": "0.0.0.0/0"}]
    ptp = {
        "type": "ptp",
        "ipMasq": True,
        "ipam": {"type": "host-local", "subnet": "10.81.0.0/24", "routes": default},
    }
    flat = {
        "type": "macvlan",
        "master": "up0",
        "ipam": {"type": "host-local", "subnet": "10.82.0.0/24", "gateway": "10.82.0.1", "routes": default},
    }
    direct = {"cniVersion": "1.0.0", "name": "direct", "plugins": [ptp, _PORTMAP]}
    cli.configure(net, iso, free, direct, {"cniVersion": "1.0.0", "name": "flat", "plugins": [flat]})


def _uplinks(cli: Cli, outside: str) -> None:
    def run(*args: str) -> None:
        subprocess.run(["ip", *args], check=True)

    for name, address in (("up0", ""), ("wan0", "192.0.2.1/24")):
        run("-n", cli.node, "link", "add", name, "type", "veth", "peer", "name", name, "netns", outside)
        if address:
            run("-n", cli.node, "address", "add", address, "dev", name)
        run("-n", cli.node, "link", "set", name, "up")
        run("-n", outside, "link", "set", name, "up")
    run("-n", outside, "address", "add", f"{_OUTSIDE}/24", "dev", "wan0")
    run("-n", outside, "address", "add", "10.82.0.1/24", "dev", "up0")
    run("-n", cli.node, "route", "add", "default", "via", _OUTSIDE)


def _neighbours(namespaces: PathNamespaces) -> None:
    """Name each neighbour on a pod's subnet: frames that a rule drops would else be no packets, but ARP requests."""
    known = [
        (each, link.mac)
        for place in namespaces.places.values()
        for link in place.state.links
        for each in place.state.addresses.get(link.ifindex, [])
        if each.version == 4 and not each.ip.is_loopback
    ]
    # The node has the gateway of ptp on each of its links.
    addresses = [each.ip for each, _ in known]
    known = [(each, mac) for each, mac in known if addresses.count(each.ip) == 1]
    for label, place in namespaces.places.items():
        for link in place.state.links:
            for own in place.state.addresses.get(link.ifindex, []) if label.startswith("p") else ():
                for other, mac in known:
                    if own.version == 4 and other.ip in own.network and other.ip != own.ip:
                        wanted = [str(other.ip), "lladdr", mac, "dev", link.name, "nud", "permanent"]
                        _run(place, "ip", "neighbour", "replace", *wanted)


def _mtus(namespaces: PathNamespaces, chance: random.Random) -> None:
    for place in namespaces.places.values():
        for link in place.state.links:
            if link.kind in {"veth", "bridge"} and chance.random() < 0.6:
                _run(place, "ip", "link", "set", link.name, "mtu", str(chance.randrange(1280, 1501)))


def _foreign(namespaces: PathNamespaces, chance: random.Random) -> str:
    """Return tables of other programs, with rules that some of the packets meet."""
    own = [each.ip for place in namespaces.places.values() for each in place.interfaces()]
    addresses = [*dict.fromkeys(str(each) for each in own if each.version == 4 and not each.is_loopback)]
    links = [link.name for link in namespaces.places["node"].state.links if link.name != "lo"]

    def condition() -> str:
        address, other = chance.choice(addresses), chance.choice(addresses)
        link, port = chance.choice(links), chance.choice(LISTENED)
        return chance.choice(
            (
                f"ip saddr {address}",
                f"ip daddr {address} {chance.choice(('tcp', 'udp'))} dport {port}",
                f"ip saddr . ip daddr {{ {address} . {other}, {other} . {address} }}",
                f"iifname {link}",
                f"iifname {link} th dport {{ {port}, 100-200 }}",
                f"meta l4proto {chance.choice(('tcp', 'udp'))} ip saddr {ip_address(address)}/31",
                f"ip daddr != 10.64.0.0/10 udp dport {port}",
                f"meta mark & 0xf0 == {chance.choice(('0x10', '0x20'))} th dport {port}",
                "ct state established,related",
                f"ct state new ip daddr {address}-{ip_address(address) + 1}",
                f"ct status dnat th dport {port}",
                f"ct original ip daddr {address}",
                f"tcp dport >= {port}",
                "fib daddr type local tcp dport 53",
            )
        )

    translation = "ip daddr 203.0.113.9 tcp dport 80 dnat to 10.80.0.2:8080"

    def rules(count: int, verdicts: tuple[str, ...]) -> str:
        return "; ".join(f"{condition()} counter {chance.choice(verdicts)}" for _ in range(count))

    stops = ("drop", "accept", "accept", "drop", "return", "jump more", "goto more", "meta mark set 0x13", "reject")
    marks = ("meta mark set 0x10", "meta mark set meta mark | 0x20", "accept", "drop")
    vmap = f"ip saddr vmap {{ {addresses[3]} : drop, {addresses[4]} : accept, {addresses[5]} : jump more }}"
    return f"""
table inet foreign {{
  set some {{ type ipv4_addr; flags interval; elements = {{ 10.77.0.2-10.77.0.3, 10.81.0.0/30 }}; }}
  chain more {{ {rules(4, ("drop", "accept", "return"))}; ip saddr @some ip daddr @some drop; }}
  chain forward {{ type filter hook forward priority -10; policy accept; {rules(8, stops)}; {vmap}; }}
  chain input {{ type filter hook input priority 0; policy accept; {rules(3, stops)}; }}
  chain early {{ type filter hook prerouting priority -150; policy accept; {rules(5, marks)}; }}
}}
table ip other {{
  chain more {{ {rules(3, ("drop", "accept"))}; }}
  chain forward {{ type filter hook forward priority 0; policy accept; {rules(5, stops)}; }}
  chain post {{ type filter hook postrouting priority 0; policy accept; {rules(2, ("drop", "accept"))}; }}
  chain translate {{ type nat hook prerouting priority -100; {translation}; }}
}}
table bridge guard {{
  chain forward {{ type filter hook forward priority 10; ip daddr {addresses[1]} udp dport 5353 drop; }}
}}
add rule inet cni_harness_firewall admin {condition()} drop
"""


def _load(place: PathNamespace, text: str) -> None:
    command = ["nsenter", f"--net={place.view.path}", "nft", "-f", "-"]
    run = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert run.returncode == 0, f"{text}\n{run.stderr}"


def _run(place: PathNamespace, *command: str) -> None:
    subprocess.run(["nsenter", f"--net={place.view.path}", *command], check=True)
