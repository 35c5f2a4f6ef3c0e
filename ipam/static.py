"""static: the addresses, routes and DNS settings that the configuration or the runtime names.

It reserves nothing and keeps no state: two pods that are given one address both get it. So DEL, GC and REPAIR have
nothing to do.
"""

from fast_stdlib.typing import Callable, TypeVar
from skel import (
    DNS,
    Address,
    Args,
    Cidr,
    CniError,
    Code,
    Config,
    IpamConfig,
    IPConfig,
    Plugin,
    Record,
    Result,
    Route,
    address,
    cidr,
    field,
    list_of,
    optional,
    record,
    string,
)
from skel.versions import REFERENCE_RELEASE, at_least

_T = TypeVar("_T")

_GATEWAY = optional(address)


class StaticAddress(Record):
    """One of `ipam.addresses`."""

    address: Cidr = field(cidr)
    gateway: Address | None = field(_GATEWAY, default=None)


class StaticIpam(IpamConfig):
    """The `ipam` section."""

    addresses: list[StaticAddress] = field(list_of(record(StaticAddress)), default=list)
    routes: list[Route] = field(list_of(record(Route)), default=list)
    dns: DNS = field(record(DNS), default=DNS)


class _Ips(Record):
    """`runtimeConfig`, or `args.cni`. Strings, so that DEL never fails for a value that ADD rejected."""

    ips: list[str] = field(list_of(string), default=list)


class _Args(Record):
    cni: _Ips = field(record(_Ips), default=_Ips)


class StaticConfig(Config):
    """The part of a network configuration that static reads."""

    ipam: StaticIpam = field(record(StaticIpam), default=StaticIpam)
    runtime_config: _Ips = field(record(_Ips), default=_Ips)
    args: _Args = field(record(_Args), default=_Args)


def add(args: Args[StaticConfig]) -> Result:
    """Return the addresses, routes and DNS settings. Raises CniError (7; 4 for CNI_ARGS)."""
    ips = _ips(args)
    if not ips:
        places = "ipam.addresses, runtimeConfig.ips, args.cni.ips or IP of CNI_ARGS"
        raise CniError(Code.INVALID_CONFIG, f"ipam.addresses: expected at least one address in {places}, got none")
    ipam = args.config.ipam
    return Result(ips=ips, routes=ipam.routes, dns=ipam.dns)


def check(args: Args[StaticConfig]) -> None:
    """Raise CniError: 999 for an address that prevResult lacks, or has with another gateway; also 4, 7."""
    if args.prev_result is None:
        raise CniError(Code.INVALID_CONFIG, "prevResult: required key is missing")
    found = {ip.address: ip.gateway for ip in args.prev_result.ips}
    for ip in _ips(args):
        if ip.address not in found:
            raise CniError(Code.INTERNAL, f"address {ip.address} of {args.ifname} is missing in prevResult")
        if ip.gateway not in {None, found[ip.address]}:
            gateway = found[ip.address]
            message = f"gateway of {ip.address} is {gateway} in prevResult, the configuration says {ip.gateway}"
            raise CniError(Code.INTERNAL, message)


def nothing(_: Args[StaticConfig]) -> None:
    """Do nothing: no address is reserved anywhere."""


def status(args: Args[StaticConfig]) -> None:
    """Raise CniError (7) for addresses that no ADD can give. A runtime may name them later, pod by pod."""
    _ips(args)


def _ips(args: Args[StaticConfig]) -> list[IPConfig]:
    """Return the addresses that count: the runtime's, else those of `args`, else the configuration's and CNI_ARGS'.

    Raises CniError (7, or 4 for CNI_ARGS), also for several of a family if the version cannot express them.
    """
    config = args.config
    if config.runtime_config.ips:
        ips = _each(config.runtime_config.ips, "runtimeConfig.ips")
    elif config.args.cni.ips:
        ips = _each(config.args.cni.ips, "args.cni.ips")
    else:
        ips = [IPConfig(address=each.address, gateway=each.gateway) for each in config.ipam.addresses]
        ips += _of_cni_args(args)
    families = [ip.address.version for ip in ips]
    if len(families) > len(set(families)) and not at_least(config.cni_version, "0.3.0"):
        message = f'cniVersion: "{config.cni_version}" allows one address a family, there are {len(families)} addresses'
        raise CniError(Code.INVALID_CONFIG, message)
    return ips


def _each(texts: list[str], path: str) -> list[IPConfig]:
    return [IPConfig(address=cidr(text, f"{path}[{index}]")) for index, text in enumerate(texts)]


def _of_cni_args(args: Args[StaticConfig]) -> list[IPConfig]:
    """Return the addresses of `IP`, each with the last of `GATEWAY` that is in its network. Raises CniError (4)."""
    ips = [IPConfig(address=each) for each in _listed(args.cni_args.get("IP", ""), cidr, "IP")]
    for gateway in _listed(args.cni_args.get("GATEWAY", ""), address, "GATEWAY"):
        for ip in ips:
            if gateway in ip.address.network:
                ip.gateway = gateway
    return ips


def _listed(text: str, decode: Callable[[object, str], _T], key: str) -> list[_T]:
    """Read a list with commas. Raises CniError (4)."""
    try:
        return [decode(item.strip(), f"CNI_ARGS: {key}") for item in text.split(",")] if text else []
    except CniError as error:
        raise CniError(Code.INVALID_ENVIRONMENT, error.msg) from None


PLUGIN = Plugin(
    "static",
    config=StaticConfig,
    add=add,
    check=check,
    delete=nothing,
    gc=nothing,
    status=status,
    repair=nothing,
    env_args=("IP", "GATEWAY", "MAC"),  # MAC is for the interface plugin, which passes its CNI_ARGS on unchanged
    version=REFERENCE_RELEASE,
)
