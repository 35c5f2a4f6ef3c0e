"""A plugin author's own packages `api`, `conf`, `harness` and `plugins`, beside those of the installed wheel."""

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli import bridge_network
from tests.distributions import built_wheel, project_copy, virtual_environment
from tests.nodes import BARE_PATH, HANG

pytestmark = [
    pytest.mark.sudo,
    pytest.mark.slow("it builds a wheel and an environment; test_pytest_conformance runs items in make test"),
]

Run = Callable[..., subprocess.CompletedProcess[str]]

CONFTEST = """
from pathlib import Path

from cni_harness_pytest import conformance, write_launchers

write_launchers(Path(__file__).parent / "build")
conformance(bin_dir="build", conf="my.conflist", checks=["version-result"])
"""
TEST = """
import api
import cni_harness_pytest
import conf
import harness
import plugins.bridge


def test_own():
    assert api.OWNER == conf.OWNER == harness.OWNER == plugins.bridge.OWNER == "the author"


def test_the_wheel_is_used():
    assert cni_harness_pytest.__file__.startswith(SITE)
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the wheel, before all that it shares with the environment of the tests."""
    folder = tmp_path_factory.mktemp("wheel")
    wheel = built_wheel(project_copy(folder / "tree"), folder)
    made = virtual_environment(folder / "environment")
    [site] = (folder / "environment").glob("lib/python3*/site-packages")
    zipfile.ZipFile(wheel).extractall(site)
    (site / "launch" / "_launcher").chmod(0o755)
    script = made.with_name("pytest")
    script.write_text(f"#!{made}\nfrom pytest import console_main\nraise SystemExit(console_main())\n")
    script.chmod(0o755)
    return made


@pytest.fixture
def project(python: Path, tmp_path: Path) -> Path:
    """The author's folder."""
    folder = tmp_path / "project"
    for name in ("api", "conf", "harness", "plugins"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text('OWNER = "the author"\n')
    (folder / "plugins" / "bridge.py").write_text('OWNER = "the author"\n')
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "my.conflist").write_text(json.dumps(bridge_network("net")))
    (folder / "test_own.py").write_text(TEST.replace("SITE", repr(str(python.parents[1]))))
    return folder


@pytest.fixture
def run(project: Path, tmp_path: Path) -> Run:
    """Runs a command in the author's folder."""

    def run(*command: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
        ran = subprocess.run(
            command,
            cwd=project,
            env={"PATH": BARE_PATH, "TMPDIR": str(tmp_path), **env},
            capture_output=True,
            text=True,
            timeout=HANG,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran

    return run


@pytest.mark.time_limit(600, "the first test builds a wheel")
@pytest.mark.parametrize("way", ["script", "module", "module and PYTHONPATH", "xdist"])
def test_pytest_runs_the_authors_tests_and_our_checks(python: Path, project: Path, run: Run, way: str) -> None:
    command: list[str | Path] = [python.with_name("pytest")] if way == "script" else [python, "-m", "pytest"]
    env = {"PYTHONPATH": str(project)} if "PYTHONPATH" in way else {}
    options = ["-n2"] if way == "xdist" else []

    ran = run(*command, "-p", "no:cacheprovider", "-v", *options, **env)

    assert "4 passed" in ran.stdout
    for name in ("bridge", "host-local"):
        assert f"conftest.py::conformance::{name}[version-result]" in ran.stdout


@pytest.fixture
def node(run: Run, python: Path, tmp_path: Path) -> Iterator[list[str]]:
    """The options of a node of the author's."""
    options = ["--node", f"author-{os.getpid()}", "--state-dir", str(tmp_path / "state")]
    yield options
    run(python.with_name("cni-harness"), *options, "del", "--all", "--prune")


def test_the_command_uses_its_own_lists_and_plugins(python: Path, run: Run, node: list[str]) -> None:
    ran = run(python.with_name("cni-harness"), *node, "add", "pod1", "--network", "cni-harness", "-o", "json")

    [pod] = json.loads(ran.stdout)["pods"]
    links = subprocess.run(["ip", "-n", node[1], "-j", "link"], capture_output=True, check=True).stdout
    assert pod["networks"][0]["result"]["ips"]
    assert any(link["ifname"].startswith("veth") for link in json.loads(links))
    run(python.with_name("cni-harness"), *node, "check", "pod1")


def test_the_command_validates_by_its_own_schemas(python: Path, project: Path, run: Run) -> None:
    (project / "conf.d").mkdir()
    (project / "my.conflist").rename(project / "conf.d" / "my.conflist")

    ran = run(python.with_name("cni-harness"), "--conf-dir", "conf.d", "--state-dir", "state", "validate")

    assert "net" in ran.stdout


def test_the_environment_has_the_wheel_before_the_checkout(python: Path) -> None:
    where = "import harness; print(harness.__file__)"
    ran = subprocess.run([python, "-P", "-c", where], env={}, capture_output=True, text=True, check=True)

    assert ran.stdout.startswith(str(python.parents[1]))
    assert str(python) != sys.executable
