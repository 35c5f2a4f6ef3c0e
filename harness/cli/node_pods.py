"""The pods of a node with their networks, in whichever runtime they are."""

from typing import TYPE_CHECKING

import click

from harness.cli.kubelet_node import choose_endpoint, pods_on_record
from harness.cli.options import Settings, warn
from harness.output import say

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.runtime.pod_record import Pod
    from harness.runtime.pods import PodRecordError


def node_pods(settings: Settings, on_error: "Callable[[PodRecordError], object]" = warn) -> "list[Pod]":
    """Return every pod with its networks: those in the node's store, and a kubelet's pods in another runtime.

    `on_error` gets the error of each record that cannot be read. Raises NodeError.
    """
    node = settings.open_node()
    found = node.pods.all(on_error=on_error)
    if not choose_endpoint(node.folder, ""):
        return found
    from harness.runtime.cached_pods import cached_pods

    uids = {pod.metadata.uid for pod, _ in pods_on_record(settings)}
    folders = settings.plugin_dirs
    return found + [pod for pod in cached_pods(node.var_lib_cni, folders, warn=say) if pod.uid in uids]


def find_pod(settings: Settings, namespace: str, name: str) -> "Pod | None":
    """Return one pod: a bare one if it has the name, else the newest sandbox. Raises PodNameError, PodRecordError."""
    from harness.runtime.kubernetes import check_pod

    check_pod(namespace, name)
    if found := settings.open_node().pods.named(namespace, name):
        return found[0]
    others = (pod for pod in node_pods(settings, lambda _: None) if (pod.namespace, pod.name) == (namespace, name))
    return next(others, None)


def node_pod(settings: Settings, namespace: str, name: str) -> "Pod":
    """Return one pod as `find_pod` does. Raises ClickException if there is none."""
    if (pod := find_pod(settings, namespace, name)) is None:
        raise click.ClickException(f"there is no pod {namespace}/{name}")
    return pod
