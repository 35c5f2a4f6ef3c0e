"""A sample of `make soak`: after each start of an agent that was killed, nothing is stale and nothing is missing."""

from pathlib import Path

import pytest

from tests.cli import ROOT
from tools.soak.agents import kill_agents

pytestmark = pytest.mark.sudo


def test_an_agent_that_was_killed_at_a_random_moment_puts_all_right_at_its_next_start(tmp_path: Path) -> None:
    outcome = kill_agents(tmp_path, ROOT, 10, seed=5, limit=60.0)

    assert outcome.left == []
    assert (outcome.kills, outcome.lives, outcome.losses) == (10, 5, 5)
