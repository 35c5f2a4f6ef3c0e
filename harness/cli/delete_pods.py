"""`cni-harness delete`: pods of manifests are ended, and everything of them is removed."""

import time
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from harness.cli.kubectl import named_pods
from harness.cli.kubelet_node import (
    BusyError,
    RuntimeChoice,
    is_running,
    open_kubelet,
    pods_on_record,
    run_pass,
    runtime_options,
)
from harness.cli.manifest_pods import naming_remaining_pods
from harness.cli.option_types import time_option
from harness.cli.options import Settings, complete_pod, namespace_option, verb
from harness.cli.parallel import for_each_pod
from harness.cli.traced_verb import record_option
from harness.output import TextTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from api.pod import V1Pod

_LOOK_S = 0.2
_JOBS = 8
"""Bare pods at a time, as for `del`."""
_MARGIN_S = 60.0  # beyond the grace period, for hooks, plugins and the removal of files


@verb(
    "delete",
    examples={
        "delete web": "End a pod",
        "delete --all": "End all pods, of every namespace",
    },
    root="ends containers",
)
@click.argument("names", nargs=-1, metavar="[pod] POD...", callback=named_pods, shell_complete=complete_pod)
@click.option("--all", "everything", is_flag=True, help="All pods, of every namespace.")
@time_option("--grace-period", "Time between the stop signal and SIGKILL.  [default: the pod's own]", whole=True)
@namespace_option
@record_option
@runtime_options
def command(
    settings: Settings,
    *,
    names: tuple[str, ...],
    everything: bool,
    grace_period: int | None,
    namespace: str,
    runtime: RuntimeChoice,
) -> int:
    """End pods: preStop hooks and stop signals of containers, then the network; nothing remains.

    A pod whose manifest is in the folder of a running `cni-harness kubelet` ends when that file is removed. After
    Ctrl-C stderr names the pods that stay.
    """
    if bool(names) == everything:
        raise click.UsageError("name pods, or give --all")
    known = [pod for pod, _ in pods_on_record(settings)]
    wanted = [
        pod for pod in known if everything or (pod.metadata.name in names and pod.metadata.namespace == namespace)
    ]
    rest = set(names) - {pod.metadata.name for pod in wanted}
    bare = [each for each in settings.open_node().pods.names() if everything or each in {(namespace, n) for n in rest}]
    if missing := rest - {name for _, name in bare}:
        raise click.ClickException("; ".join(f'pods "{name}" not found' for name in sorted(missing)))
    if static := wanted_by_kubelet(settings, wanted):
        names_of = ", ".join(pod.metadata.name for pod in static)
        raise click.ClickException(f"{names_of}: the running kubelet wants them: remove their manifests")
    left = end_pods(settings, runtime, wanted, grace_period) if wanted else []
    rows = [[pod.metadata.namespace, pod.metadata.name, "left" if pod in left else "deleted"] for pod in wanted]
    kept = set(bare)
    if bare:
        node = settings.existing_node()
        with node.in_use():
            delete = settings.runtime(node, settings.bin_dirs).delete
            done = for_each_pod(bare, delete, jobs=_JOBS, label="Deleting pods", done="Gone")
            kept -= {each for each, _ in done}
    rows += [[*each, "left" if each in kept else "deleted"] for each in bare]
    document = {"pods": [dict(zip(("namespace", "name", "outcome"), row, strict=True)) for row in rows]}
    settings.emit(document, TextTable(("NAMESPACE", "NAME", "OUTCOME"), rows))
    return 1 if left or kept else 0


def wanted_by_kubelet(settings: Settings, pods: "Sequence[V1Pod]") -> "list[V1Pod]":
    """Return those of the pods that a running kubelet would make again, because their manifests are in its folder."""
    from harness.kubelet.labels import CONFIG_SOURCE
    from harness.kubelet.sources import RUN_SOURCE

    if not is_running(settings):
        return []
    return [pod for pod in pods if pod.metadata.annotations.get(CONFIG_SOURCE) != RUN_SOURCE]


def end_pods(
    settings: Settings, runtime: RuntimeChoice, wanted: "Sequence[V1Pod]", grace_s: int | None = None
) -> "list[V1Pod]":
    """Have the pods end, by the kubelet that works on the node, or by its loop here; return those not ended in time.

    `grace_s` replaces the pods' own grace periods, in seconds. If a signal ends this, stderr names the pods that stay.
    """
    from harness.kubelet.pod_records import PodRecords
    from harness.kubelet.sync.container_kill import grace_period

    records = PodRecords(settings.kubelet_paths())
    until = time.monotonic() + max(map(grace_period, wanted), default=0) + _MARGIN_S

    def is_over() -> bool:
        return not _remaining(settings, wanted) or time.monotonic() >= until

    with naming_remaining_pods(settings, wanted, ending=True):
        for pod in wanted:
            records.set_deleted(pod, grace_s)
        while not is_over():
            with suppress(BusyError), open_kubelet(settings, runtime, alone=True) as assembled:
                for pod in _remaining(settings, wanted):  # a verb that ended meanwhile may have written an older record
                    records.set_deleted(pod, grace_s)
                run_pass(assembled, is_over)
                break
            time.sleep(_LOOK_S)
    return _remaining(settings, wanted)


def _remaining(settings: Settings, wanted: "Sequence[V1Pod]") -> "list[V1Pod]":
    there = {pod.metadata.uid for pod, _ in pods_on_record(settings)}
    return [pod for pod in wanted if pod.metadata.uid in there]
