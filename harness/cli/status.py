"""`cni-harness status`: can the networks serve an ADD?"""

from typing import TYPE_CHECKING, Any

from harness.cli.options import Settings, only_networks_option, verb
from harness.output import TextTable, say

if TYPE_CHECKING:
    from harness.libcni.execute import Execution, PluginError
    from harness.libcni.networks import NetworkError


@verb(
    "status",
    examples={
        "status": "Ask the plugins of all networks",
        "status --network cni-harness": "Ask those of one network",
    },
    root="runs plugins, which look at the node's network",
)
@only_networks_option
def command(settings: Settings, *, names: tuple[str, ...]) -> int:
    """Ask the plugins of each network for their STATUS. The exit code is 1 if a network is not ready.

    Lists below version 1.1.0 have no STATUS: they are ready if their plugins exist. If no networks are named, a list
    that cannot be read counts as not ready.
    """
    from harness.cli.defaults import configured_networks, plugin_folders, plugin_types, select_networks
    from harness.cli.execution_log import execution_logger
    from harness.libcni.execute import PluginError
    from harness.runtime.pod_lifecycle import PodRuntime

    node = settings.existing_node()
    broken: list[NetworkError] = []
    networks = select_networks(settings, names) if names else configured_networks(settings, on_error=broken.append)
    document: list[dict[str, Any]] = [
        {"name": "", "ready": False, "code": 0, "message": str(error), "warnings": []} for error in broken
    ]
    with node.in_use(), plugin_folders(settings, plugin_types(networks)) as bin_dirs:
        warned: list[str] = []
        trace = execution_logger(settings.verbose)

        def observe(execution: "Execution") -> None:
            if trace is not None:
                trace(execution)
            if execution.exit_code == 0:  # these are warnings of ready plugins
                warned.extend(execution.stderr.decode(errors="replace").splitlines())

        runtime = PodRuntime(node, bin_dirs=bin_dirs, observe=observe, warn=say)
        for network in networks:
            code, message = 0, ""
            warned.clear()
            try:
                runtime.status(network)
            except PluginError as error:
                code, message = error.code, _message(error)
            document.append(
                {"name": network.name, "ready": not message, "code": code, "message": message, "warnings": [*warned]}
            )
    rows = []
    for each in document:
        message = "; ".join(filter(None, [each["message"], *each["warnings"]]))
        rows.append([each["name"], "ready" if each["ready"] else "not ready", str(each["code"] or ""), message])
    settings.emit({"networks": document}, TextTable(("NETWORK", "STATUS", "CODE", "MESSAGE"), rows, "STATUS"))
    return 0 if all(each["ready"] for each in document) else 1


def _message(error: "PluginError") -> str:
    """Return a plugin's message and the ways out, without the code, which has a column."""
    notes: list[str] = getattr(error, "__notes__", [])
    parts = [f"plugin {error.plugin}: {error.msg}", error.details, *notes]
    return " ".join("; ".join(filter(None, parts)).split())
