"""`cni-harness explain`: a page about one pod, of a recorded run or of the present state."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.options import Settings, complete_pod, namespace_option, verb
from harness.output import say, write

if TYPE_CHECKING:
    from harness.views.explanation import Explanation


@verb(
    "explain",
    examples={
        "explain pod1": "Write pod1.html: the newest run on record, or the present state",
        "explain web --run run -o run.html": "Choose the run and the file",
    },
    own_output=True,
    root="looks into network namespaces",
)
@click.argument("pod", shell_complete=complete_pod)
@click.option(
    "-o",
    "--output",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help='The page; "-" is stdout.  [default: POD.html]',
)
@click.option(
    "--run",
    "recorded",
    type=click.Choice(["add", "del", "run", "delete"]),
    help="The newest record of this verb.  [default: the newest of all]",
)
@namespace_option
def command(settings: Settings, *, pod: str, file: Path | None, recorded: str | None, namespace: str) -> None:
    """Write one HTML page that explains how a pod came about, or went: it has no script, and loads nothing.

    It shows the run that `add`, `del`, `run` or `delete` recorded with --record: timeline, calls between kubelet,
    runtime, plugins and kernel, each JSON document with the command that repeats it, and the node before and after.
    Without a record it shows the present state.
    """
    from harness.files import write_atomically
    from harness.runtime.kubernetes import check_pod
    from harness.views.explanation import explain_run, page
    from harness.views.recorded_runs import RecordedRuns

    check_pod(namespace, pod)
    node = settings.existing_node()
    title = f"{namespace}/{pod}"
    run = RecordedRuns(node.runs).latest(title, recorded or "")
    if run is None and recorded:
        raise click.ClickException(f"no `{recorded} --record` of pod {title} is on record")
    text = page(explain_run(run, title) if run is not None else _present(settings, namespace, pod))
    file = file or Path(f"{pod}.html")
    if str(file) == "-":
        write(text, nl=False)
        return
    if file.exists() and not file.is_file():  # a device or a pipe
        file.write_text(text, encoding="utf-8")
    else:
        write_atomically(file, text.encode(errors="replace"), mode=0o600)
    say(f"Wrote {file}: {f'the `{run.verb}` of {run.started}' if run is not None else 'the present state'}")


def _present(settings: Settings, namespace: str, pod: str) -> "Explanation":
    """Return the present state. Raises ClickException if nothing knows the pod."""
    from harness.views.attachments import known_attachments
    from harness.views.explanation import explain_now
    from harness.views.topology import read_topology

    node, title = settings.open_node(), f"{namespace}/{pod}"
    known = [each for each in known_attachments(node, warn=say) if each.pod == title]
    if not known:
        raise click.ClickException(f"there is no pod {title}, and no record of a run with it")
    words = pod if namespace == "default" else f"{pod} --namespace {namespace}"
    prefix = node.program()
    record = (
        f"{prefix} del {words}\n{prefix} add {words} --record"
        if any(each.is_ours for each in known)
        else (f"{prefix} delete {words}\n{prefix} run -f {pod}.yaml --record")
    )
    return explain_now(title, known, read_topology(node, warn=say), record)
