"""Remove a link, and return before the kernel's answer comes. No pyroute2.

RTM_DELLINK takes a link, and the other end of a veth pair, out of their namespaces, and notifies the group RTMGRP_LINK.
Then it waits 8 to 30 ms for RCU (netdev_run_todo in net/core/dev.c). From the notification on, names and addresses can
be used again, and the kernel finishes the rest even if the process is killed. So a thread sends the request, and the
caller goes on as soon as the notification comes.
"""

import _socket
import errno
import os
import select
import struct
import sys
from _thread import get_native_id, start_new_thread
from time import sleep

from fast_stdlib import span
from fast_stdlib.contextlib import nullcontext, suppress
from fast_stdlib.typing import TYPE_CHECKING, Callable
from netlink.link_wire import delete_link, get_link
from netlink.namespace import Namespace, entered
from netlink.request import RtnlRequest, RtnlSocket, change
from netlink.socket import NETLINK_ROUTE
from netlink.wire import HEADER, Frame

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

# include/uapi/linux/rtnetlink.h
_RTM_DELLINK = 17
_RTMGRP_LINK = 0x1
# Offsets in a message about a link: its type, its address family and the link's ifindex.
_TYPE_AT, _FAMILY_AT, _INDEX_AT = 4, HEADER.size, HEADER.size + 4
# include/uapi/linux/filter.h and bpf_common.h: struct sock_filter, struct sock_fprog, and the codes of statements
_STATEMENT, _PROGRAM = struct.Struct("=HBBI"), struct.Struct("@HP")
_LOAD_BYTE, _LOAD_HALF, _LOAD_WORD, _IS_EQUAL, _TAKE = 0x30, 0x28, 0x20, 0x15, 0x06
_SO_ATTACH_FILTER = 26
# Seconds between looks at a thread that is about to end.
_PAUSE = 0.0001


def remove_link(
    name_or_ifindex: str | int,
    namespace: Namespace | None = None,
    *,
    waiting: "Callable[[], AbstractContextManager[None]]",
    afterwards: Callable[[Callable[[], object]], object],
) -> bool:
    """Remove a link of `namespace`, or else of the thread's own; False if it is missing.

    This returns as soon as the link is out of its namespace, and a veth's other end out of its own. The kernel is still
    at work then, and a thread waits for it: `afterwards` gets a function that returns when that thread has ended. A
    signal may end the block of `waiting`. If no thread can be started (`pids.max` of a cgroup, RLIMIT_NPROC), this
    waits itself. Raises NetlinkError if the kernel refuses, and OSError.
    """
    if isinstance(name_or_ifindex, int):
        ifindex: int | None = name_or_ifindex
    else:
        with RtnlSocket(namespace) as rtnl:
            ifindex = _index(rtnl, name_or_ifindex)
    if ifindex is None:
        return False
    from contextlib import ExitStack, closing  # 2 ms that a DEL without a link does without

    with ExitStack() as open_until_the_end:
        rtnl = open_until_the_end.enter_context(RtnlSocket(namespace))
        request = _Deletion(rtnl, ifindex, f"delete link {name_or_ifindex!r}")
        open_until_the_end.callback(request.close)
        shown = span("netlink RTM_DELLINK", doing=[f"delete link {name_or_ifindex!r}"])
        with shown, closing(_notification(ifindex, namespace)) as notification:
            if request.send_in_thread():
                afterwards(open_until_the_end.pop_all().close)
                with waiting():
                    if _is_notified(notification, request, lambda: _is_missing(ifindex, namespace)):
                        return True
        return request.outcome()


