"""`cni-harness gc`: removal of lost pods' leftovers."""

import click

from harness.cli.options import Settings, needs_root, only_networks_option, say, verb
from harness.output import message_of
from harness.table import Table

__all__ = ["command"]

_SHORT_ID = 12


@verb("gc")
@only_networks_option
@click.option("--diff", is_flag=True, help="Show what was freed: the node and the pods, before and after.")
def command(settings: Settings, *, names: tuple[str, ...], diff: bool) -> int:
    """Free the networks' resources, except those of attachments of pods on record.

    That includes the resources of other runtimes: run it only for networks that no other runtime uses. Waits until no
    pod is being added or deleted. Networks with disableGC are left alone. Plugins of lists below 1.1.0 have no GC: only
    their cached attachments are deleted. Plugins are looked for in --bin-dir, then in the folders that the pods' ADDs
    used.
    """
    from harness.cli.defaults import configured_networks, plugin_folders, plugin_types, select_networks
    from harness.cri.builtin.sandbox_store import SandboxStore
    from harness.libcni.attachment import Attachment
    from harness.runtime.node_snapshot import StateBefore

    needs_root("gc", "deletes attachments")
    node = settings.open_node()
    if not node.exists():
        say(f"There is no node {node.name}: nothing to free")
        settings.emit({"networks": []}, Table((), ()), [] if diff else None)
        return 0
    networks = select_networks(settings, names) if names else configured_networks(settings)
    document: list[dict[str, object]] = []
    rows: list[list[str]] = []
    with node.alone(), plugin_folders(settings, plugin_types(networks)) as bin_dirs:
        pods = node.pods.all()
        sandboxes = SandboxStore(node.folder / "sandboxes").all()
        before = StateBefore(node, node.pods.names(), warn=say) if diff else None
        libcni = settings.runtime(node, bin_dirs).libcni(pods)
        for network in networks:
            attachments = [(pod.container_id, attached) for pod in pods for attached in pod.networks]
            attachments += [(sandbox.id, attached) for sandbox in sandboxes for attached in sandbox.networks]
            valid = [
                (container_id, attached.ifname)
                for container_id, attached in attachments
                if attached.name == network.name
            ]
            problem, undone = "", list[Attachment]()
            try:
                undone = libcni.gc(network, valid)
            except ExceptionGroup as errors:
                problem = message_of(errors)
            deleted = [{"containerID": each.container_id, "ifname": each.ifname} for each in undone]
            document.append({"name": network.name, "valid": len(valid), "deleted": deleted, "error": problem})
            gone = ", ".join(f"{each.container_id[:_SHORT_ID]}/{each.ifname}" for each in undone)
            outcome = problem or ("disabled" if network.disable_gc else "ok")
            rows.append([network.name, str(len(valid)), gone, outcome])
        freed = before.differences() if before is not None else None
    settings.emit({"networks": document}, Table(("NETWORK", "VALID", "DELETED", "GC"), rows, "GC"), freed)
    return 1 if any(each["error"] for each in document) else 0
