"""Leftovers: links, namespaces, cached results and addresses of containers that no runtime knows."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from firewall.owner import Owner
from harness.libcni.networks import NetworkList
from harness.runtime.leftovers import AttachmentSurvey, survey
from harness.runtime.network_addresses import network_addresses
from harness.runtime.node import Node
from harness.runtime.node_snapshot import NODE
from harness.runtime.pods import PodRecordError
from harness.runtime.reservations import read_reservations
from harness.views.node_state import Fault, NodeState

_KILLED = "a runtime or plugin was killed, or the container's DEL failed"
_BY_HAND = "no command frees it safely: remove it if no runtime is adding a pod"


def check_leftovers(state: NodeState, node: Node, networks: Iterable[NetworkList]) -> Iterator[Fault]:
    """Yield the leftovers on a node, and the ranges without a free address. Raises NetlinkError, OSError."""
    networks = list(networks)
    try:
        found = survey(node, networks)
    except PodRecordError:  # the containers on record are not known, so nothing can be called a leftover
        found = Survey((), ())
    yield from _links(state, found)
    yield from _results(state, found)
    yield from _leases(state, node, found)
    for stray in found.strays:
        yield Fault(stray.check, stray.subject, (), stray.what, _KILLED, _BY_HAND)
    yield from _full_ranges(node, networks)


def _remedy(state: NodeState, found: Survey, network: str, container_id: str) -> str:
    """Return a remedy that harms no pod: gc frees leftovers alone, and this says why gc would keep it."""
    known = found.find(network, container_id)
    if known is not None and known.living:
        return f"gc keeps it, since {known.living}: delete the container in its runtime"
    if known is None or not known.can_be_deleted:
        return _BY_HAND
    return f"{state.commands.harness('gc')}, twice: the first one names it, a later one frees it"


def _links(state: NodeState, found: Survey) -> Iterator[Fault]:
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


def _results(state: NodeState, found: Survey) -> Iterator[Fault]:
    for each in state.known:
        if each.is_ours or not each.netns or state.view_of(each) is not None:
            continue
        what = (
            f"a result of container {each.container_id} in network {each.network.name} is cached without its namespace"
        )
        cause = f"{each.netns} is gone: {_KILLED}"
        remedy = _remedy(state, found, each.network.name, each.container_id)
        yield Fault("orphan-result", each.container_id, (each.pod or each.container_id,), what, cause, remedy)


def _leases(state: NodeState, node: Node, found: Survey) -> Iterator[Fault]:
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
