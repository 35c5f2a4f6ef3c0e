"""A worker of the server: it serves one request after the other, each where its caller is.

Until the worker takes the token, nothing has been done for the launcher, and whatever goes wrong ends the connection:
then the launcher executes the plugin by itself. A worker that is not certain to be as it was before a request ends, and
another one is forked.
"""

import gc
import os
import select
import signal
import traceback
from typing import NoReturn

from skel.plugin import OpenSockets

from .call import Cancellation, ServedCall
from .call_queue import take_queued
from .handoff import Handoff
from .peer import PeerError
from .process import ProcessState, log, set_comm
from .protocol import HandoffError
from .slots import Shared, Slot, WorkerState

IDLE_NAME = "cni-worker"
_MOST_REQUESTS = 200
"""Then a worker ends, whatever it has collected until then."""
_REST_SECONDS = 0.2
"""Without a request, until a worker that has served some collects garbage."""


class Worker:
    """One worker, to be made in a process of its own."""

    def __init__(self, shared: Shared, slot: Slot) -> None:
        """Get ready. Raises OSError."""
        self._shared = shared
        self._slot = slot
        self._open_sockets = OpenSockets()
        self._cancellation = Cancellation(shared.limit_seconds)
        # These signals, sent to all processes of the server, end no call. Executed programs would inherit an "ignored".
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        self._events = select.epoll()
        self._events.register(shared.dequeue, select.EPOLLIN | select.EPOLLEXCLUSIVE)
        if shared.listening is not None:
            self._events.register(shared.listening, select.EPOLLIN | select.EPOLLEXCLUSIVE)
            self._events.register(shared.drain, select.EPOLLIN)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        self._process = ProcessState()

    def work(self) -> NoReturn:
        """Serve requests until there is a reason to end."""
        code = 1
        try:
            why = ""
            while not why and self._slot.served < _MOST_REQUESTS:
                handoff = self._next()
                if handoff is None:
                    break
                why = self._serve(handoff)
            if why:
                log(f"worker {os.getpid()} ends: {why}")
            code = 0
        except BaseException:  # noqa: BLE001 -- the process ends, and its log must say why
            log(f"worker {os.getpid()} ends: {traceback.format_exc()}")
        finally:
            os._exit(code)

    def _next(self) -> Handoff | None:
        """Wait for a request, or a queued call; None to end."""
        is_rested = self._slot.served == 0
        self._slot.network = 0
        self._slot.enter(WorkerState.IDLE)
        self._shared.slots.wake_if_queued()
        if not is_rested:
            self._shared.slots.wake_for_installation()
        while True:
            events = dict(self._events.poll(None if is_rested else _REST_SECONDS))
            if not events:
                gc.collect()
                is_rested = True
            elif self._shared.drain in events:
                if self._shared.listening is not None:
                    self._events.unregister(self._shared.drain)
                    self._events.unregister(self._shared.listening)
                    self._shared = self._shared._replace(listening=None)
            else:
                try:
                    return self._take(events)
                except BlockingIOError:
                    pass  # another worker was faster

    def _take(self, events: dict[int, int]) -> Handoff | None:
        """Return the request that has come. Raises BlockingIOError if none has."""
        if self._shared.dequeue.fileno() in events or self._shared.listening is None:
            handoff = take_queued(self._shared.dequeue, self._slot)
        else:
            connection, _ = self._shared.listening.accept()  # Linux gives a blocking one
            handoff = Handoff(connection, self._slot)
        if handoff is not None:
            self._slot.enter(WorkerState.RUNNING)
            self._slot.begin()
        return handoff

    def _serve(self, handoff: Handoff) -> str:
        """Carry out a request and come back from it; return why this worker must end, empty if it goes on."""
        open_sockets, why = OpenSockets(), ""
        try:
            if handoff.queued_stdin is None:
                handoff.read_request(self._shared.identity, self._shared.build_id, self._shared.others)
            set_comm(handoff.request.plugin)
            if self._process.is_own_network(handoff.caller):
                open_sockets = self._open_sockets
            self._process.enter(handoff.caller)
            if handoff.queued_stdin is None:
                handoff.take()
            call = ServedCall(handoff, self._slot, self._shared)
            why = call.carry_out(self._cancellation, open_sockets)
        except ConnectionError:
            pass  # the launcher has gone before the call
        except (HandoffError, PeerError, OSError, ValueError) as error:
            if not handoff.is_abandoned():
                log(f"left to the launcher: {error}")
        if open_sockets is not self._open_sockets:
            open_sockets.close()
        handoff.close()
        changes = self._process.leave(self._open_sockets)
        set_comm(IDLE_NAME)
        return why or (f"a call has changed {changes}" if changes else "")
