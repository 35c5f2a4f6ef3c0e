"""The IFB of an attachment: the link of the host that sends a pod's packets on, at its rate.

The kernel can delay packets that a link sends, and none that it receives. So those from the pod are redirected to an
IFB (intermediate functional block), which sends them.
"""

from fast_stdlib.hashing import sha512
from fast_stdlib.typing import TYPE_CHECKING, Collection, Final
from firewall.owner import Owner
from netlink.link import Link, find_link
from netlink.request import RtnlSocket
from skel import CniError, Code, Context

if TYPE_CHECKING:
    from netlink.rtnl import Rtnl
    from skel import Undo

KIND: Final = "ifb"
_PREFIX: Final = "bwp"
_IFNAME_MAX: Final = 15


def _names(owner: Owner) -> tuple[str, str]:
    """Return the reference's name, then the one for a second interface of the pod in the same network."""
    hashed = (f"{owner.network}{owner.container_id}", f"{owner.network}\0{owner.container_id}\0{owner.ifname}")
    first, second = (f"{_PREFIX}{sha512(each.encode()).hexdigest()}"[:_IFNAME_MAX] for each in hashed)
    return first, second


def find_ifb(host: RtnlSocket, owner: Owner) -> Link | None:
    """Return the IFB of an attachment, one that the reference has made included, or None. Raises NetlinkError."""
    looks = [find_link(name) for name in _names(owner)]
    host.send(*looks)
    first, second = (look.answer for look in looks)
    # The reference gives an IFB no alias, and both of a pod's interfaces in one network would share its name.
    if second is not None:
        return second
    return first if first is not None and Owner.from_label(first.alias) in {None, owner} else None


def create_ifb(host: "Rtnl", owner: Owner, undo: "Undo", *, mtu: int, mac: str) -> Link:
    """Make the IFB, down and without an alias; `mtu` is in bytes. Raises CniError if its names are taken."""
    from plugins.attach.host_veth import delete_own

    for name in _names(owner):
        back = undo.add(delete_own, host, name, mac)
        found = find_link(name)
        if host.create_link(KIND, name, mtu=mtu, mac=mac, looks=[found]) and found.answer is not None:
            return found.answer
        undo.forget(back)
    raise CniError(Code.INTERNAL, f"cannot limit egress: interfaces named {' and '.join(_names(owner))} exist already")


def delete_ifb(owner: Owner, context: Context) -> None:
    """Delete the IFB of an attachment, if there is one. Raises OSError."""
    with RtnlSocket() as host:
        found = find_ifb(host, owner)
    if found is not None and found.kind == KIND:
        from netlink.link_removal import remove_link

        remove_link(found.ifindex, waiting=context.interruption.waiting, afterwards=context.afterwards)


def collect_ifbs(network: str, valid: Collection[Owner]) -> None:
    """Delete the IFBs of attachments of a network that are not `valid`. Raises OSError, CniError.

    The reference's IFBs have no alias, so their network is unknown. One is deleted if it is up and gets no link's
    packets: then its pod's interface is gone.
    """
    from netlink.rtnl import Rtnl
    from netlink.shaper import redirect_targets
    from skel.steps import Steps

    kept = {name for owner in valid for name in _names(owner)}
    with Rtnl() as host, Steps() as steps:
        found = [link for link in host.links() if link.kind == KIND and link.name.startswith(_PREFIX)]
        nameless = [link for link in found if not link.alias and link.up and link.name not in kept]
        used = redirect_targets(host) if nameless else set()
        for link in found:
            owner = Owner.from_label(link.alias)
            is_stale = owner is not None and owner.in_network(network) and owner not in valid
            if is_stale or (link in nameless and link.ifindex not in used):
                steps.take(host.delete_link, link.ifindex)
