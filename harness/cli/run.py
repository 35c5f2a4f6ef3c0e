"""`cni-harness run`: the pods of manifests, as a kubelet starts them, in one pass."""

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.kubelet_node import (
    BusyError,
    RuntimeChoice,
    node_name,
    open_kubelet,
    pods_on_record,
    run_pass,
    runtime_options,
)
from harness.cli.kubelet_tables import POD_HEADINGS, pod_row
from harness.cli.options import Duration, Settings, needs_root, say, verb
from harness.cli.traced_verb import record_option
from harness.table import Table

if TYPE_CHECKING:
    from harness.kubelet.assembly import Assembled
    from harness.kubelet.events import Event
    from harness.kubelet.v1 import V1ConfigMap, V1Pod
    from harness.kubelet.v1_status import V1PodStatus

__all__ = ["command"]

_LOOK_S = 0.1


@verb("run")
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
@click.option(
    "--timeout",
    type=Duration(),
    default="60s",
    show_default=True,
    metavar="TIME",
    help="How long to wait until all pods are ready or have ended.",
)
@record_option
@runtime_options
def command(settings: Settings, *, paths: tuple[Path, ...], timeout: float, runtime: RuntimeChoice) -> int:
    """Run the pods of manifests until all are ready or have ended.

    The steps are kubelet's, from the manifest to the containers' start, and so are the rules. The pods go on running:
    `get pods`, `describe`, `logs`, `exec` and `delete` are for them, and `kubelet` restarts and probes them. The exit
    code is 1 if a pod fails or is not ready in time.
    """
    from harness.cli.runtime_choice import choose_endpoint
    from harness.kubelet.paths import KubeletPaths
    from harness.kubelet.pod_records import PodRecords

    settings.announces = True
    needs_root("run", "makes network namespaces and containers")
    pods, config_maps = _manifests(settings, paths)
    folder = settings.open_node().folder
    choose_endpoint(folder, runtime.endpoint)
    records = PodRecords(KubeletPaths(folder))
    known = _refuse_taken_names(settings, pods)
    for pod in pods:
        records.set_config_maps(pod, records.config_maps(pod.metadata.uid) | config_maps)
        if pod.metadata.uid not in known:
            records.add(pod)
    uids = {pod.metadata.uid for pod in pods}
    failures = _settle(settings, runtime, _Look(settings, uids, timeout))
    now = [(pod, status) for pod, status in pods_on_record(settings) if pod.metadata.uid in uids]
    from harness.kubelet.server import pod_document

    settings.emit(
        {"pods": [pod_document(pod, status) for pod, status in now]},
        Table(POD_HEADINGS, [pod_row(pod, status) for pod, status in now], "STATUS"),
    )
    for line in failures:
        say(line)
    return 1 if failures else 0


def _manifests(settings: Settings, paths: tuple[Path, ...]) -> "tuple[list[V1Pod], dict[tuple[str, str], V1ConfigMap]]":
    """Read all manifests. Raises ClickException with every error, before anything is changed."""
    from harness.kubelet.file_source import static_pods
    from harness.kubelet.labels import CONFIG_SOURCE
    from harness.kubelet.sources import RUN_SOURCE

    pods: list[V1Pod] = []
    config_maps: dict[tuple[str, str], V1ConfigMap] = {}
    errors: list[str] = []
    for path in paths:
        state = static_pods(path, node_name(settings), suffix=False)
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
    known = {(pod.metadata.namespace, pod.metadata.name): pod.metadata.uid for pod in recorded}
    ending = {pod.metadata.uid for pod in recorded if pod.metadata.deletion_timestamp}
    for pod in pods:
        uid = known.setdefault((pod.metadata.namespace, pod.metadata.name), pod.metadata.uid)
        title = f"{pod.metadata.namespace}/{pod.metadata.name}"
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


def _settle(settings: Settings, runtime: RuntimeChoice, look: "_Look") -> list[str]:
    """Have the pods settle, by the kubelet that works on the node, or by its loop here.

    Return a line for each that is not ready.
    """
    while True:
        with suppress(BusyError), open_kubelet(settings, runtime, alone=True) as assembled:
            _pass(assembled, look)
            break
        if look.is_over():
            break
        time.sleep(_LOOK_S)
    return look.failures()


def _pass(assembled: "Assembled", look: "_Look") -> None:
    """Run the kubelet's loop until the pods are settled; the statuses of an earlier process do not count."""
    has_synced = assembled.kubelet.has_synced
    run_pass(assembled, lambda: all(map(has_synced, look.uids)) and look.is_over())


class _Look:
    """Looks at pods until each is ready, has ended or has failed, or the time is over."""

    def __init__(self, settings: Settings, uids: set[str], timeout: float) -> None:
        from harness.kubelet.events import EventRecorder
        from harness.kubelet.paths import KubeletPaths

        self._settings = settings
        self.uids = uids
        self._timeout = timeout
        self._until = time.monotonic() + timeout
        self._events = EventRecorder(KubeletPaths(settings.open_node().folder).pods)
        self._before = {uid: self._events.of(uid) for uid in uids}
        self._next = 0.0

    def _now(self) -> "list[tuple[V1Pod, V1PodStatus, list[Event]]]":
        pods = [(pod, status) for pod, status in pods_on_record(self._settings) if pod.metadata.uid in self.uids]
        return [(pod, status, self._new_events(pod.metadata.uid)) for pod, status in pods]

    def _new_events(self, uid: str) -> "list[Event]":
        return [event for event in self._events.of(uid) if event not in self._before[uid]]

    def is_over(self) -> bool:
        """Look, ten times a second at most."""
        if time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + _LOOK_S
        from harness.kubelet.settled import failure_of, is_ready

        settled = [pod for pod, status, events in self._now() if is_ready(status) or failure_of(status, events)]
        return len(settled) == len(self.uids) or time.monotonic() >= self._until

    def failures(self) -> list[str]:
        """Return a line for each pod that is not as wanted."""
        from harness.kubelet.settled import failure_of, is_ready

        now = self._now()
        gone = len(self.uids) - len(now)
        lines = [f"Error: {gone} of the pods were deleted meanwhile"] if gone else []
        for pod, status, events in now:
            failure = failure_of(status, events)
            if not failure and not is_ready(status):
                failure = f"not ready after {self._timeout:g} s"
            if failure:
                lines.append(f"Error: pod {pod.metadata.namespace}/{pod.metadata.name}: {failure}")
        return lines
