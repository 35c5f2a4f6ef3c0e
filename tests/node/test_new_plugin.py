"""`cni-harness new-plugin`: its distribution is installed in each of pip's ways, and passes its own tests at once."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.cli import ROOT
from tests.distributions import virtual_environment
from tests.nodes import BARE_PATH, HANG

Author = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that has this project and its tools, and room for more."""
    return virtual_environment(tmp_path_factory.mktemp("environment"))


@pytest.fixture
def author(python: Path, tmp_path: Path) -> Author:
    """Runs modules of that environment in a folder of the author's."""

    def run(module: str, *args: str, folder: str = ".", check: bool = True) -> subprocess.CompletedProcess[str]:
        ran = subprocess.run(
            [python, "-m", module, *args],
            cwd=tmp_path / folder,
            env={"PATH": BARE_PATH, "CNI_HARNESS_STATE_DIR": str(tmp_path / "state"), "TMPDIR": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=HANG,
            check=False,
        )
        assert not check or ran.returncode == 0, ran.stdout + ran.stderr
        return ran

    return run


def pip(python: Path, project: Path, *options: str) -> None:
    """Install without a registry: the project's dependencies are there."""
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
    ]
    subprocess.run([*command, "--no-build-isolation", *options, project], check=True, capture_output=True)


@pytest.mark.slow("three environments; test_distributions installs one in make test")
@pytest.mark.parametrize("way", ["plain", "editable by its folder", "editable by a finder"])
def test_new_plugin_is_installed_in_each_way_of_pip(python: Path, author: Author, tmp_path: Path, way: str) -> None:
    name = f"way-{len(way)}"  # an environment for all of them, so each has its own
    author("harness.cli.main", "new-plugin", name)
    project = tmp_path / name
    if way.endswith("finder"):
        # setuptools makes a finder where the project's folder has more than the packages.
        module = name.replace("-", "_")
        (project / module).mkdir()
        (project / "src" / f"{module}.py").rename(project / module / "__init__.py")
        settings = (project / "pyproject.toml").read_text().partition("[tool.setuptools]")[0]
        (project / "pyproject.toml").write_text(f'{settings}[tool.setuptools]\npackages = ["{module}"]\n')
    pip(python, project, *(["--editable"] if way.startswith("editable") else []))
    finders = list(
        python.parent.parent.glob(f"lib/python3*/site-packages/__editable___{name.replace('-', '_')}*finder*")
    )
    assert bool(finders) == way.endswith("finder")

    author("harness.cli.main", "install", "--no-units", "--bin-dir", str(tmp_path / "bin"))

    ran = subprocess.run(
        [tmp_path / "bin" / name], env={"CNI_COMMAND": "VERSION"}, input=b"", capture_output=True, check=True
    )
    assert "1.1.0" in json.loads(ran.stdout)["supportedVersions"]
    listed = author("harness.cli.main", "version", "--bin-dir", str(tmp_path / "bin"), "-o", "json")
    assert name in [plugin["type"] for plugin in json.loads(listed.stdout)["plugins"]]


@pytest.mark.slow("a whole pytest of the new plugin; its types and formats are in make test")
@pytest.mark.sudo
@pytest.mark.parametrize("options", [[], ["--chained"]])
def test_tests_of_a_new_plugin_pass(
    python: Path, author: Author, tmp_path: Path, pytestconfig: pytest.Config, options: list[str]
) -> None:
    """Its test on a pod, and a sixth of the conformance suite, which it declares; all of it with `--all-rows`."""
    before = set(Path("/run/netns").iterdir())
    plugin = "my-gateway" if options else "my-veth"
    author("harness.cli.main", "new-plugin", plugin, *options)
    pip(python, tmp_path / plugin, "--editable")
    run = partial(author, "pytest", "-p", "no:cacheprovider", "-q", folder=plugin)
    names = re.findall(r"^\S+::.*$", run("--collect-only").stdout, re.MULTILINE)
    checks = [name for name in names if name.startswith("conftest.py::")]
    assert len(names) > len(checks) > (60 if options else 100)
    sample = [name for name in names if name not in checks] + checks[:: 1 if pytestconfig.getoption("all_rows") else 6]

    ran = run("-n2", *sample)

    # A check that does not apply is skipped.
    told = re.findall(r"(\d+) (?:passed|skipped)", ran.stdout)
    assert sum(map(int, told)) == len(sample), ran.stdout
    assert "failed" not in ran.stdout
    assert not {name for name in set(Path("/run/netns").iterdir()) - before if plugin in name.name}


@pytest.mark.mostly_slow(2, "two names; one is in make test")
@pytest.mark.parametrize(("name", "chained"), [("my-typed", "my-chained"), ("n" * 40, "m" * 40)])
def test_code_of_a_new_plugin_is_typed_and_formatted(author: Author, name: str, chained: str) -> None:
    author("harness.cli.main", "new-plugin", name)
    author("harness.cli.main", "new-plugin", "--chained", chained)
    rules = ["--config", str(ROOT / "pyproject.toml")]

    author("mypy", "--strict", f"{name}/src", f"{chained}/src")
    for folder in (name, chained):
        author("ruff", "check", *rules, "src", "conftest.py", folder=folder)
        author("ruff", "format", "--check", *rules, ".", folder=folder)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("My", '"My" cannot be the name of a plugin and its folder: expected at most 40 small letters and digits'),
        ("../up", '"../up" cannot be the name of a plugin and its folder'),
        ("a--b", '"a--b" cannot be the name of a plugin and its folder'),
        ("9p", '"9p" cannot be the name of a plugin and its folder'),
        ("x" * 41, "cannot be the name of a plugin and its folder"),
        ("bridge", 'there is a plugin "bridge" already'),
        ("json", '"json" cannot be the name of a plugin: Python has a module or a word "json"'),
        ("netlink", '"netlink" cannot be the name of a plugin: Python has a module or a word "netlink"'),
        ("class", '"class" cannot be the name of a plugin: Python has a module or a word "class"'),
        ("taken", "taken is there already"),
    ],
)
def test_a_name_that_cannot_be_is_refused_before_anything_is_written(
    author: Author, tmp_path: Path, name: str, error: str
) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine").write_text("mine")
    before = sorted(tmp_path.rglob("*"))

    failed = author("harness.cli.main", "new-plugin", name, check=False)

    assert failed.returncode == 1
    assert failed.stderr.startswith("Error: ")
    assert error in failed.stderr
    assert sorted(tmp_path.rglob("*")) == before
