"""Preparing the node of a plugin: its author's executable runs there before anything else."""

import subprocess
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

from harness.runtime.node import Node

_QUOTED: Final = 400


class PreparationError(Exception):
    """The node cannot be prepared."""


def prepare_node(program: Path, node: Node, timeout: float) -> None:
    """Execute a program on a node in use, and wait `timeout` seconds at most for its end.

    Processes that it has started run on until the node is removed. Raises PreparationError.
    """

    def execute() -> int:
        return subprocess.run(
            [program],
            stdin=subprocess.DEVNULL,
            stdout=said,  # no pipe: its child processes may keep that open
            stderr=said,
            cwd="/",
            process_group=0,
            timeout=timeout,
            check=False,
        ).returncode

    with TemporaryFile() as said:
        try:
            exit_code = node.run(execute)
        except subprocess.TimeoutExpired:
            raise PreparationError(f"--prepare {program}: no end after {timeout:g} s") from None
        except OSError as error:
            raise PreparationError(f"--prepare {program}: {error.strerror}") from error
        if exit_code != 0:
            said.seek(0)
            words = " ".join(said.read().decode(errors="replace").split())[-_QUOTED:] or "nothing said"
            raise PreparationError(f"--prepare {program}: exit code {exit_code}: {words}")
