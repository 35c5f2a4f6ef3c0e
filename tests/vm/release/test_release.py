"""Each artefact of a release on a fresh Debian: installed, used, upgraded and removed, beside a pod of another tool."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli import ROOT
from tests.debian_package import REMOVE, downgrades, install, version
from tests.vm.release.fresh_debian import ForeignPod, Harness, run, state

ARTEFACTS = Path("/vm/artefacts")
FORMER = ARTEFACTS / "former"
PROGRAM = Path("/opt/cni-harness/bin/cni-harness")
ZIPAPP = Path("/root/cni-harness.pyz")
LISTS = f"--conf-dir={ROOT / 'conf'}"
WEB = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "app", "command": ["sh", "-c", "echo started; exec sleep infinity"]}],
    },
}

pytestmark = [
    pytest.mark.skipif(
        os.environ.get("CNI_HARNESS_TEST_MACHINE") != "release",
        reason="this machine is not there to be changed; `make release-check` makes some that are",
    ),
    pytest.mark.time_limit(2400, "installations by apt and pip, on an emulated processor that two machines share"),
]


class Way(NamedTuple):
    """A way to install: the commands of docs/install.md and of docs/conformance.md#one-file."""

    program: Path
    install: Callable[[Path], list[Sequence[str | Path]]]
    """The commands that install an artefact, also over another version."""
    remove: list[Sequence[str | Path]]
    options: tuple[str, ...] = ()
    former: str = ""
    """The pattern of the former version's artefact; empty if an upgrade is no more than another file."""


def by_pip(artefact: Path) -> list[Sequence[str | Path]]:
    """Install a wheel or a source distribution into an environment."""
    offline: list[str | Path] = ["--quiet", "--no-cache-dir", "--no-index", "--find-links", ARTEFACTS / "wheels"]
    pip: list[str | Path] = [PROGRAM.with_name("pip"), "install", *offline]
    return [
        ["python3", "-m", "venv", PROGRAM.parents[1]],
        [*pip, artefact],
        [*pip, "--no-deps", "--force-reinstall", artefact],
        [PROGRAM, "install"],
    ]


def by_apt(artefact: Path) -> list[Sequence[str | Path]]:
    """Install a package."""
    return [install(artefact)]


def as_file(artefact: Path) -> list[Sequence[str | Path]]:
    """Copy a program."""
    return [["install", artefact, ZIPAPP]]


WITHOUT_PACKAGE: list[Sequence[str | Path]] = [["rm", "-r", "/var/lib/cni-harness"]]
OF_PIP: list[Sequence[str | Path]] = [[PROGRAM, "uninstall"], ["rm", "-r", PROGRAM.parents[1]], *WITHOUT_PACKAGE]
OF_FILE: list[Sequence[str | Path]] = [["rm", "-r", ZIPAPP, "/root/.cache/cni-harness"], *WITHOUT_PACKAGE]
WAYS = {
    "wheels/cni_harness-*.whl": Way(PROGRAM, by_pip, OF_PIP, former="cni_harness-*.whl"),
    "cni_harness-*.tar.gz": Way(PROGRAM, by_pip, OF_PIP),
    "cni-harness.pyz": Way(ZIPAPP, as_file, OF_FILE),
    "cni-harness_*.deb": Way(
        Path("/usr/bin/cni-harness"), by_apt, [REMOVE], ("--bin-dir=/usr/lib/cni",), former="cni-harness_*.deb"
    ),
}
"""By the pattern of the artefact."""
UPGRADED = [pattern for pattern, way in WAYS.items() if way.former]


@pytest.fixture(scope="module")
def foreign() -> Iterator[ForeignPod]:
    Path("/root/.cache").mkdir(exist_ok=True)  # every user's programs share it
    pod = ForeignPod()
    yield pod
    pod.end()


@pytest.fixture
def unchanged(foreign: ForeignPod) -> Iterator[None]:
    """Compare the machine's state before and after a test."""
    before = state()
    yield
    after = state()
    assert (sorted(after - before), sorted(before - after)) == ([], [])
    foreign.check()


