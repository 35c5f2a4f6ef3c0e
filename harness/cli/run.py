"""`cni-harness run`: the pods of manifests, as a kubelet starts them, in one pass."""

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.kubectl import POD_HEADINGS, pod_row
from harness.cli.kubelet_node import (
    BusyError,
    RuntimeChoice,
    choose_endpoint,
    node_name,
    open_kubelet,
    pods_on_record,
    run_pass,
    runtime_options,
)
from harness.cli.manifest_pods import naming_remaining_pods
from harness.cli.option_types import time_option
from harness.cli.options import Settings, verb
from harness.cli.readiness import POLL_S, ReadinessWatch, progress
from harness.cli.traced_verb import record_option
from harness.output import TextTable, say

if TYPE_CHECKING:
    from api.pod import V1ConfigMap, V1Pod
    from harness.kubelet.assembly import Assembled


@verb(
    "run",
    examples={
        "run -f web.yaml --record": "Run a pod until it is ready, and keep the steps for `explain`",
        "run -f manifests --timeout 2m --trace": "Run those of a folder, and print each step",
    },
    root="makes network namespaces and containers",
)
@click.option(
    "-f",
    "--filename",
    "paths",
    multiple=True,
    required=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="FILE",
    help="A manifest, YAML or JSON, or a folder of manifests; may be repeated.",
)
@time_option("--timeout", "How long to wait until all pods are ready or have ended.", "60s")
@time_option("--min-ready", "How long the containers must run, without an end, before a pod counts as ready.", "1s")
@record_option
@runtime_options
def command(
    settings: Settings, *, paths: tuple[Path, ...], timeout: float, min_ready: float, runtime: RuntimeChoice
) -> int:
    """Run the pods of manifests until all are ready or have ended.

    The steps are kubelet's, from the manifest to the containers' start, and so are the rules. The pods go on running:
    `get pods`, `describe`, `logs`, `exec` and `delete` are for them, and `kubelet` restarts and probes them. The exit
    code is 1 if a pod fails or is not ready in time. After Ctrl-C stderr names the pods that stay.
    """
    from harness.kubelet.pod_records import PodRecords

    settings.announces = True
    pods, config_maps = _manifests(settings, paths)
    choose_endpoint(settings.open_node().folder, runtime.endpoint)
    records = PodRecords(settings.kubelet_paths())
    known = _refuse_taken_names(settings, pods)
    uids = {pod.metadata.uid for pod in pods}
    with naming_remaining_pods(settings, pods):
        for pod in pods:
            records.set_config_maps(pod, records.config_maps(pod.metadata.uid) | config_maps)
            if pod.metadata.uid not in known:
                records.add(pod)
        watch = ReadinessWatch(settings, uids, timeout=timeout, min_ready=min_ready)
        failures = _settle(settings, runtime, watch)
    now = [(pod, status) for pod, status in pods_on_record(settings) if pod.metadata.uid in uids]
    from harness.kubelet.server import pod_document

    settings.emit(
        {"pods": [pod_document(pod, status) for pod, status in now]},
        TextTable(POD_HEADINGS, [pod_row(pod, status) for pod, status in now], "STATUS"),
    )
    for line in failures:
        say(line)
    return 1 if failures else 0


def _manifests(settings: Settings, paths: tuple[Path, ...]) -> "tuple[list[V1Pod], dict[tuple[str, str], V1ConfigMap]]":
    """Read all manifests. Raises ClickException with every error, before anything is changed."""
    from harness.kubelet.labels import CONFIG_SOURCE
    from harness.kubelet.sources import RUN_SOURCE, FileSource

    pods: list[V1Pod] = []
    config_maps: dict[tuple[str, str], V1ConfigMap] = {}
    errors: list[str] = []
    for path in paths:
        state = FileSource(path, node_name(settings), suffix=False).read()
        errors += [f"{file}: {error}" for file, found in state.errors.items() for error in found]
        pods += state.pods
        config_maps |= state.config_maps
    if errors:
        raise click.ClickException("; ".join(errors))
    if not pods:
        raise click.ClickException(f"no pod in {', '.join(map(str, paths))}")
    for pod in pods:
        pod.metadata.annotations[CONFIG_SOURCE] = RUN_SOURCE
    return pods, config_maps


def _refuse_taken_names(settings: Settings, pods: "list[V1Pod]") -> set[str]:
    """Return the UIDs on record. Raises ClickException if another pod has one of the names, or the pod is ending."""
    recorded = [pod for pod, _ in pods_on_record(settings)]
    bare = set(settings.open_node().pods.names())
    known = {(pod.metadata.namespace, pod.metadata.name): pod.metadata.uid for pod in recorded}
    ending = {pod.metadata.uid for pod in recorded if pod.metadata.deletion_timestamp}
    for pod in pods:
        uid = known.setdefault((pod.metadata.namespace, pod.metadata.name), pod.metadata.uid)
        title = f"{pod.metadata.namespace}/{pod.metadata.name}"
        if (pod.metadata.namespace, pod.metadata.name) in bare:
            raise click.ClickException(
                f"pod {title}: `add` made a pod of this name; `cni-harness delete {pod.metadata.name}` ends it"
            )
        if uid != pod.metadata.uid and uid not in {each.metadata.uid for each in recorded}:
            raise click.ClickException(f"pod {title} is in two manifests")
        if uid != pod.metadata.uid:
            raise click.ClickException(
                f"pod {title}: another pod of this name runs; `cni-harness delete {pod.metadata.name}` ends it"
            )
        if uid in ending:
            raise click.ClickException(
                f"pod {title} is being deleted; `cni-harness delete {pod.metadata.name}` waits for its end"
            )
    return {pod.metadata.uid for pod in recorded}


def _settle(settings: Settings, runtime: RuntimeChoice, watch: ReadinessWatch) -> list[str]:
    """Have the pods settle, by the kubelet that works on the node, or by its loop here.

    Return lines for each that is not ready.
    """
    with progress(watch):
        while True:
            with suppress(BusyError), open_kubelet(settings, runtime, alone=True) as assembled:
                _pass(assembled, watch)
                break
            if watch.is_over():
                break
            time.sleep(POLL_S)
    return watch.failures()


def _pass(assembled: "Assembled", watch: ReadinessWatch) -> None:
    """Run the kubelet's loop until the pods are settled; the statuses of an earlier process do not count."""
    has_synced = assembled.kubelet.has_synced
    run_pass(assembled, lambda: all(map(has_synced, watch.uids)) and watch.is_over())
