"""A test that is skipped for another reason than the kernel fails."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli import ROOT
from tests.nodes import HANG

TESTS = """
import pytest

from tests.kernel import lacking

@pytest.mark.parametrize("where", ["body", "fixture"])
def test_without_a_driver(where, request):
    request.getfixturevalue("driver") if where == "fixture" else lacking("VRF")

@pytest.fixture
def driver():
    lacking("VRF")

@pytest.fixture
def program():
    pytest.skip("the program is not installed")

def test_without_a_program():
    pytest.skip("the program is not installed")

def test_without_a_program_of_a_fixture(program):
    pass

@pytest.mark.skipif(True, reason="no program")
def test_with_a_mark():
    pass

@pytest.mark.xfail(reason="not yet")
def test_that_fails_as_expected():
    raise AssertionError
"""
REFUSED = ["test_with_a_mark", "test_without_a_program", "test_without_a_program_of_a_fixture"]


@pytest.mark.mostly_slow(3, "whole runs of pytest; one is in make test")
@pytest.mark.parametrize(("folder", "refused"), [("unit", REFUSED), ("vm", []), ("runtime", [])])
def test_skips_for_other_reasons_than_the_kernel_fail(tmp_path: Path, folder: str, refused: list[str]) -> None:
    module = tmp_path / folder / "test_skips.py"
    module.parent.mkdir()
    module.write_text(TESTS)

    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-q", "-rsfE", module],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=HANG,
        check=False,
    )

    told = re.findall(r"^(?:FAILED|ERROR) \S+::(\S+)", ran.stdout, re.MULTILINE)
    assert sorted(told) == refused, ran.stdout
    assert ran.returncode == int(bool(refused))
    assert f"{5 - len(refused)} skipped" in ran.stdout
    assert "1 xfailed" in ran.stdout
