"""One agent for each node: the folder of its files is locked, and its network namespace, whatever folder others use."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from harness.files import LockHeldError, locked
from harness.runtime.node import Node, NodeError

_FOLDER: Final = Path("/run/cni-harness")


def agent_folder(node: Node) -> Path:
    """Return the folder of the agent's files."""
    return node.folder / "agent"


@contextmanager
def held_node(node: Node) -> Iterator[None]:
    """Keep other agents from a node for the with block. Raises NodeError if one works on it, OSError."""
    locks = [agent_folder(node) / "lock"]
    with suppress(OSError):  # in a container /run may be read-only
        _FOLDER.mkdir(exist_ok=True)
    if os.access(_FOLDER, os.W_OK):
        namespace = Path(node.netns or "/proc/self/ns/net").stat()
        locks.append(_FOLDER / f"agent-{namespace.st_ino}.lock")
    with ExitStack() as stack:
        for lock in locks:
            try:
                stack.enter_context(locked(lock, wait=False))
            except LockHeldError:
                raise NodeError(f"another agent works on this node ({lock} is locked)") from None
            stack.callback(lock.unlink, missing_ok=True)
        yield
