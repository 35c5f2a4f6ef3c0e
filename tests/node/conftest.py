"""Fixtures of tests on a real kernel."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli import REFERENCE_BIN_DIR, Cli


@pytest.fixture
def make_cli(tmp_path: Path) -> Iterator[Callable[[Path], Cli]]:
    """Makes a command line with a node of its own at each call; all go when the test is over."""
    with ExitStack() as made:

        def make(bin_dir: Path) -> Cli:
            cli = Cli(tmp_path / f"cli{len(list(tmp_path.iterdir()))}", bin_dir)
            made.callback(cli.close)
            return cli

        yield make


@pytest.fixture
def reference_cli(make_cli: Callable[[Path], Cli]) -> Cli:
    """A command line on a node of its own, with the reference's plugins."""
    if not (REFERENCE_BIN_DIR / "bridge").exists():
        pytest.skip(f"the reference plugins (Debian: containernetworking-plugins) are not in {REFERENCE_BIN_DIR}")
    return make_cli(REFERENCE_BIN_DIR)


@pytest.fixture
def own_cli(make_cli: Callable[[Path], Cli], bin_dir: Path) -> Cli:
    """A command line on a node of its own, with our plugins."""
    return make_cli(bin_dir)


@pytest.fixture(params=["reference", "direct", "served"])
def cli(request: pytest.FixtureRequest, make_cli: Callable[[Path], Cli]) -> Cli:
    """A command line on a node of its own; each test runs with the reference's plugins and with both kinds of ours."""
    if request.param == "reference":
        made: Cli = request.getfixturevalue("reference_cli")
        return made
    return make_cli(request.getfixturevalue(f"{request.param}_bin_dir"))
