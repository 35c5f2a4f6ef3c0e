"""A netlink socket against a kernel with answers that a real one gives only by chance."""

import errno
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread

import pytest

from netlink.netfilter import Netfilter
from netlink.request import DUMP, LOOK, RtnlRequest, RtnlSocket, change
from netlink.socket import Socket
from netlink.wire import (
    NLM_F_ACK,
    NLM_F_DUMP,
    NLM_F_REQUEST,
    DumpInterruptedError,
    Frame,
    NetlinkError,
)

NLM_F_MULTI, NLM_F_DUMP_INTR, NLM_F_CAPPED, NLM_F_ACK_TLVS = 0x2, 0x10, 0x100, 0x200
NLMSG_ERROR, NLMSG_DONE = 2, 3
NFNL_BATCH_BEGIN, NFNL_BATCH_END, NFTABLES = 0x10, 0x11, 10
KIND = 100

Asked = tuple[int, int, int, bytes]  # type, flags, sequence number, body


def message(kind: int, flags: int, sequence: int, body: bytes = b"") -> bytes:
    return struct.pack("=IHHII", 16 + len(body), kind, flags, sequence, 0) + body + bytes(-len(body) % 4)


def requests_in(packet: bytes) -> list[Asked]:
    requests = []
    while packet:
        length, kind, flags, sequence, _ = struct.unpack_from("=IHHII", packet)
        requests.append((kind, flags, sequence, packet[16:length]))
        packet = packet[(length + 3) & ~3 :]
    return requests


def error(number: int, sequence: int, text: str = "") -> bytes:
    body = struct.pack("=i", -number) + message(KIND, 0, sequence)
    flags = NLM_F_CAPPED
    if text:
        flags |= NLM_F_ACK_TLVS
        body += struct.pack("=HH", 5 + len(text), 1) + text.encode() + b"\0"
    return message(NLMSG_ERROR, flags, sequence, body)


def done(sequence: int, number: int = 0) -> bytes:
    return message(NLMSG_DONE, NLM_F_MULTI, sequence, struct.pack("=i", -number))


class Kernel:
    """The other end: gives to each packet received what `answer` makes of its requests, packet by packet."""

    def __init__(self, end: socket.socket) -> None:
        self.answer: Callable[[list[Asked]], list[bytes]] = lambda _: []
        self.packets: list[list[Asked]] = []
        self._end = end
        self._thread = Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while packet := self._end.recv(1 << 20):
            self.packets.append(requests_in(packet))
            for reply in self.answer(self.packets[-1]):
                self._end.send(reply)

    def join(self) -> None:
        self._thread.join()


@contextmanager
def connected(under_test: Socket) -> Iterator[Kernel]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        kernel = Kernel(theirs)
        with under_test:
            under_test._socket.close()
            under_test._socket = ours
            yield kernel
        kernel.join()


@pytest.fixture
def ends() -> Iterator[tuple[RtnlSocket, Kernel]]:
    under_test = RtnlSocket()
    with connected(under_test) as kernel:
        yield under_test, kernel


@pytest.fixture
def transaction_ends() -> Iterator[tuple[Netfilter, Kernel]]:
    under_test = Netfilter()
    with connected(under_test) as kernel:
        yield under_test, kernel


def test_all_messages_go_in_one_packet_and_only_the_last_asks_for_an_answer(ends: tuple[RtnlSocket, Kernel]) -> None:
    under_test, kernel = ends
    kernel.answer = lambda requests: [error(0, requests[-1][2])]

    messages = [message(KIND, 0x400, 0, b"one."), message(KIND, 0, 0, b"two."), message(KIND, 0, 0)]
    under_test.send(*[change(each, "") for each in messages])

    (packet,) = kernel.packets
    assert [body for _, _, _, body in packet] == [b"one.", b"two.", b""]
    assert [flags for _, flags, _, _ in packet] == [NLM_F_REQUEST | 0x400, NLM_F_REQUEST, NLM_F_REQUEST | NLM_F_ACK]
    assert len({sequence for _, _, sequence, _ in packet}) == 3


def test_the_first_failure_is_raised_in_the_kernels_words(ends: tuple[RtnlSocket, Kernel]) -> None:
    under_test, kernel = ends
    kernel.answer = lambda requests: [
        error(errno.EINVAL, requests[1][2], "a reason"),
        error(errno.EPERM, requests[2][2]),
    ]

    with pytest.raises(NetlinkError) as raised:
        under_test.send(*[change(message(KIND, 0, 0), "change three things") for _ in range(3)])

    assert raised.value.errno == errno.EINVAL
    assert raised.value.strerror == "change three things: Invalid argument: a reason"
    assert raised.value.explained


