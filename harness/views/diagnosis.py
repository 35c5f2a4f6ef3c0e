"""All checks of a node, and the faults that two readings agree on."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from harness.install.doctor import VersionsOf, versions_by_asking
from harness.runtime.node import Node
from harness.views.checks_leftovers import check_leftovers
from harness.views.checks_lists import check_lists, check_runtimes, not_ready, readable_lists
from harness.views.checks_node import check_node
from harness.views.checks_pod import check_pods
from harness.views.evidence import Evidence, Fault, gather

_SETTLE_S = 1.0
"""Seconds between two readings. Pods that come or go meanwhile look faulty in one of them only."""


class Scope(NamedTuple):
    """The node to examine, and the folders that belong to it."""

    node: Node
    bin_dirs: Sequence[Path]
    """Folders of plugins."""
    conf_dir: Path | None
    """The folder of network lists; None if none is configured."""
    cache_dirs: Sequence[Path] = ()
    """Runtimes' caches of results; by default the node's /var/lib/cni."""
    state_dir: Path | None = None
    """The folder of `install`, for this host's runtimes; None for a node that is not this host."""
    network_error: Callable[[], str | None] = lambda: None
    """Returns why the kubelet says that the node's network is not ready; None if it is."""


def diagnose(
    scope: Scope, *, warn: Callable[[str], object], pause: Callable[[float], object] = time.sleep
) -> tuple[list[Fault], Evidence]:
    """Return the faults of a node, and the state that shows them. It changes nothing.

    Faults are looked for again after a second, and only faults that are still there count. `warn` gets a line for each
    source that cannot be read. Raises SnapshotError, NetlinkError, OSError.
    """
    versions_of = versions_by_asking()
    faults, evidence = _examine(scope, versions_of, warn)
    if faults:
        pause(_SETTLE_S)
        again, evidence = _examine(scope, versions_of, lambda _: None)
        there = {(fault.check, fault.subject, fault.pods) for fault in again}
        faults = [fault for fault in faults if (fault.check, fault.subject, fault.pods) in there]
    return list(dict.fromkeys(faults)), evidence


def _examine(scope: Scope, versions_of: VersionsOf, warn: Callable[[str], object]) -> tuple[list[Fault], Evidence]:
    evidence = gather(scope.node, scope.bin_dirs, cache_dirs=scope.cache_dirs, warn=warn)
    networks = readable_lists(scope.conf_dir, lambda _: None) if scope.conf_dir is not None else []
    faults = [*check_pods(evidence), *check_node(evidence), *check_leftovers(evidence, scope.node, networks)]
    if scope.conf_dir is not None:
        faults += check_lists(scope.conf_dir, scope.bin_dirs, versions_of)
    if (failure := scope.network_error()) is not None:
        faults.append(not_ready(evidence.commands, failure))
    if scope.state_dir is not None:
        faults += check_runtimes(scope.state_dir, versions_of)
    return faults, evidence
