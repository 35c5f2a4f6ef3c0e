"""docs/walkthrough.md: each command, typed one after the other, prints the lines of its page."""

import re
from typing import Final

import pytest

from tests.fresh_machine import typed_on
from tests.nodes import Node
from tests.pages import outputs, prints_as_shown, same_line, transcripts

pytestmark = [
    pytest.mark.sudo,
    pytest.mark.slow("it plays all commands of the page; test_lesson plays those of another page in make test"),
]

PAGE: Final = "docs/walkthrough.md"


def test_each_command_of_the_walkthrough_prints_its_lines(fresh_machine: Node) -> None:
    shown = outputs(PAGE)
    assert len([command for command, lines in shown if lines]) >= 10

    printed = [(command, lines, typed_on(fresh_machine, command)) for command, lines in shown]

    for command, lines, text in printed:
        if command.startswith("ls "):  # columns, on a terminal
            assert not lines or prints_as_shown(" ".join(lines).split(), "\n".join([*text.split(), ""])), text
        elif lines:
            assert prints_as_shown(lines, text), f"{command}\n{text}"


def test_a_run_prints_the_lines_of_the_tree_in_their_order(fresh_machine: Node) -> None:
    commands = [command for command, _ in outputs(PAGE)]
    traced = next(number for number, command in enumerate(commands) if "--trace" in command)
    delete = next(number for number, command in enumerate(commands) if " delete web" in command)
    [tree] = transcripts(PAGE)

    *_, printed = [typed_on(fresh_machine, command) for command in commands[: traced + 1]]
    for command in commands[delete:]:
        typed_on(fresh_machine, command)

    left = iter(re.sub(r"^(web|   )  ", "", line) for line in printed.splitlines())
    # Both are in the order of time. The page leaves out some lines.
    missing = [line for line in tree.splitlines() if not any(same_line(line, other) for other in left)]
    assert missing == [], printed
