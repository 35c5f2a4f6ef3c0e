"""A link that is removed: gone for everybody when the function returns, though the kernel has not finished."""

import _socket
import errno
import os
import select
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, nullcontext
from pathlib import Path
from typing import Any

import pytest

from netlink import link_removal
from netlink.link_removal import remove_link
from netlink.namespace import Namespace, open_namespace
from netlink.rtnl import Rtnl
from netlink.wire import NetlinkError
from tests.cli import ROOT
from tests.nodes import Node

pytestmark = pytest.mark.sudo


@pytest.fixture
def host(node: Node) -> Iterator[Namespace]:
    with open_namespace(node.path) as namespace:
        yield namespace


@pytest.fixture
def pod(node: Node) -> Iterator[Namespace]:
    with open_namespace(node.pod_namespace("pod")) as namespace:
        yield namespace


class Later:
    """A function to call when the kernel has finished."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], object]] = []

    def finish(self) -> None:
        while self.calls:
            self.calls.pop(0)()


@pytest.fixture
def later() -> Iterator[Later]:
    later = Later()
    yield later
    later.finish()


def make_pair(host: Namespace, pod: Namespace) -> None:
    with Rtnl(host) as rtnl:
        rtnl.create_veth("veth0", peer_name="eth0", peer_namespace=pod)


def remove(name_or_index: str | int, namespace: Namespace, later: Later) -> bool:
    return remove_link(name_or_index, namespace, waiting=nullcontext, afterwards=later.calls.append)


def held_open() -> tuple[set[str], set[str]]:
    """The threads and the descriptors of this process."""
    return _names("/proc/self/task"), _names("/proc/self/fd")


def _names(folder: str) -> set[str]:
    return {path.name for path in Path(folder).iterdir()}


def links(namespace: Namespace) -> set[str]:
    with Rtnl(namespace) as rtnl:
        return {link.name for link in rtnl.links()}


def test_both_ends_are_gone_while_the_kernel_still_works(host: Namespace, pod: Namespace, later: Later) -> None:
    seen_at_work = 0
    for _ in range(200):  # at most: a kernel may finish before anybody looks
        make_pair(host, pod)
        before = held_open()

        assert remove("veth0", host, later) is True
        assert (links(host), links(pod)) == ({"lo"}, {"lo"})
        # Its names can be used again at once.
        make_pair(host, pod)
        seen_at_work += held_open()[0] > before[0]
        later.finish()
        assert held_open() == before
        with Rtnl(host) as rtnl:
            assert rtnl.delete_link("veth0")
        if seen_at_work >= 10:
            break
    assert seen_at_work >= 10


def test_the_end_in_the_pod_takes_the_host_s_end_with_it(host: Namespace, pod: Namespace, later: Later) -> None:
    make_pair(host, pod)
    with Rtnl(pod) as rtnl:
        inner = rtnl.link("eth0")
    assert inner is not None

    assert remove(inner.ifindex, pod, later) is True
    assert (links(host), links(pod)) == ({"lo"}, {"lo"})


def test_the_thread_has_ended_when_it_was_waited_for(node: Node, host: Namespace, pod: Namespace) -> None:
    """A worker enters the next caller's mount namespace then, which the kernel refuses to one of several threads."""
    script = """
import contextlib, os
from fast_stdlib import syscalls
from netlink.link_removal import remove_link
mounts = os.open("/proc/self/ns/mnt", os.O_RDONLY)
for number in range(50):
    later = []
    assert remove_link(f"veth{number}", waiting=contextlib.nullcontext, afterwards=later.append)
    later[0]()
    syscalls.setns(mounts, syscalls.CLONE_NEWNS)
"""
    with Rtnl(host) as rtnl:
        for number in range(50):
            rtnl.create_veth(f"veth{number}", peer_name=f"eth{number}", peer_namespace=pod)

    node.run([sys.executable, "-c", script], env={"PYTHONPATH": str(ROOT)})
    assert (links(host), links(pod)) == ({"lo"}, {"lo"})


def test_nothing_is_begun_for_a_link_that_is_not_there(host: Namespace, later: Later) -> None:
    before = held_open()

    assert remove("veth0", host, later) is False
    assert later.calls == []
    assert held_open() == before


def test_delete_of_a_concurrently_removed_link_returns_false(host: Namespace, pod: Namespace, later: Later) -> None:
    make_pair(host, pod)
    with Rtnl(host) as rtnl:
        link = rtnl.link("veth0")
        assert link is not None
        rtnl.delete_link("veth0")

    assert remove(link.ifindex, host, later) is False


def test_the_refusal_of_the_kernel_is_raised(host: Namespace, later: Later) -> None:
    before = held_open()

    with pytest.raises(NetlinkError, match="delete link 'lo': Operation not supported"):
        remove("lo", host, later)
    later.finish()
    assert held_open() == before


def test_other_notifications_are_not_heard(node: Node, host: Namespace, pod: Namespace) -> None:
    """Not even those of this link: that it changes, and that it leaves its bridge."""
    make_pair(host, pod)
    node.run(["ip", "link", "add", "br0", "type", "bridge"])
    node.run(["ip", "link", "add", "other0", "type", "veth", "peer", "name", "other1"])
    with Rtnl(host) as rtnl:
        link = rtnl.link("veth0")
    assert link is not None

    with closing(link_removal._notification(link.ifindex, host)) as notification:
        node.run(["ip", "link", "set", "veth0", "master", "br0", "up"])
        node.run(["ip", "link", "set", "veth0", "nomaster"])
        node.run(["ip", "link", "delete", "other0"])
        assert select.select([notification], [], [], 0)[0] == []

        node.run(["ip", "link", "delete", "veth0"])
        assert len(notification.recv(1 << 16)) > 32
        assert select.select([notification], [], [], 0)[0] == []


class Lossy:
    """A socket whose notifications are lost for lack of memory: ENOBUFS comes in their place (netlink(7))."""

    def __init__(self, notification: _socket.socket) -> None:
        self._notification = notification
        self.lost = 0

    def fileno(self) -> int:
        return self._notification.fileno()

    def close(self) -> None:
        self._notification.close()

    def recv(self, size: int) -> bytes:
        received = self._notification.recv(size)
        if not self.lost:
            self.lost += 1
            raise OSError(errno.ENOBUFS, os.strerror(errno.ENOBUFS))
        return received


def test_a_lost_notification_is_made_up_for_by_a_look(
    host: Namespace, pod: Namespace, later: Later, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Lossy] = []
    original = link_removal._notification

    def lossy(index: int, namespace: Namespace | None) -> Lossy:
        made.append(Lossy(original(index, namespace)))
        return made[0]

    monkeypatch.setattr(link_removal, "_notification", lossy)
    make_pair(host, pod)

    assert remove("veth0", host, later) is True
    assert made[0].lost == 1
    assert (links(host), links(pod)) == ({"lo"}, {"lo"})


def test_lost_notifications_lead_to_a_look_and_a_further_wait() -> None:
    """Then the link is still there, and waited for."""
    looks: list[str] = []

    def is_missing() -> bool:
        looks.append("looked")
        return False

    with ExitStack() as opened:
        ours, kernels = (opened.enter_context(each) for each in socket.socketpair(type=socket.SOCK_DGRAM))
        unanswered = os.eventfd(0)
        opened.callback(os.close, unanswered)
        request: Any = type("Request", (), {"fileno": lambda _: unanswered})()
        lossy: Any = Lossy(ours)
        kernels.send(b"lost")
        kernels.send(b"gone")

        assert link_removal._is_notified(lossy, request, is_missing)
    assert looks == ["looked"]
