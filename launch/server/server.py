"""The fork server: has the suite loaded, and a few workers forked in advance that each execute one plugin.

It saves what starting Python costs, and nothing else changes: a launcher that finds no server, or one that is not of
its own installation, executes the plugin by itself. `python -m launch.server` or `cni-harness serve` runs it.
"""

import gc
import os
import select
import signal
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from typing import NamedTuple

from launch.installation import DEFAULT_SOCKET, build_id, stamp

from .circumstances import ALL_DESCRIPTORS
from .listening import Listening, ListeningError, passed_sockets
from .peer import own_identity
from .prefault import spans_of
from .process_name import name_process
from .protocol import STREAMS
from .understudy import pages_of
from .warmup import load_all, rehearse, stage
from .worker import PID_BYTES, Post, Terms, work

__all__ = ["Options", "Server", "main"]

_HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
_LOOK_AGAIN_SECONDS = 1.0
"""The installation is not looked at more often than this."""
_FIRST_PAUSE_SECONDS = 0.1
_LAST_PAUSE_SECONDS = 10.0
"""Between workers that die before they get any work; each pause is twice the one before."""


class Options(NamedTuple):
    """How the server is to be run."""

    socket: str = DEFAULT_SOCKET
    workers: int = 4
    """Forked in advance."""
    most: int = 32
    """At once, with those at work; more requests than this wait."""
    limit_seconds: int = 300
    """For one execution."""
    idle_exit_seconds: float = 0.0
    """End after so long without a request; 0: never."""


