"""How this package's own programs are started: without site-packages and without the environment's PYTHON variables.

They import the standard library, `lean` and nothing else, so that they start in a moment and stay small.
"""

import sys
from pathlib import Path
from typing import Final

SHIM: Final = "harness.cri.builtin.shim"
HOST_PROCESS: Final = "harness.cri.builtin.host_process"
PAUSE: Final = "harness.cri.builtin.pause"

_ROOT: Final = Path(__file__).resolve().parents[3]


def program(module: str, *arguments: str) -> list[str]:
    """Return the command that calls `main(*arguments)` of a module. Its last words name the module in `ps`."""
    code = f"import sys; sys.path.append({str(_ROOT)!r}); from {module} import main; main(*sys.argv[2:])"
    return [sys.executable, "-I", "-S", "-c", code, module.rpartition(".")[2], *arguments]
