"""Several requests in one system call, each with its own answer."""

from collections.abc import Sequence

from lean.typing import Any
from netlink.namespace import Namespace
from netlink.replies import NLMSG_DONE, NLMSG_ERROR, Frame, NetlinkError, refusal
from netlink.request import CHANGE, DUMP, Request
from netlink.socket import NETLINK_ROUTE, NLM_F_DUMP_INTR, NLM_F_MULTI, NLM_F_REQUEST, Socket, encode, stamp

__all__ = ["RtnlSocket"]


class RtnlSocket(Socket):
    """A socket for rtnetlink(7)."""

    def __init__(self, namespace: Namespace | None = None) -> None:
        """Open in `namespace`, or else the thread's own. Raises OSError."""
        super().__init__(NETLINK_ROUTE, namespace)

    def exchange(self, requests: Sequence[Request[Any]]) -> None:
        """Send `requests`, of which only the last may be a dump, in one system call, and give each its answer.

        The kernel deals with them in order, and goes on after one that it refuses. Raises NetlinkError for the first
        that it refused, when all are dealt with.
        """
        if not requests:
            return
        first = self._next_sequence(len(requests))
        last = first + len(requests) - 1
        packet = bytearray()
        for number, request in enumerate(requests, first):
            encoded = encode(request.message)
            stamp(encoded, NLM_F_REQUEST | (0 if request.asks == CHANGE and number != last else request.asks), number)
            packet += encoded
        self._expect_errors(len(requests))
        self._send(packet)
        found, refused = self._answers(requests, first)
        failures = [request.settle(found[at], refused.get(at)) for at, request in enumerate(requests)]
        for failure in failures:
            if failure is not None:
                raise failure

    def _answers(
        self, requests: Sequence[Request[Any]], first: int
    ) -> tuple[list[list[Frame]], dict[int, NetlinkError]]:
        """Read until the last of `requests` is answered; return what came for each, by its place."""
        found: list[list[Frame]] = [[] for _ in requests]
        refused: dict[int, NetlinkError] = {}
        last = len(requests) - 1
        interrupted = False
        for frame in self._replies():
            at = frame.sequence - first
            if not 0 <= at <= last:
                continue
            interrupted = interrupted or bool(frame.flags & NLM_F_DUMP_INTR)
            ended = frame.type in {NLMSG_ERROR, NLMSG_DONE}
            if not ended:
                found[at].append(frame)
            elif failure := refusal(frame, requests[at].doing):
                refused[at] = failure
            if at == last and (ended or not frame.flags & NLM_F_MULTI):
                break
        if interrupted and requests[last].asks == DUMP and last not in refused:
            found[last] = self.dump(requests[last].message, doing=requests[last].doing)
        return found, refused
