"""An attachment: one interface of one container on one network (SPEC.md section 3)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from skel.environment import check_container_id, check_ifname
from skel.errors import CniError, Code

PROTOCOL_VARIABLES = ("CNI_COMMAND", "CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS", "CNI_PATH")
"""The environment variables of a request; the plugin inherits every other variable unchanged."""


@dataclass(frozen=True)
class ContainerAttachment:
    """The runtime's parameters for one attachment.

    `netns` is the path of the network namespace, empty when it is gone. `cni_args` are the pairs of CNI_ARGS in
    their order; `capability_args` maps a capability to any JSON value.
    """

    container_id: str
    netns: str
    ifname: str
    cni_args: tuple[tuple[str, str], ...] = ()
    capability_args: Mapping[str, object] = field(default_factory=dict)

    def check(self) -> None:
        """Raise `CniError` (code 3 or 4) if the container ID or the interface name is invalid."""
        check_container_id(self.container_id)
        check_ifname(self.ifname)

    def check_args(self) -> None:
        """Raise `CniError` (code 4) for a pair that CNI_ARGS cannot represent unchanged."""
        for key, value in self.cni_args:
            if not key or any(sign in key + value for sign in "=;\0"):
                detail = "a pair is K=V, and neither side can hold '=' or ';'"
                raise CniError(Code.INVALID_ENVIRONMENT, f'CNI_ARGS: invalid pair "{key}={value}"', detail)

    def environment(self) -> dict[str, str]:
        """Return the CNI_* variables of this attachment; the caller adds CNI_COMMAND and CNI_PATH."""
        return {
            "CNI_CONTAINERID": self.container_id,
            "CNI_NETNS": self.netns,
            "CNI_IFNAME": self.ifname,
            "CNI_ARGS": ";".join(f"{key}={value}" for key, value in self.cni_args),
        }