def test_answers_to_former_requests_are_passed_over(ends: tuple[RtnlSocket, Kernel]) -> None:
    under_test, kernel = ends
    kernel.answer = lambda requests: [error(0, requests[0][2]), error(errno.EPERM, requests[0][2])]
    under_test.send(change(message(KIND, 0, 0), ""))

    kernel.answer = lambda requests: [message(KIND + 1, 0, requests[0][2], b"body")]

    question = RtnlRequest(message(KIND, 0, 0), "", bodies)
    under_test.send(question)
    assert question.answer == [b"body"]


def test_a_transaction_is_framed_and_its_own_failure_raised(transaction_ends: tuple[Netfilter, Kernel]) -> None:
    under_test, kernel = transaction_ends
    kernel.answer = lambda requests: [error(errno.EBUSY, requests[0][2])]

    with pytest.raises(NetlinkError, match="commit it: Device or resource busy"):
        under_test.commit([message(KIND, 0, 0)] * 2, doing="commit it")

    (packet,) = kernel.packets
    assert [kind for kind, _, _, _ in packet] == [NFNL_BATCH_BEGIN, KIND, KIND, NFNL_BATCH_END]
    # struct nfgenmsg: family, version, and the subsystem in network order
    assert [bytes([0, 0, 0, NFTABLES])] * 2 == [packet[0][3], packet[3][3]]


def test_a_dump_is_read_again_when_the_table_changed(ends: tuple[RtnlSocket, Kernel]) -> None:
    under_test, kernel = ends

    def answer(requests: list[Asked]) -> list[bytes]:
        ((_, _, sequence, _),) = requests
        attempt = len(kernel.packets)
        changed = NLM_F_DUMP_INTR if attempt < 3 else 0
        first = message(KIND, NLM_F_MULTI | changed, sequence, b"%03d." % attempt)
        return [first + message(KIND, NLM_F_MULTI, sequence, b"more"), done(sequence)]

    kernel.answer = answer

    frames = under_test.dump(message(KIND, 0, 0))

    assert [frame.encoded[16:] for frame in frames] == [b"003.", b"more"]
    assert {NLM_F_REQUEST | NLM_F_DUMP} == {flags for packet in kernel.packets for _, flags, _, _ in packet}
    assert len({packet[0][2] for packet in kernel.packets}) == 3


def test_a_table_that_never_rests_is_given_up(ends: tuple[RtnlSocket, Kernel]) -> None:
    under_test, kernel = ends
    kernel.answer = lambda requests: [message(NLMSG_DONE, NLM_F_DUMP_INTR, requests[0][2], struct.pack("=i", 0))]

    with pytest.raises(DumpInterruptedError, match="list them: the table kept changing"):
        under_test.dump(message(KIND, 0, 0), doing="list them")

    assert len(kernel.packets) == 5


def test_an_error_at_the_end_of_a_dump_is_raised(ends: tuple[RtnlSocket, Kernel]) -> None:
    under_test, kernel = ends
    kernel.answer = lambda requests: [message(KIND, NLM_F_MULTI, requests[0][2]), done(requests[0][2], errno.ENOENT)]

    with pytest.raises(NetlinkError, match="No such file"):
        under_test.dump(message(KIND, 0, 0))


def test_a_reply_larger_than_the_buffer_is_an_error_and_not_cut(ends: tuple[RtnlSocket, Kernel]) -> None:
    under_test, kernel = ends
    kernel.answer = lambda requests: [message(KIND, 0, requests[0][2], bytes(70_000))]

    with pytest.raises(NetlinkError, match="a reply of 70016 bytes"):
        under_test.send(RtnlRequest(message(KIND, 0, 0), "", bodies))


def test_no_answer_is_an_error_in_the_end(ends: tuple[RtnlSocket, Kernel]) -> None:
    under_test, _ = ends
    under_test._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", 0, 10_000))

    with pytest.raises(NetlinkError) as raised:
        under_test.send(RtnlRequest(message(KIND, 0, 0), "", bodies))

    assert raised.value.errno == errno.ETIMEDOUT


def test_nothing_to_do_sends_nothing(ends: tuple[RtnlSocket, Kernel]) -> None:
    under_test, kernel = ends

    under_test.send()

    assert kernel.packets == []


