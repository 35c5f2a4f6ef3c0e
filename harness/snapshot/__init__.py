"""The state of a node as evidence: the content of its network namespaces and folders, and its changes."""

from harness.snapshot.compare import Difference, differences
from harness.snapshot.state import Snapshot, SnapshotError, Things
from harness.snapshot.take import described_file, take

__all__ = ["Difference", "Snapshot", "SnapshotError", "Things", "described_file", "differences", "take"]
