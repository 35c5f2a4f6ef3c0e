"""The state of a network namespace in which other programs work."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness.runtime.namespace_state import read_namespace_state
from tests.nodes import Node, until

pytestmark = pytest.mark.sudo

_COME_AND_GO = """
while :; do
  for number in 1 2 3 4 5 6 7 8; do ip link add "c$number" type veth peer name "d$number"; done
  for number in 1 2 3 4 5 6 7 8; do ip link del "c$number"; done
done
"""


@contextmanager
def links_that_come_and_go(node: Node) -> Iterator[None]:
    with subprocess.Popen(["ip", "netns", "exec", node.name, "sh", "-c", _COME_AND_GO]) as process:
        try:
            yield
        finally:
            process.kill()


def test_links_that_go_meanwhile_are_no_error(node: Node) -> None:
    node.run(["ip", "address", "add", "192.0.2.1/24", "dev", "lo"])

    with links_that_come_and_go(node):
        until(lambda: len(node.ip("link")) > 1)
        states = [read_namespace_state(node.path) for _ in range(400)]

    for state in states:
        assert state is not None
        assert "192.0.2.1/24" in map(str, state.addresses[1])
