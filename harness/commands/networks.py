"""`cni-harness networks`: the network lists there are."""

import click

from harness.options import Settings, global_options, pass_settings
from harness.output import Table, emit

__all__ = ["command"]


@click.command("networks")
@global_options()
@pass_settings
def command(settings: Settings) -> None:
    """List networks, in the order of their files: the first is what `add` uses when none is named."""
    from harness.defaults import configured_networks

    document = []
    for network in configured_networks(settings):
        capabilities = sorted(frozenset[str]().union(*(plugin.capabilities for plugin in network.plugins)))
        document.append(
            {
                "name": network.name,
                "cniVersion": network.cni_version,
                "plugins": [plugin.type for plugin in network.plugins],
                "capabilities": capabilities,
                "file": str(network.source or ""),
            }
        )
    rows = [[_cell(value) for value in each.values()] for each in document]
    headings = ("NETWORK", "VERSION", "PLUGINS", "CAPABILITIES", "FILE")
    emit(settings.output, {"networks": document}, Table(headings, rows))


def _cell(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
