"""The recorded terminal of README, made once more."""

import re
from pathlib import Path

import pytest

from tests.fresh_machine import as_fresh_machine
from tests.nodes import Node
from tools.pictures.cast import RECORDING, SCRIPT, Cast, record

pytestmark = pytest.mark.slow("it plays all commands of the recording; test_readme runs README.md in make test")

_STEP = re.compile(r"├ (\w+)  ?((?!netns)\S*)")
_WORD = re.compile(r"[A-Za-z]{4,}")


def outputs(cast: Cast) -> list[str]:
    """Return the text on the terminal after each command, until the next prompt."""
    texts: list[str] = []
    for event in cast.events:
        if event.kind == "m":
            texts.append("")
        elif texts:
            texts[-1] += event.text
    return texts


def test_a_new_recording_differs_in_times_and_names_alone(node: Node, tmp_path: Path) -> None:
    old = Cast.read(RECORDING.read_text())
    new = record(as_fresh_machine(node, tmp_path))

    assert new.commands() == list(SCRIPT) == old.commands()
    trace, *others = zip(outputs(new), outputs(old), strict=True)
    assert set(_STEP.findall(trace[0])) == set(_STEP.findall(trace[1]))
    assert "├ RunPodSandbox" in trace[0]
    for one, other in others:
        assert set(_WORD.findall(_without_names(one))) == set(_WORD.findall(_without_names(other)))
    pods, greeting, topology, deleted = (text for text, _ in others)
    assert "\x1b[32mRunning" in pods
    assert "Hello from a pod" in greeting
    assert topology.count("port 8080→8080/tcp") == 1, "one line for IPv4 and IPv6"
    assert "deleted" in deleted
    assert node.run(["ls", "/run/netns"]).stdout == ""


def _without_names(text: str) -> str:
    return re.sub(r"\bveth[0-9a-f]+", "veth", text)
