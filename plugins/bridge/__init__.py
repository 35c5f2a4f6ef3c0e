"""bridge: a pod's interface is one end of a veth pair, the other is a port of a bridge on the host.

`plugins.attach` has the sequence of each verb, `driver` the steps that are the bridge's, `host` and `gateways` the
changes that these make on the host, `check` those that CHECK looks for, and `undo` the way back from a failing ADD.
"""

from plugins.attach.sequence import interface_plugin

from .config import BridgeConfig
from .driver import BridgeDriver

__all__ = ["PLUGIN"]

PLUGIN = interface_plugin("bridge", BridgeConfig, BridgeDriver)
