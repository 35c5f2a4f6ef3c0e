"""`cni-harness new-plugin`: a distribution with a plugin, to begin with."""

from pathlib import Path

import click

from harness.cli.options import Settings, verb
from harness.output import TextTable, emit, say


@verb(
    "new-plugin",
    examples={
        "new-plugin my-veth": "Write a plugin that makes interfaces",
        "new-plugin --chained my-gateway": "Write one that goes after such a plugin",
    },
)
@click.argument("name")
@click.option("--chained", is_flag=True, help="Write a plugin that goes after an interface plugin in a list.")
def command(settings: Settings, *, name: str, chained: bool) -> None:
    """Write a Python distribution with the plugin NAME into the new folder NAME: a veth pair with addresses, and tests.

    After `pip install --editable NAME` it is a plugin like those of this project: `cni-harness install` puts it into
    the folder of plugins, the server runs it, and `pytest` in its folder holds it to the specification.
    """
    from harness.new_plugin import write_distribution

    written = write_distribution(name, Path.cwd(), chained=chained)
    rows = [[str(path)] for path in written]
    emit(settings.output, {"files": [str(path) for path in written]}, TextTable(("FILE",), rows))
    say(f"Next: pip install --editable './{name}[test]', then pytest {name}; {name}/README.md tells more")