class Server:
    """The parent: it forks and buries workers, and never touches a request."""

    def __init__(self, options: Options, passed: int) -> None:
        """Load everything, then listen, at the socket that systemd `passed` or at that of the options.

        Raises ListeningError, OSError, ValueError.
        """
        before = stamp()
        load_all(_log)
        self._options = options
        self._terms = Terms(
            build_id=build_id(),
            identity=own_identity(),
            limit_seconds=options.limit_seconds,
            null=os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC),
        )
        self._memory = _rehearsed(self._terms)
        self._stamp = stamp()
        if self._stamp != before:
            raise ListeningError("the installation changed while it was being loaded")
        self._busy, self._report = os.pipe2(os.O_CLOEXEC)
        self._wake, self._signalled = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(self._busy, False)
        self._idle: set[int] = set()
        self._at_work: set[int] = set()
        self._draining = False
        self._given_up = False
        self._requests = 0
        self._orders: list[str] = []
        self._pause_seconds = 0.0
        self._fork_again = self._last_request = self._last_look = monotonic()
        self._listening = Listening(options.socket, passed)

    def run(self) -> None:
        """Serve until a signal, a new installation or idleness ends it, and the last execution is over."""
        for number in _HANDLED:
            signal.signal(number, self._on_signal)
        signal.set_wakeup_fd(self._signalled, warn_on_full_buffer=False)
        name_process("cni-serve", f"listening at {self._listening.path}")
        _log(f"listening at {self._listening.path}")
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        poll.register(self._busy, select.POLLIN)
        while not (self._given_up or (self._draining and not self._idle and self._may_go())):
            self._fork_workers()
            poll.poll(self._patience_ms())
            with suppress(BlockingIOError):
                os.read(self._wake, 4096)
            self._bury()
            self._obey()
            self._look_around()
        self._drain("nothing more to do")
        left = f"; {len(self._at_work)} still at work" if self._at_work else ""
        _log(f"ended after {self._requests} requests{left}")

    def _on_signal(self, number: int, _: object) -> None:
        if number != signal.SIGCHLD:
            self._orders.append(signal.Signals(number).name)  # that is all: this may be at any point of the loop

    def _obey(self) -> None:
        while self._orders:
            order = self._orders.pop(0)
            if self._draining:
                self._given_up = True  # asked twice: executions end by themselves
            self._drain(order)

    def _drain(self, why: str) -> None:
        """Accept nothing more; what is accepted is brought to its end."""
        if self._draining:
            return
        self._draining = True
        self._hear()
        _log(f"draining, {len(self._at_work)} at work: {why}")
        self._listening.close()
        for pid in self._idle:
            # One that has just got work does not mind: see launch.server.worker.
            os.kill(pid, signal.SIGTERM)

    def _may_go(self) -> bool:
        # systemd starts the next server when this one has ended: launchers wait for it in the socket's queue, and are
        # not to wait for the last executions of this one, which need it no more.
        return self._listening.is_passed or not self._at_work

    def _fork_workers(self) -> None:
        while not self._draining and monotonic() >= self._fork_again and self._places() > 0:
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            parent = os.getpid()
            pid = os.fork()
            if pid == 0:
                self._become_worker(parent)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            self._idle.add(pid)

    def _places(self) -> int:
        options = self._options
        # While there is work it gets the processors: half of the workers will do until it is done.
        wanted = (options.workers + 1) // 2 if self._at_work else options.workers
        return min(wanted, options.most - len(self._at_work)) - len(self._idle)

    def _become_worker(self, parent: int) -> None:
        try:
            signal.set_wakeup_fd(-1)
            name_process("cni-worker", "idle")
            os.setsid()  # what a terminal says to the server (Ctrl-C) is not for those at work
            for number in _HANDLED:
                signal.signal(number, signal.SIG_DFL)
            self._listening.let_go()
            for fd in (self._busy, self._wake, self._signalled):
                os.close(fd)
            work(
                Post(
                    terms=self._terms,
                    listening=self._listening.socket,
                    busy=self._report,
                    parent=parent,
                    memory=self._memory,
                )
            )
        finally:
            os._exit(1)

    def _hear(self) -> None:
        """Take note of the workers that have got work."""
        with suppress(BlockingIOError):
            while words := os.read(self._busy, PID_BYTES * 1024):
                self._last_request = monotonic()
                for start in range(0, len(words), PID_BYTES):
                    pid = int.from_bytes(words[start : start + PID_BYTES], sys.byteorder)
                    if pid in self._idle:
                        self._idle.remove(pid)
                        self._at_work.add(pid)
                        self._requests += 1
                        self._pause_seconds = 0.0

    def _bury(self) -> None:
        ended = []
        with suppress(ChildProcessError):
            while (child := os.waitpid(-1, os.WNOHANG))[0]:
                ended.append(child)
        self._hear()  # after: what they have said before they ended is in the pipe
        for pid, status in ended:
            how = os.waitstatus_to_exitcode(status)
            if pid in self._idle:
                self._idle.remove(pid)
                self._die_young(pid, how)
            elif how != 0:
                _log(f"worker {pid} was ended by {_ending(how)}")
            self._at_work.discard(pid)

    def _die_young(self, pid: int, how: int) -> None:
        if self._draining:
            return
        self._pause_seconds = min(max(self._pause_seconds * 2, _FIRST_PAUSE_SECONDS), _LAST_PAUSE_SECONDS)
        self._fork_again = monotonic() + self._pause_seconds
        _log(f"worker {pid} ended without work by {_ending(how)}; the next one in {self._pause_seconds:.1f} s")

    def _look_around(self) -> None:
        """Find reasons to end: a new installation, looked for while there is work; or no work for long enough."""
        now, idle_exit = monotonic(), self._options.idle_exit_seconds
        if self._last_request > self._last_look and now - self._last_look >= _LOOK_AGAIN_SECONDS:
            self._last_look = now
            try:
                changed = stamp() != self._stamp
            except (OSError, ValueError):
                changed = True
            if changed:
                self._drain("the installation has changed")
        if idle_exit and not self._at_work and now - self._last_request >= idle_exit:
            self._drain(f"no request in {idle_exit:g} s")

    def _patience_ms(self) -> float | None:
        until = []
        if self._places() > 0 and not self._draining:
            until.append(self._fork_again)
        if self._options.idle_exit_seconds and not self._at_work:
            until.append(self._last_request + self._options.idle_exit_seconds)
        return max(0.0, min(until) - monotonic()) * 1000 + 1 if until else None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the server with these arguments (those of the process); return its exit code."""
    parser = ArgumentParser(prog="cni-harness serve", description=__doc__)
    default = Options()
    parser.add_argument("--socket", default=default.socket)
    parser.add_argument("--workers", type=int, default=default.workers)
    parser.add_argument("--most", type=int, default=default.most)
    parser.add_argument("--limit", type=int, dest="limit_seconds", default=default.limit_seconds)
    parser.add_argument("--idle-exit", type=float, dest="idle_exit_seconds", default=default.idle_exit_seconds)
    options = Options(**vars(parser.parse_args(arguments)))
    passed = passed_sockets()
    _stand_alone(passed)
    try:
        Server(options, passed).run()
    except (ListeningError, OSError, ValueError) as error:
        _log(str(error))
        return 1
    return 0


def _rehearsed(terms: Terms) -> list[tuple[int, int]]:
    """Do once what workers will do; return the memory that they will write to, as addresses and lengths."""
    try:
        with stage() as scene:
            rehearse(scene, _log)
            # What is there now is there for good: no worker shall write to these pages to find that out.
            gc.collect()
            gc.freeze()
            gc.disable()
            return spans_of([page for verb in ("ADD", "DEL") for page in pages_of(verb, scene, terms)])
    except OSError as error:
        _log(f"no rehearsal: {error}")
        return []


def _stand_alone(passed: int) -> None:
    """Put off what was inherited, so that nothing of it reaches a worker."""
    os.closerange(STREAMS + passed, ALL_DESCRIPTORS)
    # 0, 1 and 2 are taken, so that no other file gets their numbers.
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
    os.chdir("/")
    os.umask(0o022)
    os.environ.clear()
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE, signal.SIGXFSZ}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _ending(exit_code: int) -> str:
    return f"signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"


def _log(message: str) -> None:
    with suppress(OSError):
        os.write(2, f"cni-harness server: {message}\n".encode("utf-8", "backslashreplace"))
