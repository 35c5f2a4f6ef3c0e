"""pyroute2's netlink messages as seen from here: build one, decode one."""

from collections.abc import Callable, Iterable

from lean.typing import Any, Protocol

__all__ = ["Attributes", "Message", "build", "decode"]

Attributes = Iterable[tuple[str, Any]]


class Message(Protocol):
    """What is used of a pyroute2 message: a dict of header fields, with a list of attributes under "attrs"."""

    data: bytearray

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401 - the value's type depends on the key
        """Return a field."""

    def __setitem__(self, key: str, value: Any) -> None:  # noqa: ANN401
        """Set a field."""

    def get_attr(self, attr: str, default: Any = None) -> Any:  # noqa: ANN401
        """Return the first attribute of that name, such as IFLA_IFNAME."""

    def encode(self) -> None:
        """Append header, fields and attributes to `data`, which must be empty."""

    def decode(self) -> None:
        """Read fields and attributes from `data`."""


MessageClass = Callable[..., Message]


def build(cls: MessageClass, kind: int, attrs: Attributes = (), *, nlm_flags: int = 0, **fields: int) -> Message:
    """Return a message of type `kind` (RTM_NEWLINK); `fields` are those of its fixed part."""
    message = cls()
    message["header"]["type"] = kind
    message["header"]["flags"] = nlm_flags
    message["attrs"] = list(attrs)
    for name, value in fields.items():
        message[name] = value
    return message


def decode(cls: MessageClass, encoded: bytes) -> Message:
    """Return the message in `encoded`, which begins with the netlink header."""
    message = cls(encoded)
    message.decode()
    return message
