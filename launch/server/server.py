"""The server: it has the suite loaded, and workers that each serve one request after the other.

It saves the start of Python. A launcher that finds no server, or one that is not of its own installation,
executes the plugin by itself. `python -m launch.server` or `cni-harness serve` runs it.
"""

import os
import select
import signal
import sys
import traceback
from argparse import ArgumentParser
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from typing import NamedTuple, NoReturn

from launch.distributions import declared
from launch.installation import DEFAULT_SOCKET, build_id, stamp

from .call_queue import CallQueue
from .listening import Listening, ListeningError, passed_sockets
from .peer import PeerError, own_identity
from .pool import Pool
from .process import UMASK, is_open, log, name_process
from .slots import Shared, Slot, Slots
from .warmup import warm_up
from .worker import IDLE_NAME, Worker

_HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
_STREAMS = 3
_ALL_DESCRIPTORS = 0x7FFFFFFF
"""The highest that a file descriptor could be."""


class ServerOptions(NamedTuple):
    """How the server is to be run."""

    socket: str = DEFAULT_SOCKET
    workers: int = 4
    most: int = 32
    """Workers at once, if some of them wait."""
    limit_seconds: int = 300
    """For one call."""
    idle_exit_seconds: float = 0.0
    """End after so long without a request; 0: never."""


