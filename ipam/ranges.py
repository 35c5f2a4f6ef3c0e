"""Ranges of addresses: their declaration, their checks, and the order of allocation.

An attachment gets one address of each range set, and a range set is a list of
ranges of one family. The rules and defaults are the reference plugin's.

The arithmetic is the standard library's: `ipaddress` is loaded anyway to read
a configuration. netaddr would cost 30 to 40 ms more at every start, and does
not make "the next address" simpler.
"""

from bisect import bisect_left, bisect_right
from functools import cached_property
from itertools import pairwise

from fast_stdlib.typing import Iterable, Iterator, NamedTuple, Sequence
from skel import (
    Address,
    Cidr,
    CniError,
    Code,
    Network,
    Record,
    address,
    address_or_network,
    cidr,
    expected,
    field,
    list_of,
    optional,
)

_HOST_BITS_MIN = 2
"""A network with fewer host bits (/31, /32, /127, /128) has no address to allocate besides its gateway."""
_IPV4 = 4


class Range(Record):
    """A range as the configuration declares it; first and last address included."""

    subnet: Cidr = field(cidr)
    range_start: Address | None = field(optional(address), default=None)
    range_end: Address | None = field(optional(address), default=None)
    gateway: Address | None = field(optional(address), default=None)
    exclude: list[Network] = field(list_of(address_or_network), default=list)
    """Networks of which no address is given away."""


class AddressSpan(NamedTuple):
    """A checked range: all addresses from `first` to `last`, both included."""

    subnet: Network
    first: Address
    last: Address
    gateway: Address

    def holds(self, address: Address) -> bool:
        """Tell whether `address` is in this range."""
        return address.version == self.first.version and int(self.first) <= int(address) <= int(self.last)

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"


class Gateways(frozenset[Address]):
    """The gateways of some ranges."""

    @cached_property
    def _numbers(self) -> list[tuple[int, int]]:
        return sorted((gateway.version, int(gateway)) for gateway in self)

    def within(self, span: AddressSpan) -> int:
        """Return how many of the gateways are addresses of `span`."""
        first, last = ((address.version, int(address)) for address in (span.first, span.last))
        return bisect_right(self._numbers, last) - bisect_left(self._numbers, first)


class RangeSet:
    """Ranges of one family, of which an attachment gets one address."""

    def __init__(self, spans: Sequence[AddressSpan], path: str) -> None:
        """Make a set of at least one range, declared at `path` of the configuration."""
        self.spans = spans
        self.path = path
        self.gateways = Gateways(span.gateway for span in spans)
        """Never allocated; `resolve` adds the gateways of the configuration's other sets."""
        self._ordered = sorted(spans, key=lambda span: int(span.first))
        self._firsts = [int(span.first) for span in self._ordered]

    @property
    def version(self) -> int:
        """The family of the set: 4 or 6."""
        return self.spans[0].first.version

    @property
    def size(self) -> int:
        """The number of addresses that can be allocated."""
        return sum(int(span.last) - int(span.first) + 1 - self.gateways.within(span) for span in self.spans)

    def find(self, address: Address) -> AddressSpan | None:
        """Return the range that holds `address`, or None."""
        index = bisect_right(self._firsts, int(address)) - 1
        return self._ordered[index] if index >= 0 and self._ordered[index].holds(address) else None

    def candidates(self, last: Address | None) -> Iterator[tuple[Address, AddressSpan]]:
        """Return every address that can be allocated, once: from the address after `last` on, wrapping around.

        If `last` is missing, or is outside the set because the configuration changed,
        the first range's first address comes first.
        """
        pieces = [(span, int(span.first), int(span.last)) for span in self.spans]
        for index, span in enumerate(self.spans):
            if last is not None and span.holds(last):
                after = (span, int(last) + 1, int(span.last))
                before = (span, int(span.first), int(last))
                pieces = [after, *pieces[index + 1 :], *pieces[:index], before]
                break
        for span, low, high in pieces:
            for number in range(low, high + 1):
                address = type(span.first)(number)
                if address not in self.gateways:
                    yield address, span

    def __str__(self) -> str:
        return ",".join(map(str, self.spans))


def resolve(declared: Sequence[tuple[str, Sequence[Range]]]) -> list[RangeSet]:
    """Return the range sets of `declared`, which has the path of each set's key.

    Raises CniError (7), which names the key, for a range that is not sound, for
    mixed families in a set, and for addresses that are in two ranges.
    """
    range_sets = [_range_set(ranges, path) for path, ranges in declared]
    owners = [(span, known) for known in range_sets for span in known.spans]
    if len(owners) > 1 and (overlap := _overlap([span for span, _ in owners])):
        (span, one), (second, other) = (owners[index] for index in overlap)
        message = f"{other.path}: {second} overlaps with {span} of {one.path}"
        raise CniError(Code.INVALID_CONFIG, message)
    gateways = Gateways(span.gateway for span, _ in owners)
    for known in range_sets:
        known.gateways = gateways
    return range_sets


