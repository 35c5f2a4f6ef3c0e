"""How a plugin becomes a process: the executables of a bin dir, the server, the installation, the list of plugins."""

__all__ = ["PLUGINS"]

PLUGINS = {
    "bridge": "plugins.bridge",
    "dummy": "plugins.dummy",
    "host-device": "plugins.host_device",
    "host-local": "ipam.host_local",
    "loopback": "plugins.loopback",
    "macvlan": "plugins.macvlan",
    "noop": "plugins.noop",
    "ptp": "plugins.ptp",
    "tap": "plugins.tap",
}
"""The plugins of this suite: the name of each executable, and the module that declares it as `PLUGIN`.

The table is here because `launch.version` needs the names, and must load no other module.
"""
