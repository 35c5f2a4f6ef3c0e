"""Which runtime has the pods of a node: the endpoint of the verb that started them is kept until none is left.

So `exec` and `delete` need no --runtime-endpoint, and no verb looks for the pods of one runtime in another.
"""

from pathlib import Path

import click

from harness.files import write_atomically

_FILE = "runtime-endpoint"


def choose_endpoint(folder: Path, given: str) -> str:
    """Return the endpoint for the node whose files are in `folder`; empty for this program's own runtime.

    Raises ClickException if another than the `given` one has pods of the node.
    """
    path = folder / _FILE
    kept = path.read_text() if path.exists() else given
    if given and given != kept:
        place = kept or "the runtime of cni-harness"
        raise click.ClickException(
            f"this node's pods are in {place}, says {path}: `cni-harness delete --all` ends them"
        )
    return kept


def keep_endpoint(folder: Path, endpoint: str) -> None:
    """Note the runtime of the node's pods. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / _FILE, endpoint.encode())


def forget_endpoint(folder: Path) -> None:
    """Allow another runtime: no pod of the node is left. Raises OSError."""
    (folder / _FILE).unlink(missing_ok=True)
