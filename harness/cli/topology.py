"""`cni-harness topology`: the node's links, what they lead to, and their owners."""

from pathlib import Path

import click

from harness.cli.options import Settings, cache_dir_option, verb
from harness.output import TextTable, say, write


@verb(
    "topology",
    examples={
        "topology": "Show the node as a tree",
        "topology --format svg > node.svg": "Draw it for a browser",
    },
    root="looks into network namespaces",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(("tree", "dot", "mermaid", "svg")),
    default="tree",
    show_default=True,
    help="A tree of text, or a drawing for Graphviz, for Mermaid or for a browser.",
)
@cache_dir_option
def command(settings: Settings, *, form: str, cache_dirs: tuple[Path, ...]) -> None:
    """Show the node as it is now: links, bridges and their ports, the pods behind them, routes and port mappings.

    The pods come from the records, and from the caches of other runtimes. A namespace at the other end of a link is
    shown without a pod, too. Brackets name the owner of a link: network, pod and interface. It changes nothing.
    """
    from harness.views.topology import read_topology
    from harness.views.topology_svg import svg
    from harness.views.topology_text import dot, mermaid, tree

    node = settings.existing_node()
    topology = read_topology(node, cache_dirs=cache_dirs, warn=say)
    for line in topology.missing:
        say(line)
    if not settings.is_table:
        settings.emit(topology.to_document(), TextTable((), ()))
        return
    drawn = {"tree": tree, "dot": dot, "mermaid": mermaid, "svg": svg}[form](topology)
    for line in drawn:
        write(line)
