"""`cni-harness delete`: pods of manifests are ended, and everything of them is removed."""

import time
from typing import TYPE_CHECKING

import click

from harness.cli.kubelet_node import (
    complete_manifest_pod,
    is_running,
    open_kubelet,
    pods_on_record,
    runtime_endpoint_option,
)
from harness.cli.options import Settings, namespace_option, needs_root, say, verb
from harness.table import Table

if TYPE_CHECKING:
    from harness.kubelet.v1 import V1Pod

__all__ = ["command"]

_LOOK_S = 0.2
_MARGIN_S = 60.0


@verb("delete")
@click.argument("names", nargs=-1, metavar="POD...", shell_complete=complete_manifest_pod)
@click.option("--all", "everything", is_flag=True, help="All pods of manifests, of every namespace.")
@click.option(
    "--grace-period",
    type=click.IntRange(min=0),
    metavar="S",
    help="Seconds between the stop signal and SIGKILL.  [default: the pod's own]",
)
@namespace_option
@runtime_endpoint_option
def command(
    settings: Settings,
    *,
    names: tuple[str, ...],
    everything: bool,
    grace_period: int | None,
    namespace: str,
    runtime_endpoint: str,
) -> int:
    """End pods of manifests: preStop hooks, stop signals, then the network; nothing remains.

    A pod whose manifest is in the folder of a running `cni-harness kubelet` ends when that file is removed.
    """
    from harness.kubelet.labels import CONFIG_SOURCE
    from harness.kubelet.paths import KubeletPaths
    from harness.kubelet.pod_records import PodRecords
    from harness.kubelet.sources import RUN_SOURCE

    needs_root("delete", "ends containers")
    if bool(names) == everything:
        raise click.UsageError("name pods, or give --all")
    known = [pod for pod, _ in pods_on_record(settings)]
    wanted = [
        pod for pod in known if everything or (pod.metadata.name in names and pod.metadata.namespace == namespace)
    ]
    if missing := set(names) - {pod.metadata.name for pod in wanted}:
        raise click.ClickException(f'pods "{", ".join(sorted(missing))}" not found')
    busy = is_running(settings)
    static = [pod.metadata.name for pod in wanted if pod.metadata.annotations.get(CONFIG_SOURCE) != RUN_SOURCE]
    if busy and static:
        raise click.ClickException(f"{', '.join(static)}: the running kubelet wants them: remove their manifests")
    records = PodRecords(KubeletPaths(settings.open_node().folder))
    for pod in wanted:
        records.set_deleted(pod, grace_period)
    left = _wait(settings, wanted) if busy else _end(settings, runtime_endpoint, wanted)
    rows = [[pod.metadata.namespace, pod.metadata.name, "left" if pod in left else "deleted"] for pod in wanted]
    document = {"pods": [dict(zip(("namespace", "name", "outcome"), row, strict=True)) for row in rows]}
    settings.emit(document, Table(("NAMESPACE", "NAME", "OUTCOME"), rows))
    return 1 if left else 0


def _end(settings: Settings, endpoint: str, wanted: "list[V1Pod]") -> "list[V1Pod]":
    """Run the kubelet's loop until the pods are gone; return those that are not in time."""
    from harness.kubelet.sources import Sources

    with open_kubelet(settings, endpoint, alone=True) as assembled:
        kubelet = assembled.kubelet
        sources = Sources(assembled.records, manifests=None, node_name="", say=say)
        sources.on_pods = kubelet.set_pods
        kubelet.start()
        until = time.monotonic() + _patience_s(wanted)
        try:
            sources.look()
            kubelet.run(until=lambda: not _left(settings, wanted) or time.monotonic() >= until)
        finally:
            assembled.close()
    return _left(settings, wanted)


def _wait(settings: Settings, wanted: "list[V1Pod]") -> "list[V1Pod]":
    until = time.monotonic() + _patience_s(wanted)
    while _left(settings, wanted) and time.monotonic() < until:
        time.sleep(_LOOK_S)
    return _left(settings, wanted)


def _left(settings: Settings, wanted: "list[V1Pod]") -> "list[V1Pod]":
    there = {pod.metadata.uid for pod, _ in pods_on_record(settings)}
    return [pod for pod in wanted if pod.metadata.uid in there]


def _patience_s(wanted: "list[V1Pod]") -> float:
    from harness.kubelet.container_kill import grace_period

    return max(map(grace_period, wanted), default=0) + _MARGIN_S
