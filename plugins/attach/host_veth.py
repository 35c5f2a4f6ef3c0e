"""The host's end of a pod's veth or netkit pair: found from the attachment alone.

Its name follows from the container ID and the interface name, so DEL needs neither the pod's namespace nor a record of
the ADD. Its alias names the attachment, for people and for GC. A veth without one is of the reference suite: REPAIR
puts firewall rules back in the form of the suite that made the attachment. So a node that goes back to the reference
plugins loses nothing, because their DEL finds the rules.
"""

from fast_stdlib.contextlib import nullcontext
from fast_stdlib.hashing import sha256
from fast_stdlib.typing import TYPE_CHECKING, Any
from plugins.attach.attachment import kept_rtnl
from skel import Args

if TYPE_CHECKING:
    from collections.abc import Collection

    from firewall.owner import Owner
    from netlink.rtnl import Rtnl

_IFNAME_MAX = 15


def host_veth_name(container_id: str, ifname: str) -> str:
    """Return the name of an attachment's host veth: "veth" and 44 bits of a hash, which fills an interface name."""
    digest = sha256(f"{container_id}\0{ifname}".encode()).hexdigest()
    return f"veth{digest}"[:_IFNAME_MAX]


def collect_host_veths(network: str, valid: "Collection[Owner]") -> None:
    """Delete the host veths of attachments of `network` that are not `valid`. Raises OSError, CniError.

    The alias finds them, so a pod that has lost its bridge is found, too.
    """
    from firewall.owner import Owner
    from netlink.kinds import PAIRS
    from netlink.rtnl import Rtnl
    from skel.steps import Steps

    with Rtnl() as host, Steps() as steps:
        for link in host.links():
            owner = Owner.from_label(link.alias) if link.kind in PAIRS else None
            if owner is not None and owner.in_network(network) and owner not in valid:
                steps.take(host.delete_link, link.ifindex)


def is_of_reference(args: Args[Any], host: "Rtnl | None" = None) -> bool:
    """Tell whether the reference suite has made the host veths in prevResult: ours have an alias. Raises OSError.

    False for an attachment without a veth on the host. `host` is a socket that is open already.
    """
    from firewall.owner import Owner
    from netlink.link import find_link

    result = args.prev_result
    names = [interface.name for interface in result.interfaces if not interface.sandbox] if result else []
    with kept_rtnl(args) if host is None else nullcontext(host) as rtnl:
        found = [find_link(name) for name in names]
        rtnl.send(*found)
    links = [link for each in found if (link := each.answer) is not None and link.kind == "veth"]
    return bool(links) and all(Owner.from_label(link.alias) is None for link in links)
