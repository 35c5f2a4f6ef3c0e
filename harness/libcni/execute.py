"""Running a plugin: an executable on CNI_PATH, its request in the environment and on standard input.

SPEC.md section 2, "Execution Protocol". Time limits, signals and limits of output are additions that a runtime needs.
"""

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from fast_stdlib import recorder, span, span_note
from harness.libcni.exchange import Exchange
from harness.libcni.reports import Delegation, Reports
from harness.libcni.request import PROTOCOL_VARIABLES
from harness.trace_recorder import TraceRecorder
from skel.program import start_program


@dataclass(frozen=True)
class Execution:
    """One run of a plugin, for results, traces and checks.

    `environ` is all of its environment, `exit_code` negative for a signal.
    `timed_out` and `flooded` say why it was killed. `output_held` says that a leftover child process kept the output
    open; a runtime would still be waiting. `delegations` are the plugin's own reports, for an observer.
    `place` is the command prefix that runs a command in the plugin's place; it is empty for this very place.
    """

    plugin: str
    path: str
    verb: str
    environ: dict[str, str]
    stdin: bytes
    stdout: bytes
    stderr: bytes
    exit_code: int
    seconds: float
    timed_out: bool
    flooded: bool = False
    output_held: bool = False
    delegations: tuple[Delegation, ...] = ()
    place: tuple[str, ...] = ()


def inherited() -> dict[str, str]:
    """Return the harness's own environment without the protocol's variables: plugins inherit it, as from libcni."""
    return {name: value for name, value in os.environ.items() if name not in PROTOCOL_VARIABLES}


def execution_of(  # noqa: PLR0913 -- a run, its limits and its observer
    start: Callable[[], subprocess.Popen[bytes]],
    *,
    plugin: str,
    path: Path,
    environ: dict[str, str],
    stdin: bytes,
    timeout: float,
    linger: float,
    tick: Callable[[], object] | None = None,
) -> Execution:
    """Start a plugin, the leader of a process group, and exchange with it until its end. Raises `start`'s errors.

    `tick` is called about every 25 ms meanwhile.
    """
    clock = time.monotonic()
    exchange = Exchange(start(), stdin, timeout=timeout, linger=linger, tick=tick)
    exchange.finish()
    return Execution(
        plugin=plugin,
        path=str(path),
        verb=environ.get("CNI_COMMAND", ""),
        environ=environ,
        stdin=stdin,
        stdout=bytes(exchange.stdout),
        stderr=bytes(exchange.stderr),
        exit_code=exchange.exit_code,
        seconds=time.monotonic() - clock,
        timed_out=exchange.timed_out,
        flooded=exchange.flooded,
        output_held=exchange.output_held,
    )


class PluginError(Exception):
    """A failed plugin: it printed an error object (SPEC.md section 5), or broke the protocol.

    `code` is the plugin's, 0 if it gave none.
    """

    def __init__(self, plugin: str, verb: str, msg: str, *, code: int = 0, details: str = "") -> None:
        super().__init__(msg)
        self.plugin = plugin
        self.verb = verb
        self.code = code
        self.msg = msg
        self.details = details

    def __str__(self) -> str:
        numbered = f" with code {self.code}" if self.code else ""
        details = f"; {self.details}" if self.details else ""
        return f"plugin {self.plugin}: {self.verb} failed{numbered}: {self.msg}{details}"


class PluginNotFoundError(PluginError):
    """The searched folders have no executable of that name."""


