"""pyroute2's message classes without the rest of pyroute2.

`import pyroute2` loads every protocol it knows, which costs 130 ms of start-up; the messages used here cost 25 ms of
that, and plugins are started anew for every verb. So within a program that uses `netlink`, the package's own
`__init__` runs only when somebody asks the package itself for a name: `from pyroute2 import IPRoute` works as ever,
at its price, and `from pyroute2.netlink.rtnl.rtmsg import rtmsg` loads no more than it needs.
"""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType

__all__ = ["install"]

_PACKAGE = "pyroute2"


def install() -> None:
    """Arrange for pyroute2 to be loaded piecemeal from now on; does nothing if it is loaded already."""
    if _PACKAGE not in sys.modules and _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)


class _Finder:
    """Finds one package only, where it would be found anyway."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != _PACKAGE:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(SourceFileLoader):
    """Runs a package's `__init__` when a name is asked for that is no module of the package."""

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
