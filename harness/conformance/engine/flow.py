"""Packets that a node forwards between two machines while a check runs: they flow during it, and after it."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, Self

from harness.conformance.engine.outside_changes import require
from harness.conformance.engine.traffic import linked_machine, socket_in
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import SlowError, ViolationError
from harness.overload import overload

_MACHINES: Final = (("flow0", "203.0.113.129", "203.0.113.130"), ("flow1", "203.0.113.133", "203.0.113.134"))
"""For each machine its link on the node, the node's address there, and its own (documentation range, RFC 5737)."""
_PORT: Final = 9
_SIZE: Final = 8
"""Bytes of a packet: its number."""
_EVERY: Final = 0.02
"""Seconds between two packets."""
_GAP: Final = 1.0
"""Seconds without a packet that another program notices."""
_BEGIN: Final = 3.0
_EXPECTED: Final = "packets that the node forwards between two other machines to flow"


@contextmanager
def flowing(trial: Trial) -> Iterator[None]:
    """Have packets flow while the block lasts. Raises ViolationError if they stop; NotApplicableError.

    If none arrives before the block, nothing is demanded.
    """
    first, second = (linked_machine(trial, *words) for words in _MACHINES)
    require(trial, trial.node_netns, "tee", "/proc/sys/net/ipv4/ip_forward", stdin="1")
    with _Packets(first, second, _MACHINES[1][2]) as packets:
        flowed = packets.arrive()
        packets.longest_gap = 0.0
        yield
        if not flowed or trial.forwards_otherwise:
            return
        if not packets.arrive():
            raise ViolationError(f"{_EXPECTED}, after the check's calls", "none arrives any more")
        if packets.longest_gap > _GAP * max(1.0, overload() / 2):
            raise SlowError(f"{_EXPECTED}, during the check's calls", f"none arrives for {packets.longest_gap:.1f} s")


class _Packets:
    """Datagrams from one namespace to a server in another one, which answers each; a with block ends them."""

    def __init__(self, client: str, server: str, address: str) -> None:
        self.longest_gap = 0.0
        """Seconds without an answer."""
        self._last = time.monotonic()
        self._sent = 0
        self._answered = 0
        """The number of the latest packet that was answered."""
        self._ended = threading.Event()
        self._asking = socket_in(client, socket.AF_INET, socket.SOCK_DGRAM)
        self._asking.connect((address, _PORT))
        self._asking.settimeout(_EVERY)
        self._answering = socket_in(server, socket.AF_INET, socket.SOCK_DGRAM)
        self._answering.bind((address, _PORT))
        self._answering.settimeout(_EVERY)
        self._threads = [threading.Thread(target=each) for each in (self._ask, self._answer)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()
        self._asking.close()
        self._answering.close()

    def arrive(self) -> bool:
        """Tell whether a packet that is sent from now on is answered, within seconds."""
        sent, deadline = self._sent, time.monotonic() + _BEGIN * overload()
        while self._answered <= sent and time.monotonic() < deadline:
            time.sleep(_EVERY)
        return self._answered > sent

    def _ask(self) -> None:
        while not self._ended.wait(_EVERY):
            self._sent += 1
            with suppress(OSError):  # lost, or refused by the kernel of the node: a gap
                self._asking.send(self._sent.to_bytes(_SIZE))
                self._answered = int.from_bytes(self._asking.recv(_SIZE))
                self._last = time.monotonic()
            self.longest_gap = max(self.longest_gap, time.monotonic() - self._last)

    def _answer(self) -> None:
        while not self._ended.is_set():
            with suppress(OSError):  # none for a moment
                self._answering.sendto(*self._answering.recvfrom(_SIZE))