class Executor:
    """Finds plugins in `bin_dirs`, in their order, and runs them.

    `timeout` limits one plugin, in seconds. `linger` limits the wait for output that a leftover child process holds
    open after the plugin's end, in seconds. `observe` gets every execution and raises nothing. Empty folder names are
    left out; relative ones start at the harness's working folder. Safe to share between threads: a plugin runs in the
    namespaces of the calling thread.
    """

    def __init__(
        self,
        bin_dirs: Sequence[Path],
        *,
        timeout: float = 60.0,
        linger: float = 5.0,
        observe: Callable[[Execution], None] | None = None,
        pause: Callable[[float], object] = time.sleep,
        place: tuple[str, ...] = (),
    ) -> None:
        self.bin_dirs = tuple(folder.absolute() for folder in bin_dirs if folder.parts)
        self._timeout = timeout
        self._linger = linger
        self._observe = observe
        self._pause = pause
        self._place = place

    @property
    def cni_path(self) -> str:
        """The value of CNI_PATH, in which plugins look for their delegates."""
        return os.pathsep.join(map(str, self.bin_dirs))

    def find(self, type: str, verb: str = "look-up") -> Path:
        """Return the executable of a plugin. Raises PluginNotFoundError."""
        if type in {"", ".", ".."} or any(sign in type for sign in "/\\\0"):
            raise PluginNotFoundError(type, verb, f'"{type}" is not the name of an executable')
        for folder in self.bin_dirs:
            path = folder / type
            if path.is_file() and os.access(path, os.X_OK):
                return path
        searched = ", ".join(map(str, self.bin_dirs)) or "no folder at all"
        raise PluginNotFoundError(type, verb, f'no executable "{type}" (searched: {searched})')

    def run(self, type: str, verb: str, stdin: bytes, environ: Mapping[str, str]) -> Execution:
        """Run a plugin to its end, successful or not.

        It gets the harness's own environment, with the variables of the protocol replaced by `environ`. CNI_COMMAND is
        `verb` (unset if empty), and CNI_PATH names the folders unless `environ` has one. Raises PluginNotFoundError,
        and PluginError if the plugin cannot be executed.
        """
        with span("FindInPath", plugin=type):
            path = self.find(type, verb)
            span_note(path=str(path))
        command = {"CNI_COMMAND": verb} if verb else {}
        environment = inherited() | command | {"CNI_PATH": self.cni_path} | dict(environ)
        if self._observe is None and recorder() is None:
            return self._execution(type, path, environment, stdin)
        with Reports() as reports:
            environment |= reports.environ
            taking = recorder()
            if isinstance(taking, TraceRecorder):
                execution = self._recorded(type, path, environment, stdin, reports, taking)
            else:
                execution = self._execution(type, path, environment, stdin)
            if self._observe is not None:
                execution = replace(execution, delegations=reports.delegations(), place=self._place)
                self._observe(execution)
        return execution

    def _recorded(
        self, type: str, path: Path, environment: dict[str, str], stdin: bytes, reports: Reports, taking: TraceRecorder
    ) -> Execution:
        """Run the plugin in a span, the parent of the plugin's own spans. Raises as `_execution`."""
        name = "ExecPluginWithResult" if environment.get("CNI_COMMAND") == "ADD" else "ExecPluginWithoutResult"
        protocol: dict[str, Any] = {key: environment[key] for key in PROTOCOL_VARIABLES if key in environment}
        with span(name, waits=True, path=str(path), stdin=stdin.decode(errors="replace"), **protocol):
            environment["TRACEPARENT"] = taking.traceparent()
            try:
                execution = self._execution(type, path, environment, stdin, lambda: reports.pass_on(taking))
            finally:
                reports.pass_on(taking)
            span_note(
                stdout=execution.stdout.decode(errors="replace"),
                stderr=execution.stderr.decode(errors="replace"),
                exit_code=execution.exit_code,
                reports_steps=reports.has_spans(),
            )
            if execution.timed_out:
                span_note(error=f"killed at the time limit of {self._timeout:g} s")
            elif execution.exit_code != 0:
                span_note(error=f"exit code {execution.exit_code}")
        return execution

    def _execution(
        self,
        type: str,
        path: Path,
        environment: dict[str, str],
        stdin: bytes,
        tick: Callable[[], object] | None = None,
    ) -> Execution:
        """Run the plugin at `path`. Raises PluginError if it cannot be executed."""

        def start() -> subprocess.Popen[bytes]:
            process = subprocess.Popen(
                [path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                bufsize=0,
                process_group=0,
            )
            span_note(plugin_pid=process.pid)
            return process

        try:
            return execution_of(
                partial(start_program, start, self._pause),
                plugin=type,
                path=path,
                environ=environment,
                stdin=stdin,
                timeout=self._timeout,
                linger=self._linger,
                tick=tick,
            )
        except (OSError, ValueError) as error:  # ValueError: a NUL in a variable
            reason = getattr(error, "strerror", None) or str(error)
            verb = environment.get("CNI_COMMAND", "")
            raise PluginError(type, verb, f"cannot execute {path}: {reason}") from error
