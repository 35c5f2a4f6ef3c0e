"""A node on which one suite has a network, and a server if it is served; pods are added and deleted there.

A process of its own, the spawner, starts and times the plugins, on the node and in the suite's control group.
"""

import os
import pickle
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import IO, Final, ParamSpec, Self, TypeVar

from harness.bench.attachments import Attached, PluginCaller, attached_to
from harness.bench.population import populate
from harness.bench.process import ProcessRequest, TimedExecution
from harness.bench.resources import ControlGroup, ControlGroupError, control_group, process_tree, stopped_at_its_result
from harness.bench.suites import BenchSuite, write_launchers
from harness.libcni.networks import NetworkList
from harness.runtime.node import Node
from harness.runtime.site import Site
from launch import PLUGINS
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
        command = [sys.executable, "-m", "harness.bench.suite_node"]
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


def _main() -> None:
    calls, results = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(null, stream)
    os.chdir("/")
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


if __name__ == "__main__":
    _main()


_IDLE_S: Final = 300
"""The time after which a server without requests ends by itself, in case the measurement cannot end it."""
_START_S: Final = 60.0
_STOP_S: Final = 60.0
_POLL_S: Final = 0.02

_PAUSE_S: Final = 0.05


class ServerError(Exception):
    """The server does not answer requests."""


class SuiteServer:
    """A running server; launchers that ask it are in `bin_dir`."""

    def __init__(self, process: "subprocess.Popen[bytes]", folder: Path) -> None:
        """Look at a process that was started with its socket in `folder`."""
        self.pid = process.pid
        self.bin_dir = folder
        self._process = process
        self._log = folder / "server.log"

    def require_service(self, spawner: Spawner) -> None:
        """Raise ServerError if a launcher that asks the server executes the plugin itself."""
        launcher = str(self.bin_dir / next(iter(PLUGINS)))
        request = ProcessRequest(launcher, {"CNI_COMMAND": "VERSION"}, b'{"cniVersion": "1.0.0"}')
        seen = spawner.call(stopped_at_its_result, request, self.pid, _START_S)
        if seen is None or not seen.served:
            raise ServerError(f"{launcher} is not served by process {self.pid}: {self._last_log_line()}")

    def await_workers(self) -> None:
        """Wait until it listens and has forked workers. Raises ServerError."""
        deadline = time.monotonic() + _START_S
        while not ((self.bin_dir / "server.sock").exists() and process_tree(self.pid)[1:]):
            if self._process.poll() is not None:
                raise ServerError(f"the server (process {self.pid}) has ended: {self._last_log_line()}")
            if time.monotonic() > deadline:
                raise ServerError(f"the server (process {self.pid}) has no worker after {_START_S:g} s")
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """End it; it ends its workers."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _last_log_line(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()
        return lines[-1] if lines else "nothing said"


@contextmanager
def serving(spawner: Spawner, name: str) -> Iterator[SuiteServer]:
    """Start a server where a spawner is, and write launchers that ask it into /run/`name`, for the with block.

    Raises ServerError if a launcher is not served, at the begin of the block or at its end. Raises OSError.
    """
    # This path is short enough for a socket, wherever other temporary files are.
    folder = Path("/run", name)
    folder.mkdir(mode=0o755)
    try:
        socket = folder / "server.sock"
        write_launchers(folder, str(socket))
        command = [sys.executable, "-m", "launch.server", "--socket", str(socket), "--idle-exit", str(_IDLE_S)]
        with (folder / "server.log").open("wb") as log:
            process = spawner.start(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        server = SuiteServer(process, folder)
        try:
            server.await_workers()
            server.require_service(spawner)
            yield server
            server.require_service(spawner)
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


class SuiteNode(ExitStack):
    """A node with a suite's server, if it has one, in one control group with every process that is started there."""

    node: Node
    spawner: Spawner
    server: SuiteServer | None
    caller: PluginCaller

    def __init__(
        self, site: Site, suite: BenchSuite, network: NetworkList, *, timeout: float, counted: bool = True
    ) -> None:
        """Make a node without pods; if not `counted`, without a control group.

        Raises ServerError, PluginNotFoundError, ControlGroupError, OSError.
        """
        super().__init__()
        self.suite = suite.name
        self.pods = 0
        with ExitStack() as stack:
            self.node = site.node(until=stack)
            name = self.node.folder.name
            group = stack.enter_context(control_group(name)) if counted else None
            self.spawner = Spawner(self.node, group)
            stack.callback(self.spawner.close)
            self.server = stack.enter_context(serving(self.spawner, name)) if suite.served else None
            served = (self.server.bin_dir,) if self.server is not None else ()
            self.caller = PluginCaller((*served, *suite.bin_dirs), network, timeout=timeout)
            self.push(stack.pop_all())

    def fill(self, site: Site, pods: int = 0) -> Self:
        """Add one pod, and the reservations and masquerading of `pods` more. Raises PluginFailedError, PopulationError.

        The one pod stays, so that the network's bridge and the firewall's tables exist and remain.
        """
        standing = attached_to(site.namespace())
        self.at_once("ADD", [standing])
        populate(self.node, self.caller.network, standing, pods)
        self.pods = pods
        # DEL of an unknown pod: a suite that keeps an index of its reservations brings it up to date here.
        self.at_once("DEL", [attached_to(site.namespace())])
        return self

    def one(self, verb: str, pod: Attached) -> list[tuple[str, TimedExecution]]:
        """ADD or DEL a pod; return the type and the execution of each plugin. Raises PluginFailedError."""
        self.at_once(verb, [pod])
        return pod.executions

    def settle(self) -> None:
        """Wait a moment: the kernel may still work on a DEL, which must not count as time of another suite."""
        time.sleep(_PAUSE_S)

    def at_once(self, verb: str, pods: Sequence[Attached]) -> float:
        """ADD or DEL pods, all at once; return the seconds of wall time. Raises PluginFailedError."""
        seconds, done = self.spawner.call(self.caller.run, verb, pods)
        _take(pods, done)
        return seconds

    def at_once_counted(self, verb: str, pods: Sequence[Attached]) -> tuple[float, float]:
        """ADD or DEL pods, all at once; return the seconds of wall time and of CPU time. Raises PluginFailedError."""
        cpu_seconds, (seconds, done) = self.spawner.call_counted(self.caller.run, verb, pods)
        _take(pods, done)
        return seconds, cpu_seconds

    def each_counted(self, verb: str, pods: Sequence[Attached]) -> float:
        """ADD or DEL pods, one after the other; return the CPU seconds of one. Raises PluginFailedError."""
        cpu_seconds, done = self.spawner.call_counted(self.caller.run_each, verb, pods)
        _take(pods, done)
        return cpu_seconds / len(pods)


def _take(pods: Sequence[Attached], done: Sequence[Attached]) -> None:
    """Copy results and times into our own objects: the spawner has worked on copies."""
    for pod, copy in zip(pods, done, strict=True):
        pod.result, pod.executions = copy.result, copy.executions
