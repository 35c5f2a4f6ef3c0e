"""`cni-harness del`: removal of pods, with everything that was made for them."""

from functools import partial
from typing import TYPE_CHECKING

import click

from harness.cli.options import Settings, complete_pod, namespace_option, needs_root, verb
from harness.cli.parallel import for_each_pod, jobs_option
from harness.cli.traced_verb import record_option
from harness.output import TextTable, say

if TYPE_CHECKING:
    from api.pod import V1Pod
    from harness.runtime.node_snapshot import StateBefore
    from harness.runtime.pod_lifecycle import PodRuntime
    from harness.snapshot import Difference


@verb(
    "del",
    examples={
        "del pod1 pod2": "Delete two pods",
        "del --all --prune": "Delete all pods, and the bridges that their networks made",
    },
)
@click.argument("pods", nargs=-1, metavar="[POD]...", shell_complete=complete_pod)
@click.option(
    "--all", "everything", is_flag=True, help="Every pod of the node, in every namespace, also those of manifests."
)
@click.option(
    "--prune",
    is_flag=True,
    help="Also remove unused leftovers of deleted pods: bridges without ports, and a --node without pods.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Forget a pod even if a plugin could not clean up after it, or its record cannot be read.",
)
@click.option("--diff", is_flag=True, help="Show what was freed: the node and the pods, before and after.")
@namespace_option
@record_option
@jobs_option
def command(
    settings: Settings,
    *,
    pods: tuple[str, ...],
    everything: bool,
    prune: bool,
    force: bool,
    diff: bool,
    namespace: str,
    jobs: int,
) -> int:
    """Delete pods: from their networks, as they were when the pods were added, then their network namespaces.

    Pods of manifests end as by `delete`, except those in the folder of a running kubelet.
    A missing pod is no error. Failures are reported after all other steps; the pod then stays on record and can be
    deleted again. Plugins are looked for in --bin-dir, then in the folders that the pod's ADD used.
    """
    if bool(pods) == everything:
        raise click.UsageError("name pods, or say --all")
    from harness.runtime.kubernetes import check_pod

    needs_root("del", "removes network namespaces")
    wanted = [(namespace, name) for name in dict.fromkeys(pods)]
    for each in wanted:
        check_pod(*each)
    node = settings.open_node(threads=jobs)
    if not node.exists():
        return _report(settings, wanted, [], 0, [] if diff else None)
    of_manifests = _pods_of_manifests(settings, None if everything else wanted)
    named = {(pod.metadata.namespace, pod.metadata.name) for pod in of_manifests}
    wanted = node.pods.names() if everything else [each for each in wanted if each not in named]
    freed: list[Difference] | None = None
    with node.in_use():
        before = None
        if diff:
            from harness.runtime.node_snapshot import StateBefore

            before = StateBefore(node, [*wanted, *named], warn=say)
        runtime = settings.runtime(node, settings.bin_dirs)
        delete = partial(runtime.delete, force=force)
        done = for_each_pod(wanted, delete, jobs=jobs, label="Deleting pods", done="Gone")
        deleted = [(pod.namespace, pod.name, pod.container_id) for _, pod in done if pod is not None]
        failed = len(wanted) - len(done)
        if of_manifests:
            ended, left = _end_pods_of_manifests(settings, of_manifests)
            deleted += [(pod.metadata.namespace, pod.metadata.name, "") for pod in ended]
            failed += len(left)
        if before is not None and not prune:
            freed = before.differences()
    if prune:
        freed = _prune(runtime, before)
    missing = [pod for pod, was in done if was is None]
    return _report(settings, missing, deleted, failed, freed)


def _report(
    settings: Settings,
    missing: list[tuple[str, str]],
    deleted: list[tuple[str, str, str]],
    failed: int,
    freed: "list[Difference] | None",
) -> int:
    for namespace, name in missing:
        say(f"There is no pod {namespace}/{name}")
    listed = [{"name": name, "namespace": in_, "containerID": container_id} for in_, name, container_id in deleted]
    rows = [[name, in_, container_id] for in_, name, container_id in deleted]
    settings.emit({"deleted": listed}, TextTable(("DELETED", "NAMESPACE", "CONTAINER ID"), rows), freed)
    return 1 if failed else 0


def delete_all(settings: Settings, *, jobs: int = 8) -> None:
    """Delete every pod of a named node, which is about to be removed; failures are lines on stderr."""
    node = settings.open_node(threads=jobs)
    of_manifests = _pods_of_manifests(settings, None)
    with node.in_use():
        delete = settings.runtime(node, settings.bin_dirs).delete
        for_each_pod(node.pods.names(), delete, jobs=jobs, label="Deleting pods", done="Gone")
        if of_manifests:
            _end_pods_of_manifests(settings, of_manifests)


def _pods_of_manifests(settings: Settings, names: list[tuple[str, str]] | None) -> "list[V1Pod]":
    """Return the pods of manifests, all of them or those of these names; a bare pod goes before one of its name."""
    node = settings.open_node()
    if names is not None and all(node.pods.pod_folder(*each).exists() for each in names):
        return []
    from harness.cli.kubelet_node import pods_on_record

    known = {(pod.metadata.namespace, pod.metadata.name): pod for pod, _ in pods_on_record(settings)}
    if names is None:
        return list(known.values())
    return [known[each] for each in names if each in known and not node.pods.pod_folder(*each).exists()]


def _end_pods_of_manifests(settings: Settings, known: "list[V1Pod]") -> "tuple[list[V1Pod], list[V1Pod]]":
    """End pods of manifests; return those that ended and those that stay, which are named on stderr."""
    from harness.cli.delete_pods import end_pods, wanted_by_kubelet
    from harness.cli.kubelet_node import DEFAULT_TIMEOUT_S, RuntimeChoice
    from harness.cri.service import RuntimeServiceError

    static = wanted_by_kubelet(settings, known)
    wanted = [pod for pod in known if pod not in static]
    reason = "it did not end in time"
    try:
        left = end_pods(settings, RuntimeChoice("", DEFAULT_TIMEOUT_S), wanted) if wanted else []
    except RuntimeServiceError as error:
        left, reason = wanted, str(error)
    for pods, why in ((static, "its manifest is in the folder of a running kubelet"), (left, reason)):
        for pod in pods:
            say(f"Kept pod {pod.metadata.namespace}/{pod.metadata.name}: {why}")
    return [pod for pod in wanted if pod not in left], static + left


def _prune(runtime: "PodRuntime", before: "StateBefore | None") -> "list[Difference] | None":
    """Remove unused bridges and the node; return the differences since `before`, taken before the node goes."""
    from shutil import rmtree

    from harness.runtime.prune import forwarding_that_stays, prune_links
    from harness.runtime.sandbox import sandbox_exists

    node = runtime.node
    # During an ADD a pod may already have a bridge, but no port yet and no result.
    with node.alone():
        pruned = prune_links(runtime)
        forwarding = node.run(forwarding_that_stays) if pruned.removed else []
        freed = before.differences() if before is not None else None
    for name in pruned.removed:
        say(f"Removed {name}, which had no ports left")
    for name, reason in pruned.kept.items():
        say(f"Kept {name}: {reason}")
    if not node.pods.has_records():
        rmtree(node.runs, ignore_errors=True)
    if node.name is not None:
        say(f"Removed node {node.name}" if node.remove() else f"Kept node {node.name}: it has pods")
    if node.netns is None or sandbox_exists(node.netns):
        for parameter in forwarding:
            say(f"{parameter} stays 1: other software may count on it")
    return freed
