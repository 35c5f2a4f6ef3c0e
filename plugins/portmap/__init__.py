"""portmap: ports of the host lead to the pod, as the runtime asks for them in `runtimeConfig.portMappings`."""

from lean.typing import TYPE_CHECKING
from plugins.attach.attachment import firewall_of, kept_rtnl, owner_of, required_result, valid_owners
from plugins.portmap.config import PortmapConfig
from skel import Args, CniError, Code, Plugin, Result, Undo
from skel.versions import REFERENCE_RELEASE

if TYPE_CHECKING:
    from firewall.port_mapping import Forwarding

__all__ = ["PLUGIN", "PortmapConfig"]

_IPV4 = 4
_EARLIER = (
    "warning: rules of an earlier version: with bridge-nf-call-iptables=1, pods do not reach their own host ports; the "
    "next ADD, or `cni-harness repair`, completes them"
)


def add(args: Args[PortmapConfig]) -> Result:
    """Lead the ports to the pod and return the result of the plugins before. Raises CniError, OSError."""
    config, result = args.config, required_result(args)
    config.check_for_add()
    forwarding = _with_interfaces(args)
    if not forwarding.mappings:
        return result
    from firewall import port_mappings

    owner, tables = owner_of(args), firewall_of(args)
    with Undo(args.log, args.interruption) as undo:
        _route_localnet(forwarding)
        undo.add(port_mappings.remove, tables, owner, forwarding)
        port_mappings.apply(tables, owner, forwarding, config.chosen_backend())
    return result


def delete(args: Args[PortmapConfig]) -> None:
    """Remove all ports of the attachment, and end the UDP flows through them. Raises CniError, OSError."""
    from firewall import port_mappings

    port_mappings.remove(firewall_of(args), owner_of(args), args.config.forwarding(args))


def check(args: Args[PortmapConfig]) -> None:
    """Raise CniError (999) for a port that does not lead to the pod.

    Rules of an earlier version of ours count, with a warning: an upgrade breaks no pod.
    """
    config = args.config
    required_result(args)
    config.check_for_add()
    forwarding = _with_interfaces(args)
    if not forwarding.mappings:
        return
    from firewall import port_mappings

    missing = port_mappings.missing(firewall_of(args), owner_of(args), forwarding)
    if missing is not None and port_mappings.held_by_earlier_rules(firewall_of(args), owner_of(args), forwarding):
        args.log(_EARLIER)
        missing = None
    if missing:
        ports = ", ".join(mapping.described() for mapping in missing)
        raise CniError(Code.INTERNAL, f"host ports do not lead to the pod: {ports}")
    if missing is not None:
        raise CniError(Code.INTERNAL, "host ports do not lead to the pod: rules that all ports share are missing")
    from netlink.sysctl import read_sysctl

    for interface in _localnet_interfaces(forwarding):
        if read_sysctl(_localnet(interface)) == "0":
            raise CniError(Code.INTERNAL, f"{_localnet(interface)} is 0: the ports do not work from 127.0.0.1")


def gc(args: Args[PortmapConfig]) -> None:
    """Remove the ports of attachments of this network that are no longer valid. Raises CniError, OSError."""
    from firewall import port_mappings

    valid = valid_owners(args)
    if valid is not None:
        port_mappings.collect(firewall_of(args), args.config.name, valid)


def status(args: Args[PortmapConfig]) -> None:
    """Raise CniError (7) for keys that contradict each other, and (50) if the backend's programs are missing."""
    args.config.check_for_add()
    names = args.config.programs()
    if not names:
        return
    from firewall.iptables_program import find

    for name in names:
        if find(name, args.environ) is None:
            raise CniError(Code.NOT_AVAILABLE, f'no program "{name}" on PATH, which this configuration needs')


def repair(args: Args[PortmapConfig]) -> None:
    """Put back what is missing; for an attachment of the reference suite, in its form. Raises CniError, OSError."""
    from firewall import port_mappings
    from plugins.attach.host_veth import is_of_reference

    required_result(args)
    forwarding = _with_interfaces(args)
    if not forwarding.mappings:
        return
    _route_localnet(forwarding)
    config, by_reference = args.config, is_of_reference(args)
    backend = config.backend_of_reference(args.environ) if by_reference else config.chosen_backend()
    port_mappings.repair(firewall_of(args), owner_of(args), forwarding, backend, by_reference=by_reference)


def _with_interfaces(args: Args[PortmapConfig]) -> "Forwarding":
    """Return the ports with the host's interfaces towards the pod, as its routes are now. Raises OSError."""
    forwarding = args.config.forwarding(args)
    if not forwarding.mappings:
        return forwarding
    interfaces = {}
    with kept_rtnl(args) as host:
        for own in forwarding.pod:
            route = host.route_to(own.ip)
            link = host.link(route.ifindex) if route and route.ifindex else None
            if link is not None:
                interfaces[own.ip] = link.name
    return forwarding._replace(interfaces=interfaces)


def _localnet_interfaces(forwarding: "Forwarding") -> list[str]:
    """Return the interfaces that must pass packets from 127.0.0.0/8."""
    return [name for own, name in forwarding.interfaces.items() if forwarding.snat and own.version == _IPV4]


def _localnet(interface: str) -> str:
    return f"net/ipv4/conf/{interface}/route_localnet"


def _route_localnet(forwarding: "Forwarding") -> None:
    """Let packets from 127.0.0.0/8 reach the pod. Other pods may rely on it, so it stays. Raises OSError."""
    from netlink.sysctl import write_sysctl

    for interface in _localnet_interfaces(forwarding):
        write_sysctl(_localnet(interface), "1")


PLUGIN = Plugin(
    "portmap",
    config=PortmapConfig,
    add=add,
    delete=delete,
    check=check,
    gc=gc,
    status=status,
    repair=repair,
    version=REFERENCE_RELEASE,
)
