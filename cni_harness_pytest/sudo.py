"""`@pytest.mark.sudo`: a test that needs root runs as root, also if another user started pytest.

If root started pytest, the test runs as any other. Otherwise each marked test runs in a pytest of its own through
`sudo -n`, and its outcome is reported as if it had run here. If sudo is missing or asks for a password, the test is
skipped with this reason. Neither its fixtures nor its body run in the unprivileged process.

The privileged pytest gets the same rootdir, configuration file, `-p` and `-o` options. Of the environment it gets PATH,
PYTHONPATH and the variables of CNI. Options that a `conftest.py` adds are not handed on.
"""

import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _pytest.nodes import Node

OUTCOME_FILE = "PYTEST_SUDO_OUTCOME"
"""The variable that only the privileged pytest has: the path of the file for the outcomes of the test."""

KEPT_VARIABLES = ("CAP_ARGS", "NETCONFPATH", "PATH", "PYTHONPATH")
DECIDED_BY_THE_PRIVILEGED_RUN = frozenset({"skip", "skipif", "usefixtures", "xfail"})


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers", "sudo: needs root; run through `sudo -n` when pytest is not, or skipped with the reason"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put a `SudoItem` in the place of every marked test if this process is not root."""
    if os.geteuid() != 0:
        items[:] = [SudoItem.standing_for(i) if i.get_closest_marker("sudo") else i for i in items]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write an outcome for the unprivileged pytest that started this one."""
    outcome_file = os.environ.get(OUTCOME_FILE)
    if outcome_file and report.outcome != "passed":
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        outcome = {"outcome": report.outcome, "reason": reason, "xfail": getattr(report, "wasxfail", None)}
        with Path(outcome_file).open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(outcome) + "\n")


class SudoItem(pytest.Item):
    """Stands for one marked test in an unprivileged pytest, under the same node ID."""

    location_of_test: tuple[os.PathLike[str] | str, int | None, str]
    test: str

    @classmethod
    def standing_for(cls, item: pytest.Item) -> Self:
        """Return an item to run in place of `item`, found by the same names and markers."""
        stand_in: Self = cls.from_parent(item.parent or item.session, name=item.name)
        stand_in.own_markers.extend(item.own_markers)
        stand_in.location_of_test = item.reportinfo()
        # Absolute, to be found from any working directory; and noted now, since xdist adds the group to the node ID.
        stand_in.test = f"{item.path}{item.nodeid[item.nodeid.index('::') :]}"
        return stand_in

    def iter_markers_with_node(self, name: str | None = None) -> "Iterator[tuple[Node, pytest.Mark]]":
        """Yield all markers but those that the privileged run judges."""
        for node, mark in super().iter_markers_with_node(name):
            if mark.name not in DECIDED_BY_THE_PRIVILEGED_RUN:
                yield node, mark

    def reportinfo(self) -> tuple[os.PathLike[str] | str, int | None, str]:
        """Return the place of the test in its file."""
        return self.location_of_test

    def runtest(self) -> None:
        """Run the test as root, and have its outcome."""
        if OUTCOME_FILE in os.environ:
            pytest.fail("sudo was meant to make this pytest root, and did not", pytrace=False)
        if refusal := why_not_sudo():
            pytest.skip(f"needs root, and {refusal}")
        with tempfile.TemporaryDirectory(prefix="pytest-sudo-") as folder:
            outcome_file = Path(folder, "outcome")
            outcome_file.touch()  # Made by root, its reader would be up to root's umask.
            run = subprocess.run(
                ["sudo", "-n", "--", "env", *environment(outcome_file), *self.command()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                check=False,
            )
            outcomes = outcome_file.read_text(encoding="utf-8")
        self.conclude(run.returncode, run.stdout, [json.loads(line) for line in outcomes.splitlines()])

    def command(self) -> list[str]:
        """Return the command of a pytest that runs this test alone."""
        config = self.config
        options = ["--rootdir", str(config.rootpath)]
        if config.inipath:
            options += ["-c", str(config.inipath)]
        for plugin in config.getoption("plugins"):
            options += ["-p", plugin]
        for override in config.getoption("override_ini") or ():
            options += ["-o", override]
        # A cache written by root could not be written by its owner any more.
        options += ["-p", "no:cacheprovider"]
        if config.pluginmanager.hasplugin("xdist"):
            options.append("-n0")
        return [sys.executable, "-m", "pytest", *options, self.test]

    def conclude(self, code: int, output: str, outcomes: list[dict[str, str | None]]) -> None:
        """Pass, skip or xfail as the privileged run did, or fail with its whole output."""
        failed = any(outcome["outcome"] == "failed" for outcome in outcomes)
        if code != 0 or failed:
            pytest.fail(f"as root:\n{output}", pytrace=False)
        for outcome in outcomes:
            if outcome["xfail"] is not None:
                pytest.xfail(outcome["xfail"].removeprefix("reason: "))
            pytest.skip((outcome["reason"] or "").removeprefix("Skipped: "))


@cache
def why_not_sudo() -> str:
    """Return the complaint of `sudo -n true`, empty if there is none."""
    try:
        run = subprocess.run(
            ["sudo", "-n", "true"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return "there is no sudo here"
    if run.returncode == 0:
        return ""
    return f"`sudo -n true` ended with {run.returncode}: {run.stderr.strip()}"


def environment(outcome_file: Path) -> list[str]:
    """Return the variables that the test may need and sudo would drop, as arguments of env(1)."""
    kept = {name: value for name, value in os.environ.items() if name.startswith("CNI_") or name in KEPT_VARIABLES}
    # Byte code written by root could not be renewed by the owner of the tree.
    kept |= {OUTCOME_FILE: str(outcome_file), "PYTHONDONTWRITEBYTECODE": "1"}
    return [f"{name}={value}" for name, value in kept.items()]
