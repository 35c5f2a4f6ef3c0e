"""How a plugin becomes a process: the executables of a bin dir, the server, the installation, the list of plugins."""

__all__ = ["PLUGINS"]

PLUGINS = {
    "bridge": "plugins.bridge",
    "host-local": "ipam.host_local",
    "ipvlan": "plugins.ipvlan",
    "loopback": "plugins.loopback",
    "macvlan": "plugins.macvlan",
    "noop": "plugins.noop",
    "ptp": "plugins.ptp",
    "vlan": "plugins.vlan",
}
"""The plugins of this suite: the name of each executable, and the module that declares it as `PLUGIN`.

The table is here because `launch.version` needs the names, and must load no other module.
"""
