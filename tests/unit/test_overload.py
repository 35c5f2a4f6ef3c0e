"""Time limits grow with the load of the machine."""

import os
from pathlib import Path

import pytest

from harness import overload


@pytest.mark.parametrize(
    ("loadavg", "expected"),
    [
        ("0.18 0.12 0.05 1/345 4711", 1.0),
        ("40.00 12.00 5.00 1/345 4711", 20.0),
        ("0.18 0.12 0.05 42/345 4711", 21.0),
    ],
    ids=["none", "of the last minute", "of this moment"],
)
def test_the_load_for_each_processor_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loadavg: str, expected: float
) -> None:
    (tmp_path / "loadavg").write_text(f"{loadavg}\n")
    monkeypatch.setattr(overload, "_LOADAVG", tmp_path / "loadavg")
    monkeypatch.setattr(os, "cpu_count", lambda: 2)

    assert overload.overload() == expected


def test_this_machine_has_a_load() -> None:
    assert overload.overload() >= 1.0
