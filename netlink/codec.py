"""pyroute2's message classes, without the rest of pyroute2.

`import pyroute2` loads every protocol it knows (130 ms of start-up, 25 ms of it for the messages used here), and
plugins are started anew for every verb. So the package object is put in place first, its own `__init__` is run only
when somebody asks the package for a name (`from pyroute2 import IPRoute` still works, at its price), and the modules
below it are imported as usual. Import this module before any `pyroute2.…` module; `netlink.socket` does.
"""

import sys
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Any, Protocol

__all__ = ["Message"]


class Message(Protocol):
    """What `netlink` uses of a pyroute2 message (an `nlmsg`): a dict of fields, with an attribute list under "attrs"."""

    data: bytearray

    def __getitem__(self, key: str) -> Any:
        """Return a field of the message."""

    def __setitem__(self, key: str, value: Any) -> None:
        """Set a field of the message."""

    def get_attr(self, attr: str, default: Any = None) -> Any:
        """Return the first attribute of that name (IFLA_IFNAME)."""

    def encode(self) -> None:
        """Append header, fields and attributes to `data`, which must be empty."""

    def decode(self) -> None:
        """Read fields and attributes from `data`."""


def _place_package() -> None:
    if "pyroute2" in sys.modules:
        return
    spec = PathFinder.find_spec("pyroute2")
    if spec is None or spec.loader is None:
        return  # the import that follows says it better
    loader = spec.loader
    package = module_from_spec(spec)

    def find(name: str) -> Any:
        try:
            return import_module(f"pyroute2.{name}")
        except ModuleNotFoundError:
            del package.__dict__["__getattr__"]
            loader.exec_module(package)
            return getattr(package, name)

    package.__dict__["__getattr__"] = find
    sys.modules["pyroute2"] = package


_place_package()
