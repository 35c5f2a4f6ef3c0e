"""Snapshots of a node: its namespace, its pods', and its /var/lib/cni."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from harness.runtime.node import Node
from harness.runtime.pod_record import Pod
from harness.runtime.pods import PodRecordError
from harness.runtime.sandbox import create_sandbox, new_sandbox_path, sandbox_exists
from harness.snapshot import Difference, Snapshot, differences, take
from harness.snapshot.state import FILES
from netlink.namespace import remove_namespace

NODE: Final = "node"
"""The label of the node's own network namespace."""

THIS_HOST: Final = "/proc/self/ns/net"
_NEW: Final = "new"


def label_of(pod: str) -> str:
    """Return the label in a snapshot of a pod, such as `default/pod1`: `NAMESPACE:NAME` if the name is ambiguous."""
    namespace, _, name = pod.partition("/")
    return name if namespace == "default" and name not in {NODE, FILES} else f"{namespace}:{name}"


def namespaces_of(node: Node, pods: Iterable[Pod]) -> dict[str, str]:
    """Return the network namespaces of the node and of pods, by label."""
    return {NODE: node.netns or THIS_HOST} | {label_of(pod.title): pod.netns for pod in pods if pod.netns}


def take_node(node: Node, pods: Iterable[Pod], folders: Sequence[Path] = ()) -> Snapshot:
    """Return the state of an existing node, of pods, of the node's /var/lib/cni and of further folders.

    Raises SnapshotError.
    """
    return take(namespaces_of(node, pods), [node.var_lib_cni, *folders])


class StateBefore:
    """The state of a node before pods are made or deleted."""

    def __init__(self, node: Node, pods: Iterable[tuple[str, str]], *, warn: Callable[[str], None]) -> None:
        """Take a snapshot of the node and of existing pods; `pods` are pairs of namespace and name.

        Pods with unreadable records are left out. `warn` gets a line for each missing source.
        Raises SnapshotError, OSError.
        """
        self._node = node
        self._there: list[Pod] = []
        for namespace, name in pods:
            with suppress(PodRecordError):  # the operation on this pod reports it
                self._there += [pod for pod in node.pods.named(namespace, name) if sandbox_exists(pod.netns)]
        self._before = take_node(node, self._there)
        # Taken now, not later: on this host a new namespace copies some parameters from the host's.
        self._sandbox = new_sandbox_state(node)
        for line in self._before.missing:
            warn(line)

    def differences(self, pods: Sequence[Pod] | None = None) -> list[Difference]:
        """Return the differences of the node and of `pods`, by default of the earlier pods, some of which may be gone.

        A pod that did not exist before is compared with a new sandbox. The harness's own cache of results is left out.
        Raises SnapshotError.
        """
        after = take_node(self._node, self._there if pods is None else pods)
        return node_differences(self._node, self._before, after, self._sandbox)


def node_differences(node: Node, before: Snapshot, after: Snapshot, sandbox: Snapshot) -> list[Difference]:
    """Return the differences of the places in `after`; one that is new is compared with `sandbox`.

    The harness's own cache of results is left out.
    """
    for label, path in after.namespaces.items():
        if label not in before.namespaces:
            before = _with(before, label, path, sandbox)
    wanted = {label: path for label, path in before.namespaces.items() if label in after.namespaces}
    results = f"files/file/{node.var_lib_cni}/results"
    return differences(replace(before, namespaces=wanted), after, ignore=[results, f"{results}/*"])


def new_sandbox_state(node: Node) -> Snapshot:
    """Return the state of a new network namespace, made like those of the node's pods. Raises SnapshotError."""
    path = new_sandbox_path()
    create_sandbox(path, fixed=node.netns is not None)
    try:
        return take({_NEW: path})
    finally:
        remove_namespace(path)


def _with(snapshot: Snapshot, label: str, path: str, sandbox: Snapshot) -> Snapshot:
    prefix = f"{_NEW}/"
    sections = {f"{label}/{name.removeprefix(prefix)}": things for name, things in sandbox.sections.items()}
    sections[f"{label}/namespace"] = {path: {"state": "there"}}
    return replace(
        snapshot, sections={**snapshot.sections, **sections}, namespaces={**snapshot.namespaces, label: path}
    )