def bodies(frames: list[Frame] | None) -> list[bytes]:
    return [frame.encoded[16:] for frame in frames or ()]


def look(doing: str = "") -> RtnlRequest[list[bytes]]:
    return RtnlRequest(message(KIND, 0, 0), doing, bodies, asks=LOOK, harmless=[errno.ENODEV])


def listing() -> RtnlRequest[list[bytes]]:
    return RtnlRequest(message(KIND, 0, 0), "list them", bodies, asks=DUMP)


def test_changes_looks_and_a_list_go_in_one_packet_and_each_has_its_answer(ends: tuple[RtnlSocket, Kernel]) -> None:
    under_test, kernel = ends
    made, one, none, several = change(message(KIND, 0x400, 0), "make it"), look(), look(), listing()

    def answer(requests: list[Asked]) -> list[bytes]:
        of_change, of_one, of_none, of_several = [sequence for _, _, sequence, _ in requests]
        return [
            message(KIND, 0, of_change - 1, b"late"),  # to a former request
            message(KIND, 0, of_one, b"one."),
            error(errno.ENODEV, of_none),
            message(KIND, NLM_F_MULTI, of_several, b"1st.") + message(KIND, NLM_F_MULTI, of_several, b"2nd."),
            message(KIND, NLM_F_MULTI, of_several, b"3rd.") + done(of_several),
        ]

    kernel.answer = answer
    under_test.send(made, one, none, several)

    (packet,) = kernel.packets
    assert [flags for _, flags, _, _ in packet] == [
        NLM_F_REQUEST | 0x400,
        NLM_F_REQUEST,
        NLM_F_REQUEST,
        NLM_F_REQUEST | NLM_F_DUMP,
    ]
    assert made.answer is True
    assert one.answer == [b"one."]
    assert none.answer == []
    assert several.answer == [b"1st.", b"2nd.", b"3rd."]


def test_only_the_last_of_several_changes_is_acknowledged(ends: tuple[RtnlSocket, Kernel]) -> None:
    under_test, kernel = ends
    requests = [change(message(KIND, 0, 0), f"number {number}", [errno.EEXIST]) for number in range(3)]
    kernel.answer = lambda asked: [error(errno.EEXIST, asked[1][2]), error(0, asked[2][2])]

    under_test.send(*requests)

    assert [flags & NLM_F_ACK for _, flags, _, _ in kernel.packets[0]] == [0, 0, NLM_F_ACK]
    assert [request.answer for request in requests] == [True, False, True]


def test_first_refused_request_is_raised_and_the_others_are_answered(ends: tuple[RtnlSocket, Kernel]) -> None:
    under_test, kernel = ends
    first, second, third = change(message(KIND, 0, 0), "the first"), look("the second"), look("the third")
    kernel.answer = lambda asked: [
        error(errno.EPERM, asked[0][2], "a reason"),
        error(errno.EINVAL, asked[1][2]),
        message(KIND, 0, asked[2][2], b"here"),
    ]

    with pytest.raises(NetlinkError, match=r"^.Errno 1. the first: Operation not permitted: a reason$"):
        under_test.send(first, second, third)

    assert third.answer == [b"here"]


def test_a_list_that_changed_meanwhile_is_asked_for_again_alone(ends: tuple[RtnlSocket, Kernel]) -> None:
    under_test, kernel = ends
    one, several = look(), listing()

    def answer(requests: list[Asked]) -> list[bytes]:
        sequence = requests[-1][2]
        changed = NLM_F_DUMP_INTR if len(kernel.packets) == 1 else 0
        first = [message(KIND, 0, sequence - 1, b"one.")] if len(requests) > 1 else []
        listed = message(KIND, NLM_F_MULTI | changed, sequence, b"%03d." % len(kernel.packets))
        return [*first, listed, done(sequence)]

    kernel.answer = answer
    under_test.send(one, several)

    assert [len(packet) for packet in kernel.packets] == [2, 1]
    assert (one.answer, several.answer) == ([b"one."], [b"002."])


def test_a_list_that_is_refused_says_so(ends: tuple[RtnlSocket, Kernel]) -> None:
    under_test, kernel = ends
    kernel.answer = lambda asked: [error(errno.EBUSY, asked[0][2])]

    with pytest.raises(NetlinkError, match="list them: Device or resource busy"):
        under_test.send(listing())