class _Deletion:
    """RTM_DELLINK for one link, and the thread that waits for the answer to it."""

    def __init__(self, rtnl: RtnlSocket, ifindex: int, doing: str) -> None:
        self._rtnl = rtnl
        self._request = change(delete_link(ifindex), doing, (errno.ENODEV,))
        self._answered = os.eventfd(0)
        self._failure: BaseException | None = None
        self._thread: int | None = None
        self._is_thread_started = False

    def fileno(self) -> int:
        """Return the file descriptor that is readable from the answer on."""
        return self._answered

    def send_in_thread(self) -> bool:
        """Send the request and return at once; False if no thread could start, and the answer has come already."""
        try:
            start_new_thread(self._send, ())
        except RuntimeError:
            self._send()
            return False
        self._is_thread_started = True
        return True

    def outcome(self) -> bool:
        """Return False if the link was missing. Raises the thread's error."""
        if self._failure is not None:
            raise self._failure
        return self._request.answer

    def close(self) -> None:
        """Wait for the answer and for the thread's end."""
        if self._is_thread_started:
            os.read(self._answered, 8)
            # A lock would be released before the thread's end, and until that end setns(2) refuses mount namespaces.
            with suppress(ProcessLookupError):
                while self._thread is not None:
                    os.sched_getscheduler(self._thread)
                    sleep(_PAUSE)
        os.close(self._answered)

    def _send(self) -> None:
        self._thread = get_native_id()
        try:
            self._rtnl.send(self._request)
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            self._failure = error
        os.eventfd_write(self._answered, 1)


def _index(rtnl: RtnlSocket, name_or_ifindex: str | int) -> int | None:
    doing = f"look up link {name_or_ifindex!r}"
    found = RtnlRequest(get_link(name_or_ifindex), doing, _index_in, harmless=(errno.ENODEV,))
    rtnl.send(found)
    return found.answer


def _index_in(frames: list[Frame] | None) -> int | None:
    return int.from_bytes(frames[0].encoded[_INDEX_AT : _INDEX_AT + 4], sys.byteorder) if frames else None


def _is_notified(notification: _socket.socket, request: _Deletion, is_missing: Callable[[], bool]) -> bool:
    """Wait until the link is gone, or the request is answered; tell whether it is gone for certain."""
    readable = select.poll()
    readable.register(notification, select.POLLIN)
    readable.register(request, select.POLLIN)
    while True:
        ready = [descriptor for descriptor, _ in readable.poll()]
        if notification.fileno() in ready:
            try:
                notification.recv(1)
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                # The notification may have been lost for lack of memory.
                if is_missing():
                    return True
            else:
                return True
        if request.fileno() in ready:
            return False


def _notification(ifindex: int, namespace: Namespace | None) -> _socket.socket:
    """Return a socket that receives one notification only: that the link is gone.

    The kernel filters, since on a busy node hundreds of others would come first, and could fill the buffer. A
    notification of the address family AF_BRIDGE says that the link has left its bridge, and is dropped.
    """
    with entered(namespace) if namespace else nullcontext():
        notification = _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW, NETLINK_ROUTE)
    try:
        statements = [
            *_required(_LOAD_HALF, _TYPE_AT, _RTM_DELLINK.to_bytes(2, sys.byteorder), 5),
            *_required(_LOAD_BYTE, _FAMILY_AT, bytes([_socket.AF_UNSPEC]), 3),
            *_required(_LOAD_WORD, _INDEX_AT, ifindex.to_bytes(4, sys.byteorder), 1),
            _STATEMENT.pack(_TAKE, 0, 0, 0xFFFFFFFF),
            _STATEMENT.pack(_TAKE, 0, 0, 0),
        ]
        from array import array  # it loads `collections.abc`

        program = array("B", b"".join(statements))
        attached = _PROGRAM.pack(len(statements), program.buffer_info()[0])
        notification.setsockopt(_socket.SOL_SOCKET, _SO_ATTACH_FILTER, attached)
        notification.bind((0, _RTMGRP_LINK))
    except BaseException:
        notification.close()
        raise
    return notification


def _required(load: int, offset: int, value: bytes, to_refusal: int) -> tuple[bytes, bytes]:
    """Return the statements that skip `to_refusal` others if the message has another value there."""
    # The kernel loads values in network byte order, whatever theirs is.
    return _STATEMENT.pack(load, 0, 0, offset), _STATEMENT.pack(_IS_EQUAL, 0, to_refusal, int.from_bytes(value, "big"))


def _is_missing(ifindex: int, namespace: Namespace | None) -> bool:
    with RtnlSocket(namespace) as rtnl:
        return _index(rtnl, ifindex) is None
