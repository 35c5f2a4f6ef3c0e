"""sbr: source based routing. Packets from an address of the pod's interface leave by that interface.

Each address gets a routing table of its own with the interface's routes, and a rule that looks up packets from the
address there. So a pod with two interfaces answers by the interface that was asked. With `table`, the routes are in
that table already, and the plugin adds the rules alone.

All of this is in the pod, and ends with it: GC and REPAIR have nothing to do.
"""

from plugins.attach.attachment import nothing
from plugins.sbr.config import SbrConfig
from plugins.sbr.verbs import add, check, delete, status
from skel import Plugin
from skel.versions import REFERENCE_RELEASE

__all__ = ["PLUGIN"]

PLUGIN = Plugin(
    "sbr",
    config=SbrConfig,
    add=add,
    check=check,
    delete=delete,
    gc=nothing,
    status=status,
    repair=nothing,
    version=REFERENCE_RELEASE,
)
