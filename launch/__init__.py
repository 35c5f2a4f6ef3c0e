"""How a plugin becomes a process: the executables of a bin dir, the server, the installation, the list of plugins."""

__all__ = ["DAEMONS", "PLUGINS"]

PLUGINS = {
    "bandwidth": "plugins.bandwidth",
    "bridge": "plugins.bridge",
    "dhcp": "ipam.dhcp",
    "dummy": "plugins.dummy",
    "firewall": "plugins.firewall",
    "host-device": "plugins.host_device",
    "host-local": "ipam.host_local",
    "ipvlan": "plugins.ipvlan",
    "loopback": "plugins.loopback",
    "macvlan": "plugins.macvlan",
    "noop": "plugins.noop",
    "portmap": "plugins.portmap",
    "ptp": "plugins.ptp",
    "sbr": "plugins.sbr",
    "static": "ipam.static",
    "tap": "plugins.tap",
    "tuning": "plugins.tuning",
    "vlan": "plugins.vlan",
    "vrf": "plugins.vrf",
}
"""The plugins of this suite: the name of each executable, and the module that declares it as `PLUGIN`.

The table is here because `launch.version` needs the names, and must load no other module.
"""

DAEMONS = {"dhcp": "ipam.dhcp_daemon.program"}
"""Plugins with a daemon, which `NAME daemon` runs: the module with its `main`, a function of the other arguments."""
