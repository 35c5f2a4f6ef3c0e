"""The input of host-local: its configuration, its ranges and the addresses that a runtime asks for."""

from fast_stdlib.typing import Callable, TypeVar
from skel import (
    UNKNOWN,
    Address,
    Args,
    Cidr,
    CniError,
    Code,
    Config,
    IpamConfig,
    Network,
    Record,
    Route,
    address,
    address_or_network,
    boolean,
    cidr,
    expected,
    field,
    list_of,
    optional,
    record,
    string,
)
from skel.record import Decoder
from skel.versions import at_least

from .ranges import Range, RangeSet, resolve

T = TypeVar("T")

DATA_DIR = "/var/lib/cni/networks"
_ANY_NUMBER = 1 << 32


def later(decode: Decoder[T]) -> Decoder[Callable[[], T]]:
    """Decode a value when it is used, not when the configuration is read.

    Per-pod keys are decoded in the same way, so that DEL never fails on input that ADD rejected.
    """
    return lambda value, path: lambda: decode(value, path)


def requested_address(value: object, path: str) -> Address:
    """Decode a requested address; a prefix length, which some runtimes send, is ignored."""
    text = string(value, path)
    try:
        return address(str(cidr(text, path).ip) if "/" in text else text, path)
    except CniError:
        raise expected("an IP address, with or without a prefix", value, path) from None


def file_path(value: object, path: str) -> str:
    """Decode a path."""
    text = string(value, path)
    if "\0" in text:
        raise expected("a path", value, path)
    return text


class HostLocalIpam(IpamConfig):
    """The `ipam` section; the keys from `subnet` to `gateway` are the old style's only range."""

    # A DEL that does not know the ranges looks for all reservations.
    subnet: Cidr | None = field(cidr, default=None, unreadable=UNKNOWN)
    range_start: Address | None = field(optional(address), default=None)
    range_end: Address | None = field(optional(address), default=None)
    gateway: Address | None = field(optional(address), default=None)
    exclude: list[Network] = field(list_of(address_or_network), default=list)
    ranges: list[list[Range]] = field(list_of(list_of(record(Range))), default=list, unreadable=UNKNOWN)
    routes: Callable[[], list[Route]] = field(later(list_of(record(Route))), default=lambda: list)
    """Decoded lazily, so that DEL takes no time for 10,000 routes."""
    data_dir: str = field(file_path, default="", unreadable=UNKNOWN)
    resolv_conf: str = field(file_path, default="")
    status_fails_when_full: bool = field(boolean, default=False)


class HostLocalRuntimeConfig(Record):
    """The runtime's values for the capabilities `ips` and `ipRanges`."""

    ips: Callable[[], list[Address]] = field(later(list_of(requested_address)), default=lambda: list)
    ip_ranges: Callable[[], list[list[Range]]] = field(later(list_of(list_of(record(Range)))), default=lambda: list)


class CniConventionArgs(Record):
    """`args.cni` (CONVENTIONS.md, "args")."""

    ips: list[Address] = field(list_of(requested_address), default=list)


class ConventionArgs(Record):
    """`args`."""

    cni: CniConventionArgs = field(record(CniConventionArgs), default=CniConventionArgs)


class HostLocalConfig(Config):
    """The part of a network configuration that host-local reads."""

    ipam: HostLocalIpam = field(record(HostLocalIpam))
    runtime_config: Callable[[], HostLocalRuntimeConfig] = field(
        later(record(HostLocalRuntimeConfig)), default=lambda: HostLocalRuntimeConfig
    )
    args: Callable[[], ConventionArgs] = field(later(record(ConventionArgs)), default=lambda: ConventionArgs)


def range_sets_of(config: HostLocalConfig) -> list[RangeSet]:
    """Return all range sets: first the runtime's, then the old style's, then the sets of `ranges`.

    Raises CniError (7) for ranges that cannot be read or are not sound. Raises it also for
    more than one address a family if the configuration's version cannot express that.
    """
    ipam = config.ipam
    of_the_pod = config.runtime_config().ip_ranges()
    declared = [(f"runtimeConfig.ipRanges[{index}]", ranges) for index, ranges in enumerate(of_the_pod)]
    if ipam.subnet is not None:
        only = Range(
            subnet=ipam.subnet,
            range_start=ipam.range_start,
            range_end=ipam.range_end,
            gateway=ipam.gateway,
            exclude=ipam.exclude,
        )
        declared.append(("ipam", [only]))
    elif ipam.exclude:
        wanted = "ipam.subnet beside it, or the key in a range of ipam.ranges"
        raise expected(wanted, list(map(str, ipam.exclude)), "ipam.exclude")
    declared += [(f"ipam.ranges[{index}]", ranges) for index, ranges in enumerate(ipam.ranges)]
    if not declared:
        raise expected("at least one range set, or ipam.subnet", ipam.ranges, "ipam.ranges")
    range_sets = resolve(declared)
    families = [range_set.version for range_set in range_sets]
    if len(families) > len(set(families)) and not at_least(config.cni_version, "0.3.0"):
        message = (
            f'cniVersion: "{config.cni_version}" allows one address a family, there are {len(families)} range sets'
        )
        raise CniError(Code.INVALID_CONFIG, message)
    return range_sets


def range_set_count(config: HostLocalConfig) -> int:
    """Return the number of range sets, sound or not. An ADD reserves this number of addresses.

    The number of unreadable ones is not limited.
    """
    try:
        of_the_pod = len(config.runtime_config().ip_ranges())
    except CniError:
        of_the_pod = 0  # ADD has refused them
    try:
        return of_the_pod + (config.ipam.subnet is not None) + len(config.ipam.ranges)
    except CniError:
        return _ANY_NUMBER


def ranges_come_with_pods(config: HostLocalConfig) -> bool:
    """Tell whether the configuration has no range sets, and each pod gets its own by the capability `ipRanges`."""
    return config.capabilities.get("ipRanges", False) and not range_set_count(config)


def requests_of(args: Args[HostLocalConfig], range_sets: list[RangeSet]) -> dict[int, Address]:
    """Return the requested addresses by the index of their range set.

    Raises CniError (7, or 4 for CNI_ARGS) for an invalid address, or one that no range set can give.
    """
    assigned: dict[int, Address] = {}
    for asked, path in _requested(args).items():
        index = next((index for index, known in enumerate(range_sets) if known.find(asked)), None)
        if index is None:
            raise expected("an address of the network's ranges", str(asked), path)
        if asked in range_sets[index].gateways:
            raise expected("an address that is not the gateway", str(asked), path)
        if index in assigned:
            what = f"one address of range set {range_sets[index].path}, beside {assigned[index]}"
            raise expected(what, str(asked), path)
        assigned[index] = asked
    return assigned


def _requested(args: Args[HostLocalConfig]) -> dict[Address, str]:
    """Return the requested addresses, each with the place of the request.

    CONVENTIONS.md, "CNI_ARGS": a plugin that understands `args` ignores the same request in CNI_ARGS.
    """
    requested: dict[Address, str] = {}
    of_args = args.config.args().cni.ips
    if not of_args and (asked := args.cni_args.get("IP")):
        try:
            requested[requested_address(asked, "CNI_ARGS: IP")] = "CNI_ARGS: IP"
        except CniError as error:
            raise CniError(Code.INVALID_ENVIRONMENT, error.msg) from None
    for path, addresses in (("args.cni.ips", of_args), ("runtimeConfig.ips", args.config.runtime_config().ips())):
        for index, asked_address in enumerate(addresses):
            requested.setdefault(asked_address, f"{path}[{index}]")
    return requested