def _overlap(spans: Sequence[AddressSpan]) -> tuple[int, int] | None:
    """Return the indices of two ranges that share an address, the lower index first; None if no two do.

    In the order of their first addresses, a range that overlaps any later one overlaps the next one.
    """
    order = sorted(range(len(spans)), key=lambda index: (spans[index].first.version, int(spans[index].first)))
    overlaps = (sorted(pair) for pair in pairwise(order) if spans[pair[0]].holds(spans[pair[1]].first))
    return next(((low, high) for low, high in overlaps), None)


def _range_set(ranges: Sequence[Range], path: str) -> RangeSet:
    if not ranges:
        raise expected("at least one range", [], path)
    single = path == "ipam"  # the old style: the section itself has the range's keys
    places = [path if single else f"{path}[{index}]" for index in range(len(ranges))]
    spans = [_span(known, place) for known, place in zip(ranges, places, strict=True)]
    for index, span in enumerate(spans):
        if span.first.version != spans[0].first.version:
            raise expected(
                f"an IPv{spans[0].first.version} subnet as in the rest of the range set",
                str(span.subnet),
                f"{path}[{index}].subnet",
            )
    if overlap := _overlap(spans):
        index, second = overlap
        message = f"{path}[{second}]: {spans[second]} overlaps with {spans[index]} of {path}[{index}]"
        raise CniError(Code.INVALID_CONFIG, message)
    remaining = [list(_without(span, known.exclude)) for span, known in zip(spans, ranges, strict=True)]
    for index, pieces in enumerate(remaining):
        if not pieces:
            excluded = list(map(str, ranges[index].exclude))
            raise expected(f"an address of {spans[index]} to remain", excluded, f"{places[index]}.exclude")
    return RangeSet([piece for pieces in remaining for piece in pieces], path)


def _without(span: AddressSpan, excluded: Iterable[Network]) -> Iterator[AddressSpan]:
    """Yield the ranges that remain of one, in order."""
    make = type(span.first)
    first, last = int(span.first), int(span.last)
    for network in sorted(excluded, key=lambda network: int(network.network_address)):
        before = min(int(network.network_address) - 1, last)
        if first <= before:
            yield span._replace(first=make(first), last=make(before))
        first = max(first, int(network.broadcast_address) + 1)
    if first <= last:
        yield span._replace(first=make(first), last=span.last)


def _span(known: Range, path: str) -> AddressSpan:
    subnet = _subnet(known.subnet, f"{path}.subnet")
    network = int(subnet.network_address)
    make = type(subnet.network_address)
    first, last = known.range_start, known.range_end
    if first is None:
        first = make(network + 1)
    elif first not in subnet:
        raise expected(f"an address of {subnet}", str(first), f"{path}.rangeStart")
    if last is None:
        # IPv6 has no broadcast address to leave out.
        last = make(int(subnet.broadcast_address) - (subnet.version == _IPV4))
    elif last not in subnet:
        raise expected(f"an address of {subnet}", str(last), f"{path}.rangeEnd")
    if int(first) > int(last) and known.range_end is not None:
        raise expected(f"an address not before {first}", str(last), f"{path}.rangeEnd")
    if int(first) > int(last):
        raise expected(f"an address not after {last}", str(first), f"{path}.rangeStart")
    gateway = known.gateway or make(network + 1)
    if gateway.version != subnet.version:
        raise expected(f"an IPv{subnet.version} address, as the subnet's", str(gateway), f"{path}.gateway")
    for index, excluded in enumerate(known.exclude):
        if excluded.network_address not in subnet or excluded.broadcast_address not in subnet:
            raise expected(f"addresses of {subnet}", str(excluded), f"{path}.exclude[{index}]")
    return AddressSpan(subnet, first, last, gateway)


def _subnet(declared: Cidr, path: str) -> Network:
    subnet = declared.network
    mapped = subnet.version != _IPV4 and getattr(declared.ip, "ipv4_mapped", None) is not None
    if mapped:
        raise expected("an IPv4 subnet in its own notation", str(declared), path)
    if subnet.max_prefixlen - subnet.prefixlen < _HOST_BITS_MIN:
        raise expected("a subnet large enough to allocate from", str(declared), path)
    if declared.ip != subnet.network_address:
        raise expected(f"a network address without host bits, such as {subnet}", str(declared), path)
    return subnet
