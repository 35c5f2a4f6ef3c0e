"""The plugins of this suite: the name of each executable and the module that declares it.

`harness install` writes one launcher for each name, the launcher finds the
module by its own name, and delegation finds a delegate's. Plugins of other distributions (`launch.distributions`) come
as a mapping of names to "module:object", which a launcher has in its text.

This module alone imports plugins. It does so by strings, which import-linter does not see: a test limits them
(tests/unit/test_imports_by_string.py).
"""

import sys

from fast_stdlib.typing import TYPE_CHECKING, Callable, Iterable, Mapping, NoReturn, Sequence
from launch import DAEMONS, PLUGINS
from skel.config import Config
from skel.plugin import Plugin

if TYPE_CHECKING:
    from types import ModuleType


def load(name: str, others: Mapping[str, str] | None = None) -> Plugin[Config]:
    """Return the plugin called `name`: one of ours, or of the `others`. Raises KeyError for any other name.

    One that cannot be imported is returned all the same: it answers every call with that error, in the form that
    runtimes read.
    """
    try:
        return resolve(name, others)
    # SystemExit too: a module that exits when it is imported costs its own plugin alone.
    except (Exception, SystemExit) as error:
        if name not in PLUGINS and name not in (others or {}):
            raise
        return _unloadable(name, error)


def resolve(name: str, others: Mapping[str, str] | None = None) -> Plugin[Config]:
    """Return the plugin called `name` as `load` does. Raises whatever importing it raises, and TypeError."""
    target = f"{PLUGINS[name]}:PLUGIN" if name in PLUGINS else (others or {})[name]
    module, _, path = target.partition(":")
    found = _module(module.strip())
    for attribute in path.strip().split("."):
        found = getattr(found, attribute)
    if not isinstance(found, Plugin):
        message = f"{target} is no skel.Plugin but {type(found).__name__}"
        raise TypeError(message)
    return found


def load_daemon(name: str) -> Callable[[Sequence[str]], int]:
    """Return the function that runs a plugin's daemon with arguments. Raises KeyError, and what importing raises."""
    run: Callable[[Sequence[str]], int] = _module(DAEMONS[name]).main
    return run


def load_modules(names: Iterable[str], log: Callable[[str], None]) -> None:
    """Import modules of this installation; one that cannot be imported is logged."""
    for name in names:
        try:
            _module(name)
        except Exception as error:  # noqa: BLE001 -- whatever half an installation raises
            log(f"{name} cannot be imported: {error}")


def _module(name: str) -> "ModuleType":
    """Import a module by its name. Loading `importlib` for that takes 0.5 ms."""
    __import__(name)
    return sys.modules[name]


def _unloadable(name: str, error: BaseException) -> Plugin[Config]:
    def fail(*_: object) -> NoReturn:
        if isinstance(error, Exception):
            raise error
        message = f"importing the plugin ended with {type(error).__name__}: {error}"
        raise ImportError(message)

    return Plugin(name, config=Config, add=fail, delete=fail, versions=fail)
