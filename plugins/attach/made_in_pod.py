"""Interfaces that are made in the pod: nothing of them is on the host."""

from fast_stdlib.typing import TYPE_CHECKING, TypeVar
from plugins.attach.driver import Adding, Driver
from plugins.attach.interface_config import InterfaceConfig
from skel import CniError, Code

if TYPE_CHECKING:
    from collections.abc import Callable

    from netlink.link import Link
    from netlink.namespace import Namespace
    from netlink.request import RtnlRequest
    from netlink.rtnl import Rtnl

C = TypeVar("C", bound=InterfaceConfig)


class MadeInPod(Driver[C]):
    """The driver of a kind whose interface is made in the pod. DEL and CHECK know it by its kind and its alias."""

    def make_in_pod(
        self,
        at: Adding,
        pod: "Rtnl",
        create: "Callable[[str, RtnlRequest[Link | None]], bool]",
        *,
        passing_name: str = "",
        refusal: CniError | None = None,
    ) -> int:
        """Have `create` make the pod's interface, and give it the attachment's alias; return its ifindex.

        `pod` is open for the pod's namespace. `create` gets a name, and a look-up of that name to send after making
        the link; it returns False, having changed nothing, if the kernel refuses the name. Then the link is made as
        `passing_name`, if there is one, and renamed.

        A failing ADD deletes the interface. Raises CniError (999) if it exists already, `refusal` (by default the
        same) if every name is refused, and `create`'s errors.
        """
        from netlink.link import find_link

        ifname = self.args.ifname
        taken = CniError(Code.INTERNAL, f'cannot make "{ifname}" in {at.netns.path}: it exists already')
        if pod.link(ifname) is not None:
            raise taken
        for name in filter(None, (ifname, passing_name)):
            back = at.undo.add(_delete, at.netns, name)
            found = find_link(name)
            if create(name, found):
                break
            at.undo.forget(back)
        else:
            raise refusal or taken
        made = found.answer
        if made is None:
            raise CniError(Code.INTERNAL, f'"{name}" in {at.netns.path} is gone')
        if name != ifname:
            at.undo.add(_delete, at.netns, made.ifindex)
            pod.rename(made.ifindex, ifname)
        pod.set_alias(made.ifindex, self.owner.label())
        return made.ifindex


def _delete(netns: "Namespace", name_or_ifindex: str | int) -> None:
    from netlink.rtnl import Rtnl

    with Rtnl(netns) as pod:
        pod.delete_link(name_or_ifindex)
