"""The colour of a verdict in a table."""

import pytest

from harness.output import TextTable
from harness.terminal import _cell


@pytest.mark.parametrize(
    ("word", "colour"),
    [
        ("Running", "green"),
        ("Completed", "green"),
        ("Succeeded", "green"),
        ("Pending", "yellow"),
        ("ContainerCreating", "yellow"),
        ("PodInitializing", "yellow"),
        ("Init:0/2", "yellow"),
        ("Terminating", "yellow"),
        ("Init:Error", "red"),
        ("Failed", "red"),
        ("CrashLoopBackOff", "red"),
    ],
)
def test_the_status_of_a_pod_has_the_colour_of_its_meaning(word: str, colour: str) -> None:
    table = TextTable(("NAME", "STATUS"), [], "STATUS")

    assert _cell(table, "STATUS", word).style == colour
    assert _cell(table, "NAME", word).style == ""
