"""Files for contributors: the hooks before a commit, the dev container, and GitHub's workflows and forms."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli import ROOT


def _yaml(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text())


WORKFLOWS: dict[str, Any] = {
    path.name: _yaml(str(path)) for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))
}
JOBS: list[tuple[str, dict[str, Any]]] = [
    (f"{name}:{job}", definition) for name, each in WORKFLOWS.items() for job, definition in each["jobs"].items()
]
BEFORE_CHECKOUT = "apt-get update && apt-get install --yes --no-install-recommends ca-certificates git make"
"""A container's first step: without git, the action checkout fetches no repository, only an archive of its files."""
PUBLISHING = {"gh", "skopeo"}
"""Programs of GitHub's machines that release.yml calls with the files of `make release`."""
RIGHTS: dict[str, dict[str, dict[str, str]]] = {
    "docs.yml": {"deploy": {"pages": "write", "id-token": "write"}},
    "release.yml": {
        "pypi": {"id-token": "write"},
        "github": {"contents": "write"},
        "image": {"packages": "write"},
    },
}
"""The rights of jobs, beside the right to read the repository."""
HOOKS = _yaml(".pre-commit-config.yaml")["repos"][0]["hooks"]


def test_dependabot_looks_at_all_actions_and_leaves_exact_versions() -> None:
    updates = {each["package-ecosystem"]: each for each in _yaml(".github/dependabot.yml")["updates"]}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *(each for extra in project["optional-dependencies"].values() for each in extra),
    ]
    composite = {f"/{path.parent.relative_to(ROOT)}" for path in (ROOT / "tools").rglob("action.yml")}

    assert updates.keys() == {"pip", "github-actions"}
    assert {each["schedule"]["interval"] for each in updates.values()} == {"monthly"}
    assert [[group["patterns"] for group in each["groups"].values()] for each in updates.values()] == [[["*"]]] * 2
    assert set(updates["github-actions"]["directories"]) == {"/"} | composite
    assert updates["pip"]["directories"] == ["/", "/tools/release"]  # pyproject.toml, and the pins of make release
    assert [each["dependency-name"] for each in updates["pip"]["ignore"]] == [
        name.partition("==")[0] for name in wanted if "==" in name
    ]


def test_dev_container_is_made_as_the_jobs_of_ci() -> None:
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    job = WORKFLOWS["ci.yml"]["jobs"]["quick"]["container"]

    assert {"image": container["image"], "options": "--privileged" * container["privileged"]} == job
    assert (container["onCreateCommand"], container["postCreateCommand"]) == (BEFORE_CHECKOUT, "make test-venv")


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


def test_the_workflow_runs_the_parts_of_ci() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    parts = [line.partition(" #")[0].strip() for line in lines if line.startswith(("make", "tools/"))]

    assert len(parts) > 2
    assert set(parts) <= set(WORKFLOWS["ci.yml"]["jobs"]["run"]["strategy"]["matrix"]["command"])


def commands() -> list[str]:
    """Return the shell of all steps, one text for each row of a matrix, without its expressions."""
    found = []
    for _, job in JOBS:
        rows = job.get("strategy", {}).get("matrix", {}).get("command", [""])
        shells = [step["run"] for step in job["steps"] if "run" in step]
        found += [shell.replace("${{ matrix.command }}", row) for shell in shells for row in rows]
    whole = {command.replace("${{ github.run_number }}", "7") for command in found} - {BEFORE_CHECKOUT}
    return sorted(command for command in whole if shlex.split(command)[0] not in PUBLISHING)


