"""The plugins of this suite: the name of each executable and the module that declares it.

`harness install` writes one launcher for each name, the launcher finds the
module by its own name, and delegation finds a delegate's.
"""

from importlib import import_module
from typing import NoReturn

from skel.config import Config
from skel.plugin import Plugin

__all__ = ["PLUGINS", "load"]

PLUGINS = {
    "bridge": "plugins.bridge",
    "host-local": "ipam.host_local",
    "loopback": "plugins.loopback",
    "noop": "plugins.noop",
}


def load(name: str) -> Plugin[Config]:
    """Return the plugin called `name`. Raises KeyError for one that is not of this suite.

    One whose module cannot be imported is returned all the same: it answers
    every call with that error, in the form that runtimes read.
    """
    module = PLUGINS[name]
    try:
        plugin: Plugin[Config] = import_module(module).PLUGIN
    except Exception as error:  # noqa: BLE001 -- whatever half an installation raises
        return _unloadable(name, error)
    return plugin


def _unloadable(name: str, error: Exception) -> Plugin[Config]:
    def fail(*_: object) -> NoReturn:
        raise error

    return Plugin(name, config=Config, add=fail, delete=fail, versions=fail)
