"""Faults of single pods: their namespace, their links on both sides, addresses and routes against the result."""

from collections.abc import Iterator
from typing import Final

from harness.runtime.result_comparison import compare
from harness.runtime.unserved_requests import BANDWIDTH, PORT_MAPPINGS, unserved_requests
from harness.views.attachments import KnownAttachment, plugins_of
from harness.views.node_state import Commands, Ends, Fault, NodeState, bridge_plugin, pod_addresses
from launch.installation import plugin_names
from netlink.kinds import PAIRS

_SERVING: Final = {
    PORT_MAPPINGS: '{"type": "portmap", "capabilities": {"portMappings": true}}',
    BANDWIDTH: '{"type": "bandwidth", "capabilities": {"bandwidth": true}}',
}
"""The plugin that sets up what a capability asks for."""
_GATEWAY_PLUGINS = ("bridge", "ptp")
_BRIDGE_DEFAULT = "cni0"
_LOOPBACK = "lo"
"""Each pod has one of its own, with equal addresses; a list with the plugin loopback makes it an attachment."""


def check_pods(state: NodeState) -> Iterator[Fault]:
    """Yield the faults of each attachment, without those that follow from another one."""
    for attachment in state.known:
        if attachment.is_ours or attachment.netns:
            yield from _check(state, attachment)
    yield from _duplicates(state)
    yield from _unserved(state)


def _check(state: NodeState, attachment: KnownAttachment) -> Iterator[Fault]:
    name, ifname = attachment.name, attachment.network.ifname
    delete = _delete(state, attachment)
    again = f"{delete}, then make it again"
    if attachment.is_incomplete or attachment.network.result is None:
        if attachment.is_ours:
            cause = "its ADD or DEL was interrupted, or a plugin failed"
            yield _fault("pod-incomplete", name, attachment, f"pod {name} is incomplete", cause, delete)
        return
    view = state.view_of(attachment)
    if view is None:
        if attachment.is_ours:
            what = f"pod {name} has no network namespace at {attachment.netns}"
            cause = "the node was restarted, or the namespace was deleted"
            yield _fault("sandbox-gone", name, attachment, what, cause, again)
        return
    ends = state.ends(attachment)
    facts = list(compare(attachment.network, attachment.netns, view.state))
    missing = [each for each in facts if each.mismatch and each.fact.startswith("interface ")]
    if missing:
        cause = "another program deleted or changed it"
        for each in missing:
            yield _fault("interface-missing", ifname, attachment, f"{name}: {each}", cause, again)
        return
    down = list(_down(state, attachment, ends))
    yield from down
    if not down:
        cause = "another program changed it after the ADD"
        wrong = [each for each in facts if each.mismatch]
        # The kernel removes the routes that need an address together with it.
        addresses = [each for each in wrong if each.fact.startswith("address ")]
        for each in addresses or wrong:
            kind = "address" if addresses else "route"
            yield _fault(f"{kind}-differs", ifname, attachment, f"{name}: {each}", cause, again)
    yield from _node_side(state, attachment, ends)


def _down(state: NodeState, attachment: KnownAttachment, ends: Ends) -> Iterator[Fault]:
    cause = "another program set it down"
    if ends.inside is not None and not ends.inside.up:
        link = ends.inside.name
        remedy = f"ip -n {attachment.netns.rpartition('/')[2]} link set {link} up, then restore the pod's routes"
        yield _fault("interface-down", link, attachment, f"{link} of {attachment.name} is down", cause, remedy)
    if ends.outside is not None and not ends.outside.up:
        link = ends.outside.name
        side = "the node's end of" if ends.outside.kind in PAIRS else "the link below"
        what = f"{link}, {side} {attachment.name}, is down"
        yield _fault("interface-down", link, attachment, what, cause, state.commands.ip(f"link set {link} up"))


