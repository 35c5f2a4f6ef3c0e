"""The executable behind every plugin name (as busybox does): one file, told apart by its name.

It names its interpreter by an absolute path, because `env python3` finds a
different one under each runtime, and skips `site` (-S) and the caller's
environment (-I): the folders that it needs are written into it.
"""

import os
import sys

__all__ = ["is_ours", "launcher_text", "main"]

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_SHEBANG_MAX = 255
"""Bytes of a first line that the kernel reads (BINPRM_BUF_SIZE since Linux 5.1)."""


def _head() -> bytes:
    """Return the lines that tell this installation's launchers from any other's."""
    return os.fsencode(
        f"#!{sys.executable} -IS\n# cni-harness: every plugin is this file, told apart by its name. {_ROOT}\n"
    )


def launcher_text() -> bytes:
    """Return the launcher's content for this installation and this interpreter.

    Raises ValueError when the interpreter's path cannot stand in a first line.
    """
    from importlib.util import find_spec

    first = _head().partition(b"\n")[0]
    if len(first) > _SHEBANG_MAX or any(char.isspace() for char in sys.executable):
        message = f'"{sys.executable}": an interpreter\'s path must be short and without white space'
        raise ValueError(message)
    folders = [_ROOT]
    for package in ("pyroute2", "netaddr"):
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            message = f"{package} is not installed for {sys.executable}"
            raise ValueError(message)
        folders.append(os.path.dirname(os.path.dirname(spec.origin)))
    # A process of milliseconds: collecting garbage on the way and taking the interpreter apart at the end are a fifth
    # of its time.
    body = (
        "import gc, os, sys\n"
        "gc.disable()\n"
        f"sys.path[:0] = {list(dict.fromkeys(folders))!r}\n"
        "from skel.launcher import main\n"
        "os._exit(main(sys.argv[0]))\n"
    )
    return _head() + os.fsencode(body)


def is_ours(path: str) -> bool:
    """Tell whether the file at `path` would run this very installation."""
    head = _head()
    try:
        with open(path, "rb") as file:
            return file.read(len(head)) == head
    except OSError:
        return False


def main(path: str) -> int:
    """Run the plugin that the launcher's file name names; 1 and a line on stderr for an unknown one.

    Nothing is left in a buffer: the process may end at once.
    """
    from contextlib import suppress

    from .dispatch import main as run
    from .suite import PLUGINS, load

    name = os.path.basename(path)
    if name in PLUGINS:
        code = run(load(name))
    else:
        code = 1
        if sys.stderr is not None:
            sys.stderr.write(f"{name}: no plugin of cni-harness; there are {', '.join(PLUGINS)}\n")
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with suppress(OSError):
                stream.flush()
    return code
