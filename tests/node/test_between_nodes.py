"""docs/between-nodes.md: each command, typed one after the other, prints the lines of its page."""

from typing import Final

import pytest

from tests.fresh_machine import typed_on
from tests.nodes import Node
from tests.pages import outputs, prints_as_shown

pytestmark = [
    pytest.mark.sudo,
    pytest.mark.slow("it plays all commands of the page; test_nodes_verbs has nodes with pods in make test"),
]

PAGE: Final = "docs/between-nodes.md"


def test_each_command_of_the_page_prints_its_lines(fresh_machine: Node) -> None:
    shown = outputs(PAGE)
    assert len([command for command, lines in shown if lines]) >= 15

    for command, lines in shown:
        printed = typed_on(fresh_machine, command)
        assert prints_as_shown(lines, printed), f"{command}\n{printed}"
    assert fresh_machine.run(["ls", "/run/netns"]).stdout == ""
