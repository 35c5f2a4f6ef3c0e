"""Faults that tests inject, and plugins dispatched in this process, which is where they can be."""

import errno
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from launch.plugin_list import resolve
from netlink.namespace import entered, open_namespace
from netlink.socket import Socket
from netlink.wire import NetlinkError
from skel import Outcome, dispatch
from tests.attachments import KEPT_BY_NODE
from tests.nodes import HANG, Node

FaultAt = Callable[[int], AbstractContextManager[list[str]]]
"""`failing_at` or `answer_lost_at`."""

INJECTED = "fault injected by the test"


class InjectedError(NetlinkError):
    def __init__(self, number: int = errno.EIO) -> None:
        super().__init__(number, INJECTED)


def dispatched(
    node: Node,
    bin_dir: Path,
    verb: str,
    config: Mapping[str, Any],
    pod: str = "",
    variables: Mapping[str, str] | None = None,
) -> Outcome:
    """Dispatch a verb of the configuration's plugin in a thread that is on the node.

    Its files are the node's by `dataDir`. `variables` are added to its environment.
    """
    files = {"ipam": {**config.get("ipam", {}), "dataDir": str(node.var_lib_cni / "networks")}}
    attachment = {"CNI_CONTAINERID": f"id-{pod}", "CNI_NETNS": f"{node.path}-{pod}", "CNI_IFNAME": "eth0"}
    environ = {"CNI_COMMAND": verb, "CNI_PATH": str(bin_dir), **(attachment if pod else {}), **(variables or {})}
    with open_namespace(node.path) as namespace, entered(namespace):
        return dispatch(resolve(config["type"]), environ, json.dumps({**config, **files}).encode)


@contextmanager
def failing_at(step: int) -> Iterator[list[str]]:
    """Let the netlink request number `step` fail after the kernel has not even seen it; those of the undoing pass."""
    with _fault_at(step, InjectedError(), sends_first=False) as seen:
        yield seen


@contextmanager
def answer_lost_at(step: int) -> Iterator[list[str]]:
    """Let the kernel carry out the netlink request number `step`, and its answer be lost, as under memory pressure."""
    with _fault_at(step, InjectedError(errno.ENOBUFS), sends_first=True) as seen:
        yield seen


@contextmanager
def _fault_at(step: int, error: InjectedError, *, sends_first: bool) -> Iterator[list[str]]:
    seen: list[str] = []
    send = Socket._send

    def send_or_fail(self: Socket, packet: bytes | bytearray) -> None:
        seen.append("sent")
        if len(seen) != step:
            send(self, packet)
            return
        if sends_first:
            send(self, packet)
        raise error

    Socket._send = send_or_fail  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        Socket._send = send  # type: ignore[method-assign]


def steps_of(fault_at: FaultAt, apart: int) -> Iterator[int]:
    """Yield the numbers of requests at which a fault is tried: each one, or some that lie `apart`.

    The two kinds of faults do not begin at the same request, so that they have different ones.
    """
    return itertools.count(min(apart, 1 if fault_at is failing_at else 2), apart)


def fails_at_every_step(
    node: Node, bin_dir: Path, config: Mapping[str, Any], fault_at: FaultAt, *, apart: int = 1
) -> int:
    """Have ADD of the pod `one` fail at each request to the kernel in turn, or at some; return the number of requests.

    Raises AssertionError if one leaves anything on the node or in the pod. The last ADD has succeeded.
    """
    before, links = node.state(), node.ip("link", netns=f"{node.path}-one")
    steps = steps_of(fault_at, apart)
    while True:
        step = next(steps)
        with fault_at(step) as seen:
            outcome = dispatched(node, bin_dir, "ADD", config, "one")
        if outcome.code == 0:
            assert len(seen) < step
            return len(seen)

        assert INJECTED.encode() in outcome.stdout, outcome
        assert b"undoing" not in outcome.stderr, outcome
        node.assert_same_state(before, ignore=KEPT_BY_NODE, within=HANG)
        assert node.ip("link", netns=f"{node.path}-one") == links, step
        assert "id-one" not in owners(node), step


def owners(node: Node) -> str:
    """Return the container IDs that the index of the reservations names."""
    index = node.var_lib_cni / "networks/net/.owners"
    return index.read_text() if index.exists() else ""


def failing_once(monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> None:
    """Let the first call of a module's function, or a class's method, fail, having done nothing; the others pass."""
    original = getattr(owner, name)
    calls: list[str] = []

    def fail_once(*args: Any, **kwargs: Any) -> Any:
        calls.append("called")
        if len(calls) == 1:
            raise InjectedError
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, fail_once)
