"""Problems of a source of Nodes are told as they begin, also if no Node has been read yet."""

import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from agent.plan import Backend
from agent.sources import ApiNodes
from kube import client
from kube.config import ClusterConfig, Server
from tests.node.test_agent import Running, Unknown
from tests.nodes import Node, until

pytestmark = pytest.mark.sudo


class Away(Unknown):
    """A source whose server is away."""

    @property
    def problems(self) -> list[str]:
        return ["connection refused"]


def test_a_problem_of_the_source_is_reported_before_nodes_are_known(
    make_node: Callable[[], Node], tmp_path: Path
) -> None:
    with Running(tmp_path / "nodes", [make_node()], Backend.AUTO).serving(Away()) as running:
        until(lambda: running.told, within=30)

        assert running.told == {"node-0": ["connection refused"]}


def test_an_api_server_that_is_away_is_a_change_of_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_ATTEMPTS", 1)  # five take twenty seconds
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # and does not listen

        with closing(ApiNodes(ClusterConfig(Server("http", "127.0.0.1", silent.getsockname()[1])))) as source:
            assert until(source.poll, within=30)

            [problem] = source.problems
            assert "refused" in problem
            assert not source.poll()
