"""The plugins of this suite: the name of each executable and the module that declares it.

`harness install` writes one launcher for each name, the launcher finds the
module by its own name, and delegation finds a delegate's.
"""

from importlib import import_module

from .config import Config
from .plugin import Plugin

__all__ = ["PLUGINS", "REFERENCE_RELEASE", "load"]

PLUGINS = {
    "bridge": "plugins.bridge",
    "host-local": "ipam.host_local",
    "loopback": "plugins.loopback",
    "noop": "plugins.noop",
}

REFERENCE_RELEASE = "1.9.0"
"""The release of containernetworking/plugins whose behaviour we offer; runtimes read it in the about line."""


def load(name: str) -> Plugin[Config]:
    """Return the plugin called `name`. Raises KeyError for one that is not of this suite."""
    plugin: Plugin[Config] = import_module(PLUGINS[name]).PLUGIN
    return plugin
