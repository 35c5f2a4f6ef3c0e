"""Faults of the node.

- Forwarding, the firewall, and entries of the firewall that attachments have lost.
- Leftovers: links, namespaces, cached results and addresses of containers that no runtime knows.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final

from firewall.owner import Owner
from harness.libcni.networks import NetworkList
from harness.runtime.leftovers import AttachmentSurvey, survey
from harness.runtime.network_addresses import network_addresses
from harness.runtime.node import Node
from harness.runtime.node_snapshot import NODE
from harness.runtime.pods import PodRecordError
from harness.runtime.reservations import read_reservations
from harness.runtime.unserved_requests import PORT_MAPPINGS, host_ports
from harness.snapshot.compare import THINGS
from harness.snapshot.descriptions import described_things
from harness.views.attachments import KnownAttachment, plugins_of
from harness.views.nft_evaluation import Decision, MatchedRule, certain_stop, evaluate
from harness.views.nft_ruleset import Rules
from harness.views.nft_values import Address, HookPoint, Packet
from harness.views.node_state import Fault, NodeState, pod_addresses
from harness.views.published_ports import published_ports
from netlink.routes import Network

_IPV4: Final = 4
_SECTIONS: Final = ("nft elements", "nft rules", "iptables rules")
_MASQUERADES: Final = re.compile(r"masquerade|MASQUERADE|\bsnat\b|SNAT|CNI-[0-9a-f]{20,}")  # the last: the reference's
_OWN_CHAIN: Final = re.compile(r" cni_harness_masquerade | nat CNI-[0-9a-f]{24}$")

_KILLED = "a runtime or plugin was killed, or the container's DEL failed"
_BY_HAND = "no command frees it safely: remove it if no runtime is adding a pod"


def check_node(state: NodeState) -> Iterator[Fault]:
    """Yield faults of forwarding and of the firewall; each names the pods that suffer."""
    alive = state.living
    yield from _forwarding(state, alive)
    lines = [
        line
        for section in _SECTIONS
        for line in described_things(THINGS[section], state.snapshot.section(NODE, section))
    ]
    for attachment in alive:
        if state.ends(attachment).inside is not None:
            yield from _lost(state, attachment, lines)
    yield from _drops(state, alive)


def _forwarding(state: NodeState, alive: list[KnownAttachment]) -> Iterator[Fault]:
    off: dict[str, list[str]] = {}
    for attachment in alive:
        for ip in attachment.network.decoded().ips:
            link = state.link_with(str(ip.gateway)) if ip.gateway is not None else None
            if link is not None and (key := forwarding_off(state, link.name, ip.address.version)):
                off.setdefault(key, []).append(attachment.pod or attachment.container_id)
    for key, pods in off.items():
        whose = f"{len(set(pods))} pods" if len(set(pods)) > 1 else pods[0]
        yield forwarding_fault(state, key, tuple(dict.fromkeys(pods)), whose)


def forwarding_off(state: NodeState, link: str, version: int) -> str:
    """Return the kernel parameter that stops packets of an IP version that come in by a link; "" if none does."""
    whole, family = ("net.ipv4.ip_forward", "ipv4") if version == _IPV4 else ("net.ipv6.conf.all.forwarding", "ipv6")
    if version != _IPV4:  # a link's own parameter is about router advertisements
        forced = state.link_sysctl(link, "ipv6.conf.force_forwarding") == "1"  # Linux 6.17
        return whole if state.sysctl(whole) == "0" and not forced else ""
    if state.sysctl(whole) == "0":
        return whole
    is_off = state.link_sysctl(link, f"{family}.conf.forwarding") == "0"
    return f"net.{family}.conf.{link.replace('.', '/')}.forwarding" if is_off else ""


def forwarding_fault(state: NodeState, key: str, pods: tuple[str, ...], whose: str) -> Fault:
    """Return the fault that a parameter of `forwarding_off` is."""
    what = f"{key} is 0: the node forwards no packets of {whose}"
    cause = "another program set it, or sysctl settings were loaded again"
    return Fault("forwarding-off", key, pods, what, cause, state.commands.run(f"sysctl -w {key}=1"))


def _lost(state: NodeState, attachment: KnownAttachment, lines: list[str]) -> Iterator[Fault]:
    cause = "another program flushed or reloaded the firewall"
    plugins, repair = plugins_of(attachment.network), f"{state.commands.program} repair"
    pod = (attachment.pod or attachment.container_id,)
    for address in pod_addresses(attachment):
        about = [line for line in lines if _names(line, str(address.ip))]
        if any(each.get("ipmasq") is True for each in plugins) and not any(map(_masquerades, about)):
            what = f"nothing masquerades {address.ip} of {attachment.name}"
            yield Fault("masquerade-lost", str(address.ip), pod, what, cause, repair)
        for exception in _lost_exceptions(state, attachment, address.ip):
            what = f"packets of {attachment.name} to {exception} (ipMasqExcept) lose the address {address.ip}"
            yield Fault("exception-lost", f"{address.ip} to {exception}", pod, what, cause, repair)
        admits = [each for each in plugins if each.get("type") == "firewall"]
        if admits and not any(_admits(line) for line in about) and not _is_firewalld(admits[0], state):
            what = f"the firewall does not admit {address.ip} of {attachment.name}"
            yield Fault("admission-lost", str(address.ip), pod, what, cause, repair)
    published = {(each.host_port, each.protocol) for each in published_ports(state.snapshot, NODE)}
    has_portmap = any(each.get("type") == "portmap" and _takes_ports(each) for each in plugins)
    wanted = host_ports(attachment.network.capability_args.get(PORT_MAPPINGS)) if has_portmap else ()
    for port, protocol in wanted:
        if (port, protocol) not in published:
            what = f"port {port}/{protocol} of the node does not lead to {attachment.name}"
            yield Fault("port-mapping-lost", f"{port}/{protocol}", pod, what, cause, repair)


def _lost_exceptions(state: NodeState, attachment: KnownAttachment, address: Address) -> Iterator[str]:
    """Yield the networks of `ipMasqExcept` to which our rules masquerade packets of a pod."""
    outside = state.ends(attachment).outside
    if state.ruleset is None or outside is None or Owner.from_label(outside.alias) is None:
        return  # the reference ignores the key
    for text, network in masquerade_exceptions(attachment):
        if network.version == address.version:
            decision = leaving(state.ruleset, address, network.network_address)
            if decision.packet.source != address and is_by_own_rule(decision):
                yield text


def masquerade_exceptions(attachment: KnownAttachment) -> Iterator[tuple[str, Network]]:
    """Yield the networks of `ipMasqExcept` as the list has them, and as networks."""
    lists = [plugin.get("ipmasqexcept") for plugin in plugins_of(attachment.network)]
    for each in (each for exceptions in lists if isinstance(exceptions, list) for each in exceptions):
        with suppress(ValueError):
            yield each, ip_network(each, strict=False)


def is_by_own_rule(decision: Decision) -> bool:
    """Tell whether a rule of this project's plugins, or of the reference's, masquerades packets."""
    return any(_OWN_CHAIN.search(rule.chain) and _MASQUERADES.search(rule.rule) for rule in decision.matched)


def leaving(rules: Rules, source: Address, target: Address, link: str = "") -> Decision:
    """Return what the hook postrouting does to a pod's packets; masquerading changes the source to `target`.

    Of the packets, protocol and port are not known, nor is the link if `link` is empty.
    """
    known = frozenset({"saddr", "daddr", "nfproto", *(("oif", "oifname") if link else ())})
    point = HookPoint("postrouting", "", link, lambda _: None, masquerade=target)
    return evaluate(rules, point, Packet(source, target, 0, None, known=known))


def _takes_ports(plugin: Mapping[str, Any]) -> bool:
    """Tell whether the runtime hands host ports to a plugin; `capability-missing` is the fault if not."""
    capabilities = plugin.get("capabilities")
    return isinstance(capabilities, dict) and bool(capabilities.get("portMappings"))


def _drops(state: NodeState, alive: list[KnownAttachment]) -> Iterator[Fault]:
    if state.ruleset is None:
        return
    for attachment in alive:
        ends = state.ends(attachment)
        for ip in attachment.network.decoded().ips:
            # Packets of a pod without a gateway on the node do not pass the node's firewall.
            way = state.link_with(str(ip.gateway)) if ip.gateway is not None else None
            if way is None or ends.inside is None:
                continue
            address = ip.address.ip
            for direction in ("packets from", "replies to"):
                stop = forward_stop(state.ruleset, address, way.name, is_reply=direction == "replies to")
                if stop is not None:
                    what = f"chain {stop.chain} drops {direction} {address} of {attachment.name}: {stop.rule}"
                    cause = "a rule or policy of another program"
                    remedy = "admit the pods there, or add the plugin firewall to the network list"
                    pod = attachment.pod or attachment.container_id
                    yield Fault("firewall-drops", stop.chain, (pod,), what, cause, remedy)
                    break


def forward_stop(rules: Rules, address: Address, link: str, *, is_reply: bool) -> MatchedRule | None:
    """Return what certainly stops packets from a pod, or replies to it; `link` is the pod's side of the node.

    Of the packets, the other end and the protocol are not known.
    """
    sides = {"daddr", "oif", "oifname"} if is_reply else {"saddr", "iif", "iifname"}
    known = frozenset({*sides, "nfproto", "ct state", "ct direction"})
    packet = Packet(address, address, 0, None, state="established" if is_reply else "new", known=known)
    return certain_stop(rules, HookPoint("forward", link, link, lambda _: None), packet)


def _names(line: str, address: str) -> bool:
    return re.search(rf"(?<![\w.:]){re.escape(address)}(?![\w:]|\.\d|/(?!32\b|128\b)\d)", line) is not None


def _masquerades(line: str) -> bool:
    # An element of our tables stands for the rule beside it; the word is in the name of the table.
    return _MASQUERADES.search(line) is not None and " owners { " not in line and "cni_harness_portmap" not in line


def _admits(line: str) -> bool:
    return "cni_harness_firewall pods" in line or "ACCEPT" in line or " accept" in line or "CNI-FORWARD" in line


def _is_firewalld(plugin: Mapping[str, Any], state: NodeState) -> bool:
    """Tell whether firewalld admits pods: it does so by zones, which no address in a rule shows."""
    tables = state.snapshot.section(NODE, "nft tables")
    return plugin.get("backend") == "firewalld" or (not plugin.get("backend") and "inet firewalld" in tables)


def check_leftovers(state: NodeState, node: Node, networks: Iterable[NetworkList]) -> Iterator[Fault]:
    """Yield the leftovers on a node, and the ranges without a free address. Raises NetlinkError, OSError."""
    networks = list(networks)
    try:
        found = survey(node, networks)
    except PodRecordError:  # the containers on record are not known, so nothing can be called a leftover
        found = AttachmentSurvey((), ())
    yield from _links(state, found)
    yield from _results(state, found)
    yield from _leases(state, node, found)
    for stray in found.strays:
        yield Fault(stray.check, stray.subject, (), stray.what, _KILLED, _BY_HAND)
    yield from _full_ranges(node, networks)


def _remedy(state: NodeState, found: AttachmentSurvey, network: str, container_id: str) -> str:
    """Return a remedy that harms no pod: gc frees leftovers alone, and this says why gc would keep it."""
    known = found.find(network, container_id)
    if known is not None and known.living:
        return f"gc keeps it, since {known.living}: delete the container in its runtime"
    if known is None or not known.can_be_deleted:
        return _BY_HAND
    return f"{state.commands.program} gc, twice: the first one names it, a later one frees it"


def _links(state: NodeState, found: AttachmentSurvey) -> Iterator[Fault]:
    known = {Owner(*each.key) for each in state.known}
    for link in state.here.links:
        owner = Owner.from_label(link.alias) if link.alias else None
        if owner is None or owner in known:
            continue
        what = f"{link.name} is of container {owner.container_id} in network {owner.network}, unknown to every runtime"
        remedy = _remedy(state, found, owner.network, owner.container_id)
        yield Fault("orphan-veth", link.name, (), what, _KILLED, remedy)
        peer = state.views[NODE].peers.get(link.name)
        view = state.views.get(peer.place) if peer is not None else None
        if view is not None and not view.attachments and view.path.startswith("/run/netns/cni-"):
            name = Path(view.path).name
            what = f"network namespace {view.path} is at the other end of {link.name}, and is of no pod"
            remedy = f"delete the sandbox in its runtime; `ip netns pids {name}` names the processes in it"
            yield Fault("orphan-netns", name, (), what, _KILLED, remedy)


def _results(state: NodeState, found: AttachmentSurvey) -> Iterator[Fault]:
    for each in state.known:
        if each.is_ours or not each.netns or state.view_of(each) is not None:
            continue
        what = (
            f"a result of container {each.container_id} in network {each.network.name} is cached without its namespace"
        )
        cause = f"{each.netns} is gone: {_KILLED}"
        remedy = _remedy(state, found, each.network.name, each.container_id)
        yield Fault("orphan-result", each.container_id, (each.pod or each.container_id,), what, cause, remedy)


def _leases(state: NodeState, node: Node, found: AttachmentSurvey) -> Iterator[Fault]:
    known = {(each.network.name, each.container_id) for each in state.known}
    networks = node.var_lib_cni / "networks"
    for folder in sorted(networks.iterdir()) if networks.is_dir() else []:
        for lease in read_reservations(folder):
            traced = found.find(folder.name, lease.container_id)
            lives = traced is not None and (traced.is_ours or traced.living)
            if not lease.container_id or lives or (folder.name, lease.container_id) in known:
                continue
            holder = f"container {lease.container_id}" + (f", {lease.ifname}" if lease.ifname else "")
            what = f"{lease.address} of network {folder.name} is reserved for {holder}, unknown to every runtime"
            remedy = _remedy(state, found, folder.name, lease.container_id)
            yield Fault("stale-lease", str(lease.address), (), what, _KILLED, remedy)


def _full_ranges(node: Node, networks: Iterable[NetworkList]) -> Iterator[Fault]:
    for network in networks:
        ranges = network_addresses(network, node, [])["ranges"]
        for each in ranges if isinstance(ranges, list) else []:
            if each["free"] <= 0:
                bounds = f"{each['rangeStart']}-{each['rangeEnd']}"
                what = f"all {each['size']} addresses of {bounds} in network {network.name} are reserved"
                cause = "as many pods, or stale reservations"
                yield Fault("addresses-exhausted", bounds, (), what, cause, "delete pods, or widen the range")
