"""The steps of tools/action/action.yml, executed as by GitHub's runner: `bash -eo pipefail`, inputs as variables."""

import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from shutil import copy
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from tests.cli import REFERENCE_BIN_DIR, ROOT, bridge_network

pytestmark = pytest.mark.sudo

ACTION = ROOT / "tools/action/action.yml"
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


class Runner:
    """A runner's folders, with the program and a network list in the workspace, for any user."""

    def __init__(self, folder: Path, one_file: Path) -> None:
        self.action: dict[str, Any] = yaml.safe_load(ACTION.read_text())
        self.workspace = folder / "work"
        self.temporary = folder / "temp"
        self.summary = folder / "summary"
        for made in (self.workspace, self.temporary):
            made.mkdir()
        copy(one_file, self.workspace)
        (self.workspace / "net.conflist").write_text(json.dumps(bridge_network("net")))
        self.outputs = folder / "outputs"
        for file in (self.summary, self.outputs):
            file.touch()
        for path in (folder, *folder.rglob("*")):
            os.chown(path, 65534, 65534)

    def run(
        self, given: Mapping[str, str], *, prefix: tuple[str, ...] = (), path: str = ""
    ) -> list[subprocess.CompletedProcess[str]]:
        """Execute the steps that are scripts until one fails."""
        known = self.action["inputs"]
        assert given.keys() <= known.keys()
        assert {name for name, each in known.items() if each.get("required")} <= given.keys()
        inputs = {name: given.get(name, each.get("default", "")) for name, each in known.items()}
        ran: list[subprocess.CompletedProcess[str]] = []
        for step in self.action["runs"]["steps"]:
            if "run" not in step or (ran and ran[-1].returncode):
                continue
            assert step["shell"] == "bash"
            environ = {name: evaluated(value, inputs) for name, value in step["env"].items()}
            environ |= {
                "PATH": f"{path}:{os.environ['PATH']}" if path else os.environ["PATH"],
                "HOME": str(self.temporary),
                "RUNNER_TEMP": str(self.temporary),
                "GITHUB_ACTION_PATH": str(ACTION.parent),
                "GITHUB_STEP_SUMMARY": str(self.summary),
                "GITHUB_OUTPUT": str(self.outputs),
            }
            command = [*prefix, "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
            ran.append(
                subprocess.run(command, env=environ, cwd=self.workspace, capture_output=True, text=True, check=False)
            )
        return ran

    def report(self, name: str) -> str:
        return (self.workspace / "cni-conformance" / name).read_text()


def evaluated(text: str, inputs: Mapping[str, str]) -> str:
    """Return a value whose only expressions are inputs."""
    return re.sub(r"\$\{\{ inputs\.([a-z-]+) \}\}", lambda found: inputs[found[1]], text)


@pytest.fixture
def runner(one_file: Path, shared_folder: Path) -> Runner:
    return Runner(shared_folder, one_file)


GIVEN = {
    "bin-dir": str(REFERENCE_BIN_DIR),
    "conf": "net.conflist\n",
    "plugins": "host-local",
    "program": "cni-harness.pyz",
}


@pytest.mark.slow("the suite once more; the steps of the action are in make test")
def test_plugins_are_examined_and_reports_are_kept(runner: Runner) -> None:
    installed, examined = runner.run(GIVEN)

    assert installed.returncode == 0, installed.stderr
    suites = ET.fromstring(runner.report("conformance.xml"))  # noqa: S314 -- written by this program
    assert ["host-local" in suite.get("name", "") for suite in suites.iter("testsuite")] == [True]
    assert len(list(suites.iter("testcase"))) > 80
    assert examined.returncode == (1 if list(suites.iter("error")) or list(suites.iter("failure")) else 0)
    assert json.loads(runner.report("conformance.json"))["fail_on"] == "works"
    assert "<!DOCTYPE html>" in runner.report("conformance.html")
    assert "The suite runs with these privileges: root.\n" in runner.summary.read_text()
    uploaded = runner.action["runs"]["steps"][-1]
    assert (uploaded["if"], uploaded["with"]["path"]) == ("always()", "${{ inputs.report }}")


def test_inputs_reach_the_shell_as_variables_and_are_documented(runner: Runner) -> None:
    page = (ROOT / "docs/conformance-in-ci.md").read_text().partition("## GitHub\n")[2].partition("\n## ")[0]

    assert set(re.findall(r"`([a-z-]+)`", page)) >= runner.action["inputs"].keys()
    for step in runner.action["runs"]["steps"]:
        assert "${{" not in step.get("run", "")


SUDO = """#!/bin/sh
# The runner's sudo, which asks for no password: root has started this through setpriv, so the way back is a note.
echo "$@" >>"$RUNNER_TEMP/asked-sudo"
"""


@pytest.mark.parametrize("is_refused", [False, True])
def test_sudo_is_used_if_the_kernel_refuses_user_namespaces(runner: Runner, *, is_refused: bool) -> None:
    tools = runner.temporary / "tools"
    tools.mkdir(mode=0o755)
    (tools / "sudo").write_text(SUDO)
    (tools / "sudo").chmod(0o755)
    # In a user namespace whose own limit is 0, and without capabilities: no namespace below it can be made.
    forbid = 'echo 0 >/proc/sys/user/max_user_namespaces; exec setpriv --ambient-caps=-all --inh-caps=-all "$@"'
    refusing = ("unshare", "--user", "--map-user=1000", "--map-group=1000", "--keep-caps", "sh", "-c", forbid, "sh")
    prefix = (*NOBODY, *refusing) if is_refused else NOBODY
    ran = runner.run({**GIVEN, "prepare": "/bin/false"}, prefix=prefix, path=str(tools))

    assert ran[0].returncode == 0, ran[0].stderr
    said = runner.report("conformance.txt")
    asked = runner.temporary / "asked-sudo"
    if is_refused:
        assert "these privileges: sudo.\n" in said
        assert f"env PATH={tools}:" in asked.read_text()
        assert f"{runner.workspace}/cni-harness.pyz conformance --bin-dir {REFERENCE_BIN_DIR}" in asked.read_text()
    elif "kernel refuses" not in said:
        assert "these privileges: user namespace.\n" in said
        assert "--prepare /usr/bin/false: exit code 1" in said
        assert ran[-1].returncode == 1
        assert not asked.exists()


PYTHON = """#!/bin/sh
# Notes the commands, and makes a program where pip would.
echo "$@" >>"$RUNNER_TEMP/asked-python"
[ "$2" != venv ] || { mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && echo '#!/bin/sh' >"$3/bin/cni-harness"; }
[ "$2" != venv ] || { echo 'echo examined "$1"' >>"$3/bin/cni-harness"; chmod 755 "$3/bin/cni-harness"; }
"""


def test_suite_is_installed_from_the_repository_of_the_action_without_a_program(runner: Runner) -> None:
    tools = runner.temporary / "tools"
    tools.mkdir(mode=0o755)
    (tools / "python3").write_text(PYTHON)
    (tools / "python3").chmod(0o755)

    installed, examined = runner.run({**GIVEN, "program": ""}, path=str(tools))

    assert (installed.returncode, examined.returncode) == (0, 0), installed.stderr + examined.stderr
    repository = f"{ACTION.parent}/../.."
    asked = (runner.temporary / "asked-python").read_text().splitlines()
    assert asked == [f"-m venv {runner.temporary}/cni-harness", f"-m pip install --quiet {repository}"]
    assert Path(repository, "pyproject.toml").exists()
    assert "examined conformance" in examined.stdout


def test_every_input_becomes_an_option(runner: Runner) -> None:
    program = runner.workspace / "arguments"
    program.write_text('#!/bin/sh\nfor word; do echo "<$word>"; done\n')
    program.chmod(0o755)
    given = {
        **GIVEN,
        "bin-dir": "my plugins:/usr/lib/cni",
        "conf": "one list.conflist\n\ntwo.conflist\n",
        "plugins": " a\nb ",
        "level": "MUST",
        "fail-on": "SHOULD",
        "skip": "del-* about",
        "section": "2.ADD\n5",
        "jobs": "3",
        "known-failures": "known.txt",
        "report": "build/my reports",
        "prepare": "./uplink.sh",
        "program": "arguments",
    }
    examined = runner.run(given)[-1]

    assert examined.returncode == 0, examined.stderr
    assert runner.outputs.read_text() == "artifact=my reports\n"
    words = [line[1:-1] for line in examined.stdout.splitlines()[1:]]
    assert words == [
        *("conformance", "--bin-dir", "my plugins:/usr/lib/cni", "--fail-on", "SHOULD"),
        *(word for each in ("xml", "json", "html") for word in ("--report", f"build/my reports/conformance.{each}")),
        *("--conf", "one list.conflist", "--conf", "two.conflist", "--plugin", "a", "--plugin", "b"),
        *("--skip", "del-*", "--skip", "about", "--section", "2.ADD", "--section", "5"),
        *("--jobs", "3", "--level", "MUST", "--known-failures", "known.txt", "--prepare", "./uplink.sh"),
    ]
