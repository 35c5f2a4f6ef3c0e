"""Files for contributors: the hook before a commit, and the forms and workflows of GitHub."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.cli import ROOT

HOOKS = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]


def test_hooks_are_commands_of_make_lint() -> None:
    recipe = (ROOT / "Makefile").read_text().partition("\nlint: ")[2].partition("\n\n")[0]
    commands = [line.strip().replace("$(RUN)", ".venv/bin") for line in recipe.splitlines()[1:]]

    assert [hook["entry"].removesuffix(" --force-exclude") for hook in HOOKS] == commands[:2]
    assert [command for command in commands[:2] if "/ruff " not in command] == []


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_hook_fails_for_a_fault_in_a_file_of_the_commit_only(tmp_path: Path, hook: dict[str, str]) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    generated = "harness/cri/remote/api_pb2.py"
    (tmp_path / generated).parent.mkdir(parents=True)
    for name in ("staged.py", "other.py", generated):
        (tmp_path / name).write_text("import os;x=1\n")
    (tmp_path / "sound.py").write_text('"""A module without a fault."""\n')
    (tmp_path / "__init__.py").touch()
    _, *arguments = hook["entry"].split()

    def run(*names: str) -> tuple[int, set[str]]:
        command = [str(Path(sys.executable).with_name("ruff")), *arguments, *names]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return ran.returncode, set(re.findall(r"[\w/]+\.py", ran.stdout))

    assert run("sound.py", generated) == (0, set())
    assert run("sound.py", "staged.py") == (1, {"staged.py"})


def test_hooks_take_the_files_that_lint_finds() -> None:
    for hook in HOOKS:
        names = [
            "harness/cli/run.py",
            "launch/__init__.pyi",
            "tests/conformance/plugins/ptp",
            "pyproject.toml",
            "a.py.in",
        ]

        assert [name for name in names if re.search(hook["files"], name)] == names[:2]