@pytest.mark.parametrize("command", commands())
def test_each_step_of_a_workflow_is_a_command_of_the_project(tmp_path: Path, command: str) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    line = command.strip().splitlines()[-1].partition(" 2>&1 | ")[0]
    program = shlex.split(line)[0]

    if program != "make":
        assert os.access(ROOT / program, os.X_OK)
        return
    env = {**os.environ, "MAKEFLAGS": "n"}  # make prints its commands only
    run = subprocess.run(["bash", "-c", line], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("code", [0, 2])
def test_weekly_step_keeps_the_output_and_the_exit_code(tmp_path: Path, code: int) -> None:
    job = WORKFLOWS["weekly.yml"]["jobs"]["run"]
    *_, step, upload = job["steps"]
    (tmp_path / "make").write_text(f'#!/bin/sh\necho "$@"\necho a fault >&2\nexit {code}\n')
    (tmp_path / "make").chmod(0o755)

    script = step["run"].replace("${{ matrix.command }}", "make soak SOAK_ARGS='--seed 7'")
    ran = subprocess.run(
        [step["shell"], "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        check=False,
    )

    assert ran.returncode == code
    assert (tmp_path / "build" / "weekly.txt").read_text() == "soak SOAK_ARGS=--seed 7\na fault\n"
    assert upload["if"] == "always()"
    assert "build/weekly.txt" in upload["with"]["path"].split()


def test_site_of_make_docs_is_deployed() -> None:
    build, deploy = WORKFLOWS["docs.yml"]["jobs"].values()
    *_, made, uploaded = build["steps"]
    [site] = re.findall("^site_dir: (.*)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)

    assert (made["run"], uploaded["with"]["path"]) == ("make docs", site)
    assert deploy["needs"] == "build"
    assert [step for step in deploy["steps"] if "run" in step] == []  # its token goes to no shell


def test_long_jobs_of_ci_wait_for_the_quick_one() -> None:
    jobs = WORKFLOWS["ci.yml"]["jobs"]

    assert {name: job.get("needs") for name, job in jobs.items()} == {"quick": None, "run": "quick", "pythons": "quick"}


@pytest.mark.parametrize(("name", "job"), JOBS, ids=[name for name, _ in JOBS])
def test_job_ends_and_begins_as_the_others(name: str, job: dict[str, Any]) -> None:
    assert job["timeout-minutes"] < 360  # GitHub's own limit
    if "container" in job:
        assert job["steps"][0] == {"run": BEFORE_CHECKOUT}
        assert job["steps"][1]["uses"].startswith("actions/checkout@")


@pytest.mark.parametrize("name", WORKFLOWS)
def test_workflow_has_no_rights_but_to_read_and_no_secret(name: str) -> None:
    workflow = WORKFLOWS[name]
    text = (ROOT / ".github" / "workflows" / name).read_text()
    shell = "\n".join(step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"])

    assert workflow["permissions"] == {"contents": "read"}
    assert "pull_request_target" not in text
    assert "secrets." not in text
    # A branch's name or a title in a shell would be executed.
    assert set(re.findall(r"\$\{\{.*?\}\}", shell)) <= {"${{ matrix.command }}"}
    harmless = {"github.ref", "github.sha", "github.event_name", "github.run_number"}
    of_job = {"github.token", "github.repository"} if name == "release.yml" else set()
    assert set(re.findall(r"github\.[\w.]+", text)) <= harmless | of_job
    further = {key: job["permissions"] for key, job in workflow["jobs"].items() if "permissions" in job}
    assert further == RIGHTS.get(name, {})


def test_release_publishes_the_files_of_make_release() -> None:
    build, *publishing = WORKFLOWS["release.yml"]["jobs"].values()
    _, _, made, whole, distributions = build["steps"]

    assert WORKFLOWS["release.yml"][True] == {"push": {"tags": ["v*"]}}  # `on` is a boolean of YAML 1.1
    assert (made["run"], "permissions" in build) == ("make release", False)
    assert [step["with"]["path"] for step in (whole, distributions)] == ["build/release", "build/release/cni_harness-*"]
    for job in publishing:
        assert job["needs"] == "build"
        # The files come from the job that builds, which has no rights to publish.
        assert job["steps"][0]["uses"].startswith("actions/download-artifact@")
        assert [step for step in job["steps"] if "checkout" in step.get("uses", "")] == []


def test_release_goes_to_pypi_by_trusted_publishing() -> None:
    pypi = WORKFLOWS["release.yml"]["jobs"]["pypi"]
    _, publish = pypi["steps"]

    assert (pypi["environment"], pypi["permissions"]) == ({"name": "pypi"}, {"id-token": "write"})
    assert publish["uses"].startswith("pypa/gh-action-pypi-publish@")
    assert "with" not in publish  # no password; its folder is dist
    assert pypi["steps"][0]["with"]["path"] == "dist"


@pytest.mark.parametrize("tag", ["v1.2.3", "v$(touch x)"])
def test_commands_that_publish_name_the_files_of_the_tag(tmp_path: Path, tag: str) -> None:
    jobs = WORKFLOWS["release.yml"]["jobs"]
    shells = [step["run"] for name in ("github", "image") for step in jobs[name]["steps"] if "run" in step]
    for program in PUBLISHING:
        (tmp_path / program).write_text(f'#!/bin/sh\necho {program} "$@"\n')
        (tmp_path / program).chmod(0o755)
    given = {"GITHUB_REF_NAME": tag, "GITHUB_ACTOR": "who", "GITHUB_REPOSITORY": "Owner/Name", "TOKEN": "secret"}

    ran = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", "\n".join(shells)],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", **given},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )

    version = tag[1:]
    assert ran.stdout.splitlines() == [
        f"gh release create {tag} --verify-tag --notes-file release/RELEASE-NOTES.md release/*",
        "skopeo login ghcr.io --username who --password-stdin",
        f"skopeo copy oci-archive:release/cni-harness-image-{version}.tar docker://ghcr.io/owner/name:{version}",
    ]
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*[!g].yml")), ids=lambda path: path.stem
)
def test_issue_templates_ask_for_doctor(path: Path) -> None:
    asked = [part for part in _yaml(str(path))["body"] if part.get("id") == "doctor"]

    assert [part["validations"]["required"] for part in asked] == [True]
