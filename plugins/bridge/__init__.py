"""bridge: a pod's interface is one end of a veth pair, the other is a port of a bridge on the host."""

from .plugin import PLUGIN

__all__ = ["PLUGIN"]
