"""How single values of a configuration are read; the parts that `record.field` declarations are made of."""

from _socket import AF_INET, AF_INET6, inet_pton  # the C part of socket, which itself takes milliseconds to load

from fast_stdlib.ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from fast_stdlib.typing import TypeVar

from .environment import ifname_flaw
from .errors import CniError
from .record import Decoder, Record, expected

T = TypeVar("T")
R = TypeVar("R", bound=Record)

Address = IPv4Address | IPv6Address
Cidr = IPv4Interface | IPv6Interface
Network = IPv4Network | IPv6Network

_IPV4 = 4
_HEX = frozenset("0123456789abcdef")


def string(value: object, path: str) -> str:
    """Read a string."""
    if not isinstance(value, str):
        raise expected("a string", value, path)
    return value


def boolean(value: object, path: str) -> bool:
    """Read true or false; nothing else counts as either."""
    if not isinstance(value, bool):
        raise expected("true or false", value, path)
    return value


def integer(value: object, path: str) -> int:
    """Read a whole number of any size: runtimes send rates beyond 32 bits."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise expected("a whole number", value, path)
    return value


def integer_between(low: int, high: int, what: str = "a whole number") -> Decoder[int]:
    """Return the decoder of a whole number from `low` to `high`, both included."""

    def decode(value: object, path: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise expected(f"{what} from {low} to {high}", value, path)
        return value

    return decode


def address(value: object, path: str) -> Address:
    """Read an IP address without a prefix; IPv4 mapped into IPv6 is IPv4, as in Go."""
    import ipaddress

    try:
        parsed = _parsed(value) if isinstance(value, str) else None
    except ValueError:
        parsed = None
    if parsed is None or (isinstance(parsed, ipaddress.IPv6Address) and parsed.scope_id):
        raise expected("an IP address", value, path)
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        return parsed.ipv4_mapped
    return parsed


def cidr(value: object, path: str) -> Cidr:
    """Read an address with its prefix length, keeping the host bits (`10.1.0.5/16`)."""
    return with_length(*_address_and_length(value, path))


def with_length(address: Address, length: int) -> Cidr:
    """Return an address with a prefix length."""
    import ipaddress

    make = ipaddress.IPv4Interface if address.version == _IPV4 else ipaddress.IPv6Interface
    return make((int(address), length))


def network(value: object, path: str) -> Network:
    """Read a network in CIDR notation; host bits are dropped, as the kernel refuses a route that has them."""
    import ipaddress

    parsed, length = _address_and_length(value, path)
    make = ipaddress.IPv4Network if parsed.version == _IPV4 else ipaddress.IPv6Network
    return make((int(parsed), length), strict=False)


def address_or_network(value: object, path: str) -> Network:
    """Read a network in CIDR notation, or an address, which is a network of one. Host bits are refused."""
    text = string(value, path)
    try:
        if "/" not in text:
            alone = address(text, path)
            return with_length(alone, alone.max_prefixlen).network
        found = cidr(text, path)
    except CniError:
        raise expected("an IP address or a CIDR", value, path) from None
    if found.ip != found.network.network_address:
        raise expected(f"a network address without host bits, such as {found.network}", value, path)
    return found.network


def _address_and_length(value: object, path: str) -> tuple[Address, int]:
    """Return the address and the prefix length of a CIDR. Raises CniError (7)."""
    head, slash, length = value.partition("/") if isinstance(value, str) else ("", "", "")
    if slash and length.isascii() and length.isdigit() and "%" not in head:
        try:
            parsed = _parsed(head)
            if int(length) <= parsed.max_prefixlen:
                return parsed, int(length)
        except ValueError:
            pass
    raise expected("a CIDR", value, path)


def _parsed(text: str) -> Address:
    """Parse an address. Raises ValueError.

    A network may have ten thousand routes: inet_pton(3) takes a tenth of the time that `ipaddress` takes to parse.
    """
    import ipaddress

    try:
        if ":" in text:
            return ipaddress.IPv6Address(int.from_bytes(inet_pton(AF_INET6, text)))
        return ipaddress.IPv4Address(int.from_bytes(inet_pton(AF_INET, text)))
    except OSError:
        return ipaddress.ip_address(text)


def mac(value: object, path: str) -> str:
    """Read a 48-bit hardware address in any of Go's notations; returned in lower case with colons."""
    text = value.lower().replace("-", ":") if isinstance(value, str) else ""
    for mark, size, count in ((":", 2, 6), (".", 4, 3)):
        groups = text.split(mark)
        if len(groups) == count and all(len(group) == size and _HEX.issuperset(group) for group in groups):
            return bytes.fromhex("".join(groups)).hex(":")
    raise expected("a MAC address", value, path)


def interface_name(value: object, path: str) -> str:
    """Read the name of a network interface, of at most 15 bytes."""
    text = string(value, path)
    if flaw := ifname_flaw(text):
        raise expected(f"an interface name ({flaw})", value, path)
    return text


def raw(value: object, path: str) -> object:  # noqa: ARG001 -- the decoder signature
    """Take any JSON value as it is."""
    return value


def choice(*allowed: str) -> Decoder[str]:
    """Return the decoder of one of a few strings."""

    def decode(value: object, path: str) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise expected(" or ".join(f'"{word}"' for word in allowed), value, path)
        return value

    return decode


def optional(decode: Decoder[T]) -> Decoder[T | None]:
    """Return a decoder to which an empty string is absent: runtimes send `"hostIP": ""`."""

    def decode_optional(value: object, path: str) -> T | None:
        return None if value == "" else decode(value, path)

    return decode_optional


def list_of(decode: Decoder[T]) -> Decoder[list[T]]:
    """Return the decoder of a list; errors name the index."""

    def decode_list(value: object, path: str) -> list[T]:
        if not isinstance(value, list):
            raise expected("a list", value, path)
        return [decode(item, f"{path}[{index}]") for index, item in enumerate(value)]

    return decode_list


def dict_of(decode: Decoder[T]) -> Decoder[dict[str, T]]:
    """Return the decoder of an object with free keys, which keep their spelling."""

    def decode_dict(value: object, path: str) -> dict[str, T]:
        if not isinstance(value, dict):
            raise expected("an object", value, path)
        return {key: decode(item, f"{path}.{key}") for key, item in value.items() if item is not None}

    return decode_dict


def record(cls: type[R]) -> Decoder[R]:
    """Return the decoder of a nested record."""
    return cls.decode
