"""What `python -m tools.vm` reports of machines that never ran, were ended, or left half a file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tools.vm import __main__ as vm
from tools.vm.kernel import Kernel

GOOD = '<testsuites><testsuite name="pytest" tests="2" errors="0"><testcase name="t"/></testsuite></testsuites>'


class Machine:
    """A machine: a name and an end."""

    def __init__(self, folder: Path, code: int, junit: str | None) -> None:
        self.exchange = self.console = folder
        self._code = code
        folder.mkdir()
        if junit is not None:
            (folder / "junit.xml").write_text(junit)

    def run(self, limit: float) -> int:
        assert limit == 7.0
        return self._code


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs machines and returns the exit code and the suites that were written."""
    monkeypatch.setattr(vm, "debian_kernel", lambda *_: Kernel("6.1.0", tmp_path))
    monkeypatch.setattr(vm, "_JUNIT", tmp_path / "junit-vm.xml")

    def report(second: Any) -> tuple[int, list[dict[str, str | None]]]:
        def first(_kernel: Kernel, arguments: Sequence[str]) -> Machine:
            assert arguments == ["-x"]
            return Machine(tmp_path / "first", 0, GOOD)

        monkeypatch.setattr(vm, "MACHINES", {"first": first, "second": second})
        code = vm.main(["--limit=7", "--", "-x"])
        suites = ET.parse(tmp_path / "junit-vm.xml").getroot()  # noqa: S314 -- ours
        return code, [{key: suite.get(key) for key in ("name", "tests", "errors")} for suite in suites]

    return report


FIRST = {"name": "vm.first", "tests": "2", "errors": "0"}
AN_ERROR = {"name": "vm.second", "tests": "1", "errors": "1"}


def test_two_successful_machines_return_0(report: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, suites = report(lambda *_: Machine(tmp_path / "second", 0, GOOD))

    assert (code, suites) == (0, [FIRST, FIRST | {"name": "vm.second"}])
    assert "second: exit code 0" in capsys.readouterr().out


@pytest.mark.parametrize(("code", "junit"), [(124, None), (1, GOOD[:40]), (125, "")])
def test_a_machine_without_results_is_an_error(report: Any, tmp_path: Path, code: int, junit: str | None) -> None:
    assert report(lambda *_: Machine(tmp_path / "second", code, junit)) == (code, [FIRST, AN_ERROR])


def test_a_machine_that_cannot_be_made_is_an_error_and_the_other_goes_on(
    report: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> Machine:
        raise FileNotFoundError(2, "No such file", "mmdebstrap")

    assert report(fails) == (1, [FIRST, AN_ERROR])
    assert "second: exit code 1, FileNotFoundError: [Errno 2] No such file: 'mmdebstrap'" in capsys.readouterr().out


def test_a_machine_on_request_runs_only_if_it_is_named(
    report: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vm, "ON_REQUEST", {"second"})

    code, suites = report(lambda *_: Machine(tmp_path / "second", 1, GOOD))

    assert (code, suites) == (0, [FIRST])
