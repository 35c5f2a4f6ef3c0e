"""A process that starts and times a suite's plugins, on a node and in the suite's control group."""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from resource import RUSAGE_SELF, getrusage
from typing import IO, ParamSpec, TypeVar

from harness.bench.resources import ControlGroup, ControlGroupError
from harness.runtime.node import Node
from launch.installation import ROOT

P = ParamSpec("P")
T = TypeVar("T")


class Spawner:
    """A running process: `call` has it call functions."""

    def __init__(self, node: Node, group: ControlGroup | None) -> None:
        """Start it on a node, in a control group if there is one. Raises OSError."""
        self._node = node
        self._group = group
        self._busy = False
        command = [sys.executable, "-m", "harness.bench.spawner"]
        self._process = self.start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def start(
        self, command: Sequence[str], *, stdin: int, stdout: int | IO[bytes], stderr: IO[bytes] | None = None
    ) -> "subprocess.Popen[bytes]":
        """Start another process on the node, in the control group. Raises OSError."""
        process = self._node.run(
            subprocess.Popen,
            command,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=ROOT,  # `python -m` looks for the package there
            # Ctrl-C ends the measurement, which then ends this process.
            process_group=0,
        )
        if self._group is not None:
            self._group.add(process.pid)  # from here: the node's /sys has no control groups
        return process

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function of a module in that process; return its result, or raise its exception."""
        if self._process.stdin is None or self._process.stdout is None:
            raise BrokenPipeError
        self._busy = True
        pickle.dump((function, args, kwargs), self._process.stdin)
        self._process.stdin.flush()
        returned, raised = pickle.load(self._process.stdout)  # noqa: S301 -- our own process
        self._busy = False
        if raised is not None:
            raise raised
        result: T = returned
        return result

    def call_counted(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> tuple[float, T]:
        """Call a function; return the CPU seconds of the group until it is at rest, without this process's own.

        Raises ControlGroupError, and the function's exception.
        """
        if self._group is None:
            raise ControlGroupError("there is no control group that counts the CPU time")
        begin = self._group.cpu_seconds_at_rest() - self.call(_own_cpu_seconds)
        result = self.call(function, *args, **kwargs)
        end = self._group.cpu_seconds_at_rest() - self.call(_own_cpu_seconds)
        return end - begin, result

    def close(self) -> None:
        """End it, also during a call."""
        if self._busy:
            self._process.kill()
        self._process.communicate()


def _own_cpu_seconds() -> float:
    usage = getrusage(RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _serve(calls: IO[bytes], results: IO[bytes]) -> None:
    while True:
        try:
            function, args, kwargs = pickle.load(calls)  # noqa: S301 -- from the measurement itself
        except EOFError:
            return
        result: tuple[object, Exception | None]
        try:
            result = function(*args, **kwargs), None
        except Exception as error:  # noqa: BLE001 -- `call` raises it again
            result = None, error
        pickle.dump(result, results)
        results.flush()


def _main() -> None:
    calls, results = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(null, stream)
    os.chdir("/")
    _serve(calls, results)


if __name__ == "__main__":
    _main()