def _node_side(state: NodeState, attachment: KnownAttachment, ends: Ends) -> Iterator[Fault]:
    wanted, commands = bridge_plugin(attachment), state.commands
    if wanted is not None:
        name = str(wanted.get("bridge") or _BRIDGE_DEFAULT)
        bridge = state.here.link(name)
        if bridge is None:
            what = f"bridge {name} of network {attachment.network.name} is gone"
            cause = "another program deleted it"
            yield _fault("bridge-missing", name, attachment, what, cause, f"{commands.program} repair")
            return
        if not bridge.up:
            what = f"bridge {name} of network {attachment.network.name} is down"
            up = commands.ip(f"link set {name} up")
            yield _fault("bridge-down", name, attachment, what, "another program set it down", up)
        if ends.outside is not None and ends.outside.kind in PAIRS and ends.outside.master == 0:
            link = ends.outside.name
            what = f"{link} of {attachment.name} is no port of {name}"
            remedy = commands.ip(f"link set {link} master {name}")
            yield _fault("port-lost", link, attachment, what, "another program took it out of the bridge", remedy)
    yield from _gateways(state, attachment)
    yield from _mtus(commands, attachment, ends)
    yield from _ways_back(state, attachment, ends)


def _gateways(state: NodeState, attachment: KnownAttachment) -> Iterator[Fault]:
    giving = [each for each in plugins_of(attachment.network) if each.get("type") in _GATEWAY_PLUGINS]
    if not any(each["type"] == "ptp" or each.get("isgateway") or each.get("isdefaultgateway") for each in giving):
        return
    for ip in attachment.network.decoded().ips:
        if ip.gateway is None or state.link_with(str(ip.gateway)) is not None:
            continue
        wanted = bridge_plugin(attachment)
        link = str(wanted.get("bridge") or _BRIDGE_DEFAULT) if wanted is not None else "the node"
        gateway = f"{ip.gateway}/{ip.address.network.prefixlen}"
        what = f"{link} does not have {gateway}, the gateway of {attachment.name}"
        added = state.commands.ip(f"address add {gateway} dev {link}")
        remedy = added if wanted is not None else f"{state.commands.program} repair"
        yield _fault("gateway-missing", str(ip.gateway), attachment, what, "another program removed it", remedy)


def _mtus(commands: Commands, attachment: KnownAttachment, ends: Ends) -> Iterator[Fault]:
    inside, outside, bridge = ends
    if inside is None or outside is None or outside.kind not in PAIRS:
        return
    links = {link.name: link.mtu for link in (outside, bridge) if link is not None}
    smaller = {name: mtu for name, mtu in links.items() if mtu < inside.mtu}
    if not smaller and outside.mtu == inside.mtu:
        return
    name, mtu = min(smaller.items(), key=lambda item: item[1]) if smaller else (outside.name, outside.mtu)
    what = f"{inside.name} of {attachment.name} has MTU {inside.mtu}, and {name} has {mtu}"
    cause = "packets that are larger than the smaller MTU are dropped without an error"
    set_mtu = commands.ip(f"link set {name} mtu {inside.mtu}")
    remedy = f'{set_mtu}, or "mtu": {min(mtu, inside.mtu)} in the network list'
    yield _fault("mtu-mismatch", name, attachment, what, cause, remedy)


