"""Ranges of addresses in a network's `ipam` section for host-local: their bounds, sizes and errors.

The rules are those of host-local, restated here because the harness executes plugins and imports none.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from skel.decoders import Address, Cidr, Network, address, address_or_network, cidr, list_of, optional, record, string
from skel.errors import CniError
from skel.record import Record, field

HOST_LOCAL = "host-local"
_IPV4 = 4
_HOST_BITS_MIN = 2
"""A smaller subnet has no address besides its gateway."""


class _Bounds(Record):
    range_start: Address | None = field(optional(address), default=None)
    range_end: Address | None = field(optional(address), default=None)
    gateway: Address | None = field(optional(address), default=None)
    exclude: list[Network] = field(list_of(address_or_network), default=list)


class _Declared(_Bounds):
    subnet: Cidr = field(cidr)


class HostLocalSection(_Bounds):
    """The keys of host-local's `ipam` section that name the addresses and the folder of their reservations."""

    subnet: Cidr | None = field(cidr, default=None)
    ranges: list[list[_Declared]] = field(list_of(list_of(record(_Declared))), default=list)
    data_dir: str = field(string, default="")


class AddressRange(NamedTuple):
    """A range: all addresses from `first` to `last`, both included, but `gateway` and those of `excluded`.

    `path` is the path of its key; the networks in `excluded` are disjoint.
    """

    path: str
    subnet: Network
    first: Address
    last: Address
    gateway: Address
    excluded: tuple[Network, ...] = ()

    def holds(self, address: Address) -> bool:
        """Tell whether `address` is in the range, and not excluded from it."""
        within = address.version == self.first.version and int(self.first) <= int(address) <= int(self.last)
        return within and not any(address in network for network in self.excluded)

    @property
    def size(self) -> int:
        """The number of addresses for pods."""
        low, high = int(self.first), int(self.last)
        bounds = ((int(each.network_address), int(each.broadcast_address)) for each in self.excluded)
        excluded = sum(max(0, min(last, high) - max(first, low) + 1) for first, last in bounds)
        return high - low + 1 - excluded - self.holds(self.gateway)

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"


def ranges_of(section: Mapping[str, object], path: str = "ipam") -> list[list[AddressRange]]:
    """Return the range sets of an `ipam` section found at `path`, the older spelling's first.

    Raises CniError (7) for a value that is no CIDR or no address.
    """
    return [[_range(each, where) for each, where in declared] for declared in _declared(section, path)]


def range_flaws(
    section: Mapping[str, object], path: str, note: Callable[[str, str], object]
) -> Iterator[tuple[str, str]]:
    """Yield the reasons for which host-local refuses the ranges of a section, each after the path of its key.

    `note` gets oddities in the same form.
    If a value is no CIDR or no address, nothing is yielded: the schema reports it.
    """
    try:
        range_sets = list(_declared(section, path))
    except CniError:
        return
    sound: list[list[AddressRange]] = []
    for ranges in range_sets:
        kept = []
        for declared, where in ranges:
            if flaw := _flaw(declared, where):
                yield flaw
                continue
            kept.append(_range(declared, where))
            if declared.gateway is not None and declared.gateway not in declared.subnet.network:
                note(f"{where}.gateway", f"{declared.gateway} is outside of the subnet {declared.subnet}")
        if len({known.subnet.version for known in kept}) > 1:
            families = " and ".join(str(known.subnet) for known in kept)
            yield kept[0].path.rpartition("[")[0], f"one range set has IPv4 and IPv6 subnets: {families}"
        sound.append(kept)
    yield from _overlaps([known for ranges in sound for known in ranges])


def _declared(section: Mapping[str, object], path: str) -> Iterator[list[tuple[_Declared, str]]]:
    read = HostLocalSection.decode(section, path)
    if read.subnet is not None:
        only = _Declared(
            subnet=read.subnet,
            range_start=read.range_start,
            range_end=read.range_end,
            gateway=read.gateway,
            exclude=read.exclude,
        )
        yield [(only, path)]
    for number, ranges in enumerate(read.ranges):
        yield [(each, f"{path}.ranges[{number}][{index}]") for index, each in enumerate(ranges)]


def _flaw(declared: _Declared, path: str) -> tuple[str, str] | None:
    subnet = declared.subnet.network
    if subnet.max_prefixlen - subnet.prefixlen < _HOST_BITS_MIN:
        return f"{path}.subnet", f"{declared.subnet} is too small to allocate from"
    if declared.subnet.ip != subnet.network_address:
        return f"{path}.subnet", f"{declared.subnet} has host bits, the network is {subnet}"
    for key, value in (("rangeStart", declared.range_start), ("rangeEnd", declared.range_end)):
        if value is not None and value not in subnet:
            return f"{path}.{key}", f"{value} is outside of the subnet {subnet}"
    if declared.gateway is not None and declared.gateway.version != subnet.version:
        return f"{path}.gateway", f"{declared.gateway} is not of the family of the subnet {subnet}"
    known = _range(declared, path)
    if int(known.first) > int(known.last):
        return path, f"the range ends at {known.last}, before its start {known.first}"
    return _exclude_flaw(known, declared.exclude)


def _exclude_flaw(known: AddressRange, exclude: Sequence[Network]) -> tuple[str, str] | None:
    for number, excluded in enumerate(exclude):
        if excluded.network_address not in known.subnet or excluded.broadcast_address not in known.subnet:
            return f"{known.path}.exclude[{number}]", f"{excluded} is outside of the subnet {known.subnet}"
    if exclude and known.size + known.holds(known.gateway) <= 0:
        return f"{known.path}.exclude", f"no address of {known} remains"
    return None


def _range(declared: _Declared, path: str) -> AddressRange:
    subnet = declared.subnet.network
    make = type(subnet.network_address)
    network, broadcast = int(subnet.network_address), int(subnet.broadcast_address)
    second = make(min(network + 1, broadcast))
    # IPv6 has no broadcast address to leave out.
    last = make(max(broadcast - (subnet.version == _IPV4), network))
    return AddressRange(
        path,
        subnet,
        first=declared.range_start or second,
        last=declared.range_end or last,
        gateway=declared.gateway or second,
        excluded=_disjoint(declared.exclude),
    )


def _disjoint(networks: Iterable[Network]) -> tuple[Network, ...]:
    """Return the networks without those that lie in another one; two networks never overlap in part."""
    kept: list[Network] = []
    for network in sorted(networks, key=lambda each: each.prefixlen):
        if not any(network.network_address in each for each in kept):
            kept.append(network)
    return tuple(kept)


def _overlaps(ranges: Sequence[AddressRange]) -> Iterator[tuple[str, str]]:
    for one, other in combinations(ranges, 2):
        if one.holds(other.first) or other.holds(one.first):
            yield other.path, f"{other} overlaps with {one} of {one.path}"
