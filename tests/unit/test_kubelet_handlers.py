"""The actions of hooks and probes, and the words of their errors."""

import errno
import os
from typing import NoReturn

import pytest

from api.container import V1TCPSocketAction
from harness.kubelet.probes.handlers import HandlerError, connect
from tests.unit.kubelet_objects import pod


@pytest.mark.parametrize(
    ("ip", "place"), [("192.0.2.1", "192.0.2.1:80"), ("2001:db8::1", "[2001:db8::1]:80"), ("name", "name:80")]
)
def test_error_of_a_connection_names_host_and_port(ip: str, place: str) -> None:
    def refuse(function: object) -> NoReturn:
        raise OSError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))

    [container] = pod([{"name": "a"}]).spec.containers
    with pytest.raises(HandlerError) as raised:
        connect(V1TCPSocketAction(port=80), container, ip, timeout_s=1, on_node=refuse)

    assert str(raised.value) == f"dial tcp {place}: connect: connection refused"
