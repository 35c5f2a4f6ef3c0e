"""docs/lesson.md: each command, typed one after the other, prints the answer of its page."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.fresh_machine import typed_on
from tests.nodes import Node
from tests.pages import commands, prints_as_shown, transcripts

pytestmark = pytest.mark.sudo

PAGE: Final = "docs/lesson.md"
FRAMES: Final = "timeout 60 sh /tmp/frames.sh"


def test_each_command_of_the_lesson_prints_its_answer(fresh_machine: Node, tmp_path: Path) -> None:
    typed = commands(PAGE)
    shown = dict(answers(typed))
    assert {"ip netns list", "cni-harness repair", FRAMES} <= shown.keys()

    printed = {command: typed_on(fresh_machine, command.replace("/tmp/", f"{tmp_path}/")) for command in typed}

    for command, lines in shown.items():
        assert prints_as_shown(lines, printed[command]), f"{command}\n{printed[command]}"
    assert printed["cni-harness -v run -f docs/examples/web.yaml --conf-dir docs/examples/lists"].count(" ADD ") == 4
    frames = re.findall("(?:[0-9a-f]{2}:){5}[0-9a-f]{2}", printed[FRAMES])
    assert frames[:2] == frames[:1:-1], "the addresses of the reply are those of the request"
    assert fresh_machine.run(["ls", "/run/netns"]).stdout == ""
    assert [link["ifname"] for link in fresh_machine.ip("link")] == ["lo"]


def answers(typed: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each command whose output an answer shows, with the lines of that output."""
    for block in transcripts(PAGE):
        command, lines = "", list[str]()
        for line in block.splitlines():
            if line.removeprefix("# ") in typed:
                if command:
                    yield command, lines
                command, lines = line.removeprefix("# "), []
            else:
                lines.append(line)
        assert command, block
        yield command, lines
