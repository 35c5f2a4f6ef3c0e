"""Gateways and default routes that follow from the addresses of an IPAM plugin, and the host's forwarding for them."""

import ipaddress

from fast_stdlib.typing import Iterable
from skel import Address, Cidr, CniError, Code, IPConfig, Network, Result, Route, with_length

DEFAULT_NETWORKS: dict[int, Network] = {4: ipaddress.ip_network("0.0.0.0/0"), 6: ipaddress.ip_network("::/0")}

_FORWARDING = {4: "net/ipv4/ip_forward", 6: "net/ipv6/conf/all/forwarding"}


def set_gateways(ips: list[IPConfig]) -> list[Cidr]:
    """Give each address without a gateway the first of its network; return all gateways, as a bridge holds them.

    Raises CniError (7) if the network has no such address, and for a gateway of another family than its address.
    """
    for ip in ips:
        network = ip.address.network
        ip.gateway = gateway = ip.gateway or _first_of(network)
        if gateway.version != network.version:
            message = f"ipam: {ip.address} has {gateway} for its gateway, an address of another family"
            raise CniError(Code.INVALID_CONFIG, message)
    return held_gateways(ips)


def held_gateways(ips: Iterable[IPConfig]) -> list[Cidr]:
    """Return the gateways of addresses as a bridge holds them: with the prefix lengths of the addresses."""
    held = [with_length(ip.gateway, ip.address.network.prefixlen) for ip in ips if ip.gateway is not None]
    return list(dict.fromkeys(held))


def gateway_of(result: Result, version: int) -> Address | None:
    """Return the first gateway of a family: that of routes without one (SPEC.md section 5, `gw`)."""
    return next((ip.gateway for ip in result.ips if ip.gateway is not None and ip.gateway.version == version), None)


def add_default_routes(result: Result) -> None:
    """Give each family with a gateway a default route, unless the result has one."""
    for version in dict.fromkeys(ip.address.version for ip in result.ips):
        default = DEFAULT_NETWORKS[version]
        gateway = gateway_of(result, version)
        if gateway is not None and not any(route.dst == default for route in result.routes):
            result.routes.append(Route(dst=default, gw=gateway))


def _first_of(network: Network) -> Address:
    try:
        return network.network_address + 1
    except ipaddress.AddressValueError:
        raise CniError(Code.INVALID_CONFIG, f"ipam: {network} has no gateway, and no address for one") from None


def forward(gateways: Iterable[Cidr]) -> None:
    """Let the kernel forward packets of the gateways' families. Raises OSError."""
    from netlink.sysctl import write_sysctl

    for key in _keys(gateways):
        write_sysctl(key, "1")


def check_forwarding(gateways: Iterable[Cidr]) -> None:
    """Raise CniError (999) for a family of the gateways that the kernel does not forward."""
    from netlink.sysctl import read_sysctl

    for key in _keys(gateways):
        if read_sysctl(key) == "0":
            raise CniError(Code.INTERNAL, f"{key.replace('/', '.')} is 0: packets of pods are not forwarded")


def _keys(gateways: Iterable[Cidr]) -> list[str]:
    return sorted({_FORWARDING[gateway.version] for gateway in gateways})
