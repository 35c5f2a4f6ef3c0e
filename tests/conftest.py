"""Fixtures of all tests: nodes, and our plugins as executables."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from skel.launcher import launcher_text
from skel.suite import PLUGINS
from tests.nodes import Node


def pytest_itemcollected(item: pytest.Item) -> None:
    """Whoever asks for a node needs root."""
    if "make_node" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.sudo)


@pytest.fixture(scope="session")
def bin_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for CNI_PATH: one launcher under the name of each of our plugins."""
    folder = tmp_path_factory.mktemp("bin")
    for name in PLUGINS:
        launcher = folder / name
        launcher.write_bytes(launcher_text())
        launcher.chmod(0o755)
    return folder


@pytest.fixture
def make_node(tmp_path: Path) -> Iterator[Callable[[], Node]]:
    """Makes a node at each call; all go when the test is over."""
    with ExitStack() as nodes:

        def make() -> Node:
            node = Node(tmp_path)
            nodes.callback(node.close)
            return node

        yield make


@pytest.fixture
def node(make_node: Callable[[], Node]) -> Node:
    """A node with nothing on it but `lo`, up."""
    return make_node()
