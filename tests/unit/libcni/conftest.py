"""Fixtures of the tests of the operations of SPEC.md section 3."""

from pathlib import Path

import pytest

from tests.unit.libcni.recorder import Node


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)
