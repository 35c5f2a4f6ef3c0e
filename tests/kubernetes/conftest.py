"""One control plane for all tests of a worker; each test has a namespace of its own."""

import os
from collections.abc import Iterator
from contextlib import closing

import pytest

from kube.client import NAMESPACES, Client
from tests.cli import ROOT
from tests.kubernetes.control_plane import ControlPlane, programs

LOGS = ROOT / "build" / "kubernetes"


def pytest_sessionstart(session: pytest.Session) -> None:
    """Raise pytest.UsageError before the first test if a program is missing."""
    programs()


def pytest_itemcollected(item: pytest.Item) -> None:
    """The first test waits for the control plane."""
    item.add_marker(pytest.mark.time_limit(600, "a control plane starts, on a busy machine too"))


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    plane = ControlPlane(tmp_path_factory.mktemp("control-plane"))
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()
        LOGS.mkdir(parents=True, exist_ok=True)
        for log in plane.folder.glob("*.log"):
            worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
            (LOGS / f"{worker}-{log.name}").write_bytes(log.read_bytes())


@pytest.fixture
def client(control_plane: ControlPlane) -> Iterator[Client]:
    with closing(control_plane.client()) as client:
        yield client


@pytest.fixture
def namespace(client: Client) -> str:
    """A namespace of this test alone."""
    made = client.create(NAMESPACES, {"metadata": {"generateName": "test-"}})
    return str(made["metadata"]["name"])