def artefact(pattern: str, folder: Path = ARTEFACTS) -> Path:
    """Return the one file of a pattern."""
    [path] = folder.glob(pattern)
    return path


def installed(way: Way, path: Path) -> Harness:
    """Install an artefact, and return its command line."""
    for command in way.install(path):
        run(*command)
    return Harness([way.program, *way.options])


def remove(way: Way) -> None:
    """Remove all that was installed, and what pods leave in /var/lib/cni."""
    for command in way.remove:
        run(*command)


def start_web(harness: Harness) -> None:
    """Start the Pod of a manifest."""
    manifest = Path("/run/web.json")
    manifest.write_text(json.dumps(WEB))
    harness(LISTS, "run", "-f", manifest)
    manifest.unlink()


def assert_connected(harness: Harness, one: str, other: str) -> None:
    """Have a pod answer the other's ping, and both the host's, and CHECK both."""
    harness("check")
    harness("exec", one, "--", "/usr/bin/ping", "-c", "1", "-W", "5", harness.address(other))
    for pod in (one, other):
        run("ping", "-c", "1", "-W", "5", harness.address(pod))


@pytest.mark.parametrize("pattern", WAYS)
@pytest.mark.usefixtures("unchanged")
def test_pods_get_networks_and_nothing_is_left(pattern: str) -> None:
    way = WAYS[pattern]
    harness = installed(way, artefact(pattern))
    harness(LISTS, "add", "bare", "other", "--network", "cni-harness")
    start_web(harness)

    assert {name: pod["state"] for name, pod in harness.pods().items()} == dict.fromkeys(
        ("bare", "other", "web"), "ready"
    )
    assert_connected(harness, "bare", "other")
    assert_connected(harness, "bare", "web")

    harness("del", "--all", "--prune")
    remove(way)


@pytest.mark.parametrize("pattern", UPGRADED)
@pytest.mark.usefixtures("unchanged")
def test_pods_of_the_former_version_go_on_after_an_upgrade(pattern: str) -> None:
    way = WAYS[pattern]
    harness = installed(way, artefact(way.former, FORMER))
    harness(LISTS, "add", "bare", "--network", "cni-harness")
    start_web(harness)
    before = {pod: harness.address(pod) for pod in ("bare", "web")}

    installed(way, artefact(pattern))

    assert {name: pod["state"] for name, pod in harness.pods().items()} == {"bare": "ready", "web": "ready"}
    assert {pod: harness.address(pod) for pod in ("bare", "web")} == before
    assert_connected(harness, "bare", "web")
    assert "web" in harness("get", "pods")
    assert harness("logs", "web") == "started\n"
    assert "bare" in harness("topology")
    for pod in ("bare", "web"):
        assert before[pod] in harness("inspect", pod)
        assert before[pod] in harness("describe", pod)
    harness("diagnose")
    harness(LISTS, "add", "later", "--network", "cni-harness")
    assert_connected(harness, "later", "web")

    harness("del", "bare", "web", "later", "--prune")
    assert harness.pods() == {}
    remove(way)


@pytest.mark.usefixtures("unchanged")
def test_downgrade_to_the_former_package_is_refused_while_newer_pods_exist() -> None:
    way = WAYS["cni-harness_*.deb"]
    harness = installed(way, artefact("cni-harness_*.deb"))
    harness(LISTS, "add", "bare", "--network", "cni-harness")
    newer = version(lambda command: run(*command))
    by_dpkg, by_apt = downgrades(artefact(way.former, FORMER))
    run(*by_dpkg, code=2, words="cni-harness del -n default bare")
    run(*by_apt, code=100, words="cni-harness del -n default bare")
    assert version(lambda command: run(*command)) == newer
    harness("check")

    harness("del", "bare")
    run(*by_apt)

    assert version(lambda command: run(*command)) == "ii 0.1.0"
    harness(LISTS, "add", "former", "--network", "cni-harness")
    harness("del", "--all", "--prune")
    remove(way)
