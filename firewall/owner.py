"""The owner of a firewall element: three words, kept in the element's comment. Does not import pyroute2."""

from fast_stdlib.hashing import sha256
from fast_stdlib.typing import Iterator, NamedTuple, Self

MAX_LABEL = 108
"""Bytes. The kernel keeps 253, but nft(8) refuses comments of more than 128, and so could not load its own output.
20 bytes are left for the rest of an element's comment."""

# nft(8) cannot quote a quote in a comment. "/" separates the parts. "~" marks a shortened part.
_SAFE = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:@+=,~-")
_HEX = frozenset(b"0123456789ABCDEF")
_PARTS = 3


class Owner(NamedTuple):
    """An attachment: which interface of which container, in which network."""

    network: str
    container_id: str
    ifname: str

    def label(self) -> str:
        """The owner as one line of at most `MAX_LABEL` printable ASCII characters, readable in `nft list ruleset`.

        If it would be longer, the container ID is replaced by its hash. If it is still too long, the network is
        replaced by its hash, too. An owner always has the same label.
        """
        for candidate in self._candidates():
            label = "/".join(quoted(part) for part in candidate)
            if len(label) <= MAX_LABEL:
                return label
        raise ValueError(f"interface name {self.ifname!r} is too long")

    @classmethod
    def from_label(cls, label: str) -> Self | None:
        """Return the owner that `label` names, or None if `label` is not in the format of `Owner.label`.

        It equals the original. A shortened part stays shortened.
        """
        parts = label.split("/")
        return cls(*map(unquoted, parts)) if len(parts) == _PARTS else None

    def in_network(self, network: str) -> bool:
        """Tell whether the attachment is one of `network`, also if the label has only a hash of the name."""
        return self.network in {network, _digest(network)}

    def __eq__(self, other: object) -> bool:
        """Compare the labels, so a shortened owner equals its original."""
        return isinstance(other, Owner) and self.label() == other.label()

    def __hash__(self) -> int:
        return hash(self.label())

    def _candidates(self) -> Iterator["Owner"]:
        yield self
        shortened = self._replace(container_id=_digest(self.container_id))
        yield shortened
        yield shortened._replace(network=_digest(self.network))


def quoted(part: str) -> str:
    """Return a text in characters that nft(8) accepts within a comment."""
    encoded = part.encode()
    if _SAFE.issuperset(encoded):
        return part
    return "".join(chr(byte) if byte in _SAFE else f"%{byte:02X}" for byte in encoded)


def unquoted(part: str) -> str:
    """Return the text of `quoted`."""
    first, *others = part.encode().split(b"%")
    return b"".join((first, *map(_unescaped, others))).decode(errors="replace")


def _unescaped(after: bytes) -> bytes:
    """Return the bytes that a percent sign and `after` stand for."""
    digits = after[:2]
    if len(digits) < 2 or not _HEX.issuperset(digits):  # noqa: PLR2004 -- a byte
        return b"%" + after
    return bytes([int(digits, 16)]) + after[2:]


def _digest(part: str) -> str:
    return "~" + sha256(part.encode()).hexdigest()[:24]
