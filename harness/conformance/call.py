"""Executing a plugin with a given environment, standard input and working folder."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from harness.libcni.execute import Execution, execution_of, inherited

__all__ = ["CLOSED_STDERR", "CLOSED_STDIN", "FULL_STDOUT", "LOST_FOLDER", "Call", "execute", "inherited"]

CLOSED_STDIN: Final = ("/bin/sh", "-c", 'exec "$0" <&-')
"""A wrapper that executes the next argument without a standard input."""
CLOSED_STDERR: Final = ("/bin/sh", "-c", 'exec "$0" 2>&-')
"""A wrapper that executes the next argument without a standard error."""
FULL_STDOUT: Final = ("/bin/sh", "-c", 'exec "$0" >/dev/full')
"""A wrapper that executes the next argument with a standard output that accepts no bytes."""
LOST_FOLDER: Final = ("/bin/sh", "-c", 'there=$(mktemp -d) && cd "$there" && rmdir "$there" && exec "$0"')
"""A wrapper that executes the next argument in a folder that has been removed."""


@dataclass(frozen=True)
class Call:
    """One future execution. `environ` is its whole environment; `wrapper` is put before the path of the plugin.

    `stdout` is a descriptor for the plugin's output, which is then not read.
    """

    plugin: str
    path: Path
    environ: Mapping[str, str]
    stdin: bytes
    cwd: str = "/"
    wrapper: tuple[str, ...] = field(default=())
    stdout: int | None = None


def execute(call: Call, *, timeout: float, linger: float = 2.0) -> Execution:
    """Execute and wait, for at most `timeout` seconds.

    Output that is held open after the end is read for `linger` seconds more. Raises OSError if the execution fails.
    """

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*call.wrapper, call.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if call.stdout is None else call.stdout,
            stderr=subprocess.PIPE,
            env=call.environ,
            cwd=call.cwd,
            umask=0o022,
            bufsize=0,
            process_group=0,
        )

    return execution_of(
        start,
        plugin=call.plugin,
        path=call.path,
        environ=dict(call.environ),
        stdin=call.stdin,
        timeout=timeout,
        linger=linger,
    )
