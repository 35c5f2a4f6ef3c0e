"""The extent of a check: its time limit, the preparation of its nodes, further evidence and the number of kills."""

from dataclasses import dataclass, field
from pathlib import Path

from harness.conformance.halt import Halt
from harness.conformance.hangs import Hangs


@dataclass(frozen=True)
class Extent:
    """The extent of a check."""

    timeout: float = 30.0
    """Seconds that one execution may take."""
    watched: tuple[Path, ...] = ()
    """Folders that are evidence besides the node's /var/lib/cni."""
    preparation: Path | None = None
    """A program that is executed on each node before everything else."""
    kills: int = 8
    """The number of kills in the check that kills the plugin."""
    killers: int = 1
    """The number of these at once."""
    corrects_version: bool = False
    """Checks see results with the cniVersion of the request: that it is wrong is another check's finding."""
    hangs: Hangs = field(default_factory=Hangs, compare=False)
    """The time-outs of the plugin so far."""
    halt: Halt = field(default_factory=Halt, compare=False)
    """Ends a run before its last check."""
    keeps: bool = False
    """Whether the node of a failed check stays, with everything on it."""
    pod_interface: bool = False
    """Whether the containers of an IPAM plugin have their interface, on one network with the node."""
