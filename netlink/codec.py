"""pyroute2 as a codec, for messages that are seldom sent: build one, decode one.

`import pyroute2` loads every protocol it knows, which costs 130 ms of start-up. The messages used here cost 25 ms of
that. So after this module is imported, the package's own `__init__` runs only when a name of the package itself is
needed: `from pyroute2 import IPRoute` works as ever, at its price, and
`from pyroute2.netlink.rtnl.rtmsg import rtmsg` loads no more than it needs.
"""

import sys
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType

from lean.typing import Any, Callable, Iterable, Protocol, Sequence

Attributes = Iterable[tuple[str, Any]]

_PACKAGE = "pyroute2"


class Message(Protocol):
    """A pyroute2 message: a dict of header fields, with a list of attributes under "attrs"."""

    data: bytearray

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401 - the value's type depends on the key
        """Return a field."""

    def __setitem__(self, key: str, value: Any) -> None:  # noqa: ANN401 - as above
        """Set a field."""

    def get_attr(self, attr: str, default: Any = None) -> Any:  # noqa: ANN401 - as above
        """Return the first attribute of that name, such as IFLA_IFNAME."""

    def encode(self) -> None:
        """Append header, fields and attributes to `data`."""

    def decode(self) -> None:
        """Read fields and attributes from `data`."""


MessageClass = Callable[..., Message]


def build(cls: MessageClass, kind: int, attrs: Attributes = (), *, nlm_flags: int = 0, **fields: int) -> bytes:
    """Return a message of type `kind` (RTM_NEWLINK); `fields` are those of its fixed part."""
    message = cls()
    message["header"]["type"] = kind
    message["header"]["flags"] = nlm_flags
    message["attrs"] = list(attrs)
    for name, value in fields.items():
        message[name] = value
    message.data = bytearray()
    message.encode()
    return bytes(message.data)


def decode(cls: MessageClass, encoded: bytes) -> Message:
    """Return the message in `encoded`, which begins with the netlink header."""
    message = cls(encoded)
    message.decode()
    return message


class _Finder:
    """Finds one package only, at its usual place."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != _PACKAGE:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(SourceFileLoader):
    """Runs a package's `__init__` when a name is needed that is no module of the package."""

    def exec_module(self, module: ModuleType) -> None:
        run_init = super().exec_module

        def find(name: str) -> object:
            from importlib import import_module

            try:
                return import_module(f"{_PACKAGE}.{name}")
            except ModuleNotFoundError:
                del module.__dict__["__getattr__"]
                run_init(module)
                return getattr(module, name)

        module.__dict__["__getattr__"] = find


if _PACKAGE not in sys.modules:
    sys.meta_path.insert(0, _Finder)
