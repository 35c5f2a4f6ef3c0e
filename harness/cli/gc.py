"""`cni-harness gc`: removal of lost pods' leftovers."""

from typing import TYPE_CHECKING, Any

import click

from harness.cli.option_types import time_option
from harness.cli.options import Settings, only_networks_option, verb
from harness.output import TextTable, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.runtime.collection import Collection
    from harness.runtime.leftovers import AttachmentSurvey, TracedAttachment

_SHORT_ID = 12
_MIN_AGE_S = 60.0


@verb(
    "gc",
    examples={
        "gc --dry-run": "Name the leftovers, and free none",
        "gc --diff": "Free them, and show what was freed",
    },
    root="deletes attachments",
)
@only_networks_option
@click.option("--dry-run", is_flag=True, help="Say what would be freed, and when; execute nothing.")
@time_option(
    "--min-age", "How long ago a leftover was seen for the first time, at least.  [default: 60s; 0 with --node]"
)
@click.option(
    "--sole-runtime", is_flag=True, help="No other runtime uses these networks: execute GC, too. So it is with --node."
)
@click.option("--diff", is_flag=True, help="Show what was freed: the node and the pods, before and after.")
def command(
    settings: Settings,
    *,
    names: tuple[str, ...],
    dry_run: bool,
    min_age: float | None,
    sole_runtime: bool,
    diff: bool,
) -> int:
    """Free the leftovers of pods that are gone; everything that may be in use is kept.

    A leftover has no record of this program, no cached result whose network namespace exists, and no address in any
    namespace. It must be seen twice, unchanged: the first gc names it, a later one frees it. Pods of other runtimes are
    kept and counted.

    Each leftover is freed by the DEL of every plugin of its list. The verb GC removes everything that it is not told
    of, also an attachment that another runtime adds at that moment: it is executed with --sole-runtime and on a --node
    alone. Networks with disableGC are left alone. Plugins are looked for in --bin-dir, then in the folders that the
    pods' ADDs used.
    """
    from harness.cli.defaults import configured_networks, plugin_folders, plugin_types, select_networks
    from harness.runtime.collection import Collector, suspect_ages
    from harness.runtime.leftovers import survey
    from harness.runtime.node_snapshot import StateBefore

    node = settings.open_node()
    if not node.exists():
        say(f"There is no node {node.name}: nothing to free")
        settings.emit({"networks": [], "strays": []}, TextTable((), ()), [] if diff else None)
        return 0
    networks = select_networks(settings, names) if names else configured_networks(settings)
    if min_age is None:
        min_age = _MIN_AGE_S if node.name is None else 0.0
    with node.alone(), plugin_folders(settings, plugin_types(networks)) as bin_dirs:
        pods = node.pods.all()
        before = StateBefore(node, [(pod.namespace, pod.name) for pod in pods], warn=say) if diff else None
        found = survey(node, networks)
        collector = Collector(
            settings.runtime(node, bin_dirs).networks.libcni(pods),
            found,
            own=[(attached.name, pod.container_id, attached.ifname) for pod in pods for attached in pod.networks],
            ages=suspect_ages(node.folder / "leftovers.json", found.suspects()),
            min_age=min_age,
            sends_gc=sole_runtime or node.name is not None,
        )
        collections = [collector.collect(network, dry_run=dry_run) for network in networks]
        if any(each.deleted for each in collections):
            found = survey(node, networks)
            collector.check(found, collections)
        freed = before.differences() if before is not None else None
    for line in _lines(collections, found):
        say(line)
    document = {
        "networks": [_document(each) for each in collections],
        "strays": [each._asdict() for each in found.strays],
    }
    headings = ("NETWORK", "VALID", "KEPT", "DELETED", "GC")
    settings.emit(document, TextTable(headings, list(map(_row, collections)), "GC"), freed)
    return 1 if any(each.error for each in collections) else 0


def _lines(collections: "Sequence[Collection]", found: "AttachmentSurvey") -> "Iterator[str]":
    for each in collections:
        if each.kept:
            whose = ", ".join(sorted({known.title for known in each.kept}))
            say_of = "an attachment" if len(each.kept) == 1 else f"{len(each.kept)} attachments"
            yield f"{each.network}: kept {say_of} of other runtimes: {whose}"
        for waiting in each.waiting:
            when = f"in {waiting.seconds:.0f} s or later" if waiting.seconds else "now"
            yield f"{each.network}: leftover of {_described(waiting.attachment)}: gc frees it {when}"
        for known in each.unnameable:
            yield f"{each.network}: leftover of {_described(known)}: no DEL can name its container"
        for known in each.remaining:
            yield f"{each.network}: leftover of {_described(known)}: its DEL has not freed it"
    for stray in found.strays:
        yield f"not freed: {stray.what}"


def _described(known: "TracedAttachment") -> str:
    traces = ", ".join(map(str, known.traces))
    return f"{known.title}/{known.ifname} ({traces})"


def _document(done: "Collection") -> dict[str, object]:
    return {
        "name": done.network,
        "valid": done.valid,
        "kept": [_traced(each) | {"reason": each.living} for each in done.kept],
        "deleted": [_traced(each) for each in done.deleted],
        "waiting": [_traced(each) | {"seconds": round(seconds, 1)} for each, seconds in done.waiting],
        "notFreed": [_traced(each) for each in (*done.unnameable, *done.remaining)],
        "gcExecuted": done.sent_gc,
        "error": done.error,
    }


def _traced(known: "TracedAttachment") -> dict[str, Any]:
    return {
        "containerID": known.container_id,
        "ifname": known.ifname,
        "pod": known.pod,
        "traces": [f"{trace}" for trace in known.traces],
    }


def _row(done: "Collection") -> list[str]:
    deleted = ", ".join(f"{each.container_id[:_SHORT_ID]}/{each.ifname}" for each in done.deleted)
    outcome = f"{len(done.waiting)} waiting" if done.waiting else "ok"
    if done.error or done.is_disabled:
        outcome = done.error or "disabled"
    return [done.network, str(done.valid), str(len(done.kept)), deleted, outcome]
