"""Executing a plugin with a given environment, standard input and working folder."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from harness.libcni.execute import Execution, execution_of
from skel.strict_json import decode_json

_LINGER: Final = 2.0
"""Seconds for output that is held open after the end."""
_KEPT: Final = 1 << 16
"""Bytes of the output of a plugin that floods: a transcript needs no more."""

CLOSED_STDIN: Final = ("/bin/sh", "-c", 'exec "$0" <&-')
"""A wrapper that executes the next argument without a standard input."""
CLOSED_STDERR: Final = ("/bin/sh", "-c", 'exec "$0" 2>&-')
"""A wrapper that executes the next argument without a standard error."""
FULL_STDOUT: Final = ("/bin/sh", "-c", 'exec "$0" >/dev/full')
"""A wrapper that executes the next argument with a standard output that accepts no bytes."""
LOST_FOLDER: Final = ("/bin/sh", "-c", 'there=$(mktemp -d) && cd "$there" && rmdir "$there" && exec "$0"')
"""A wrapper that executes the next argument in a folder that has been removed."""


def execute(  # noqa: PLR0913 -- a run, its surroundings and its observer
    path: Path,
    *,
    environ: dict[str, str],
    stdin: bytes,
    timeout: float,
    cwd: str = "/",
    wrapper: tuple[str, ...] = (),
    stdout: int | None = None,
    tick: Callable[[], object] | None = None,
) -> Execution:
    """Execute a plugin and wait, for at most `timeout` seconds. Raises OSError if the execution fails.

    `environ` is its whole environment; `wrapper` is put before the path. `stdout` is a descriptor for the plugin's
    output, which is then not read. `tick` is called about every 25 ms; if it raises, the plugin is killed.
    """

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*wrapper, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if stdout is None else stdout,
            stderr=subprocess.PIPE,
            env=environ,
            cwd=cwd,
            umask=0o022,
            bufsize=0,
            process_group=0,
        )

    execution = execution_of(
        start,
        plugin=path.name,
        path=path,
        environ=environ,
        stdin=stdin,
        timeout=timeout,
        linger=_LINGER,
        tick=tick,
    )
    if execution.flooded:
        return replace(execution, stdout=execution.stdout[:_KEPT], stderr=execution.stderr[:_KEPT])
    return execution


def corrected(execution: Execution, version: str) -> Execution:
    """Return an ADD with this cniVersion in its result; one without a JSON object as it is."""
    try:
        printed = decode_json(execution.stdout)
    except ValueError:
        return execution
    if not isinstance(printed, dict) or printed.get("cniVersion") == version:
        return execution
    return replace(execution, stdout=json.dumps({**printed, "cniVersion": version}).encode())
