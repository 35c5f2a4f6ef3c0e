"""`cni-harness repair`: what other programs removed of live pods' networks is put back."""

import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.options import Settings, cache_dir_option, only_networks_option, verb, warn
from harness.cli.parallel import jobs_option_for
from harness.output import TextTable, say, seconds

if TYPE_CHECKING:
    from harness.libcni.repair import Repair
    from harness.runtime.node import Node
    from harness.runtime.node_repair import NodeRepair


@verb(
    "repair",
    examples={
        "repair": "Put back what a firewall's reload took",
        "repair --watch": "Go on, and repair after each reload",
    },
    root="changes the node's firewall and links",
)
@only_networks_option
@cache_dir_option
@click.option("--watch", is_flag=True, help="Go on: repair whenever tables, chains' rules or bridges are deleted.")
@jobs_option_for("containers", "-j")
def command(settings: Settings, *, names: tuple[str, ...], cache_dirs: tuple[Path, ...], watch: bool, jobs: int) -> int:
    """Put back what every live attachment needs on the host: firewall rules, bridges, routes.

    After `nft flush ruleset`, `iptables -F`, a reload of firewalld, or the deletion of a bridge. The attachments are
    those that runtimes have cached. Each plugin is executed with REPAIR, a verb of this project's plugins: other
    plugins answer with an error, which is shown, and the exit code is 1. Plugins are looked for in --bin-dir, then in
    the folders that the pods' ADDs used.
    """
    from harness.cli.defaults import select_networks
    from harness.cli.execution_log import execution_logger
    from harness.libcni.cache import ResultCache
    from harness.libcni.execute import Executor
    from harness.runtime.node_repair import NodeRepair

    node = settings.existing_node(threads=jobs)
    executor = Executor(
        settings.usual_bin_dirs(node, warn), observe=execution_logger(settings.verbose), place=node.shell_words()
    )
    caches = [ResultCache(folder, warn=say) for folder in cache_dirs or (node.var_lib_cni,)]
    known = {cached.network for cache in caches for cached in cache.attachments()} if names else set()
    if not watch and (unknown := [name for name in names if name not in known]):
        # A network without attachments has nothing to repair, but a name that no list has is a mistake.
        select_networks(settings, unknown)
    repairing = NodeRepair(node, executor, caches, networks=names, jobs=jobs)
    if watch:
        _watch(node, repairing)
    with node.in_use():
        repairs = repairing.repair()
    document = [_document(each) for each in repairs]
    headings = ("NETWORK", "CONTAINER ID", "INTERFACE", "REPAIR")
    settings.emit({"attachments": document}, TextTable(headings, list(map(_row, repairs)), "REPAIR"))
    return 1 if any(_is_failure(each) for each in repairs) else 0


def _watch(node: "Node", repairing: "NodeRepair") -> None:
    """Repair at every loss, until a signal ends the program. Raises OSError."""
    from harness.runtime.node_repair import watch
    from netlink.namespace import open_namespace
    from netlink.nft_monitor import LossMonitor

    known: set[str] = set()

    def repair() -> None:
        started = time.monotonic()
        with node.in_use():
            repairs = repairing.repair()
        took = time.monotonic() - started
        failed = {f"Error: {_title(each)}: {each.problem}" for each in repairs if _is_failure(each)}
        say(f"Repaired {len(repairs)} attachments, {len(failed)} with errors, in {seconds(took)}")
        # Other suites' plugins fail each time: once is enough.
        for line in sorted(failed - known):
            say(line)
        known.clear()
        known.update(failed)

    def confirm() -> None:
        with node.in_use():
            # Most of these pods were deleted later, as any pod: only an error is news.
            for _, now in repairing.confirm():
                if now.problem:
                    say(f"Error: {_title(now)}: {now.problem}")

    with (
        nullcontext() if node.netns is None else open_namespace(node.netns) as namespace,
        LossMonitor(namespace) as monitor,
    ):
        watch(monitor, repair=repair, confirm=confirm)


def _is_failure(repair: "Repair") -> bool:
    from harness.libcni.repair import RepairOutcome

    return repair.outcome is RepairOutcome.FAILED or (repair.outcome is RepairOutcome.DELETED and bool(repair.problem))


def _title(repair: "Repair") -> str:
    attachment = repair.cached.attachment
    return f"{repair.cached.network}, container {attachment.container_id}, {attachment.ifname}"


def _document(repair: "Repair") -> dict[str, object]:
    attachment = repair.cached.attachment
    return {
        "network": repair.cached.network,
        "containerID": attachment.container_id,
        "ifname": attachment.ifname,
        "netns": repair.netns,
        "outcome": str(repair.outcome),
        "error": repair.error,
        "plugins": [{"type": each.plugin, "error": each.error} for each in repair.plugins],
    }


def _row(repair: "Repair") -> Sequence[str]:
    attachment = repair.cached.attachment
    shown = f"{repair.outcome}: {repair.problem}" if repair.problem else str(repair.outcome)
    return [repair.cached.network, attachment.container_id, attachment.ifname, shown]
