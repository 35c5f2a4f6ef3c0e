"""A sample of `make soak`: living workers do not grow, and nothing is left of a call whose process is killed."""

from pathlib import Path

import pytest

from tests.cli import ROOT
from tools.soak.connections import connect_often
from tools.soak.kills import kill
from tools.soak.long_life import live

pytestmark = [
    pytest.mark.sudo,
    pytest.mark.slow("a sample of make soak; test_server_workers kills workers in make test"),
]

CYCLES = 240
"""More than 600 requests: more than three workers may serve."""
CONNECTIONS = 20
POINTS = 24
SEED = 9


def test_workers_and_server_do_not_grow(tmp_path: Path) -> None:
    life = live(tmp_path, ROOT, CYCLES)

    assert life.faults() == []
    assert life.cycles == CYCLES
    assert max(len(samples) for samples in life.workers) >= 3


def test_killed_workers_and_launchers_leave_nothing(tmp_path: Path) -> None:
    kills = kill(tmp_path, ROOT, POINTS, SEED)

    assert kills.left == []
    assert kills.points == POINTS


def test_connections_of_a_pod_leave_nothing(tmp_path: Path) -> None:
    assert connect_often(tmp_path, ROOT, CONNECTIONS) == []
