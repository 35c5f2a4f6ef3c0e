"""bridge: a pod's interface is one end of a veth pair, the other is a port of a bridge on the host.

`plugins.attach` has the sequence of each verb, `driver` the steps of it that are the bridge's. These change the host by
`host` and `gateways`, compare it by `check`, and go back from a failing ADD by `undo`.
"""

from plugins.attach.sequence import interface_plugin

from .config import BridgeConfig
from .driver import BridgeDriver

__all__ = ["PLUGIN"]

PLUGIN = interface_plugin("bridge", BridgeConfig, BridgeDriver)