class PluginServer:
    """The parent: it forks and reaps workers, and never touches an ordinary request."""

    def __init__(self, options: ServerOptions, passed: int) -> None:
        """Load everything, then listen, at the socket that systemd `passed` or at that of the options.

        Raises ListeningError, OSError, PeerError, ValueError.
        """
        self._distributions = declared()
        self._others = self._distributions.plugins
        before = stamp(self._distributions)
        warm_up(log, self._others)
        self._options = options
        self._build_id, self._identity = build_id(), own_identity()
        self._stamp = stamp(self._distributions)
        if self._stamp != before:
            raise ListeningError("the installation changed while it was being loaded")
        self._wakeup_read, self._wakeup_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._drain_end, self._drain_begin = os.pipe2(os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._wakeup_read, select.POLLIN)
        self._slots = Slots(options.workers, max(options.most, options.workers), self._wakeup_write)
        self._queue = CallQueue(self._slots, self._poll)
        self._pool = Pool(self._slots, options.workers, self._become_worker)
        self._draining = False
        self._given_up = False
        self._signals: list[str] = []
        self._looked = 0
        self._listening = Listening(options.socket, passed)
        self._listening.socket.setblocking(False)  # noqa: FBT003 -- it takes no keyword

    def run(self) -> None:
        """Serve until a signal, a new installation or idleness ends it, and the last call is over."""
        for number in _HANDLED:
            signal.signal(number, self._on_signal)
        signal.set_wakeup_fd(self._wakeup_write, warn_on_full_buffer=False)
        name_process("cni-serve", f"listening at {self._listening.path}")
        log(f"listening at {self._listening.path}")
        while not self._given_up and not (self._draining and self._is_drained()):
            if not self._draining or len(self._queue):
                self._pool.fill()
            self._poll.poll(self._limit_ms())
            # All wake-ups since the last look are one: each part below looks at everything.
            with suppress(BlockingIOError):
                os.read(self._wakeup_read, 4096)
            self._pool.reap()
            self._queue.receive()
            self._queue.hand_out()
            self._pool.shrink(self._queue.end_one_idle_worker)
            self._handle_signals()
            self._check_end()
        self._drain("nothing more to do")
        left = f"; {self._pool.at_work} still at work" if self._pool.at_work else ""
        log(f"ended after {self._pool.served} requests{left}")

    def _on_signal(self, number: int, _: object) -> None:
        if number != signal.SIGCHLD:
            self._signals.append(signal.Signals(number).name)  # that is all: this may be at any point of the loop

    def _handle_signals(self) -> None:
        while self._signals:
            name = self._signals.pop(0)
            if self._draining:
                self._given_up = True  # asked twice: calls end by themselves
            self._drain(name)

    def _drain(self, why: str) -> None:
        """Accept nothing more; accepted calls are brought to their end."""
        if not self._draining:
            self._draining = True
            log(f"draining, {self._pool.at_work} at work: {why}")
            os.close(self._drain_begin)
            self._listening.close()

    def _is_drained(self) -> bool:
        """Tell whether the last call is over, and have the workers end if none is left to be given to them.

        systemd starts the next server when this one has ended: launchers wait for it in the socket's queue, and are not
        to wait for the last calls of this one, which need it no more.
        """
        if len(self._queue):
            return False
        self._queue.end_idle_workers()
        return len(self._pool) == (self._pool.at_work if self._listening.is_passed else 0)

    def _become_worker(self, slot: Slot) -> NoReturn:
        try:
            signal.set_wakeup_fd(-1)
            name_process(IDLE_NAME)
            os.setsid()  # Ctrl-C in the server's terminal is not for its workers
            for number in _HANDLED:
                signal.signal(number, signal.SIG_DFL)
            self._listening.close_lock()
            self._queue.close_parent_ends()
            os.close(self._wakeup_read)
            if not self._draining:
                os.close(self._drain_begin)
            shared = Shared(
                build_id=self._build_id,
                identity=self._identity,
                others=self._others,
                limit_seconds=self._options.limit_seconds,
                slots=self._slots,
                listening=None if self._draining else self._listening.socket,
                dequeue=self._queue.dequeue,
                enqueue=self._queue.enqueue,
                drain=self._drain_end,
            )
            Worker(shared, slot).work()
        except BaseException:  # noqa: BLE001 -- the process ends, and its log must say why
            log(f"worker {os.getpid()}: {traceback.format_exc()}")
        finally:
            os._exit(1)

    def _check_end(self) -> None:
        """Find reasons to end: a new installation, looked for while there is work; or no work for long enough."""
        if self._looked != self._slots.parent.looked:
            self._looked = self._slots.parent.looked
            try:
                changed = stamp(self._distributions) != self._stamp
            except (OSError, ValueError):
                changed = True
            if changed:
                self._drain("the installation has changed")
        if self._options.idle_exit_seconds and monotonic() >= self._idle_at():
            self._drain(f"no request in {self._options.idle_exit_seconds:g} s")

    def _idle_at(self) -> float:
        """Return when the server will have had no request for long enough."""
        is_idle = self._pool.at_work == 0 and len(self._queue) == 0
        return (self._slots.last_change() if is_idle else monotonic()) + self._options.idle_exit_seconds

    def _limit_ms(self) -> float | None:
        until = float("inf") if self._draining else self._pool.next_look()
        if self._options.idle_exit_seconds and not self._draining:
            until = min(until, self._idle_at())
        # A millisecond more, so that the time has come when poll returns.
        return None if until == float("inf") else max(0.0, until - monotonic()) * 1000 + 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the server with these arguments (those of the process); return its exit code."""
    parser = ArgumentParser(prog="cni-harness serve", description=__doc__)
    default = ServerOptions()
    parser.add_argument("--socket", default=default.socket)
    parser.add_argument("--workers", type=int, default=default.workers)
    parser.add_argument("--most", type=int, default=default.most)
    parser.add_argument("--limit", type=int, dest="limit_seconds", default=default.limit_seconds)
    parser.add_argument("--idle-exit", type=float, dest="idle_exit_seconds", default=default.idle_exit_seconds)
    options = ServerOptions(**vars(parser.parse_args(arguments)))
    passed = passed_sockets()
    _drop_inherited(passed)
    try:
        PluginServer(options, passed).run()
    except (ListeningError, OSError, PeerError, ValueError) as error:
        log(str(error))
        return 1
    return 0


def _drop_inherited(passed: int) -> None:
    """Drop the inherited files, folder, environment and signals, so that none reaches a worker."""
    os.closerange(_STREAMS + passed, _ALL_DESCRIPTORS)
    # 0, 1 and 2 are taken, so that no other file gets their numbers.
    for number in (0, 1, 2):
        if not is_open(number):
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115 -- open until the process ends
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115 -- as above
    os.chdir("/")
    os.umask(UMASK)
    os.environ.clear()
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE, signal.SIGXFSZ}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
