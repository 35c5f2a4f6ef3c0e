"""Reports of plugins about the delegates that they call, for a view of the whole protocol.

CNI_HARNESS_TRACE in a plugin's environment is the path of a file. For each delegate that ends, the plugin appends one
line to it: a JSON object. Plugins in other languages may do the same. Without the variable nothing is done.
"""

import os
from collections.abc import Mapping
from contextlib import suppress

from lean import json

from .dispatch import Outcome

__all__ = ["VARIABLE", "report"]

VARIABLE = "CNI_HARNESS_TRACE"


def report(file: str, *, path: str, environ: Mapping[str, str], stdin: bytes, outcome: Outcome, seconds: float) -> None:
    """Append a line for the delegate at `path`, which took `seconds`. A file that cannot be written gets none."""
    line = {
        "path": path,
        "environ": {name: value for name, value in environ.items() if name.startswith("CNI_") and name != VARIABLE},
        "stdin": _text(stdin),
        "stdout": _text(outcome.stdout),
        "stderr": _text(outcome.stderr),
        "exitCode": outcome.code,
        "seconds": seconds,
    }
    with suppress(OSError):
        # O_NONBLOCK: a FIFO without a reader must not make the plugin wait.
        opened = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.write(opened, json.dumps(line).encode() + b"\n")
        finally:
            os.close(opened)


def _text(stream: bytes) -> str:
    return stream.decode(errors="surrogateescape")
