"""The traces that `--trace-file` writes, read by tests."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.cli import Cli


class Step(NamedTuple):
    """A span of a file that --trace-file has written."""

    id: str
    name: str
    parent: str
    start: int
    end: int
    pid: int
    error: str
    attributes: dict[str, Any]


class Trace:
    """The spans of a run."""

    def __init__(self, file: Path) -> None:
        self.steps = list(_steps(json.loads(file.read_text())))
        self._by_id = {step.id: step for step in self.steps}

    def named(self, name: str) -> list[Step]:
        return [step for step in self.steps if step.name == name]

    def path(self, step: Step) -> list[str]:
        """The names from the root to a step."""
        above = self._by_id.get(step.parent)
        return [*(self.path(above) if above else []), step.name]

    def paths(self, *names: str) -> list[list[str]]:
        return [self.path(step) for step in self.steps if step.name in names]

    def parent(self, step: Step) -> Step:
        return self._by_id[step.parent]

    def check_times(self) -> None:
        """Every step lies within the one around it."""
        for step in self.steps:
            if step.parent:
                above = self.parent(step)
                assert above.start <= step.start <= step.end <= above.end, (above, step)


def _steps(document: dict[str, Any]) -> Iterator[Step]:
    for resource in document["resourceSpans"]:
        of_process = {each["key"]: each["value"] for each in resource["resource"]["attributes"]}
        for each in resource["scopeSpans"][0]["spans"]:
            yield Step(
                each["spanId"],
                each["name"],
                each.get("parentSpanId", ""),
                int(each["startTimeUnixNano"]),
                int(each["endTimeUnixNano"]),
                int(of_process["process.pid"]["intValue"]),
                each.get("status", {}).get("message", ""),
                {value["key"]: next(iter(value["value"].values())) for value in each["attributes"]},
            )


def traced(cli: Cli, *args: str, check: bool = True) -> Trace:
    """Run a verb, and read its trace."""
    file = cli.folder / "trace.json"
    cli.run(*args, "--trace-file", str(file), check=check)
    return Trace(file)