def _ways_back(state: NodeState, attachment: KnownAttachment, ends: Ends) -> Iterator[Fault]:
    """Find routes of the node that lead replies to a pod elsewhere, and strict reverse path filters there."""
    way = ends.bridge if bridge_plugin(attachment) is not None else ends.outside
    if way is None or not way.up or ends.inside is None or ends.inside.kind not in PAIRS:
        return
    for address in pod_addresses(attachment):
        routes = [
            route
            for route in state.here.main_routes()
            if route.dst.version == address.version and address.ip in route.dst and route.dst.prefixlen
        ]
        if not routes:
            continue
        longest = max(route.dst.prefixlen for route in routes)
        through = {state.here.name(route.ifindex) for route in routes if route.dst.prefixlen == longest}
        if way.name in through:
            continue
        elsewhere = ", ".join(sorted(through))
        what = f"the node sends packets for {address.ip} of {attachment.name} to {elsewhere}, not to {way.name}"
        filters = [
            state.sysctl("net.ipv4.conf.all.rp_filter"),
            state.link_sysctl(way.name, "ipv4.conf.rp_filter"),
        ]
        dst = next(route.dst for route in routes if route.dst.prefixlen == longest)
        delete = state.commands.ip(f"route del {dst} dev {elsewhere}")
        if address.version == 4 and max(filters) == "1":  # noqa: PLR2004 -- the family
            cause = f"the strict reverse path filter of {way.name} drops the pod's packets, as a route to {dst} differs"
            loose = state.commands.run(f"sysctl -w net.ipv4.conf.{way.name.replace('.', '/')}.rp_filter=2")
            remedy = f"{loose}, or {delete}"
            yield _fault("rp-filter", way.name, attachment, what, cause, remedy)
        else:
            cause = f"a route to {dst} is more specific"
            yield _fault("node-route", str(dst), attachment, what, cause, delete)


def _duplicates(state: NodeState) -> Iterator[Fault]:
    """Compare the kernel's addresses of pods behind the same bridge, or of one network."""
    found: dict[tuple[str, str], list[KnownAttachment]] = {}
    for attachment in state.known:
        view, ends = state.view_of(attachment), state.ends(attachment)
        if view is None or ends.inside is None or ends.inside.name == _LOOPBACK:
            continue
        domain = ends.bridge.name if ends.bridge is not None else f"network {attachment.network.name}"
        for address in view.state.addresses.get(ends.inside.ifindex, []):
            if not address.is_link_local:
                found.setdefault((domain, str(address.ip)), []).append(attachment)
    for (_, duplicate), having in found.items():
        names = sorted({each.name for each in having})
        if len(names) > 1:
            pods = tuple(dict.fromkeys(each.pod or each.container_id for each in having))
            cause = "an address was set by hand, or reservations were lost"
            remedy = " or ".join(_delete(state, each) for each in having)
            yield Fault("duplicate-address", duplicate, pods, f"{' and '.join(names)} have {duplicate}", cause, remedy)


def _unserved(state: NodeState) -> Iterator[Fault]:
    """Compare what each pod asks of its networks with the capabilities of their plugins."""
    pods: dict[str, list[KnownAttachment]] = {}
    for attachment in state.known:
        if attachment.network.result is not None and state.view_of(attachment) is not None:
            pods.setdefault(attachment.container_id, []).append(attachment)
    for attachments in pods.values():
        pod = attachments[0]
        for request in unserved_requests(each.network for each in attachments):
            # Other projects' networks may have an agent that reads the Kubernetes API, and needs no capability.
            if not pod.is_ours and not set(plugin_names()).issuperset(request.plugins):
                continue
            what = f"{pod.name}: {request.in_words()}"
            file = request.source or f"the file of network {request.network}"
            cause = "the runtime hands such a request only to plugins that declare its capability"
            again = f"{_delete(state, pod)}, then make it again"
            remedy = f"add {_SERVING[request.capability]} to the plugins in {file}; {again}"
            yield _fault("capability-missing", ", ".join(request.asked), pod, what, cause, remedy)


def _fault(check: str, subject: str, attachment: KnownAttachment, what: str, cause: str, remedy: str) -> Fault:
    return Fault(check, subject, (attachment.pod or attachment.container_id,), what, cause, remedy)


def _delete(state: NodeState, attachment: KnownAttachment) -> str:
    if not attachment.is_ours:
        return f"delete the pod {attachment.name} in its runtime"
    namespace, _, name = attachment.pod.partition("/")
    return f"{state.commands.program} del {name}" + (f" --namespace {namespace}" if namespace != "default" else "")
