"""Interfaces that are made in the pod, under their final name: nothing of them is on the host."""

from collections.abc import Callable

from lean.typing import TYPE_CHECKING, TypeVar
from plugins.attach.driver import Driver
from plugins.attach.keys import InterfaceConfig
from skel import CniError, Code

if TYPE_CHECKING:
    from netlink.rtnl import Link, Rtnl

__all__ = ["PodBorn"]

C = TypeVar("C", bound=InterfaceConfig)


class PodBorn(Driver[C]):
    """The driver of a kind whose interface is born in the pod. DEL and CHECK know it by its kind and its alias."""

    def give_birth(self, pod: "Rtnl", create: Callable[[], bool]) -> "Link":
        """Have `create` make the pod's interface, and give it the attachment's alias; return it without the alias.

        `pod` is open for the pod's namespace. `create` returns False if an interface of that name exists. A failing
        ADD deletes the interface. Raises CniError (999) if it exists already, and `create`'s errors.
        """
        ifname = self.args.ifname
        taken = CniError(Code.INTERNAL, f'cannot make "{ifname}" in {self.netns.path}: it exists already')
        if pod.link(ifname) is not None:
            raise taken
        back = self.undo.add(self._delete)
        if not create():
            self.undo.forget(back)
            raise taken
        made = pod.link(ifname)
        if made is None:
            raise CniError(Code.INTERNAL, f'"{ifname}" in {self.netns.path} is gone')
        pod.set_alias(made.ifindex, self.owner.label())
        return made

    def _delete(self) -> None:
        from netlink.rtnl import Rtnl

        with Rtnl(self.netns) as pod:
            pod.delete_link(self.args.ifname)
