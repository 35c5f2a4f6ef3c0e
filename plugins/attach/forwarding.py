"""Forwarding by the host's kernel, for pods whose gateway is the host."""

from lean.typing import Iterable
from netlink.sysctl import read_sysctl, write_sysctl
from skel import Cidr, CniError, Code

_FORWARDING = {4: "net/ipv4/ip_forward", 6: "net/ipv6/conf/all/forwarding"}


def forward(gateways: Iterable[Cidr]) -> None:
    """Let the kernel forward packets of the gateways' families. Raises OSError."""
    for key in _keys(gateways):
        write_sysctl(key, "1")


def check_forwarding(gateways: Iterable[Cidr]) -> None:
    """Raise CniError (999) for a family of the gateways that the kernel does not forward."""
    for key in _keys(gateways):
        if read_sysctl(key) == "0":
            raise CniError(Code.INTERNAL, f"{key.replace('/', '.')} is 0: packets of pods are not forwarded")


def _keys(gateways: Iterable[Cidr]) -> list[str]:
    return [_FORWARDING[version] for version in sorted({gateway.version for gateway in gateways})]
